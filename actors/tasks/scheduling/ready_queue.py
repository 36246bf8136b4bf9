"""Queue of the units of all tasks that could run, in one order by (priority, deadline, age of the task, age).

The age of its task comes before its own: with a backlog tasks finish one after the other, and not all at the end. Units
wait in *lanes*: all that the same workers can do (a worker's id, a capability, without those who refused it) are one
lane, so that a lane whose workers are all busy costs nothing until one of them is free.

**Ageing.** Every ``age_s`` seconds of waiting count as one step of priority, so nothing is starved by a stream of what
is more urgent. All that waits ages at the same rate, so ``floor(priority + since / age_s)`` never changes, and one heap
for each lane keeps its order. Pure: the time is passed in, and whether a lane can be served is asked of a function.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")
ItemT = TypeVar("ItemT")

Rank: TypeAlias = tuple[int, float, int, int]
"""Priority with ageing, deadline, the age of the task, the age of the unit: smaller is sooner."""


class LaneKey(NamedTuple):
    """Key of a lane: what its units have in common. A tuple: it is made and looked up for every unit."""

    scope: str
    """Path of the supervisor whose workers can do it."""
    worker: str | None
    """Id of the worker; None: any that has the capability."""
    capability: str | None = None
    """Capability that the worker needs; with ``worker``: that of others, where the breaker of that one is open."""
    without: tuple[str, ...] = ()
    """Ids of workers that are not to be asked any more."""


class Ticket(Generic[ItemT]):
    """A unit that waits; ``item`` is None once it was taken, or taken back."""

    __slots__ = ("item", "key", "rank")

    def __init__(self, key: LaneKey, rank: Rank, item: ItemT) -> None:
        self.key, self.rank = key, rank
        self.item: ItemT | None = item


class ReadyQueue(Generic[ItemT]):
    """Items that wait in lanes.

    Args:
        age_s: seconds of waiting that count as one step of priority; None: waiting changes nothing.
    """

    def __init__(self, age_s: float | None = None) -> None:
        self._steps_a_second = 0.0 if age_s is None else 1.0 / age_s
        self._lanes: dict[LaneKey, list[tuple[Rank, Ticket[ItemT]]]] = {}
        self._open: list[tuple[Rank, LaneKey]] = []
        """Heap of the lanes that may be served, each by the rank of its head."""
        self._listed: dict[LaneKey, Rank] = {}
        """By lane, the rank with which it stands there; any other entry of it is passed over."""
        self._closed: set[LaneKey] = set()
        self._ages = itertools.count()
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def push(
        self, key: LaneKey, priority: int, deadline: float, item: ItemT, *, born: int = 0, since: float = 0.0
    ) -> Ticket[ItemT]:
        """Have an item wait.

        Args:
            key: the lane.
            priority: smaller is sooner.
            deadline: the same.
            item: what waits.
            born: the number of its task: what belongs to an older task is sooner.
            since: when it began to wait, in seconds.
        """
        aged = math.floor(priority + since * self._steps_a_second)
        ticket = Ticket(key, (aged, deadline, born, next(self._ages)), item)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = []
        heapq.heappush(lane, (ticket.rank, ticket))
        self.size += 1
        if lane[0][1] is ticket and key not in self._closed:
            self._list(key, ticket)
        return ticket

    def _list(self, key: LaneKey, head: Ticket[ItemT]) -> None:
        self._listed[key] = head.rank
        heapq.heappush(self._open, (head.rank, key))

    def present_priority(self, ticket: Ticket[ItemT], now: float) -> int:
        """Return the priority of an item, with what it has waited."""
        return ticket.rank[0] - math.floor(now * self._steps_a_second)

    def withdraw(self, ticket: Ticket[ItemT]) -> None:
        """Withdraw an item; fine if it was taken already."""
        if ticket.item is not None:
            ticket.item = None
            self.size -= 1

    def _head(self, key: LaneKey) -> Ticket[ItemT] | None:
        """Return the first of a lane; those that were taken back are let go of."""
        lane = self._lanes.get(key)
        while lane and lane[0][1].item is None:
            heapq.heappop(lane)
        if lane:
            return lane[0][1]
        self._lanes.pop(key, None)
        self._listed.pop(key, None)
        self._closed.discard(key)
        return None

    def take_next(self, serve: Callable[[LaneKey], T | None]) -> tuple[Ticket[ItemT], ItemT, T] | None:
        """Take the most urgent item that can be served, with what ``serve`` gave for its lane; None: nothing can be.

        A lane for which ``serve`` gives None is closed until ``reopen``.
        """
        while self._open:
            rank, key = self._open[0]
            head = self._head(key) if self._listed.get(key) == rank else None
            if head is None or head.rank != rank:
                heapq.heappop(self._open)
                if head is not None:
                    self._list(key, head)  # its former head was taken back
                continue
            heapq.heappop(self._open)
            del self._listed[key]
            served = serve(key)
            if served is None:
                self._closed.add(key)
                continue
            item = head.item
            assert item is not None  # noqa: S101 - ``_head`` has just looked
            self.withdraw(head)
            following = self._head(key)
            if following is not None:
                self._list(key, following)
            return head, item, served
        return None

    def reopen(self, key: LaneKey) -> None:
        """A lane may be served again."""
        if key in self._closed:
            self._closed.discard(key)
            head = self._head(key)
            if head is not None:
                self._list(key, head)

    def reopen_all(self) -> None:
        """Every lane may be served again."""
        for key in list(self._closed):
            self.reopen(key)

    def heads(self) -> Iterator[tuple[LaneKey, Ticket[ItemT], ItemT]]:
        """Yield the most urgent item of each lane."""
        for key in list(self._lanes):
            head = self._head(key)
            if head is not None and head.item is not None:
                yield key, head, head.item
