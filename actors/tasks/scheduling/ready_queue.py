"""Queue of the subtasks of all tasks that could run, in one order by (priority, deadline, age of the task, age).

The age of its task comes before its own: with a backlog tasks finish one after the other, and not all at the end.
They wait in *lanes*: all that the same workers can do (a worker's id, a capability, without those who refused it) are
one lane, so that a lane whose workers are all busy costs nothing until one of them is free. Taking the next one costs
the same among a hundred and among ten thousand that are ready. Pure: whether a lane can be served is asked of a
function.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")
ItemT = TypeVar("ItemT")

Rank: TypeAlias = tuple[int, float, int, int]
"""Priority, deadline, the age of the task, the age of the subtask: smaller is sooner."""


class LaneKey(NamedTuple):
    """Key of a lane: what its subtasks have in common. A tuple: it is made and looked up for every subtask."""

    worker: str | None
    """Id of the worker; None: any that has the capability."""
    capability: str | None = None
    """Capability that the worker needs; with ``worker``: that of others, where the breaker of that one is open."""
    without: tuple[str, ...] = ()
    """Ids of workers that are not to be asked any more."""


class _Waiting(Generic[ItemT]):
    """One that waits; ``item`` is None once it was taken back."""

    __slots__ = ("item", "key", "rank")

    def __init__(self, rank: Rank, key: LaneKey, item: ItemT) -> None:
        self.rank = rank
        self.key = key
        self.item: ItemT | None = item


class _Lane(Generic[ItemT]):
    __slots__ = ("heap", "key", "place")

    def __init__(self, key: LaneKey) -> None:
        self.key = key
        self.heap: list[tuple[Rank, int, _Waiting[ItemT]]] = []
        self.place: int | None = None
        """Where it stands in the queue of lanes; a closed one has none, and waits until a worker of it is free."""

    @property
    def is_open(self) -> bool:
        return self.place is not None

    def head(self) -> _Waiting[ItemT] | None:
        while self.heap:
            entry = self.heap[0][2]
            if entry.item is not None:
                return entry
            heapq.heappop(self.heap)
        return None


class ReadyQueue(Generic[ItemT]):
    """Items that wait in lanes."""

    def __init__(self) -> None:
        self._lanes: dict[LaneKey, _Lane[ItemT]] = {}
        self._open: list[tuple[Rank, int, _Lane[ItemT]]] = []
        self._ages = itertools.count()
        self._places = itertools.count()
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def push(
        self, key: LaneKey, priority: int, deadline: float, item: ItemT, age: int | None = None, *, born: int = 0
    ) -> object:
        """Have an item wait; what comes back is its ticket, for ``withdraw``.

        Args:
            key: the lane.
            priority: smaller is sooner.
            deadline: the same.
            item: what waits.
            age: of one that waited before.
            born: the number of its task: what belongs to an older task is sooner.
        """
        rank = (priority, deadline, born, next(self._ages) if age is None else age)
        entry = _Waiting(rank, key, item)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(key)
            self._open_lane(lane, rank)
        elif lane.is_open and (not lane.heap or rank < lane.heap[0][0]):
            self._open_lane(lane, rank)
        # The number tells one that was put back from itself as it was withdrawn, which is of the same rank.
        heapq.heappush(lane.heap, (rank, next(self._places), entry))
        self.size += 1
        return entry

    def age_of(self, ticket: object) -> int | None:
        """How old an item is, so that one that is put back does not lose its place."""
        return ticket.rank[3] if isinstance(ticket, _Waiting) else None

    def withdraw(self, ticket: object) -> None:
        """Withdraw an item; fine if it was taken already."""
        if isinstance(ticket, _Waiting) and ticket.item is not None:
            ticket.item = None
            self.size -= 1
            lane = self._lanes.get(ticket.key)
            if lane is not None and lane.head() is None:
                self._drop(lane)

    def take_next(self, serve: Callable[[LaneKey], T | None]) -> tuple[ItemT, T] | None:
        """The most urgent item that can be served, with what ``serve`` gave for its lane; None: nothing can be now.

        A lane for which ``serve`` gives None is closed until ``reopen``.
        """
        while self._open:
            rank, place, lane = heapq.heappop(self._open)
            if lane.place != place:
                continue  # it was closed, or stands somewhere else now
            head = lane.head()
            if head is None:
                self._drop(lane)
            elif head.rank != rank:
                self._open_lane(lane, head.rank)  # its former head is gone; its next one waits its turn
            elif (served := serve(lane.key)) is None:
                lane.place = None
            else:
                return self._pop(lane), served
        return None

    def _pop(self, lane: _Lane[ItemT]) -> ItemT:
        entry = heapq.heappop(lane.heap)[2]
        item, entry.item = entry.item, None
        assert item is not None  # noqa: S101 - head() has just looked
        self.size -= 1
        head = lane.head()
        if head is None:
            self._drop(lane)
        else:
            self._open_lane(lane, head.rank)
        return item

    def _drop(self, lane: _Lane[ItemT]) -> None:
        """Nothing waits in it; one of the same key may follow, and has a place of its own."""
        lane.place = None
        del self._lanes[lane.key]

    def _open_lane(self, lane: _Lane[ItemT], rank: Rank) -> None:
        lane.place = next(self._places)
        heapq.heappush(self._open, (rank, lane.place, lane))

    def reopen(self, key: LaneKey) -> None:
        """A lane may be served again."""
        lane = self._lanes.get(key)
        if lane is not None and not lane.is_open:
            head = lane.head()
            if head is None:
                self._drop(lane)
            else:
                self._open_lane(lane, head.rank)

    def reopen_all(self) -> None:
        """Every lane may be served again."""
        for key in list(self._lanes):
            self.reopen(key)

    def heads(self) -> Iterator[tuple[LaneKey, Rank, ItemT]]:
        """The most urgent item of each lane."""
        for lane in list(self._lanes.values()):
            head = lane.head()
            if head is not None and head.item is not None:
                yield lane.key, head.rank, head.item
