"""Who is next, on a queue by itself: no task, no worker, no clock."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.tasks.scheduling import ready_queue
from actors.tasks.scheduling.ready_queue import LaneKey, ReadyQueue

A, B, C = LaneKey("a"), LaneKey(None, "b"), LaneKey("c", None, ("x",))


def anybody(key: LaneKey) -> LaneKey:
    """Serves every lane; says which one it was."""
    return key


def taken(queue: ReadyQueue[str], *, without: LaneKey | None = None) -> list[str]:
    """All that can be taken, in order."""
    items = []
    while (found := queue.take_next(lambda key: None if key == without else key)) is not None:
        items.append(found[0])
    return items


def queue_of(*items: tuple[LaneKey, int, float, str]) -> ReadyQueue[str]:
    queue: ReadyQueue[str] = ReadyQueue()
    for item in items:
        queue.push(*item)
    return queue


def test_in_one_lane_the_smaller_priority_is_first_then_the_nearer_deadline_then_the_older() -> None:
    queue = queue_of(
        (A, 1, 5.0, "later"),
        (A, 0, math.inf, "old"),
        (A, 0, math.inf, "young"),
        (A, 0, 9.0, "pressed"),
        (A, -1, math.inf, "urgent"),
    )

    assert taken(queue) == ["urgent", "pressed", "old", "young", "later"]


def test_over_lanes_the_order_is_the_same_as_in_one() -> None:
    queue = queue_of(
        (A, 1, 5.0, "later"),
        (B, 0, math.inf, "old"),
        (A, 0, math.inf, "young"),
        (C, 0, 9.0, "pressed"),
        (B, -1, math.inf, "urgent"),
    )

    assert taken(queue) == ["urgent", "pressed", "old", "young", "later"]


def test_what_was_served_comes_with_the_item() -> None:
    queue = queue_of((B, 0, math.inf, "one"))

    assert queue.take_next(anybody) == ("one", B)


def test_an_empty_queue_gives_nothing() -> None:
    queue: ReadyQueue[str] = ReadyQueue()

    assert queue.take_next(anybody) is None
    assert (len(queue), list(queue.heads())) == (0, [])


def test_a_lane_that_cannot_be_served_holds_up_no_other_one() -> None:
    queue = queue_of((A, 0, math.inf, "stuck"), (B, 5, math.inf, "free"))

    assert taken(queue, without=A) == ["free"]
    assert len(queue) == 1


def test_a_closed_lane_is_not_asked_about_until_it_is_reopened() -> None:
    queue = queue_of((A, 0, math.inf, "stuck"))
    asked: list[LaneKey] = []
    for _ in range(3):
        queue.take_next(asked.append)
    before = list(asked)
    queue.reopen(A)
    queue.take_next(asked.append)

    assert before == [A]
    assert asked == [A, A]


def test_a_closed_lane_stays_closed_for_what_is_more_urgent() -> None:
    queue = queue_of((A, 5, math.inf, "first"))
    queue.take_next(lambda _: None)
    queue.push(A, 0, math.inf, "urgent")
    closed = queue.take_next(anybody)
    queue.reopen(A)

    assert closed is None
    assert taken(queue) == ["urgent", "first"]


def test_reopening_all_reopens_each_lane() -> None:
    queue = queue_of((A, 0, math.inf, "one"), (B, 0, math.inf, "two"))
    queue.take_next(lambda _: None)
    queue.reopen_all()

    assert taken(queue) == ["one", "two"]


def test_reopening_a_lane_that_is_open_or_not_there_changes_nothing() -> None:
    queue = queue_of((A, 0, math.inf, "one"))
    queue.reopen(A)
    queue.reopen(B)

    assert taken(queue) == ["one"]


def test_what_is_withdrawn_is_not_taken_and_not_counted() -> None:
    queue = queue_of((A, 1, math.inf, "stays"))
    ticket = queue.push(A, 0, math.inf, "goes")
    queue.withdraw(ticket)

    assert len(queue) == 1
    assert [rank for _, rank, _ in queue.heads()] == [(1, (math.inf, 0, 0))]
    assert taken(queue) == ["stays"]


def test_withdrawing_what_was_taken_or_withdrawn_changes_nothing() -> None:
    queue: ReadyQueue[str] = ReadyQueue()
    ticket = queue.push(A, 0, math.inf, "one")
    queue.take_next(anybody)
    queue.withdraw(ticket)
    queue.withdraw(None)

    assert len(queue) == 0


def test_a_lane_that_was_emptied_by_withdrawing_serves_what_comes_next() -> None:
    queue: ReadyQueue[str] = ReadyQueue()
    queue.withdraw(queue.push(A, 0, math.inf, "gone"))
    queue.push(A, 1, math.inf, "next")
    closed: object = queue.take_next(lambda _: None)
    queue.reopen(A)

    assert closed is None
    assert taken(queue) == ["next"]


def test_one_that_is_put_back_with_its_age_does_not_lose_its_place() -> None:
    queue = queue_of((A, 0, math.inf, "first"))
    ticket = queue.push(A, 0, math.inf, "second")
    queue.push(A, 0, math.inf, "third")
    queue.withdraw(ticket)
    queue.push(A, 0, math.inf, "second", queue.age_of(ticket))

    assert taken(queue) == ["first", "second", "third"]


def test_age_goes_with_the_ticket_also_after_it_was_taken() -> None:
    queue: ReadyQueue[str] = ReadyQueue()
    ticket = queue.push(A, 0, math.inf, "again")
    queue.take_next(anybody)
    queue.push(A, 0, math.inf, "younger")
    queue.push(A, 0, math.inf, "again", queue.age_of(ticket))

    assert queue.age_of(None) is None
    assert taken(queue) == ["again", "younger"]


def test_the_heads_are_the_most_urgent_of_each_lane() -> None:
    queue = queue_of((A, 3, math.inf, "a"), (B, 2, math.inf, "b"), (A, 1, math.inf, "a'"))

    assert {(key, item) for key, _, item in queue.heads()} == {(A, "a'"), (B, "b")}
    assert min(rank for _, rank, _ in queue.heads()) == (1, (math.inf, 0, 2))


# -- cost ----------------------------------------------------------------------------------------------------


class Counted(float):
    """A deadline that counts how often deadlines are compared."""

    compared = 0

    def __lt__(self, other: float) -> bool:
        Counted.compared += 1
        return float(self) < float(other)

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return isinstance(other, float) and float(self) == float(other)

    __hash__ = float.__hash__


def cost_of_a_take(count: int, order: str, lanes: int, wait_s: float = 0.0) -> tuple[float, float]:
    """Comparisons, and lanes that were asked about, for each of ``count`` items, put in and taken out.

    With ``wait_s`` each has waited so much longer than the one before, and each is taken so much later.
    """
    queue: ReadyQueue[int] = ReadyQueue(age_s=30.0)
    numbers = {"up": range(count), "down": range(count, 0, -1), "alike": [0] * count}[order]
    Counted.compared, asked = 0, 0

    def serve(_: LaneKey) -> bool:
        nonlocal asked
        asked += 1
        return True

    for at, number in enumerate(numbers):
        queue.push(LaneKey(f"w{at % lanes}"), 0, Counted(number), at, since=at * wait_s)
    for at in range(count):
        assert queue.take_next(serve, (count + at) * wait_s) is not None
    assert Counted.compared
    return Counted.compared / count, asked / count


MANY = 4_000


@pytest.mark.parametrize("lanes", [1, "each its own"])
@pytest.mark.parametrize("order", ["up", "down", "alike"])
def test_a_take_costs_the_same_among_a_hundred_and_among_ten_thousand(order: str, lanes: Any) -> None:
    few, _ = cost_of_a_take(100, order, lanes if isinstance(lanes, int) else 100)
    many, asked = cost_of_a_take(MANY, order, lanes if isinstance(lanes, int) else MANY)

    assert asked == 1
    assert many <= 3 * few  # logarithms of heaps: twice as many steps in a hundred times as many


def test_a_take_costs_the_same_where_all_of_them_have_waited_for_different_times() -> None:
    few, _ = cost_of_a_take(200, "up", 1, wait_s=1.0)
    many, asked = cost_of_a_take(MANY, "up", 1, wait_s=1.0)

    assert asked == 1
    assert many <= 2 * few


def test_lanes_that_cannot_be_served_cost_nothing_at_the_next_take() -> None:
    queue: ReadyQueue[int] = ReadyQueue()
    for at in range(1000):
        queue.push(LaneKey(f"w{at}"), 0, math.inf, at)
    asked: list[LaneKey] = []
    queue.take_next(asked.append)
    first = len(asked)
    for _ in range(100):
        queue.take_next(asked.append)

    assert first == 1000
    assert len(asked) == 1000


@pytest.mark.parametrize("lanes", ["one lane", "a lane for each", "a lane that is opened again and again"])
def test_what_was_taken_back_takes_no_room_while_nothing_can_be_taken(lanes: str) -> None:
    """The first waits for a worker that is busy for hours; others come and are cancelled meanwhile."""
    queue = queue_of((A, 5, math.inf, "first"))
    assert queue.take_next(lambda _: None) is None

    for number in range(1000):
        key = A if lanes == "one lane" else LaneKey(f"w{number}" if lanes == "a lane for each" else "w")
        tickets = [queue.push(key, priority, math.inf, "other") for priority in (3, 2, 1)]
        for ticket in tickets:
            queue.withdraw(ticket)

    assert len(queue._open) < 100
    assert sum(len(heap) for lane in queue._lanes.values() for heap in lane.heaps.values()) < 100
    queue.reopen_all()
    assert taken(queue) == ["first"]


# -- against a naive one -------------------------------------------------------------------------------------

LANES = st.sampled_from([A, B, C])


class AgainstANaiveQueue(RuleBasedStateMachine):
    """The same, as a list that is searched. A step of priority is thirty seconds, so that a tick is one."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: ReadyQueue[str] = ReadyQueue(age_s=30.0)
        self.now = 0
        self.waiting: dict[str, tuple[tuple[int, float, int, int, int], LaneKey]] = {}
        """By name: priority, deadline, the age of the task, the own age, since when; and the lane."""
        self.tickets: dict[str, object] = {}
        self.keys: dict[str, tuple[LaneKey, int, float, int, int]] = {}
        self.busy: set[LaneKey] = set()
        """Those that cannot be served."""
        self.closed: set[LaneKey] = set()
        """Those of which that was found out."""
        self.numbers = 0

    @rule(
        key=LANES,
        priority=st.integers(-1, 2),
        deadline=st.sampled_from([1.0, 2.0, math.inf]),
        born=st.integers(0, 2),
        waited=st.sampled_from([0, 0, 1, 29, 30, 31, 90]),
    )
    def push(self, key: LaneKey, priority: int, deadline: float, born: int, waited: int) -> None:
        name = f"i{self.numbers}"
        self.numbers += 1
        self._put(name, key, priority, deadline, born, self.now - waited)

    @rule(seconds=st.sampled_from([1, 7, 29, 30, 31]))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds

    def _rank(self, fields: tuple[int, float, int, int, int]) -> tuple[int, tuple[float, int, int]]:
        priority, deadline, born, age, since = fields
        return priority - (self.now - since) // 30, (deadline, born, age)

    @precondition(lambda self: self.keys)
    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.keys)))
        age = self.queue.age_of(self.tickets[name])
        self._withdraw(name)
        self._put(name, data.draw(LANES), *self.keys[name][1:], age)

    def _put(
        self, name: str, key: LaneKey, priority: int, deadline: float, born: int, since: int, age: int | None = None
    ) -> None:
        ticket = self.queue.push(key, priority, deadline, name, age, born=born, since=since)
        kept = self.queue.age_of(ticket)
        assert kept is not None
        assert age is None or kept == age
        self._open_where_empty(key)
        self.tickets[name], self.keys[name] = ticket, (key, priority, deadline, born, since)
        self.waiting[name] = ((priority, deadline, born, kept, since), key)

    def _open_where_empty(self, key: LaneKey) -> None:
        """A lane in which nothing waits is forgotten, and that it was closed too."""
        if not any(each == key for _, each in self.waiting.values()):
            self.closed.discard(key)

    @precondition(lambda self: self.keys)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        self._withdraw(data.draw(st.sampled_from(sorted(self.keys))))

    def _withdraw(self, name: str) -> None:
        self.queue.withdraw(self.tickets[name])
        found = self.waiting.pop(name, None)
        if found is not None:
            self._open_where_empty(found[1])

    @rule()
    def take(self) -> None:
        able = sorted(
            (self._rank(fields), name, key) for name, (fields, key) in self.waiting.items() if key not in self.closed
        )
        expected = next(((name, key) for _, name, key in able if key not in self.busy), None)
        until = next((at for at, (_, _, key) in enumerate(able) if key not in self.busy), len(able))
        self.closed |= {key for _, _, key in able[:until]}
        found = self.queue.take_next(lambda key: None if key in self.busy else key, self.now)

        assert found == expected
        if found is not None:
            assert self.queue.present_priority(self.tickets[found[0]], 99) == self._rank(self.waiting[found[0]][0])[0]
        if found is not None:
            del self.waiting[found[0]]
            self._open_where_empty(found[1])

    @rule(key=LANES)
    def is_busy(self, key: LaneKey) -> None:
        self.busy.add(key)

    @rule(key=LANES)
    def is_free(self, key: LaneKey) -> None:
        self.busy.discard(key)
        self.closed.discard(key)
        self.queue.reopen(key)

    @rule()
    def reopen_all(self) -> None:
        self.closed.clear()
        self.queue.reopen_all()

    @invariant()
    def counts_what_waits(self) -> None:
        heads = {key: (rank, item) for key, rank, item in self.queue.heads(self.now)}
        expected: dict[LaneKey, tuple[Any, str]] = {}
        for name, (fields, key) in self.waiting.items():
            rank = self._rank(fields)
            expected[key] = min(expected.get(key, (rank, name)), (rank, name))

        assert len(self.queue) == len(self.waiting)
        assert heads == expected


@pytest.fixture
def tidies_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was taken back is let go of at once, and not when there is more of it."""
    monkeypatch.setattr(ready_queue, "_MOST_LEFT", 0)


TestAgainstANaiveQueue = pytest.mark.usefixtures("tidies_soon")(AgainstANaiveQueue.TestCase)
TestAgainstANaiveQueue.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
