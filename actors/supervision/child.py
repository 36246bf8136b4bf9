"""Record that a supervisor keeps of one child, and what others may read of it.

A record belongs to its supervisor: only the supervisor's own message handling writes it. Others read single fields
without a lock (``info``); each field is replaced as a whole, so a reader sees a state that was true at some moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Protocol

from actors.messaging.ref import Ref
from actors.model.child_state import LastExit, State
from actors.model.restart_window import RestartWindow
from actors.model.spec import ChildSpec

if TYPE_CHECKING:
    from actors.dispatch.incarnation_types import ChildForm
    from actors.execution.incarnation import Exit, Incarnation
    from actors.messaging.mailbox import Mailbox
    from actors.messaging.ports import Host
    from actors.supervision.procedures import Procedure, StartCall


class ChildState(Enum):
    """Where a child stands in the eyes of its supervisor. A child in backoff is DOWN with a plan that starts it."""

    DOWN = "down"
    STARTING = "starting"
    UP = "up"
    STOPPING = "stopping"
    PARKED = "parked"
    GONE = "gone"
    """No longer listed. It is never started again, even where a namesake is."""


_DOWN = (ChildState.DOWN, ChildState.PARKED, ChildState.GONE)  # a tuple: in a set each would be hashed by code of enum


@dataclass(frozen=True, slots=True)
class ChildInfo:
    """One child as it stands now."""

    id: str
    path: str
    kind: Literal["worker", "supervisor"]
    state: State
    incarnation: int
    """Starts that succeeded, over restarts of its supervisor too; 0: it was never up."""
    restarts: int
    """Automatic restarts that succeeded since its supervisor started."""
    restart: str
    """Restart type: permanent, transient or temporary."""
    last_exit: LastExit | None
    """None: no incarnation has ended yet."""
    ref: Ref
    pid: int | None = None
    """Number of its process: of its command, or of its MCP server. None: it has none, or that is not running."""


@dataclass(slots=True, eq=False, repr=False)
class Child:
    """A supervisor's record of one child."""

    spec: ChildSpec
    id: str
    mailbox: Mailbox
    seq: int
    """Grows in start order."""
    dynamic: bool
    """Added by start_child: gone when its supervisor restarts."""
    form: ChildForm
    """Follows from the recipe; found once."""
    standing: ChildState = ChildState.DOWN
    incarnation: Incarnation | None = None
    plan: Procedure | None = None
    """Owner, which alone may start and stop it: see ``actors.supervision.child_ownership``."""
    registration: Any = None
    """Data for the observer that an incarnation has said of itself; it counts until a later one says another."""
    waiters: list[Procedure] | None = None
    """Other plans that wait until its owner has dealt with it."""
    added_by: StartCall | None = None
    """The start_child that has added it, while that has not succeeded yet."""
    came_up: bool = False
    """True when the last incarnation that ended had been up."""
    has_been_up: bool = False
    """True once an incarnation was up, since its supervisor started."""
    timed_out: bool = False
    up_since: float | None = None
    consecutive: int = 0
    """Restarts in a row, for the backoff."""
    restarts: int = 0
    """Restarts that succeeded. Each incarnation counts itself as it comes up: see ``Incarnation.restart_of``."""
    due: float | None = None
    """When its backoff ends."""
    last_exit: LastExit | None = None
    window: RestartWindow | None = None
    """Restart limit of its own, where it parks."""

    def __repr__(self) -> str:
        return f"<Child {self.path} {self.standing.value}>"

    @property
    def path(self) -> str:
        """Path in the tree."""
        return self.mailbox.path

    @property
    def pool(self) -> str | None:
        """The id of the pool that it is a member of."""
        return self.spec.id if self.spec.pool is not None else None

    @property
    def is_down(self) -> bool:
        """True when nothing of it runs."""
        return self.standing in _DOWN

    @property
    def is_up(self) -> bool:
        """True from the moment when its start succeeded, also before its supervisor has heard of it."""
        incarnation = self.incarnation
        return incarnation is not None and incarnation.came_up

    @property
    def is_missing(self) -> bool:
        """True for a child that is not required, and that its supervisor has had to do without so far."""
        return not (self.spec.required or self.has_been_up)

    @property
    def is_restarting(self) -> bool:
        """True when it is down, or coming up, and its supervisor will see to it that it runs again."""
        if self.standing is ChildState.STARTING:
            return not self.is_up
        plan = self.plan
        return self.standing is ChildState.DOWN and plan is not None and plan.starts_again(self)

    @property
    def state(self) -> State:
        """The public name of where it stands."""
        if self.standing is ChildState.PARKED:
            return "parked"
        if self.is_restarting:
            return "restarting"
        return "stopped" if self.is_down else "running"

    @property
    def counts_as_alive(self) -> bool:
        """For ``auto_shutdown="all_significant"``: restarting counts as alive."""
        return not self.is_down or self.is_restarting

    def record_exit(self, exit_: Exit, now: float) -> None:
        """Remember how it ended, as text."""
        self.last_exit = LastExit(exit_.reason, exit_.detail, now)

    def info(self, system: Host) -> ChildInfo:
        """Return what others may see."""
        return ChildInfo(
            id=self.id,
            path=self.path,
            kind="supervisor" if self.spec.is_supervisor else "worker",
            state=self.state,
            incarnation=self.mailbox.incarnation,
            restarts=self.restarts,
            restart=str(self.spec.restart),
            last_exit=self.last_exit,
            ref=Ref(system, self.mailbox),
            pid=None if (incarnation := self.incarnation) is None else incarnation.pid,
        )


class ChildObserver(Protocol):
    """Observer that a supervisor tells of its children. Each method is short and never blocks."""

    def up(self, child: Child) -> None:
        """A child has come up."""

    def changed(self, child: Child) -> None:
        """A child stands somewhere else now."""

    def forgotten(self, child: Child) -> None:
        """A child is no longer listed."""

    def closing(self) -> None:
        """All children are about to be stopped."""
