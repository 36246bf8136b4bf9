"""The bus: delivers each event to each subscriber, in the order in which they were published.

A supervisor only puts a record on the bus; each subscriber is served, in order, by a job of its own on the pool, so a
subscriber may block, raise, or call into the tree. How it fails:

=====================  ==========================================================================================
subscriber             then
=====================  ==========================================================================================
raises                 it is dropped, and that is an event (``SubscriberDropped``, logged as an error)
raises, and is the log it stays: that event is lost to it, and the next one it takes says how many were
is too slow            its oldest events are lost, and it is told how many (``EventsLost``)
has unsubscribed       nothing more is delivered, also not what waits; one delivery may be under way
=====================  ==========================================================================================

What waits for a slow subscriber is bounded by number and by weight: an event with an error keeps the error, its
traceback and what is in them; and a piece of a stream may be long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeAlias

from actors.concurrency.thread_state import blocking, with_users
from actors.concurrency.wakeup import SingleJob, Wakeup
from actors.messaging.reply import Reply
from actors.model.event_time import note_time
from actors.model.events import Event, EventsLost, SubscriberDropped
from actors.model.raised import is_a
from actors.validation.introspection import not_awaited

if TYPE_CHECKING:
    from actors.execution.pool import Pool

GATHER_S = 0.01
"""How long events are gathered before they are delivered. Delivering, log lines above all, takes the GIL from what set
the event off: delivered at once, a crash took twice as long to the next reply (tests/bench, "crash")."""
BACKLOG = 65_536
"""Events that wait for one subscriber before its oldest are lost."""
BACKLOG_WEIGHT = 2048
"""Units of weight that wait for one subscriber before its oldest events are lost. A unit is some 4 KiB."""
_UNIT = 4096
_MARK = -1
"""Weight of what is no event: something that is called when all before it is delivered."""

Callback: TypeAlias = "Callable[[Event], object]"


class Bus:
    """Delivers each event to each subscriber, in the order in which they were published."""

    def __init__(self, pool: Pool, root: str, time: Callable[[], float]) -> None:
        self._pool = pool
        self._root = root
        self._time = time
        """Seconds since 1970 by the tree's clock: a record is given its time here, where it has none of its own."""
        self.published = 0
        """How many events so far, at least."""
        self._subscriptions: dict[Subscription, None] = {}
        """An ordered set. Each change, and the copy that ``_takers_of`` makes, is one step of C: no lock is needed."""
        self._takers: dict[type[Event], tuple[Subscription, ...]] = {}
        """By kind, those that it is delivered to: found once for each, anew after each change of ``_subscriptions``.

        *A change, against one who looks for the takers of a kind*: a change is made before the table is replaced, and
        who looks has the table before it copies what there is. So it has seen the change, or what it finds goes into
        the table that was replaced.
        """

    def publish(self, event: Event) -> None:
        """Hand an event to every subscriber's queue. Never blocks."""
        self.published += 1
        table = self._takers
        takers = table.get(type(event))
        if takers is None:
            takers = table[type(event)] = self._takers_of(type(event))
        if takers:
            if not event.has_own_time:
                note_time(event, self._time())
            weight = weight_of(event) if event.may_weigh else 0
            entry = event, weight
            for subscription in takers:
                queue = subscription.queue
                if weight or len(queue) >= BACKLOG:
                    subscription.make_room(weight)
                queue.append(entry)
                if subscription.noted != subscription.period:  # else it is called: ``rouse`` has nothing to do
                    subscription.rouse()

    def _takers_of(self, kind: type[Event]) -> tuple[Subscription, ...]:
        return tuple(each for each in tuple(self._subscriptions) if each.wants is None or each.wants(kind))

    def subscribe(
        self,
        callback: Callback,
        *,
        lasting: bool = False,
        ours: bool = False,
        wants: Callable[[type[Event]], bool] | None = None,
        begins: Callable[[], object] | None = None,
    ) -> Callable[[], None]:
        """Have ``callback(event)`` called for everything from now on; returns how to end that.

        Args:
            callback: is called with one event after the other, on a thread of the pool.
            lasting: it is not dropped when it raises. For the log.
            ours: it calls no code of users, so nobody waits for a reply in it.
            wants: says of a kind whether it is called for it; asked a few times for each. None: for all.
            begins: is called before each round: the events up to the next one were all published before it. None:
                nobody need know.
        """
        subscription = self.prepare(callback, lasting=lasting, ours=ours)
        subscription.wants, subscription.begins = wants, begins
        self.add(subscription)
        return lambda: self._remove(subscription)

    def prepare(self, callback: Callback, *, lasting: bool = False, ours: bool = False) -> Subscription:
        """Make what calls ``callback(event)``, as ``subscribe``, from the moment on when it is added."""
        name = getattr(callback, "__qualname__", type(callback).__name__)
        subscription = Subscription(self._pool, name, self._lost, callback, None if lasting else self._dropped)
        subscription.ours = ours
        return subscription

    def add(self, subscription: Subscription) -> None:
        """Have it called from now on. Twice is as once."""
        self._subscriptions[subscription] = None
        self._takers = {}

    def _remove(self, subscription: Subscription) -> None:
        self._subscriptions.pop(subscription, None)
        self._takers = {}
        subscription.end()

    def _lost(self, count: int) -> EventsLost:
        event = EventsLost(self._root, count)
        note_time(event, self._time())
        return event

    def _dropped(self, subscription: Subscription, error: BaseException) -> None:
        self._remove(subscription)
        event = SubscriberDropped(self._root, subscription.name, error)
        self.publish(event)

    def silence(self) -> None:
        """Deliver nothing any more: in the child of a fork there is no thread to do it."""
        for subscription in tuple(self._subscriptions):
            self._remove(subscription)

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was published is delivered; False when a subscriber is too slow for that."""
        marks = [mark for subscription in tuple(self._subscriptions) if (mark := subscription.mark()) is not None]
        delivered = [mark.wait(timeout_s) for mark in marks]  # wait for each, also after one was too slow
        return all(delivered)


class Subscription(SingleJob):
    """One subscriber: a queue of its events, and the job that delivers them.

    One run of the job delivers at a time. A deque's own operations are one step of C each, so no lock is needed, which
    counts: this runs for every event and subscriber.
    """

    urgent = False

    def __init__(
        self,
        pool: Pool,
        name: str,
        event_of_loss: Callable[[int], EventsLost],
        callback: Callback,
        dropped: Callable[[Subscription, BaseException], None] | None,
    ) -> None:
        super().__init__(lambda: pool.submit(self))
        self._event_of_loss = event_of_loss
        self._callback = callback
        self._dropped = dropped
        self._lost = 0
        self._over = False
        self._hurry = Wakeup()
        self._marks: set[Reply] = set()
        """True while a caller waits until these are delivered: then nothing is gathered."""
        self.ours = False
        """True where it calls no code of users."""
        self.wants: Callable[..., bool] | None = None
        """Kinds that it is called for; None: all."""
        self.begins: Callable[[], object] | None = None
        """Callback that is told of each round; None: nobody need know."""
        self.name = name
        self.queue: deque[tuple[Any, int]] = deque()
        """Events that wait, each with its weight, and marks."""
        self._load: deque[None] = deque()
        """One item for each unit of weight that waits: a number that is changed in one step of C, as the rest here."""

    def make_room(self, weight: int) -> None:
        """Make room for an event that weighs so much: the oldest go when there are too many."""
        queue = self.queue
        if len(queue) >= BACKLOG:
            self._drop_oldest()
        if weight:
            while queue and len(self._load) + weight > BACKLOG_WEIGHT:
                self._drop_oldest()
            self._load.extend(repeat(None, weight))

    def _drop_oldest(self) -> None:
        try:
            oldest, weight = self.queue.popleft()
        except IndexError:  # it was delivered meanwhile
            return
        if weight == _MARK:
            self.queue.append((oldest, _MARK))  # it waits for what has come meanwhile, too
        else:
            self._lighten(weight)
            self._lost += 1

    def _lighten(self, weight: int) -> None:
        for _ in range(weight):
            self._load.pop()  # each was appended before its event

    def end(self) -> None:
        """Deliver nothing more: what waits is let go of by the job that would have delivered it."""
        self._over = True

    def mark(self) -> Reply | None:
        """Completed when all that is queued now was delivered; None once it was dropped."""
        mark = Reply()
        self._marks.add(mark)
        self.then(partial(self._reach, mark))
        self._hurry.give()
        return None if self._over else mark

    def then(self, act: Callable[[], object]) -> None:
        """Call something of ours behind all that was published before; it raises nothing.

        One after the other with the callback, so what only both of them touch needs no lock. Where so many events wait
        that the oldest are lost, it may be called behind later ones.
        """
        self.queue.append((act, _MARK))
        self.rouse()

    def run(self) -> bool:
        """Deliver until there is nothing left; True never: it looks again by itself."""
        if not self.enter():
            return False
        hurry = self._hurry = Wakeup()  # first: a mark is either seen here, or finds this to wake
        if not self._marks:
            with blocking():
                hurry.sleep(GATHER_S)
        while True:
            self._deliver_all()
            self.leave()
            if not self.queue or not self.enter():
                return False

    def _deliver_all(self) -> None:
        while self.queue:
            if self.begins is not None:
                self.begins()
            if self.ours:
                self._deliver(len(self.queue))
            else:
                with_users(self._deliver, len(self.queue))

    def _deliver(self, number: int) -> None:
        """Deliver a round: so many as wait. Of too many the oldest go meanwhile, and later ones are in it."""
        queue, callback = self.queue, self._callback
        for _ in range(number):
            try:
                event, weight = queue.popleft()
            except IndexError:  # somebody dropped the last one
                break
            if weight:
                if weight == _MARK:
                    event()
                    continue
                self._lighten(weight)
            if self._over:
                continue
            lost = 0
            try:
                if self._lost:
                    lost, self._lost = self._lost, 0
                    callback(self._event_of_loss(lost))
                if (result := callback(event)) is not None:
                    not_awaited(result)
            except BaseException as error:  # noqa: BLE001 - a subscriber may raise anything at all
                self._raised(error, lost)

    def _reach(self, mark: Reply) -> None:
        self._marks.discard(mark)
        mark.complete()

    def _raised(self, error: BaseException, lost: int) -> None:
        """Drop the subscriber; one that stays has lost the event, and those before it that it was about to hear of."""
        if self._dropped is None:
            self._lost += lost + 1
        else:
            self._over = True
            self._dropped(self, error)


def weight_of(event: Event) -> int:
    """How many units an event weighs: none, unless it keeps an error or a long text. No code of a user runs here."""
    if event.bulk:
        return min((len(getattr(event, event.bulk)) + _UNIT // 2) // _UNIT, BACKLOG_WEIGHT)
    error = getattr(event, "error", None)
    if not is_a(error, BaseException):
        return 0
    texts = sum(len(arg) for arg in _ARGS.__get__(error) if type(arg) in _TEXTS)
    return min(1 + texts // _UNIT, BACKLOG_WEIGHT)


_ARGS = vars(BaseException)["args"]
_TEXTS = {str, bytes, bytearray}
