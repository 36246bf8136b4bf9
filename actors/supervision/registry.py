"""A tree, as its supervisors see it: which children there are, and what a supervisor is told to do with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actors.execution.incarnation_ports import IncarnationHost
from actors.model.spec import RandomSource

if TYPE_CHECKING:
    from actors.execution.stall_watch import StallWatch
    from actors.messaging.leftovers import Leftovers
    from actors.model.errors import ActorsError
    from actors.supervision.child import Child
    from actors.supervision.supervisor import Supervisor
    from actors.supervision.supervisor_incarnation import SupervisorIncarnation


class Registry(IncarnationHost, Protocol):
    """Every child of a tree by its path, and the supervisors."""

    @property
    def children(self) -> dict[str, Child]:
        """Every child that is listed now, the root too."""

    @property
    def supervisors(self) -> dict[str, Supervisor]:
        """The present, or last, incarnation of each supervisor."""

    cause: ActorsError | None
    """Why the tree ends, where nobody had asked for that: the first error that ends it."""
    is_ending: bool
    """True from the moment when the root begins to stop."""

    @property
    def stalls(self) -> StallWatch:
        """Watches the workers that may hang."""

    @property
    def random(self) -> RandomSource:
        """Source of jitter."""

    def supervise(self, incarnation: SupervisorIncarnation) -> Supervisor:
        """A new incarnation of a supervisor."""

    @property
    def leftovers(self) -> Leftovers:
        """Refuses what a mailbox that was closed still held."""
