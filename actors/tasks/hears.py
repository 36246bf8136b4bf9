"""What an orchestrator hears, beside the outcomes of attempts: a closed list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from actors.messages import Internal
from actors.tasks.task import Subtask

if TYPE_CHECKING:
    from actors.child_state import State
    from actors.life import Life
    from actors.mailbox import Mailbox
    from actors.spec import ChildSpec
    from actors.tasks.attempt import Attempt


@dataclass(frozen=True, slots=True)
class Orders(Internal):
    """There is something on the desk: one of ``Look`` ... ``Answered``, ``Do`` or ``Afterwards``.

    An order waits there until it is carried out.
    """


@dataclass(frozen=True, slots=True)
class Look(Internal):
    """A task was put into the journal."""

    task: str


@dataclass(frozen=True, slots=True)
class Cancel(Internal):
    """End a task."""

    task: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pause(Internal):
    """A team's part of a task gives way; what is done stays."""

    task: str


@dataclass(frozen=True, slots=True)
class Join(Internal):
    """A worker waits for a task that it had submitted."""

    task: str
    chain: tuple[str, ...]
    lineage: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Responded(Internal):
    """A person answered."""

    task: str
    escalation: str
    answer: str
    value: Any
    given: float | None = None
    """When, in seconds since 1970 by the store's clock, where it came by way of the store; None: just now."""


@dataclass(frozen=True, slots=True)
class Delegate(Internal):
    """An attempt asks for something more."""

    attempt: Attempt
    """Who asks."""
    host: Attempt
    """The attempt of the orchestrator that has it done: the asker's own, or that of the asker's team."""
    ask: str
    spec: Subtask
    chain: tuple[str, ...]
    lineage: tuple[str, ...]
    limit_s: float | None
    only_waits: bool = False
    """Another orchestrator does it; the attempt's own one only learns that it waits."""

    def waits_here(self) -> Delegate:
        """The same for the attempt's own orchestrator, where another one does it."""
        return replace(self, only_waits=True)


@dataclass(frozen=True, slots=True)
class Withdraw(Internal):
    """Whoever asked waits no longer, or has the answer."""

    ask: str


@dataclass(frozen=True, slots=True)
class Used(Internal):
    """An attempt has said that it has used up something."""

    attempt: Attempt
    task: str


@dataclass(frozen=True, slots=True)
class Answered(Internal):
    """Another orchestrator has what one of our attempts waits for; it goes on when there is a slot for it."""

    ask: str


@dataclass(frozen=True, slots=True)
class Due(Internal):
    """To one incarnation, from itself: a time has come."""

    life: Life
    then: Callable[[], None]
    task: str | None = None
    """The task that it is about, where that is known."""


@dataclass(frozen=True, slots=True)
class Broke(Internal):
    """A bug showed in the effects of what an orchestrator had decided: whoever hears this is to begin anew."""

    error: Exception
    task: str | None = None
    """The task that it was decided for."""


@dataclass(frozen=True, slots=True)
class Do(Internal):
    """Do something where the orchestrator runs, once it knows its tasks and its workers; it must not wait or raise."""

    act: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Afterwards(Internal):
    """Do something once everything that is recorded by now is kept."""

    act: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Staffed(Internal):
    """From the supervisor, to an orchestrator that has come up: these are the workers."""

    life: Life
    workers: tuple[WorkerChanged, ...]


@dataclass(frozen=True, slots=True)
class Begin(Internal):
    """To one incarnation, from itself: the whole tree is up, so work may begin."""

    life: Life


@dataclass(frozen=True, slots=True)
class WorkerChanged(Internal):
    """From the supervisor: where a child stands now that everything about it is decided. None: it is forgotten."""

    spec: ChildSpec
    path: str
    state: State | None
    mailbox: Mailbox


@dataclass(frozen=True, slots=True)
class Closing(Internal):
    """From the supervisor, to one incarnation: all is being stopped, nothing new is to begin."""

    life: Life
