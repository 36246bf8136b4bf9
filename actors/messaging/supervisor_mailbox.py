"""The mailbox of a supervisor, which takes messages for the incarnation that is there, and for no other.

All that it takes is for one incarnation: reports of its children, orders, child calls. So it is open exactly while an
incarnation is attached, and what one leaves behind is no message for the next. A call in between is refused at once
(OTP: ``noproc``). Whoever waited for the next incarnation might wait for itself: a supervisor that stands in a group is
started again only when the others of the group, and so their handlers, have ended.

*A call against the end of the incarnation*: a call that was appended first is found by ``detach``, and the one who ends
the incarnation answers it. A call that comes later finds the mailbox closed; one that was overtaken looks again
(``Inbox.overtaken``). No order is left in which a call waits and nobody is there.

Locking: as ``actors.messaging.mailbox``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.messaging.inbox import Refusal
from actors.messaging.mailbox import NOTHING, Mailbox

if TYPE_CHECKING:
    from actors.messaging.envelope import Envelope
    from actors.messaging.inbox import PutResult
    from actors.messaging.ports import Runnable
    from actors.messaging.reply import Reply


class SupervisorMailbox(Mailbox):
    """Takes what the library itself says to a supervisor, and refuses the messages of users."""

    __slots__ = ("absent",)

    def __init__(self, path: str, absent: Refusal = Refusal.NOT_RUNNING) -> None:
        super().__init__(path)
        self.absent = absent
        """Why it refuses calls while no incarnation is attached."""
        self.open()

    def open(self, refusal: Refusal | None = None) -> None:
        """Prepare for a start: calls are taken as soon as an incarnation is attached."""
        with self.lock:
            super().open(self.absent if self.attached is None else refusal)

    def attach(self, incarnation: Runnable, *, idle: bool) -> bool:
        """An incarnation begins: calls are taken."""
        with self.lock:
            to_be_woken = super().attach(incarnation, idle=idle)
            self.open()
        return to_be_woken

    def detach(self, incarnation: Any, *, abandon: bool) -> list[Reply]:
        """With the lock held: the incarnation is over. What it has not received goes to ``incarnation.unheard``."""
        told = super().detach(incarnation, abandon=abandon)
        self.open()
        incarnation.unheard = [*self.batch, *self.drain()]
        self.batch = NOTHING
        return told

    def put(self, envelope: Envelope) -> PutResult:  # noqa: ARG002 - refused whatever it is
        """Users' messages are refused."""
        return Refusal.SUPERVISOR

    def post(self, message: Any, reply: Reply | None = None) -> bool:
        """Take a message of the library; False where no incarnation is there to hear it."""
        return Mailbox.put(self, (message, reply, None)) is None

    def call(self, message: Any, reply: Reply | None) -> Refusal | None:
        """As ``post``; why it is refused. A reply that was taken is always completed or failed."""
        verdict = Mailbox.put(self, (message, reply, None))
        return verdict if isinstance(verdict, Refusal) else None

    def post_first(self, message: Any) -> None:
        """As ``post``, but overtaking all that waits: an order."""
        with self.lock:
            self.batch = iter([(message, None, None), *self.batch])
        self.rouse()
