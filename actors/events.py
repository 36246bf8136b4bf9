"""Everything that happens, as one stream of frozen records, and the bus that delivers them.

A supervisor only puts a record on the bus; each subscriber is served, in order, by a job of its own on the pool. A
subscriber that raises is dropped (``SubscriberDropped``, logged as an error); one that is too slow loses its oldest
events and is told how many (``EventsLost``). Log lines are one subscriber more; this is the only file that imports
loguru. Whoever wants silence says ``logger.disable("actors")``.

Records carry paths, types, numbers and the exception itself while it is delivered; never a message's body.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from loguru import logger

from actors.reply import Reply
from actors.spec import Reason

if TYPE_CHECKING:
    from actors.dispatch.pool import Pool

GATHER_S = 0.01
"""How long events are gathered before they are delivered. Delivering, log lines above all, takes the GIL from what set
the event off: delivered at once, a crash took twice as long to the next reply (tests/bench, "crash")."""
BACKLOG = 65_536
"""Events that wait for one subscriber before its oldest are lost."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at ``path``."""

    level: ClassVar[str] = "TRACE"
    """Of its log line, where nothing else is said."""

    path: str
    """Where: a child's path; the root's for the whole tree."""


@dataclass(frozen=True, slots=True)
class TreeStarted(Event):
    """Every on_start has succeeded."""


@dataclass(frozen=True, slots=True)
class TreeStopped(Event):
    """Nothing of the tree runs any more."""

    gave_up: bool
    """True where nobody had asked for it: the root had used up its restart limit, or see ``TreeFailed``."""


@dataclass(frozen=True, slots=True)
class ChildStarted(Event):
    """An incarnation is up."""

    incarnation: int


@dataclass(frozen=True, slots=True)
class ChildExited(Event):
    """An incarnation ended, or a start failed. Exactly one per end."""

    reason: Reason
    incarnation: int
    """Of the one that ended; of the one that it would have been, for a start that failed."""
    error: BaseException | None
    frames: TracebackType | None
    """Where the error was born. Its own traceback grows with each asker that it is raised in again."""
    started: bool
    """False: it had not come up yet."""
    lost: int
    """Messages that were being handled and are lost with it: 0 or 1."""
    detail: str = ""
    """What happened, where there is no error to tell."""


@dataclass(frozen=True, slots=True)
class ChildRestarting(Event):
    """A restart was decided."""

    attempt: int
    """1 for the first of a row of restarts."""
    delay_s: float
    """Backoff before it."""


@dataclass(frozen=True, slots=True)
class ChildStopAbnormal(Event):
    """A child that was being stopped ended otherwise than it should, or one of its last hooks raised."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class ChildParked(Event):
    """A child used up its own restart limit and stays down until restart_child."""

    restarts: int


@dataclass(frozen=True, slots=True)
class ChildAbandoned(Event):
    """A worker could not be ended in time and was left to itself; its thread counts until it ends."""

    abandoned: int
    """How many of this path there are now."""


@dataclass(frozen=True, slots=True)
class SupervisorGaveUp(Event):
    """A supervisor restarted more often than its limit allows, and stops."""

    child: str
    restarts: int
    limit: int
    period_s: float
    root: bool


@dataclass(frozen=True, slots=True)
class DeadLetter(Event):
    """A message that nobody will handle."""

    reason: str
    message_type: str
    sender: str | None


@dataclass(frozen=True, slots=True)
class RequestFailed(Event):
    """A handler answered with an error and lives: Failed, an expected type, or what its own ask failed with."""

    error: BaseException
    asked: bool
    """False: it was a tell, and nobody heard the error."""


@dataclass(frozen=True, slots=True)
class RecursionRefused(Event):
    """A request whose target waits for it, or a tell after too many tells."""

    chain: tuple[str, ...]
    hops: int


@dataclass(frozen=True, slots=True)
class LoopBlocked(Event):
    """A handler holds up the event loop."""

    blocked_s: float
    stack: str


@dataclass(frozen=True, slots=True)
class PoolNearCap(Event):
    """The pool has almost as many threads as it may have."""

    threads: int
    max_threads: int


@dataclass(frozen=True, slots=True)
class SubscriberDropped(Event):
    """A subscriber raised, and gets no more events."""

    subscriber: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class CallbackRaised(Event):
    """A done callback that somebody had added to a reply of the worker at ``path`` raised."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class EventsLost(Event):
    """To a subscriber that is too slow: so many events before this one were lost."""

    count: int


@dataclass(frozen=True, slots=True)
class InternalError(Event):
    """A bug of this library. Please report it."""

    error: BaseException


Callback: TypeAlias = "Callable[[Event], object]"

# -- the bus -----------------------------------------------------------------------------------------------


class Bus:
    """Delivers each event to each subscriber, in the order in which they were published."""

    def __init__(self, pool: Pool, root: str) -> None:
        self._pool = pool
        self._root = root
        self.published = 0
        """How many events so far, at least."""
        self._subscriptions: dict[Subscription, None] = {}
        """An ordered set. Each change, and the copy that ``publish`` makes, is one step of C: no lock is needed."""

    def publish(self, event: Event) -> None:
        """Hand an event to every subscriber's queue. Never blocks."""
        self.published += 1
        for subscription in tuple(self._subscriptions):
            subscription.put(event)

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Have ``callback(event)`` called for everything from now on; returns how to end that."""
        subscription = Subscription(self._pool, self._root, callback, self._dropped)
        self._subscriptions[subscription] = None
        return lambda: self._remove(subscription)

    def _remove(self, subscription: Subscription) -> None:
        self._subscriptions.pop(subscription, None)

    def _dropped(self, subscription: Subscription, error: BaseException) -> None:
        self._remove(subscription)
        event = SubscriberDropped(self._root, subscription.name, error)
        self.publish(event)

    def silence(self) -> None:
        """Deliver nothing any more: in the child of a fork there is no thread to do it."""
        self._subscriptions.clear()

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was published is delivered; False when a subscriber is too slow for that."""
        marks = [mark for subscription in tuple(self._subscriptions) if (mark := subscription.mark()) is not None]
        delivered = [mark.wait(timeout_s) for mark in marks]  # wait for each, also after one was too slow
        return all(delivered)


class Subscription:
    """One subscriber: a queue of its events, and the job that delivers them.

    Whoever holds the one token of ``_claim`` is the only one who delivers, or has woken the one who will. A deque's own
    operations are one step of C each, so no lock is needed, which counts: this runs for every event and subscriber. The
    race, and its two orders: *a put against the end of a delivery*. The put appends and then tries for the token; the
    delivery gives the token back and then looks for more and tries for it again. So one of them finds both.
    """

    urgent = False

    def __init__(
        self, pool: Pool, root: str, callback: Callback, dropped: Callable[[Subscription, BaseException], None]
    ) -> None:
        self._pool = pool
        self._root = root
        self._callback = callback
        self._dropped = dropped
        self._lost = 0
        self._over = False
        self._hurry = Reply()
        self._marks: set[Reply] = set()
        """Somebody waits until these are delivered: then nothing is gathered."""
        self.name = getattr(callback, "__qualname__", type(callback).__name__)
        self._queue: deque[Event | Reply] = deque()
        self._claim: deque[None] = deque((None,))

    def put(self, event: Event | Reply) -> None:
        """Queue an event; the oldest goes when there are too many."""
        queue = self._queue
        if len(queue) >= BACKLOG and not isinstance(event, Reply):
            self._drop_oldest()
        queue.append(event)
        if self._claim:
            self._wake()

    def _drop_oldest(self) -> None:
        try:
            oldest = self._queue.popleft()
        except IndexError:  # it was delivered meanwhile
            return
        if isinstance(oldest, Reply):
            self._reach(oldest)
        else:
            self._lost += 1

    def _wake(self) -> None:
        if self._take_claim():
            self._pool.submit(self)

    def _take_claim(self) -> bool:
        try:
            self._claim.pop()
        except IndexError:
            return False
        return True

    def mark(self) -> Reply | None:
        """Completed when all that is queued now was delivered; None once it was dropped."""
        mark = Reply()
        self._marks.add(mark)
        self.put(mark)
        self._hurry.complete()
        return None if self._over else mark

    def run(self) -> bool:
        """Deliver until there is nothing left; True never: it looks again by itself."""
        hurry = self._hurry = Reply()  # first: a mark is either seen here, or finds this to complete
        if not self._marks:
            hurry.wait(GATHER_S)
        queue = self._queue
        while True:
            while queue:
                try:
                    event = queue.popleft()
                except IndexError:  # somebody dropped the last one
                    break
                if isinstance(event, Reply):
                    self._reach(event)
                elif not self._over:
                    self._deliver(event)
            self._claim.append(None)
            if not queue or not self._take_claim():
                return False

    def _reach(self, mark: Reply) -> None:
        self._marks.discard(mark)
        mark.complete()

    def _deliver(self, event: Event) -> None:
        lost, self._lost = self._lost, 0
        try:
            if lost:
                self._callback(EventsLost(self._root, lost))
            self._callback(event)
        except BaseException as error:
            self._over = True
            self._dropped(self, error)


# -- log lines ---------------------------------------------------------------------------------------------

_LEVELS: dict[type[Event], str] = {
    ChildRestarting: "WARNING",
    ChildStopAbnormal: "WARNING",
    ChildParked: "ERROR",
    ChildAbandoned: "ERROR",
    DeadLetter: "DEBUG",
    RequestFailed: "DEBUG",
    RecursionRefused: "WARNING",
    LoopBlocked: "WARNING",
    PoolNearCap: "WARNING",
    SubscriberDropped: "ERROR",
    CallbackRaised: "ERROR",
    EventsLost: "WARNING",
    InternalError: "CRITICAL",
}


def level_of(event: Event) -> str:
    """The log level of an event: starts and clean stops TRACE, crash and restart WARNING, a dead root CRITICAL."""
    if isinstance(event, ChildExited):
        return "TRACE" if event.reason.clean else "WARNING"
    if isinstance(event, SupervisorGaveUp):
        return "CRITICAL" if event.root else "ERROR"
    if isinstance(event, TreeStopped):
        return "CRITICAL" if event.gave_up else "TRACE"
    return _LEVELS.get(type(event), event.level)


def describe(event: Event) -> str:
    """One line, and the traceback of its error where it has one."""
    facts: list[str] = []
    error: Any = None
    frames: Any = None
    for field in fields(event)[1:]:
        if not field.repr:
            continue  # it may be large, or nobody's business
        value = getattr(event, field.name)
        if field.name == "error":
            error = value
        elif field.name == "frames":
            frames = value
        elif field.name == "stack":
            facts.append(f"\n{value}")
        elif value not in (None, ""):
            facts.append(f"{field.name}={value if not isinstance(value, float) else format(value, '.3g')}")
    line = f"{event.path}: {type(event).__name__} {' '.join(facts)}".rstrip()
    if error is not None:
        line += "\n" + "".join(traceback.format_exception(type(error), error, frames or error.__traceback__)).rstrip()
    return line


_LAZY = logger.opt(lazy=True)  # made once: it costs as much as a line that is not written


def log(event: Event) -> None:
    """The subscriber that writes log lines."""
    level = level_of(event)
    _LAZY.log(level, "{}", lambda: describe(event))
