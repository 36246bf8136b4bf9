"""A tree, as its supervisors see it: which children there are, and what a supervisor is told to do with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actors.life import Places
from actors.spec import Uniform

if TYPE_CHECKING:
    from actors.child import Child
    from actors.inbox import Refusal
    from actors.mailbox import Mailbox
    from actors.messages import Envelope
    from actors.supervision import SupervisorLife
    from actors.supervisor import Supervisor


class Registry(Places, Protocol):
    """Every child of a tree by its path, and the supervisors."""

    @property
    def children(self) -> dict[str, Child]:
        """Every child that is listed now, the root too."""

    @property
    def supervisors(self) -> dict[str, Supervisor]:
        """The present, or last, incarnation of each supervisor."""

    @property
    def random(self) -> Uniform:
        """Source of jitter."""

    def supervise(self, life: SupervisorLife) -> Supervisor:
        """A new incarnation of a supervisor."""

    def answer(self, box: Mailbox, left: list[Envelope], refusal: Refusal) -> None:
        """Refuse what a mailbox that was closed still held."""
