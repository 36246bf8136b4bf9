"""The address of a pool, and the messages that wait for any of its members.

Members take the next message of the pool when they are free; nothing is dealt out when it is sent. So what stands
behind a slow message stands behind it in nobody's way, and a member that crashes, is stopped or parks leaves what waits
to the others. Messages of one sender are *begun* in their order; two of them may be handled at the same time.

* A message to one member (``parse#3``) waits for that member alone, in its own mailbox. A member that has both takes
  in turn: a batch of its own, then one of the pool.
* The bound of a pool is that of its one queue, whatever the number of members; each member's own mailbox has the same
  bound for what is sent to it alone.
* The pool is open while one of its members is. The last member to close closes it, and answers what waits there.

What a message costs does not depend on the number of members. Free members stand in a list, the one that got free last
at its end; a put looks only at that one and wakes it. A member that comes takes itself out of the list, takes one
message, and passes the call on where more waits: so one call at a time is enough, and none is lost with a member that
was called and ended before it came. Each change of the list keeps every free member in it at every moment, because a
put looks at it without the lock.

Locking: its members' mailboxes share ``lock``, so a member and its pool change in one step.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from actors.messaging.inbox import Inbox, Refusal
from actors.model.spec import UNBOUNDED, MailboxLimit

if TYPE_CHECKING:
    from actors.messaging.envelope import Envelope
    from actors.messaging.inbox import PutResult
    from actors.messaging.mailbox import Mailbox


class PoolAddress(Inbox):
    """The address of a pool."""

    __slots__ = ("_index", "_open", "free", "members")

    queue: deque[Envelope]

    def __init__(self, path: str, bounds: MailboxLimit = UNBOUNDED) -> None:
        super().__init__(path, bounds)
        self.queue = deque()
        self.members: list[Mailbox] = []
        """Changed by the supervisor only, one item at a time; a reader needs no lock."""
        self.free: list[Mailbox] = []
        """Members with nothing to do; the one that got free last is called first."""
        self._index: dict[Mailbox, int] = {}
        self._open = 0
        """Members that are open."""

    def __repr__(self) -> str:
        return f"<PoolAddress {self.path} {len(self.members)} members depth={self.depth}>"

    # -- senders -------------------------------------------------------------------------------------------

    def put(self, envelope: Envelope) -> PutResult:
        """Take a message for any member; see ``Inbox.put``."""
        if not self.plain:
            return self.put_with_care(envelope)
        self.queue.append(envelope)
        if not self.free and self.plain:
            return None
        if not self.plain:
            return self.overtaken(envelope)
        self.rouse()
        return None

    def rouse(self) -> None:
        """Call the member that got free last. One that was called already will pass the call on."""
        try:
            member = self.free[-1]
        except IndexError:
            return  # all are busy, and look here when they are done
        member.rouse()

    def pass_on(self) -> None:
        """A member has taken a message, or can take none: call the next one where more waits."""
        if self.queue:
            self.rouse()

    def drain(self) -> list[Envelope]:
        """With the lock held: all that is in the queue, in order. What is appended meanwhile stays there."""
        taken = list(self.queue.copy())
        for _ in taken:
            self.queue.popleft()
        self.taken += len(taken)
        return taken

    @property
    def address(self) -> PoolAddress:
        """The node of the wait graph for all members; see ``Mailbox.address``."""
        return self

    def is_only(self, member: Mailbox) -> bool:
        """True where no other member is open: what this one does not take nobody takes."""
        return self._open == 1 and member.refusal is None

    # -- its members, all with the lock held ---------------------------------------------------------------

    def join(self, member: Mailbox) -> None:
        """A member is free."""
        member.at = len(self.free)
        self.free.append(member)

    def part(self, member: Mailbox) -> None:
        """A member is free no longer; the last of the list takes its place *before* the list gets shorter."""
        at = member.at
        if at < 0:
            return
        last = self.free[-1]
        self.free[at] = last
        last.at = at
        member.at = -1
        self.free.pop()

    def return_first(self, envelope: Envelope) -> None:
        """A message that was taken and not begun: it is the next one again."""
        self.queue.appendleft(envelope)
        self.taken -= 1
        if self.places is not None:
            self.places.take_back()

    def member_changed(self, was_open: bool, refusal: Refusal | None) -> None:
        """A member was opened or closed."""
        self._open += (refusal is None) - was_open
        self._set(refusal)

    def _set(self, refusal: Refusal | None) -> None:
        self.refusal = None if self._open > 0 else refusal
        self.plain = self.refusal is None and self.bounds.capacity is None

    # -- its supervisor ------------------------------------------------------------------------------------

    def refill(self, members: list[Mailbox]) -> None:
        """Replace the members."""
        with self.lock:
            self.members = members
            self._index = {}
            self._open = [member.refusal for member in members].count(None)
            self._set(members[0].refusal if members else Refusal.FORGOTTEN)

    def remove(self, member: Mailbox) -> None:
        """Take a member out, at the same cost in a pool of ten and of ten thousand: the last takes its place."""
        if not self._index:
            self._index = {box: at for at, box in enumerate(self.members)}
        at = self._index.pop(member, None)
        if at is None:
            return
        last = self.members.pop()
        if last is not member:
            self.members[at] = last
            self._index[last] = at
