"""Messages that an orchestrator accepts, beside the outcomes of attempts: a closed list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from actors.messaging.envelope import SystemMessage
from actors.tasks.model.task import Subtask, Usage

if TYPE_CHECKING:
    from actors.execution.incarnation import Incarnation
    from actors.messaging.reply import Reply
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.execution.attempt_steps import StepCall
    from actors.tasks.journal.store import RemoteCommand
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore


@dataclass(frozen=True, slots=True)
class CommandsWaiting(SystemMessage):
    """Commands wait at the port: any message from ``TaskArrived`` to ``RunWhenDurable``.

    A command waits there until it is carried out.
    """


@dataclass(frozen=True, slots=True)
class TaskArrived(SystemMessage):
    """A task was put into the journal."""

    task: str


@dataclass(frozen=True, slots=True)
class Cancel(SystemMessage):
    """End a task."""

    task: str
    reason: str = ""
    attempt: int = 0
    """Number of the attempt of a team that it is about: a later one keeps the part. 0: whatever it is part of."""
    recorded: Reply | None = None
    """Completed once it is recorded. None: nobody wants to know."""
    given_by: RemoteCommand | None = None
    """Command of another process that it carries out."""


@dataclass(frozen=True, slots=True)
class SetPriority(SystemMessage):
    """Give a task another priority."""

    task: str
    priority: int
    given_by: RemoteCommand | None = None


@dataclass(frozen=True, slots=True)
class Pause(SystemMessage):
    """A team's part of a task gives way; what is done stays."""

    task: str


@dataclass(frozen=True, slots=True)
class PartDue(SystemMessage):
    """A team's part of a task has another time than before, because whoever wants it has: ``Attempt.due``."""

    task: str


@dataclass(frozen=True, slots=True)
class PartEnded(SystemMessage):
    """A team's part of a task has ended, and no attempt stands for it any more."""

    task: str
    subtask: str
    part: str
    used: Usage
    """All that it has used up."""


@dataclass(frozen=True, slots=True)
class WaiterJoined(SystemMessage):
    """A worker waits for a task that it had submitted; with an empty chain, for news of it."""

    task: str
    chain: tuple[str, ...]
    lineage: tuple[str, ...]
    ask: str | None = None
    """Key of the wait, where an attempt waits. None: other code of a worker does."""


@dataclass(frozen=True, slots=True)
class EscalationResponse(SystemMessage):
    """A person answered."""

    task: str
    escalation: str
    answer: str
    value: Any
    given: float | None = None
    """When, in seconds since 1970 by the store's clock, where it came by way of the store; None: just now."""
    given_by: RemoteCommand | None = None


@dataclass(frozen=True, slots=True)
class Delegate(SystemMessage):
    """An attempt asks for something more."""

    attempt: Attempt
    """The asker."""
    host: Attempt
    """The attempt of the orchestrator that has it done: the asker's own, or that of the asker's team."""
    ask: str
    spec: Subtask
    chain: tuple[str, ...]
    lineage: tuple[str, ...]
    limit_s: float | None
    only_waits: bool = False
    """Another orchestrator does it; the attempt's own one only learns that it waits."""

    @property
    def task(self) -> str:
        """Task that it is about, for the orchestrator that hears it."""
        return self.attempt.task if self.only_waits else self.host.task

    def waits_here(self) -> Delegate:
        """Message for the attempt's own orchestrator, where another one does the work."""
        return replace(self, only_waits=True)


@dataclass(frozen=True, slots=True)
class DelegationCancelled(SystemMessage):
    """The asker waits no longer, or has the answer."""

    ask: str
    asker: Attempt
    met_dead_end: bool = False
    """True where it was told that nobody begins what it had asked for before it has ended itself."""


@dataclass(frozen=True, slots=True)
class AttemptReported(SystemMessage):
    """An attempt has used up something, or code beside its work takes too long (``Attempt.overdue``)."""

    attempt: Attempt
    task: str


@dataclass(frozen=True, slots=True)
class StepMade(SystemMessage):
    """A step of an attempt is done, and to be recorded."""

    task: str
    attempt: Attempt
    step: StepCall
    value: Any
    kept: Reply
    """Completed when the record is kept; failed where there will be none."""


@dataclass(frozen=True, slots=True)
class DelegationAnswered(SystemMessage):
    """Another orchestrator has what one of our attempts waits for; it goes on when there is a slot for it."""

    ask: str


@dataclass(frozen=True, slots=True)
class WaitsChanged(SystemMessage):
    """Something has changed that may have closed a circle of those who wait for each other.

    See ``actors.tasks.orchestration.waits_of_teams``.
    """

    ask: str | None
    """An ask that then waits in vain; None: any of the tree."""


@dataclass(frozen=True, slots=True)
class TimerFired(SystemMessage):
    """To one incarnation, from itself: a time has come."""

    incarnation: Incarnation
    then: Callable[[], None]
    task: str | None = None
    """The task that it is about, where that is known."""


@dataclass(frozen=True, slots=True)
class EffectFailed(SystemMessage):
    """An effect of what an orchestrator had decided could not be had: whoever hears this is to begin anew.

    A bug of ours, or a value in the store that is damaged.
    """

    error: Exception
    task: str | None = None
    """The task that it was decided for."""

    def raise_in(self, core: OrchestratorCore) -> None:
        """Have the orchestrator that hears this begin anew, unless one before it has put that task aside since."""
        core.task = self.task
        if self.task not in core.port.guard.aside:
            raise self.error


@dataclass(frozen=True, slots=True)
class RunOnLoop(SystemMessage):
    """Do something where the orchestrator runs, once it knows its tasks and its workers; it must not wait or raise."""

    act: Callable[[], object]
    given_by: RemoteCommand | None = None


@dataclass(frozen=True, slots=True)
class RunWhenDurable(SystemMessage):
    """Do something once everything that is recorded of a task by now is kept."""

    task: str
    act: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Begin(SystemMessage):
    """To one incarnation, from itself: the whole tree is up, so work may begin."""

    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class ShuttingDown(SystemMessage):
    """From the supervisor, to one incarnation: all is being stopped, nothing new is to begin."""

    incarnation: Incarnation
