"""Waits for tasks of a supervisor that stops all its children: those of which nothing more comes.

Nothing more of its tasks begins then, but what runs may come to its end, and so may its task. A worker that waits for
one of which nothing runs would wait until it is killed: the task goes on when the supervisor is started again, or in
the next process. Who is not below that supervisor waits for just that.

This is looked at when all begins to be stopped, when somebody joins, when an attempt was heard of, and when a team has
stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.messaging.mailbox import Mailbox
from actors.tasks.model.task_events import TaskFinished
from actors.tasks.orchestration.task_waits import WaitOfTask

if TYPE_CHECKING:
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore


def waits_at(core: OrchestratorCore) -> list[WaitOfTask]:
    """Return the waits of workers for tasks of this orchestrator, and for news of them."""
    waits = core.incarnation.mailbox.waits
    return [] if waits is None else [each for each in waits.copy() if isinstance(each, WaitOfTask)]


def waits_in_vain(core: OrchestratorCore, task: str, heard: Attempt | None) -> list[WaitOfTask]:
    """Return the waits for a task that cannot end before those who wait have stopped. All is being stopped."""
    attempts = (each for each in core.port.waits.attempts_of(task) if each is not heard)
    if any(_runs(core, each) for each in attempts) or isinstance(core.runtime.store.last(task), TaskFinished):
        return []
    return [wait for wait in waits_at(core) if wait.task == task and wait.is_below(core.port.path)]


def _runs(core: OrchestratorCore, attempt: Attempt) -> bool:
    """True while an attempt may come to its end, or has come to it and nobody has heard of that.

    A team that was stopped with all others does no more of one.
    """
    if attempt.done:
        return attempt.spec.role != "work" or core.attempts.get(attempt.key) is not None
    if not attempt.spec.part:
        return True
    box = core.system.boxes.get(core.runtime.port_at(attempt.spec.path).orchestrator)
    return isinstance(box, Mailbox) and box.attached is not None
