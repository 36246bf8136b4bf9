"""Queue of the subtasks of all tasks that could run, in one order by (priority, deadline, age of the task, age).

The age of its task comes before its own: with a backlog tasks finish one after the other, and not all at the end.
They wait in *lanes*: all that the same workers can do (a worker's id, a capability, without those who refused it) are
one lane, so that a lane whose workers are all busy costs nothing until one of them is free. Pure: the time is passed
in, and whether a lane can be served is asked of a function.

**Ageing.** Every ``age_s`` seconds of waiting count as one step of priority, so nothing is starved by a stream of what
is more urgent. An order that changes with the time would have to be sorted again and again; but what has the same
priority and began to wait at the same tick (a thirtieth of ``age_s``) ages together. So each lane has a heap for each
*class* ``priority * 30 + tick``, in which nothing ever changes places. At tick ``now`` the present priority of a class
is ``ceil((class - now) / 30)``: the first class and at most 29 behind it share the smallest one, and the best of their
heads is next. When the tick changes, the lanes that are open are put in order once. So taking the next one costs the
same among a hundred and among ten thousand that are ready, however long they have waited.
"""

from __future__ import annotations

import heapq
import itertools
import math
from bisect import insort
from collections.abc import Callable, Iterator
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")
ItemT = TypeVar("ItemT")

Order: TypeAlias = tuple[float, int, int]
"""Rank within a class: deadline, the age of the task, the age of the subtask."""
Rank: TypeAlias = tuple[int, Order]
"""Present priority, and then the rank within a class: smaller is sooner."""

TICKS: Final = 30
"""Ticks in one step of priority."""
_MOST_LEFT: Final = 32
"""Entries that were taken back, and places that lanes do not have any more, that need not be looked for."""
_ROUNDING: Final = 1e-3
"""Part of a tick by which a time may be off, being the difference of two large ones."""


class LaneKey(NamedTuple):
    """Key of a lane: what its subtasks have in common. A tuple: it is made and looked up for every subtask."""

    worker: str | None
    """Id of the worker; None: any that has the capability."""
    capability: str | None = None
    """Capability that the worker needs; with ``worker``: that of others, where the breaker of that one is open."""
    without: tuple[str, ...] = ()
    """Ids of workers that are not to be asked any more."""
    is_asked: bool = False
    """True where a worker waits for them: in ``context.ask``, or for their task."""


class _Waiting(Generic[ItemT]):
    """One that waits; ``item`` is None once it was taken back."""

    __slots__ = ("class_", "item", "key", "order")

    def __init__(self, class_: int, order: Order, key: LaneKey, item: ItemT) -> None:
        self.class_ = class_
        self.order = order
        self.key = key
        self.item: ItemT | None = item


_Heap: TypeAlias = "list[tuple[Order, int, _Waiting[ItemT]]]"


def _waiting_in(heap: _Heap[ItemT]) -> _Heap[ItemT]:
    """Return a heap without those that were taken back."""
    left = [each for each in heap if each[2].item is not None]
    heapq.heapify(left)
    return left


_LAST: Final[Rank] = (0, (math.inf, 0, 0))


class _Lane(Generic[ItemT]):
    __slots__ = ("classes", "entries", "front", "heaps", "key", "place", "rank", "waiting")

    def __init__(self, key: LaneKey) -> None:
        self.key = key
        self.heaps: dict[int, _Heap[ItemT]] = {}
        """By class, those that wait."""
        self.classes: list[int] = []
        """Keys of ``heaps``, in order."""
        self.waiting = 0
        """How many wait."""
        self.entries = 0
        """How many entries there are: those that were taken back, too, until they are let go of."""
        self.place: int | None = None
        """Where it stands in the queue of lanes; a closed one has none, and waits until a worker of it is free."""
        self.front: _Waiting[ItemT] | None = None
        """Entry with whose rank it stands there: its head, or one that was its head and is gone."""
        self.rank: Rank = _LAST
        """Rank under which it stands there: that of its head, or of one that was its head and is gone."""

    @property
    def is_open(self) -> bool:
        return self.place is not None

    def push(self, entry: _Waiting[ItemT], number: int) -> None:
        heap = self.heaps.get(entry.class_)
        if heap is None:
            heap = self.heaps[entry.class_] = []
            insort(self.classes, entry.class_)
        heapq.heappush(heap, (entry.order, number, entry))
        self.waiting += 1
        self.entries += 1

    def take_back(self, entry: _Waiting[ItemT]) -> None:
        """Have an entry wait no more."""
        entry.item = None
        self.waiting -= 1
        if self.entries > 2 * self.waiting + _MOST_LEFT:
            self.heaps = {class_: left for class_, heap in self.heaps.items() if (left := _waiting_in(heap))}
            self.classes = sorted(self.heaps)
            self.entries = self.waiting

    def best(self, tick: int) -> _Heap[ItemT] | None:
        """The heap whose first entry is next; None: nothing waits. Heaps in which nothing waits are let go of."""
        best, at, last, classes = None, 0, math.inf, self.classes
        if len(classes) == 1 and (only := self.heaps[classes[0]]) and only[0][2].item is not None:
            return only  # as in most lanes: there is nothing to compare
        while at < len(classes) and classes[at] <= last:
            heap = self.heaps[classes[at]]
            while heap and heap[0][2].item is None:
                heapq.heappop(heap)
                self.entries -= 1
            if not heap:
                del self.heaps[classes[at]], classes[at]
                continue
            if best is None:
                best, last = heap, tick - TICKS * ((tick - classes[at]) // TICKS)
            elif heap[0] < best[0]:
                best = heap
            at += 1
        return best

    def head(self, tick: int) -> _Waiting[ItemT] | None:
        """The entry that is next."""
        best = self.best(tick)
        return best[0][2] if best is not None else None


class ReadyQueue(Generic[ItemT]):
    """Items that wait in lanes.

    Args:
        age_s: seconds of waiting that count as one step of priority; None: waiting changes nothing.
    """

    def __init__(self, age_s: float | None = None) -> None:
        self._ticks_a_second = TICKS / age_s if age_s is not None else 0.0
        self._tick = 0
        """Tick for which the lanes that are open are in order."""
        self._from, self._until = (0.0, 0.0) if self._ticks_a_second else (-math.inf, math.inf)
        """When that tick is, in seconds."""
        self._lanes: dict[LaneKey, _Lane[ItemT]] = {}
        self._open: list[tuple[Rank, int, _Lane[ItemT]]] = []
        self._most_open = _MOST_LEFT
        """With more places than this, those are looked for that lanes do not have any more."""
        self._ages = itertools.count()
        self._places = itertools.count()
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def push(
        self,
        key: LaneKey,
        priority: int,
        deadline: float,
        item: ItemT,
        age: int | None = None,
        *,
        born: int = 0,
        since: float = 0.0,
    ) -> object:
        """Have an item wait; what comes back is its ticket, for ``withdraw``.

        Args:
            key: the lane.
            priority: smaller is sooner.
            deadline: the same.
            item: what waits.
            age: of one that waited before.
            born: the number of its task: what belongs to an older task is sooner.
            since: when it began to wait, in seconds.
        """
        order = (deadline, born, next(self._ages) if age is None else age)
        tick = math.floor(since * self._ticks_a_second + _ROUNDING)
        entry = _Waiting(priority * TICKS + tick, order, key, item)
        lane = self._lanes.get(key)
        is_new = lane is None
        if lane is None:
            lane = self._lanes[key] = _Lane(key)
        # The number tells one that was put back from itself as it was withdrawn, which is of the same rank.
        lane.push(entry, next(self._places))
        self.size += 1
        if is_new or (lane.place is not None and self._rank(entry) < lane.rank):
            self._open_lane(lane, entry)
        return entry

    def age_of(self, ticket: object) -> int | None:
        """How old an item is, so that one that is put back does not lose its place."""
        return ticket.order[2] if isinstance(ticket, _Waiting) else None

    def holds(self, ticket: object) -> bool:
        """True if an item waits here."""
        return isinstance(ticket, _Waiting) and ticket.item is not None

    def present_priority(self, ticket: object, otherwise: int) -> int:
        """Priority of an item, with what it has waited, when one was last taken; ``otherwise`` of what never waited."""
        return -((self._tick - ticket.class_) // TICKS) if isinstance(ticket, _Waiting) else otherwise

    def withdraw(self, ticket: object) -> None:
        """Withdraw an item; fine if it was taken already."""
        if isinstance(ticket, _Waiting) and ticket.item is not None:
            self.size -= 1
            lane = self._lanes[ticket.key]  # it is there as long as something waits in it
            lane.take_back(ticket)
            if lane.head(self._tick) is None:
                self._drop(lane)

    def take_next(
        self, serve: Callable[[LaneKey], T | None], now: float = 0.0, *, is_asked: bool = False
    ) -> tuple[ItemT, T] | None:
        """The most urgent item that can be served, with what ``serve`` gave for its lane; None: nothing can be now.

        A lane for which ``serve`` gives None is closed until ``reopen``. ``now`` is in seconds, as ``since``. With
        ``is_asked`` only of the lanes that are: all others stay where they are.
        """
        if not self._from <= now < self._until:
            self._turn(now)
        if not is_asked:
            return self._take(serve)
        passed = [each for each in self._open if not each[2].key.is_asked]
        self._open = [each for each in self._open if each[2].key.is_asked]
        heapq.heapify(self._open)
        found = self._take(serve)
        self._open += passed
        heapq.heapify(self._open)
        return found

    def _take(self, serve: Callable[[LaneKey], T | None]) -> tuple[ItemT, T] | None:
        while self._open:
            _, place, lane = heapq.heappop(self._open)
            if lane.place != place:
                continue  # it was closed, or stands somewhere else now
            front = lane.front
            heap = lane.heaps[front.class_] if front is not None and front.item is not None else None
            if heap is None or heap[0][2] is not front:  # as long as that waits, what is sooner is the front
                heap = lane.best(self._tick)
            if heap is None:
                self._drop(lane)
            elif heap[0][2] is not front:
                self._open_lane(lane, heap[0][2])  # its former head is gone; its next one waits its turn
            elif (served := serve(lane.key)) is None:
                lane.place = None
            else:
                return self._pop(lane, heap), served
        return None

    def _pop(self, lane: _Lane[ItemT], heap: _Heap[ItemT]) -> ItemT:
        entry = heapq.heappop(heap)[2]
        item, entry.item = entry.item, None
        lane.waiting -= 1
        lane.entries -= 1
        assert item is not None  # noqa: S101 - best() has just looked
        self.size -= 1
        if len(lane.classes) == 1 and heap and heap[0][2].item is not None:
            self._open_lane(lane, heap[0][2])  # as in most lanes: there is nothing to compare
        elif (head := lane.head(self._tick)) is not None:
            self._open_lane(lane, head)
        else:
            self._drop(lane)
        return item

    def _drop(self, lane: _Lane[ItemT]) -> None:
        """Nothing waits in it; one of the same key may follow, and has a place of its own."""
        lane.place = None
        del self._lanes[lane.key]

    def _open_lane(self, lane: _Lane[ItemT], head: _Waiting[ItemT]) -> None:
        place = lane.place = next(self._places)
        rank = lane.rank = self._rank(head)
        lane.front = head
        heapq.heappush(self._open, (rank, place, lane))
        if len(self._open) > self._most_open:
            self._tidy()

    def _tidy(self) -> None:
        """Let go of places that lanes do not have any more: they are the most. Each costs as much as it took."""
        self._open = [each for each in self._open if each[2].place == each[1]]
        heapq.heapify(self._open)
        self._most_open = 2 * len(self._open) + _MOST_LEFT

    def reopen(self, key: LaneKey) -> None:
        """A lane may be served again."""
        lane = self._lanes.get(key)
        if lane is not None and not lane.is_open:
            head = lane.head(self._tick)
            if head is None:
                self._drop(lane)
            else:
                self._open_lane(lane, head)

    def reopen_all(self) -> None:
        """Every lane may be served again."""
        for key in list(self._lanes):
            self.reopen(key)

    def heads(self, now: float = 0.0) -> Iterator[tuple[LaneKey, Rank, ItemT]]:
        """The most urgent item of each lane."""
        if not self._from <= now < self._until:
            self._turn(now)
        for lane in list(self._lanes.values()):
            head = lane.head(self._tick)
            if head is not None and head.item is not None:
                yield lane.key, self._rank(head), head.item

    # -- time ----------------------------------------------------------------------------------------------

    def _tick_at(self, seconds: float) -> int:
        return math.floor(seconds * self._ticks_a_second + _ROUNDING)

    def _rank(self, entry: _Waiting[ItemT]) -> Rank:
        return -((self._tick - entry.class_) // TICKS), entry.order

    def _turn(self, now: float) -> None:
        """Put the lanes that are open in order for another tick."""
        tick = self._tick = self._tick_at(now)
        a_second = self._ticks_a_second
        if a_second:
            self._from, self._until = (tick - _ROUNDING) / a_second, (tick + 1 - _ROUNDING) / a_second
        lanes = [lane for _, place, lane in self._open if lane.place == place]
        self._open = []
        for lane in lanes:
            head = lane.head(tick)
            if head is None:
                self._drop(lane)
            else:
                self._open_lane(lane, head)
