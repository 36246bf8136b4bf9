"""The mailbox of one path: what survives a restart.

A mailbox belongs to the tree, not to a worker: lives (incarnations) come and go, attach to it and leave it. It is
open while a life is attached or about to be, and closed, with the reason, while its child stays down.

How a message gets from a sender to a handler with one lock taken twice per *batch*, not per message:

* ``put`` appends under the lock. If a life is idle it takes that life's idleness away (it *claims* it) and wakes
  it; otherwise whoever runs will look again.
* ``take`` swaps the whole queue out under the lock and hands out one iterator over it. If there is nothing, the
  life is marked idle under the same lock: so "nothing there" and "wake me" cannot fall apart, and no wake-up is lost.
* The iterator stays here. A life that ends in the middle leaves the rest of its batch where the next one finds it,
  in order. An abandoned thread cannot steal from its successor: ``detach`` drains the shared iterator, and a thread
  that had already taken an envelope looks for an order before it handles it, and gives it back (``give_back``).
* ``close`` sets the refusal and takes what is left in one step: a message is either handled, or returned by
  ``close``, or refused. There is no fourth way, so no ask hangs.

Locking: ``lock`` guards every field that is not marked otherwise, and the fields ``phase``, ``order`` and
``current`` of the life attached here. Nothing is called while it is held, except a reply's own lock never; so no
order between mailbox locks is ever needed. Waking and answering happen after it was released.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from enum import StrEnum
from operator import length_hint
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from actors.reply import Reply
from actors.spec import UNBOUNDED, Bounds, Overflow

if TYPE_CHECKING:
    from random import Random

    from actors.life import Life
    from actors.messages import Envelope


class Refusal(StrEnum):
    """Why a mailbox does not take a message; also the reason of the dead letter that a refused tell becomes."""

    STOPPED = "stopped"
    PARKED = "parked"
    FORGOTTEN = "forgotten"
    """Deleted, or temporary and ended: no child of this path is listed."""
    BODY = "no_mailbox"
    """A ``run=`` body."""
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


Verdict: TypeAlias = "Refusal | Reply | Envelope | None"
"""What became of a message that was put: see ``Mailbox.put``."""

NOTHING: Final[Iterator[Envelope]] = iter(())
"""No messages."""


class Mailbox:
    """One path's messages, and which life is to handle them."""

    __slots__ = (
        "abandoned",
        "batch",
        "bounds",
        "dead",
        "idle",
        "incarnation",
        "life",
        "lock",
        "path",
        "plain",
        "pool",
        "queue",
        "refusal",
        "runs",
        "waiters",
    )

    def __init__(self, path: str, bounds: Bounds = UNBOUNDED, pool: PoolBox | None = None) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.bounds = bounds
        self.pool = pool
        self.queue: list[Envelope] | deque[Envelope] = [] if bounds.capacity is None else deque()
        self.batch: Iterator[Envelope] = NOTHING
        self.life: Life | None = None
        self.idle: Life | None = None
        """The attached life when it has nothing to do and must be woken, else None."""
        self.refusal: Refusal | None = None
        self.plain = bounds.capacity is None
        """True when a put needs no look at anything: open and without bound."""
        self.waiters: deque[Reply] | None = None
        """Senders that wait for room in a full mailbox, the first one first; tests that wait until it is quiet."""
        self.runs = 0
        """How often a life came for messages: unchanged means that nothing was handled meanwhile."""
        self.incarnation = 0
        """Starts that succeeded, over restarts of the supervisor too. Written by the supervisor only."""
        self.dead = 0
        """Dead letters so far."""
        self.abandoned = 0
        """Threads of old lives that still run."""

    def __repr__(self) -> str:
        return f"<Mailbox {self.path} {self.refusal or 'open'} depth={self.depth}>"

    @property
    def depth(self) -> int:
        """Messages that wait. Without the lock: a reading, right at some moment during the call."""
        return len(self.queue) + length_hint(self.batch)

    @property
    def address(self) -> Mailbox | PoolBox:
        """Who stands in an ancestry for this mailbox."""
        return self if self.pool is None else self.pool

    # -- senders -------------------------------------------------------------------------------------------

    def put(self, envelope: Envelope) -> Verdict:
        """Take a message.

        None: taken. A ``Refusal``: not taken. A ``Reply``: full; wait for it, then put again. An envelope: taken,
        and this older one had to go for it.
        """
        dropped = None
        with self.lock:
            if self.plain:
                self.queue.append(envelope)
            else:
                verdict = self._put_with_care(envelope)
                if type(verdict) is tuple:
                    dropped = verdict
                elif verdict is not None:
                    return verdict
            life = self.idle
            if life is None:
                return dropped
            self.idle = None
        life.wake()
        return dropped

    def admit(self, envelope: Envelope) -> Refusal | None:
        """Take a message beyond the bound: whoever sends it bounds itself, as an orchestrator does (one at a time)."""
        with self.lock:
            if self.refusal is not None:
                return self.refusal
            self.queue.append(envelope)
            life = self.idle
            if life is None:
                return None
            self.idle = None
        life.wake()
        return None

    def _put_with_care(self, envelope: Envelope) -> Verdict:
        if self.refusal is not None:
            return self.refusal
        dropped = None
        if self.bounds.capacity is not None and self.depth >= self.bounds.capacity:
            if self.bounds.overflow is Overflow.REJECT:
                return Refusal.FULL
            if self.bounds.overflow is Overflow.BLOCK:
                room = Reply()
                if self.waiters is None:
                    self.waiters = deque()
                self.waiters.append(room)
                return room
            dropped = next(self.batch, None)
            if dropped is None:
                dropped = self.queue.popleft()  # type: ignore[union-attr]  # bounded: a deque
        self.queue.append(envelope)
        return dropped

    # -- the life that handles -----------------------------------------------------------------------------

    def attach(self, life: Life, *, idle: bool) -> bool:
        """A new life takes over; True when it is to be woken now, with its claim given to the caller.

        ``idle``: it is up already and has nothing to do but what waits here. Otherwise its start comes first.
        """
        with self.lock:
            self.life = life
            idle = idle and not self.queue and not length_hint(self.batch)
            self.idle = life if idle else None
        return not idle

    def open(self, refusal: Refusal | None = None) -> None:
        """Take messages (again), or refuse them by nature (a body, a supervisor)."""
        with self.lock:
            self.refusal = refusal
            self.plain = refusal is None and self.bounds.capacity is None

    def take(self, life: Life) -> Iterator[Envelope] | None:
        """What waits, for the life that holds the claim.

        None: leave; there is nothing and the life is now idle, or it is over. With an order given there is nothing to
        handle, but the claim is kept: ``NOTHING``.
        """
        with self.lock:
            if self.life is not life:
                return None
            life.running_on = get_ident()
            if life.order is not None:
                return NOTHING
            if length_hint(self.batch):
                return self.batch
            if not self.queue:
                self.idle = life
                self.batch = NOTHING
                self.runs += 1
                life.running_on = None
                woken, self.waiters = self.waiters, None
                batch = None
            elif self.bounds.capacity is None or self.bounds.overflow is Overflow.DROP_OLDEST:
                # (What goes first when a batch has to shrink is taken from the same iterator: see _put_with_care.)
                self.batch, self.queue = iter(self.queue), type(self.queue)()
                return self.batch
            else:
                # Senders wait for room, or are refused: one at a time, so that room is told as it comes.
                batch = self.batch = iter((self.queue.popleft(),))  # type: ignore[union-attr]  # bounded: a deque
                room = next((one for one in self.waiters or () if not isinstance(one, _Quiet)), None)
                woken = None if room is None else deque((room,))
                if room is not None and self.waiters is not None:
                    self.waiters.remove(room)
        for waiter in woken or ():
            waiter.complete()
        return batch

    def when_quiet(self) -> Reply:
        """Completed once its life is idle, or there is none: nothing is being handled."""
        quiet = _Quiet()
        with self.lock:
            busy = self.life is not None and self.idle is None and self.refusal is None
            if busy:
                if self.waiters is None:
                    self.waiters = deque()
                self.waiters.append(quiet)
        if not busy:
            quiet.complete()
        return quiet

    def give_back(self, life: Life, envelope: Envelope) -> Refusal | None:
        """The life had taken this envelope and must not handle it: it goes back to the front.

        A ``Refusal``: the mailbox was closed meanwhile, so the caller must answer it.
        """
        with self.lock:
            if life.current is not envelope:
                return None  # whoever ended this life has answered it already
            life.current = None
            if self.refusal is not None:
                return self.refusal
            self.batch = iter([envelope, *self.batch])
            successor, self.idle = self.idle, None
        if successor is not None:
            successor.wake()
        return None

    # -- its supervisor ------------------------------------------------------------------------------------

    def close(self, refusal: Refusal) -> list[Envelope]:
        """Refuse from now on; returns what was waiting, in order, to be answered by the caller."""
        with self.lock:
            self.refusal = refusal
            self.plain = False
            left = [*self.batch, *self.queue]
            self.batch = NOTHING
            self.queue.clear()
            waiters, self.waiters = self.waiters, None
        for room in waiters or ():
            room.complete()  # they put again, and are refused
        return left


class _Quiet(Reply):
    """Waits until nothing is being handled, not for room."""


class PoolBox:
    """The address of a pool: hands each message to a member that is not busy."""

    __slots__ = ("_index", "members", "path", "random")

    def __init__(self, path: str, random: Random) -> None:
        self.path = path
        self.random = random
        self.members: list[Mailbox] = []
        """Changed by the supervisor only, one item at a time; a reader needs no lock."""
        self._index: dict[Mailbox, int] = {}

    def __repr__(self) -> str:
        return f"<PoolBox {self.path} {len(self.members)} members>"

    @property
    def depth(self) -> int:
        """Messages that wait for any member."""
        return sum(member.depth for member in list(self.members))

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

    def refill(self, members: list[Mailbox]) -> None:
        """These are the members now."""
        self.members = members
        self._index = {}

    def pick(self) -> Mailbox | None:
        """A member to send to: the least busy of a few. None where the pool has no members.

        A few are looked at, never all of ten thousand. Members that are up come before members that are just
        restarting, and those before members that are down, which are taken only where there is nothing else.
        """
        members = self.members
        if len(members) <= _FEW:
            return min(members, key=_busyness, default=None)
        best = min((self._any(members) for _ in range(_FEW)), key=_busyness)
        return best if best.refusal is None else min(members, key=_busyness)

    def _any(self, members: list[Mailbox]) -> Mailbox:
        try:
            return members[int(self.random.random() * len(members))]
        except IndexError:  # it shrank between the two looks at it
            return members[0]


_FEW = 4


def _busyness(mailbox: Mailbox) -> tuple[int, int]:
    if mailbox.refusal is not None:
        return (2, 0)
    if mailbox.life is None:
        return (1, mailbox.depth)
    return (0, mailbox.depth + (mailbox.idle is None))


class SupervisorBox(Mailbox):
    """The mailbox of a supervisor: takes what the library itself says to it, and refuses users' messages."""

    __slots__ = ()

    def put(self, envelope: Envelope) -> Verdict:  # noqa: ARG002 - refused whatever it is
        """Users' messages are refused."""
        return Refusal.SUPERVISOR

    def post(self, message: Any, reply: Reply | None = None) -> bool:
        """Take a message of the library; False when the supervisor is down and stays down."""
        return super().put((message, reply, None)) is None

    def post_first(self, message: Any) -> None:
        """As ``post``, but overtaking all that waits: an order."""
        with self.lock:
            self.batch = iter([(message, None, None), *self.batch])
            life, self.idle = self.idle, None
        if life is not None:
            life.wake()
