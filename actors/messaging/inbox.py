"""The senders' side of a mailbox, or of a pool's: a queue, its bound, and whether it takes messages at all.

A put never waits for a lock of the library while the inbox is open: it appends, which is one atomic
operation of the list or deque, and then sees to it that somebody looks (``rouse``). So a put may be made anywhere:
from a finalizer or a weakref callback that the garbage collector runs in the middle of any section of ours, from a
signal handler that interrupts one, and in the middle of another put.

* ``rouse`` is idempotent and marks its work as done only when it is done. An exception of a signal handler in the
  middle of a put leaves the mark unset, and the next put does it again. One wake-up too many costs a look.
* A put that was overtaken by a ``close`` (open when it looked, closed when it had appended) looks once more: either it
  takes its own message back under the lock and is refused, or whoever closed has found it and answers it.

* A bounded put claims a place in the same step as it appends (``actors.messaging.places``), and waits for no lock
  either. Only where ``drop_oldest`` has to drop one is a lock taken, for a few steps in which no signal handler can
  run.
* A put in the middle of a section of its own thread only appends: it takes nothing out, and waits for no room.

Locking: ``lock`` guards every field but ``queue``, to which anybody may append at any time, and ``places``. A
sender that takes it waits for no reply meanwhile (``without_waits``): the worker that is to reply may need it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from actors.concurrency.thread_state import without_waits
from actors.messaging.places import Places, Room
from actors.model.spec import UNBOUNDED, MailboxLimit, Overflow

if TYPE_CHECKING:
    from actors.messaging.envelope import Envelope
    from actors.messaging.reply import Reply


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


PutResult: TypeAlias = "Refusal | Room | Envelope | None"
"""Result of a put: see ``Inbox.put``."""


NOTHING: Final[Iterator[Envelope]] = iter(())
"""No messages."""


class Inbox:
    """A queue of messages with a bound, open or closed."""

    __slots__ = ("bounds", "lock", "marks", "path", "places", "plain", "queue", "refusal", "taken", "waits")

    pack: Callable[[Any], Any] | None = None
    """Makes of a message what can cross to where it is handled, in the sender; None: it is handled here. A method."""

    queue: Any
    batch: Iterator[Envelope] = NOTHING
    """Messages that were taken out of the queue, and not begun."""

    def __init__(self, path: str, bounds: MailboxLimit = UNBOUNDED, lock: threading.RLock | None = None) -> None:
        self.path = path
        self.lock = threading.RLock() if lock is None else lock
        self.bounds = bounds
        self.refusal: Refusal | None = None
        self.plain = bounds.capacity is None
        """True when a put needs no look at anything: open and without bound."""
        self.places = None if bounds.capacity is None else Places(bounds.capacity)
        """How many messages may wait; None: any number."""
        self.taken = 0
        """Messages that were taken out of the queue, or had to go."""
        self.marks: tuple[tuple[float, int], ...] = ()
        """Looks at what waits, and how many messages had come by then; see ``actors.messaging.handled``."""
        self.waits: set[Reply] | None = None
        """Waits for its worker that are no replies to messages: see ``actors.messaging.wait_graph.list_wait``."""

    @property
    def rest(self) -> int:
        """Messages of its own that were taken out of the queue, and not begun."""
        return 0

    @property
    def handling_since(self) -> float | None:
        """When the message that is being handled was begun; None: none is."""
        return None

    @property
    def depth(self) -> int:
        """Messages that wait. Without the lock: a reading, right at some moment during the call."""
        return len(self.queue)

    @property
    def waiters(self) -> tuple[Room, ...]:
        """Senders that wait for room, the first one first. Without the lock: a reading, as ``depth``."""
        line = () if self.places is None else tuple(self.places.line)
        return tuple(room for each in line if (room := each()) is not None)

    def rouse(self) -> None:
        """See to it that somebody looks at what waits."""
        raise NotImplementedError

    # -- senders -------------------------------------------------------------------------------------------

    def put(self, envelope: Envelope) -> PutResult:
        """Take a message.

        None: taken. A ``Refusal``: not taken. A ``Room``: full; wait for it, then put again. An envelope: taken, and
        this older one had to go for it.
        """
        raise NotImplementedError

    def put_with_care(self, envelope: Envelope) -> PutResult:
        """``put`` where there is a bound, or where it may be closed."""
        if self.refusal is not None:
            return self.refusal
        places = self.places
        if places is None:
            self.queue.append(envelope)
        elif not places.put(self.queue, envelope):
            verdict = self._overflow(places, envelope)
            if verdict is not None:
                return verdict
        if self.refusal is not None:
            return self.overtaken(envelope)
        self.rouse()
        return None

    def _overflow(self, places: Places, envelope: Envelope) -> PutResult:
        """No place was free: what the rule of this inbox makes of that; None: the message was appended after all."""
        self.rouse()  # those who filled it may have been cut short before they did
        if self.bounds.overflow is Overflow.DROP_OLDEST:
            return self._replace_oldest(places, envelope)
        if self.bounds.overflow is Overflow.REJECT or self._is_mine():
            return Refusal.FULL  # nobody makes room while this thread has the lock
        return places.put_or_wait(self.queue, envelope)

    def _replace_oldest(self, places: Places, envelope: Envelope) -> PutResult:
        """The message that waits the longest goes, and the new one has its place.

        A finalizer may come here in the middle of a section of its own thread, which counts on what waits to stay there
        (``drain``, ``pull``). So none goes then; nor does one where all that waited has been begun just now. The new
        message gets a place that is free by now, or waits beyond the bound.

        CPython looks for signals at calls, at backward jumps and where a function begins. None of these stands inside
        the ``with``, so no signal handler runs while this thread has the lock; a test reads the bytecode.
        """
        nested = self._is_mine()
        claim, last = compress((envelope,), places.claims), iter((envelope,))
        oldest: Envelope | None = None
        with self.lock:
            refusal, queue = self.refusal, self.queue
            if refusal is None:
                for first in NOTHING if nested else self.batch:
                    oldest = first
                    break
                else:
                    if queue and not nested:
                        oldest = queue[0]
                        del queue[0]
                        self.taken += 1
                try:
                    queue += claim if oldest is None else last
                except IndexError:
                    places.beyond += b"\1"
                    queue += last
        if refusal is not None:
            return refusal
        self.rouse()
        return oldest

    def _is_mine(self) -> bool:
        """True in the middle of a section of this very thread: a finalizer runs there."""
        return bool(self.lock._is_owned())  # type: ignore[attr-defined]  # noqa: SLF001 - as threading.Condition does

    def overtaken(self, envelope: Envelope) -> Refusal | None:
        """After a message was appended: rouse somebody, or be refused where a ``close`` came in between."""
        seen = self.refusal
        if seen is not None:
            refusal = without_waits(partial(self._pull_if_closed, envelope))
            if refusal is not None:
                return refusal
        self.rouse()
        return None

    def _pull_if_closed(self, envelope: Envelope) -> Refusal | None:
        with self.lock:
            return self.refusal if self.refusal is not None and self.pull(envelope) else None

    def put_unbounded(self, envelope: Envelope) -> Refusal | None:
        """Take a message beyond the bound: whoever sends it bounds itself, as an orchestrator does (one at a time)."""
        with self.lock:
            if self.refusal is not None:
                return self.refusal
            if self.places is not None:
                self.places.exceed()
            self.queue.append(envelope)
        self.rouse()
        return None

    def withdraw(self, envelope: Envelope) -> bool:
        """Take a message out that still waits, because whoever sent it has gone; False when it waits no longer."""
        found = without_waits(partial(self._pull, envelope))
        if found and self.places is not None:
            self.places.tell_next()
        return found

    def _pull(self, envelope: Envelope) -> bool:
        with self.lock:
            return self.pull(envelope)

    def pull(self, envelope: Envelope) -> bool:
        """With the lock held: take this very message out of the queue. Found by identity: bodies are users'."""
        waiting, wanted = map(id, self.queue.copy()), id(envelope)
        at = next((at for at, each in enumerate(waiting) if each == wanted), None)
        if at is not None:
            del self.queue[at]
            self.taken += 1
            if self.places is not None:
                self.places.vacate()
        return at is not None

    # -- closing -------------------------------------------------------------------------------------------

    def vacated(self, count: int) -> list[Room]:
        """With the lock held: so many messages were drained, and it is closed; the senders to be told of that."""
        if self.places is None:
            return []
        self.places.vacate(count)
        return self.places.everybody_in_line()

    def drain(self) -> list[Envelope]:
        """With the lock held: all that is in the queue, in order. What is appended meanwhile stays there."""
        raise NotImplementedError
