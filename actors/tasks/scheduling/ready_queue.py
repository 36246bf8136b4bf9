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

    __slots__ = ("item", "rank")

    def __init__(self, rank: Rank, item: ItemT) -> None:
        self.rank = rank
        self.item: ItemT | None = item


class _Lane(Generic[ItemT]):
    """What waits in one lane."""

    __slots__ = ("heap", "listed")

    def __init__(self) -> None:
        self.heap: list[tuple[Rank, Ticket[ItemT]]] = []
        self.listed: Rank | None = None
        """The rank with which it stands among those that may be served; None: it is closed."""


class ReadyQueue(Generic[ItemT]):
    """Items that wait in lanes.

    Args:
        age_s: seconds of waiting that count as one step of priority; None: waiting changes nothing.
    """

    def __init__(self, age_s: float | None = None) -> None:
        self._steps_a_second = 0.0 if age_s is None else 1.0 / age_s
        self._lanes: dict[LaneKey, _Lane[ItemT]] = {}
        self._open: list[tuple[Rank, LaneKey]] = []
        """Heap of the lanes that may be served, each by the rank of its head; entries of another rank than that with
        which their lane is listed are passed over."""
        self._ages = itertools.count()
        self.size = 0

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
        ticket = Ticket((aged, deadline, born, next(self._ages)), item)
        lane = self._lanes.get(key)
        is_open = lane is None or lane.listed is not None
        if lane is None:
            lane = self._lanes[key] = _Lane()
        heapq.heappush(lane.heap, (ticket.rank, ticket))
        self.size += 1
        if is_open and lane.heap[0][1] is ticket:
            self._list(key)
        return ticket

    def _list(self, key: LaneKey) -> None:
        """Let a lane be served by the rank of its head, if it has one."""
        head = self._head(key)
        if head is not None:
            self._lanes[key].listed = head.rank
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
        """Return the first of a lane; those that were taken back are let go of, and an empty lane with them."""
        lane = self._lanes.get(key)
        while lane is not None and lane.heap:
            if lane.heap[0][1].item is not None:
                return lane.heap[0][1]
            heapq.heappop(lane.heap)
        self._lanes.pop(key, None)
        return None

    def take_next(self, serve: Callable[[LaneKey], T | None]) -> tuple[Ticket[ItemT], ItemT, T] | None:
        """Take the most urgent item that can be served, with what ``serve`` gave for its lane; None: nothing can be.

        A lane for which ``serve`` gives None is closed until ``reopen``.
        """
        while self._open:
            rank, key = heapq.heappop(self._open)
            head = self._head(key)
            if head is None or self._lanes[key].listed != rank:
                continue
            if head.rank != rank:
                self._list(key)  # its former head was taken back
                continue
            self._lanes[key].listed = None
            served, item = serve(key), head.item
            if served is not None and item is not None:
                self.withdraw(head)
                self._list(key)
                return head, item, served
        return None

    def reopen(self, key: LaneKey) -> None:
        """A lane may be served again."""
        if key in self._lanes and self._lanes[key].listed is None:
            self._list(key)

    def reopen_all(self) -> None:
        """Every lane may be served again."""
        for key in list(self._lanes):
            self.reopen(key)

    def heads(self) -> Iterator[tuple[LaneKey, Ticket[ItemT], ItemT]]:
        """Yield the most urgent item of each lane."""
        for key in list(self._lanes):
            head = self._head(key)
            if head is not None and head.item is not None:
                yield key, head, head.item
