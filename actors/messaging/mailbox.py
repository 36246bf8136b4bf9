"""The mailbox of one path: what survives a restart. Which incarnation handles its messages, and when.

A mailbox belongs to the tree, not to a worker: incarnations come and go, attach to it and leave it. It is open while an
incarnation is attached or about to be, and closed, with the reason, while its child stays down.

The states of the attached incarnation, as the mailbox sees it::

               attach(idle=False)                 hold               take: nothing waits
    DETACHED --------------------> CALLED ----------------> RUNNING ----------------------> IDLE
        |                            ^                        |  ^                          |  |
        |                            +-- release: more to do -+  +----------- hold ---------+  |
        |  attach(idle=True)                                                                   |
        +-------------------------------------------------------------------------------------->
    any of them -- detach (the incarnation is over) --> DETACHED

========= ================= ============ =====================================================================
state     ``idle``          ``held``     what is promised
========= ================= ============ =====================================================================
DETACHED  None              --           what waits stays; ``attach`` looks at it
CALLED    None              False        a job of the incarnation is on its way to its dispatcher
RUNNING   None              True         the run will ``take`` again, or release, or the incarnation is over
IDLE      the incarnation   False        nothing waited when it began; whoever appends then finds ``idle`` set
========= ================= ============ =====================================================================

* **put** appends and then looks at ``idle``; it takes nothing and changes no state. If the incarnation is idle it is
  woken: a job is queued. Only *after* that ``roused`` notes for which period of idleness (``runs``) it was done, so an
  exception between any two steps leaves no more than a job too many, or one that the next put makes.
* **hold** begins a run. An incarnation that is held already, or is no longer attached, turns the run away: so a job too
  many changes nothing, and no two runs of an incarnation overlap. ``take(begins=True)`` is a hold and a take in one
  section.
* **take** hands out what waits. If there is nothing it marks the incarnation idle and *then looks once more*: a put
  that came before the mark is found here, a put that comes after it finds the mark. So no wake-up is lost.
* A run that ``hold`` turned away is not lost either: its message was appended before, and the run that was under way
  looks, under the lock, after it is no longer held.
* **give_back**: an abandoned thread cannot steal from its successor: ``detach`` drains the shared iterator, and a
  thread that had already taken an envelope looks for an order before it handles it, and gives it back.
* **close** refuses from then on and takes what is left: a message is handled, returned by ``close``, or refused.
  A put that was overtaken by it looks again (``Inbox.overtaken``). There is no fourth way, so no ask hangs.
* An order (``stop``, ``kill``) is given under the lock, and whoever gives it wakes an idle incarnation as a put does.

The messages that a run has taken stay in ``batch``, an iterator shared with the next incarnation: an incarnation that
ends in the middle leaves the rest where its successor finds it, in order. A member of a pool takes its own messages in
a batch, and those of the pool one by one (see ``actors.messaging.pool_address``).

Locking: as ``Inbox``; ``lock`` guards also ``phase``, ``order``, ``held`` and ``current`` of the attached incarnation.
The members of a pool share the lock of the pool. No user code is called while it is held; but the garbage collector,
or a signal, may run a finalizer or a handler there: what it puts waits for no lock, or finds this re-entrant one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import length_hint
from threading import get_ident
from typing import TYPE_CHECKING

from actors.concurrency.thread_state import without_waits
from actors.messaging.inbox import NOTHING, Inbox, PutResult, Refusal
from actors.messaging.reply import Reply
from actors.model.spec import UNBOUNDED, MailboxLimit

if TYPE_CHECKING:
    from actors.messaging.envelope import Envelope
    from actors.messaging.pool_address import PoolAddress
    from actors.messaging.ports import Runnable


class Mailbox(Inbox):
    """One path's messages, and which incarnation is to handle them."""

    __slots__ = (
        "abandoned",
        "at",
        "attached",
        "batch",
        "dead",
        "idle",
        "incarnation",
        "pool",
        "quiet",
        "roused",
        "runs",
        "shared",
    )

    queue: list[Envelope]

    def __init__(self, path: str, bounds: MailboxLimit = UNBOUNDED, pool: PoolAddress | None = None) -> None:
        super().__init__(path, bounds, None if pool is None else pool.lock)
        self.pool = pool
        self.queue = []
        self.batch: Iterator[Envelope] = NOTHING
        self.attached: Runnable | None = None
        self.idle: Runnable | None = None
        """The attached incarnation when it has nothing to do and must be woken, else None."""
        self.runs = 0
        """How often incarnations became idle: unchanged means that nothing was handled meanwhile."""
        self.roused = -1
        """The period of idleness (``runs``) in which it was last woken. Written without the lock, after the fact."""
        self.quiet: list[Reply] | None = None
        """Waiters until nothing is being handled."""
        self.at = -1
        """Index among the free members of its pool. Written by the pool."""
        self.shared: Envelope | None = None
        """The envelope of ``batch`` that came from the pool, or the last one."""
        self.incarnation = 0
        """Starts that succeeded, over restarts of the supervisor too. Written by the supervisor only."""
        self.dead = 0
        """Dead letters so far."""
        self.abandoned = 0
        """Threads of abandoned incarnations that still run."""

    def __repr__(self) -> str:
        return f"<Mailbox {self.path} {self.refusal or 'open'} depth={self.depth}>"

    @property
    def depth(self) -> int:
        """Messages that wait for this incarnation. Without the lock: a reading, right at some moment of the call."""
        return len(self.queue) + length_hint(self.batch)

    @property
    def rest(self) -> int:
        """Messages of its own that were taken out of the queue, and not begun."""
        return 0 if self.shared is not None else length_hint(self.batch)

    @property
    def handling_since(self) -> float | None:
        """When the present message was begun: what is left of its batch had come before that. None: there is none."""
        incarnation = self.attached
        return None if incarnation is None or incarnation.current is None else incarnation.since

    @property
    def address(self) -> Mailbox | PoolAddress:
        """The node of the wait graph for this mailbox: its pool, where it is that of a member."""
        return self if self.pool is None else self.pool

    # -- senders -------------------------------------------------------------------------------------------

    def put(self, envelope: Envelope) -> PutResult:
        """Take a message; see ``Inbox.put``."""
        if not self.plain:
            return self.put_with_care(envelope)
        self.queue.append(envelope)
        if self.idle is None and self.plain:
            return None
        if not self.plain:
            return self.overtaken(envelope)
        self.rouse()
        return None

    def rouse(self) -> None:
        """Wake the incarnation if it is idle and has not been woken yet in this period of idleness."""
        turn, incarnation = self.runs, self.idle  # in this order: see take
        if incarnation is not None and self.roused != turn:
            incarnation.wake()
            self.roused = turn

    # -- the incarnation that handles ----------------------------------------------------------------------

    def attach(self, incarnation: Runnable, *, idle: bool) -> bool:
        """A new incarnation takes over; True when it is to be woken now, by the caller.

        ``idle``: it is up already and has nothing to do but what waits here. Otherwise its start comes first.
        """
        with self.lock:
            self.attached = incarnation
            if self.idle is not None:
                self._is_busy()
            if idle:
                self._is_idle(incarnation)
                if not self._has_work():
                    return False
                self._is_busy()
        return True

    def open(self, refusal: Refusal | None = None) -> None:
        """Take messages (again), or refuse them by nature (a body, a supervisor)."""
        with self.lock:
            was_open, self.refusal = self.refusal is None, refusal
            self.plain = refusal is None and self.bounds.capacity is None
            if self.pool is not None:
                self.pool.member_changed(was_open, refusal)

    def hold(self, incarnation: Runnable) -> bool:
        """Begin a run of this incarnation; False where there is one already, or it is over: nothing is to be run."""
        with self.lock:
            if self.attached is not incarnation or incarnation.held:
                return False
            incarnation.held = True
            incarnation.running_on = get_ident()
            self.idle = None
            if self.pool is not None:
                self.pool.part(self)
        return True

    def release(self, incarnation: Runnable) -> None:
        """End a run that has left something to do: the incarnation is queued again, and the next run holds it."""
        with self.lock:
            incarnation.held = False

    def take(  # noqa: C901 - the hot path, in one piece
        self, incarnation: Runnable, *, begins: bool = False
    ) -> Iterator[Envelope] | None:
        """Return what waits, for the run that holds the incarnation.

        None: leave; there is nothing and the incarnation is now idle, or it is over. With an order given there is
        nothing to handle, but the run goes on: ``NOTHING``.

        Args:
            incarnation: whose run it is.
            begins: ``hold`` the incarnation first, in the same section. None then also where that turns the run away.
        """
        told: list[Reply] = []
        pool = self.pool
        with self.lock:
            if self.attached is not incarnation or (begins and incarnation.held):
                return None
            if begins:
                incarnation.held = True
                self.idle = None
                if pool is not None:
                    pool.part(self)
            incarnation.running_on = get_ident()
            if incarnation.order is not None:
                batch: Iterator[Envelope] | None = NOTHING
            elif length_hint(self.batch) or (pool is not None and (self.queue or pool.queue)):
                batch = self._next_batch(told)
            else:
                batch = iter(self.drain()) if self.queue else None  # most often none, when a run looks for more
                self.batch = batch or NOTHING
            while batch is None:
                self.batch = NOTHING
                self.shared = None
                self._is_idle(incarnation)
                if not self.queue and (pool is None or not pool.queue):  # after the mark: see the protocol
                    incarnation.held = False
                    incarnation.running_on = None
                    told, self.quiet = self.quiet or told, None
                    break
                self._is_busy()
                batch = self._next_batch(told)
        if told:
            for waiter in told:
                waiter.complete()
        if pool is not None and pool.queue:
            pool.pass_on()
        if self.places is not None and self.shared is None and batch is not None:
            return map(self.places.begun, batch)  # so each message that is begun makes room
        return batch

    def _next_batch(self, told: list[Reply]) -> Iterator[Envelope] | None:
        """With the lock held: what is to be handled next, and who is to be told of room; None where nothing waits."""
        if self.batch is not NOTHING and length_hint(self.batch):
            return self.batch
        pool = self.pool
        if pool is not None:
            was_shared, self.shared = self.shared is not None, None
        if pool is not None and pool.queue and (was_shared is False or not self.queue):
            self.shared = pool.queue.popleft()
            pool.taken += 1
            self.batch = iter((self.shared,))
            if pool.places is not None:
                pool.places.vacate()
                room = pool.places.first_in_line()
                told += () if room is None else (room,)
        elif not self.queue:
            return None
        else:
            self.batch = iter(self.drain())
        return self.batch

    def _has_work(self) -> bool:
        return bool(self.queue or length_hint(self.batch) or (self.pool is not None and self.pool.queue))

    def _is_idle(self, incarnation: Runnable) -> None:
        self.runs += 1  # before idle: whoever sees it idle then sees a period in which nobody has woken it
        self.idle = incarnation
        if self.pool is not None:
            self.pool.join(self)

    def _is_busy(self) -> None:
        self.idle = None
        if self.pool is not None:
            self.pool.part(self)

    def take_idleness(self, incarnation: Runnable) -> bool:
        """With the lock held: True where the incarnation was idle. It no longer is: the caller ends it, or wakes it."""
        idle = self.idle is incarnation
        if idle:
            self._is_busy()
        return idle

    def drain(self) -> list[Envelope]:
        """With the lock held: all that is in the queue, in order. What is appended meanwhile stays there."""
        taken = self.queue.copy()
        del self.queue[: len(taken)]
        self.taken += len(taken)
        return taken

    def when_quiet(self) -> Reply:
        """Completed once its incarnation is idle, or there is none: nothing is being handled."""
        quiet = Reply()
        called = without_waits(partial(self._when_quiet, quiet))
        if called is not None:
            called.wake()  # perhaps for nothing, where another member is called for what waits for the pool
        return quiet

    def _when_quiet(self, quiet: Reply) -> Runnable | None:
        with self.lock:
            called = self.idle
            if self.attached is None or self.refusal is not None or (called is not None and not self._has_work()):
                quiet.complete()
                return None
            self.quiet = [*(self.quiet or ()), quiet]
            return called

    def give_back(self, incarnation: Runnable, envelope: Envelope) -> Refusal | None:
        """The incarnation had taken this envelope and must not handle it: it goes back to the front.

        A ``Refusal``: the mailbox was closed meanwhile, so the caller must answer it.
        """
        with self.lock:
            if incarnation.current is not envelope:
                return None  # whoever ended this incarnation has answered it already
            incarnation.current = None
            origin: Inbox = self if envelope is not self.shared or self.pool is None else self.pool
            if origin.refusal is not None:
                return origin.refusal
            if origin is self:
                self.batch = iter([envelope, *self.batch])
                if self.places is not None:
                    self.places.take_back()
            else:
                self._return_shared([envelope])
        origin.rouse()
        return None

    def detach(self, incarnation: Runnable, *, abandon: bool) -> list[Reply]:
        """With the lock held: the incarnation is over; those who waited for quiet, to be completed by the caller.

        ``abandon``: its thread still iterates over the batch. This empties it under its feet, in one step.
        """
        if self.attached is not incarnation:
            return []
        self.attached = None
        self._is_busy()
        if abandon or self.shared is not None:
            self.batch = iter(self._return_shared(list(self.batch)))
        elif not length_hint(self.batch):
            self.batch = NOTHING  # it holds what was handled until somebody comes to its end
        quiet, self.quiet = self.quiet or [], None
        return quiet

    def left(self) -> None:
        """Without the lock, after ``detach``: others of the pool may have to look now."""
        if self.pool is not None:
            self.pool.pass_on()

    def _return_shared(self, rest: list[Envelope]) -> list[Envelope]:
        """With the lock held: what came from the pool and was not begun waits for the others again, first in line."""
        if self.pool is not None and rest and rest[0] is self.shared:
            if self.pool.refusal is None:
                self.pool.return_first(rest.pop(0))
            elif self.places is not None:
                self.places.exceed()  # it stays here, and had its place in the pool
                self.taken += 1
        self.shared = None
        return rest

    # -- its supervisor ------------------------------------------------------------------------------------

    def close(self, refusal: Refusal) -> list[Envelope]:
        """Refuse from now on; returns what was waiting, in order, to be answered by the caller.

        With the last member of a pool that closes, also what waited for the pool.
        """
        with self.lock:
            was_open, self.refusal = self.refusal is None, refusal
            self.plain = False
            left = [*self._return_shared(list(self.batch)), *self.drain()]
            self.batch = NOTHING
            told: list[Reply] = [*self.vacated(len(left)), *(self.quiet or ())]
            self.quiet = None
            if self.pool is not None:
                self.pool.member_changed(was_open, refusal)
                if self.pool.refusal is not None:
                    rest = self.pool.drain()
                    told += self.pool.vacated(len(rest))
                    left += rest
        for waiter in told:
            waiter.complete()  # senders put again, and are refused
        self.left()
        return left


__all__ = ["NOTHING", "Mailbox", "PutResult", "Refusal"]
