"""Waits of workers for tasks, as edges of the wait graph (``actors.messaging.wait_graph``).

::

    a request --waits--> TaskWait --attempts of the task--> Attempt --handled by--> a request --waits--> ...

An attempt belongs to its task, that to the attempt of a team above, and so on up to the task that was submitted, or to
what was asked for. So whoever waits for that waits for each attempt below, from the moment on at which it begins to
wait, and however long they have run. Steps and undos are attempts, too.

Both directions are looked up when somebody is about to wait, and nothing is kept but the waits: whoever waits is listed
first and looks then, so of two who close a circle at the same moment one sees the other.

Any thread may change the table, one after the other, and look at it at any moment.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Self

from actors.concurrency.in_turn import InTurn
from actors.messaging.message_errors import ActorStoppedError
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import list_wait
from actors.model.raised import is_a

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from actors.messaging.envelope import CurrentMessage
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.journal.subtask_state import SubtaskState
    from actors.tasks.orchestration.orchestrator_port import OrchestratorPort
    from actors.tasks.orchestration.task_runtime import TaskRuntime


class AskReply(Reply):
    """Answer that an attempt waits for."""

    __slots__ = ()

    @property
    def met_dead_end(self) -> bool:
        """True where nobody brings it before one who waits for it has been stopped, as that is to."""
        error = self._error
        return is_a(error, ActorStoppedError) and error.asker_stops_first


class WaitOfTask(AskReply):
    """A wait of one worker's code for a task, or for news of it; see ``list_wait``."""

    __slots__ = ("port", "task")

    def __init__(self, port: OrchestratorPort, task: str, asker: str | None = None) -> None:
        super().__init__(port.system.boxes.get(port.orchestrator), asker)
        self.port = port
        self.task = task

    def listed(self, asker: str) -> Self:
        """List it with the orchestrator, as a wait of the worker at this path."""
        self._asker = asker
        list_wait(self)
        return self

    def is_below(self, path: str) -> bool:
        """True where a supervisor at this path stops those who wait, or some of them, before it ends itself."""
        paths = [str(self._asker), *(box.path for current in set(self.waiters) for box in current.held_up())]
        return any(each.startswith(f"{path}/") for each in paths)


class TaskWait(WaitOfTask):
    """The wait of one worker's code for the end of a task. It is listed from the beginning until it is done."""

    __slots__ = ("ask",)

    is_named = False  # its target is the orchestrator

    def __init__(self, port: OrchestratorPort, task: str, asker: str, ask: str = "") -> None:
        super().__init__(port, task)
        self.ask = ask
        """Key of the ask of an attempt that waits so; empty where other code of a worker does."""
        self.listed(asker)
        port.waits.add(self)
        self.when_done(partial(port.waits.discard, self))

    def below(self) -> Collection[Reply]:
        """Return the attempts of the task: they must end before it."""
        return self.port.waits.attempts_of(self.task)


class WaitTable:
    """The waits for the tasks of one tree, by task."""

    def __init__(self, runtime: TaskRuntime) -> None:
        self._runtime = runtime
        self._of: dict[str, set[TaskWait]] = {}
        self._turns = InTurn()

    def add(self, wait: TaskWait) -> None:
        """List a wait."""
        self._turns.do(partial(self._add, wait))

    def _add(self, wait: TaskWait) -> None:
        self._of.setdefault(wait.task, set()).add(wait)

    def discard(self, wait: TaskWait) -> None:
        """List it no longer."""
        self._turns.do(partial(self._discard, wait))

    def _discard(self, wait: TaskWait) -> None:
        of = self._of.get(wait.task)
        if of is not None:
            of.discard(wait)
            if not of:
                del self._of[wait.task]

    def of(self, task: str) -> set[TaskWait]:
        """Return the waits for a task."""
        found = self._of.get(task)
        return set() if found is None else found.copy()

    def attempts_of(self, task: str) -> list[Attempt]:
        """Return all attempts of a task, or of a team's part of one."""
        return [each for each in self._runtime.attempts.copy().values() if each.task == task]

    def above(self, attempt: Attempt) -> set[CurrentMessage]:
        """Return the requests that wait for what this attempt is for: what somebody asks for, or a task."""
        task = attempt.task
        for each, node in self._upwards(attempt):
            task = each.task
            ask = None if node is None or node.ask is None else self._runtime.asks.get(node.ask)
            if ask is not None:
                return set(ask.reply.waiters)
        return {request for wait in self.of(task) for request in set(wait.waiters)}

    def joined(self, attempt: Attempt) -> list[TaskWait]:
        """Return the waits for the task of an attempt, and for those of the teams that it works for."""
        return [wait for each, _ in self._upwards(attempt) for wait in self.of(each.task)] if self._of else []

    def _upwards(self, attempt: Attempt) -> Iterator[tuple[Attempt, SubtaskState | None]]:
        """Yield an attempt, and those of the teams above, each with what it is for; None: it is a step or an undo."""
        further: Attempt | None = attempt
        while further is not None:
            each = further
            state = self._runtime.port_at(each.owner.path).states.get(each.task)
            yield each, None if state is None else state.nodes.get(each.subtask.id)
            further = None if state is None else self._runtime.attempt_of(state)
