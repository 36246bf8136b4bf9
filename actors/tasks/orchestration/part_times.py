"""Times that the parts of teams have: until when one may run follows from the attempt that it is done for.

Somebody who asks a team for something, and is broken off, asks once more with a time of his own. Meanwhile the part
goes on, and nobody's time passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.tasks.model import task_events
from actors.tasks.model.task import RUNNING

if TYPE_CHECKING:
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.journal.task_state import TaskState
    from actors.tasks.orchestration.attempt_control import AttemptControl
    from actors.tasks.orchestration.lifecycle import TaskLifecycle
    from actors.tasks.orchestration.messages import PartDue
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore
    from actors.tasks.orchestration.recording import Recording
    from actors.tasks.orchestration.subtask_queue import SubtaskQueue

_SAME_S = 0.001
"""Times that are as near as this are the same: each process counts from another moment."""


def part_until(attempt: Attempt, epoch: float) -> float | None:
    """Return when the time of a part is up, in seconds since 1970; None: never.

    Args:
        attempt: that it is done for.
        epoch: seconds since 1970 at which the tree's clock read 0.
    """
    timeout_s, started = attempt.spec.timeout_s, attempt.started
    runs = None if timeout_s is None or started is None else started + timeout_s
    ends = [end for end in (attempt.due, runs) if end is not None]
    return epoch + min(ends) if ends else None


def is_other(until: float | None, than: float | None) -> bool:
    """True where two times are not the same."""
    return until is not than and (until is None or than is None or abs(until - than) > _SAME_S)


class PartTimes:
    """Changes the times of the parts that one orchestrator has."""

    def __init__(
        self,
        core: OrchestratorCore,
        recording: Recording,
        lifecycle: TaskLifecycle,
        queue: SubtaskQueue,
        control: AttemptControl,
    ) -> None:
        """Make it for one incarnation."""
        self._core, self._recording, self._lifecycle = core, recording, lifecycle
        self._queue, self._control = queue, control

    def change(self, message: PartDue) -> None:
        """Give a part another time. One that gives way gets its time from the attempt that it goes on for."""
        core, state = self._core, self._core.states.get(message.task)
        attempt = core.runtime.attempt_of(state) if state is not None else None
        if state is None or attempt is None or state.paused or state.ending is not None or state.final is not None:
            return
        until = part_until(attempt, core.runtime.epoch)
        if is_other(until, state.deadline):
            self._recording.emit(state, task_events.TaskResumed, until)
            self._lifecycle.watch(state)
            self._queue.requeue_all(state)
            self._pass_on(state)

    def _pass_on(self, state: TaskState) -> None:
        """The teams that have something of a part have that much time as well."""
        core = self._core
        for node in state.nodes.values():
            if node.status is RUNNING:
                self._control.set_due(node, core.due_of(state, core.runtime.asks.get(node.ask or "")))
