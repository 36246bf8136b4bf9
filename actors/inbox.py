"""The senders' side of a mailbox, or of a pool's: a queue, its bound, and whether it takes messages at all.

A put never waits for a lock of the library while the inbox is open and without bound: it appends, which is one atomic
operation of the list or deque, and then sees to it that somebody looks (``rouse``). So a put may be made anywhere:
from a finalizer or a weakref callback that the garbage collector runs in the middle of any section of ours, from a
signal handler that interrupts one, and in the middle of another put.

* ``rouse`` is idempotent and marks its work as done only when it is done. An exception of a signal handler in the
  middle of a put leaves the mark unset, and the next put does it again. One wake-up too many costs a look.
* A put that was overtaken by a ``close`` (open when it looked, closed when it had appended) looks once more: either it
  takes its own message back under the lock and is refused, or whoever closed has found it and answers it.

A bounded put takes the lock, which is re-entrant: the capacity would be exceeded otherwise. ``room`` are messages that
may be put before the depth has to be looked at again, so most puts look at nothing.

Locking: ``lock`` guards every field but ``queue``, to which anybody may append at any time.
"""

from __future__ import annotations

import threading
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from actors.reply import Reply
from actors.spec import UNBOUNDED, Bounds, Overflow

if TYPE_CHECKING:
    from actors.messages import Envelope


class Refusal(StrEnum):
    """Why a mailbox does not take a message; also the reason of the dead letter that a refused tell becomes."""

    STOPPED = "stopped"
    PARKED = "parked"
    FORGOTTEN = "forgotten"
    """Deleted, or temporary and ended: no child of this path is listed."""
    BODY = "no_mailbox"
    """A ``run=`` body."""
    NOT_RUNNING = "not_running"
    """A supervisor without an incarnation: it waits to be started, for the first time or again."""
    SUPERVISOR = "supervisor"
    """Supervisors take no messages of users."""
    FULL = "full"
    DOWN = "tree_down"
    HOPS = "hops"
    EXPIRED = "expired"
    UNHANDLED = "unhandled"
    """The worker has no on_receive."""
    LOST = "lost"
    """A mailbox with drop_oldest had no room for it any more."""


class Room(Reply):
    """A sender's wait for room in a full inbox. Whoever waits calls ``leave`` in the end, however the wait ended."""

    def __init__(self, inbox: Inbox) -> None:
        super().__init__()
        self._inbox = inbox

    def leave(self, *, used: bool) -> None:
        """No longer wait. Room that was offered and is not ``used`` is offered to the next one."""
        self._inbox.leave(self, used=used)


Verdict: TypeAlias = "Refusal | Room | Envelope | None"
"""What became of a message that was put: see ``Inbox.put``."""


class Inbox:
    """A queue of messages with a bound, open or closed."""

    __slots__ = ("bounds", "lock", "path", "plain", "queue", "refusal", "room", "waiters")

    queue: Any

    def __init__(self, path: str, bounds: Bounds = UNBOUNDED, lock: threading.RLock | None = None) -> None:
        self.path = path
        self.lock = threading.RLock() if lock is None else lock
        self.bounds = bounds
        self.refusal: Refusal | None = None
        self.plain = bounds.capacity is None
        """True when a put needs no look at anything: open and without bound."""
        self.room = 0
        """So many messages may be put before the depth has to be looked at."""
        self.waiters: dict[Room, None] | None = None
        """Senders that wait for room, the first one first."""

    @property
    def depth(self) -> int:
        """Messages that wait. Without the lock: a reading, right at some moment during the call."""
        return len(self.queue)

    def rouse(self) -> None:
        """See to it that somebody looks at what waits."""
        raise NotImplementedError

    # -- senders -------------------------------------------------------------------------------------------

    def put(self, envelope: Envelope) -> Verdict:
        """Take a message.

        None: taken. A ``Refusal``: not taken. A ``Room``: full; wait for it, then put again. An envelope: taken, and
        this older one had to go for it.
        """
        raise NotImplementedError

    def put_with_care(self, envelope: Envelope) -> Verdict:
        """``put`` where there is a bound, or where it may be closed."""
        with self.lock:
            if self.refusal is not None:
                return self.refusal
            dropped = None
            if self.room > 0:
                self.room -= 1
            elif self.bounds.capacity is not None:
                verdict = self._make_room(self.bounds.capacity)
                if isinstance(verdict, (Refusal, Room)):
                    return verdict
                dropped = verdict
            self.queue.append(envelope)
        self.rouse()
        return dropped

    def overtaken(self, envelope: Envelope) -> Refusal | None:
        """After a message was appended: rouse somebody, or be refused where a ``close`` came in between."""
        if not self.plain:
            with self.lock:
                if self.refusal is not None and self.pull(envelope):
                    return self.refusal
        self.rouse()
        return None

    def admit(self, envelope: Envelope) -> Refusal | None:
        """Take a message beyond the bound: whoever sends it bounds itself, as an orchestrator does (one at a time)."""
        with self.lock:
            if self.refusal is not None:
                return self.refusal
            self.room = 0
            self.queue.append(envelope)
        self.rouse()
        return None

    def withdraw(self, envelope: Envelope) -> bool:
        """Take a message out that still waits, because whoever sent it has gone; False when it waits no longer."""
        with self.lock:
            found = self.pull(envelope)
            room = self.first_waiter() if found else None
        if room is not None:
            room.complete()
        return found

    def pull(self, envelope: Envelope) -> bool:
        """With the lock held: take this very message out of the queue. Found by identity: bodies are users'."""
        waiting, wanted = map(id, self.queue.copy()), id(envelope)
        at = next((at for at, each in enumerate(waiting) if each == wanted), None)
        if at is not None:
            del self.queue[at]
        return at is not None

    # -- the bound -----------------------------------------------------------------------------------------

    def _make_room(self, capacity: int) -> Verdict:
        """With the lock held: None where there is room after all; or what overflows, by the rule of this inbox."""
        if self.bounds.overflow is Overflow.BLOCK and self.depth >= capacity:
            self.recall()  # before the last look: what is taken from now on is taken under the lock, and tells of room
        free = capacity - self.depth
        if free > 0:
            self.room = 0 if self.waiters else free - 1
            return None
        if self.bounds.overflow is Overflow.REJECT:
            return Refusal.FULL
        if self.bounds.overflow is Overflow.DROP_OLDEST:
            return self.drop_oldest()
        room = Room(self)
        if self.waiters is None:
            self.waiters = {}
        self.waiters[room] = None
        return room

    def drop_oldest(self) -> Envelope | None:
        """With the lock held: the message that waits the longest; None where it has just been taken."""
        raise NotImplementedError

    def recall(self) -> None:
        """With the lock held: somebody may wait for room from now on, so what was handed out ahead comes back."""

    def first_waiter(self) -> Room | None:
        """With the lock held: the sender to tell of room, no longer waiting; None where nobody waits."""
        if not self.waiters:
            return None
        room = next(iter(self.waiters))
        del self.waiters[room]
        if not self.waiters:
            self.waiters = None
        return room

    def leave(self, room: Room, *, used: bool) -> None:
        """See ``Room.leave``."""
        with self.lock:
            other = None
            if self.waiters is not None and room in self.waiters:
                del self.waiters[room]
                if not self.waiters:
                    self.waiters = None
            elif not used:
                other = self.first_waiter()
        if other is not None:
            other.complete()

    # -- closing -------------------------------------------------------------------------------------------

    def drain(self) -> list[Envelope]:
        """With the lock held: all that is in the queue, in order. What is appended meanwhile stays there."""
        raise NotImplementedError
