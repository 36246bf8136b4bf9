"""How long messages take, and how long the oldest one waits: by the mailbox itself, against what a model knows."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from actors.messaging import handled
from actors.messaging.handled import BOUNDS, MOST_BELOW, MOST_LABELS, MOST_MARKS, MOST_NEWS, Measures, waited_s
from actors.messaging.inbox import Inbox
from actors.messaging.mailbox import Mailbox, Refusal
from actors.messaging.pool_address import PoolAddress
from actors.model.spec import MailboxLimit, Overflow
from tests.support.hardening import in_thread


class Life:
    """As much of a life as a mailbox looks at."""

    def __init__(self) -> None:
        self.order = self.current = self.running_on = None
        self.since = 0.0
        self.held = False

    def wake(self) -> None:
        """Nothing runs here by itself."""


class World:
    """A mailbox with its life, and when each message that waits was sent."""

    def __init__(self, seed: int, bounds: MailboxLimit, *, pooled: bool) -> None:
        self.random = random.Random(seed)  # noqa: S311 - for a walk, not for secrets
        self.now, self.life, self.number = 100.0, Life(), 0
        self.began_of = 0.0
        """When the message was sent that is being handled."""
        self.pool = PoolAddress("t/p", bounds) if pooled else None
        self.box = Mailbox("t/p#0" if pooled else "t/w", bounds, self.pool)
        self.box.attach(self.life, idle=True)  # type: ignore[arg-type]
        self.box.open()
        self.box.hold(self.life)  # type: ignore[arg-type]
        self.target: Inbox = self.box if self.pool is None else self.pool
        if self.pool is not None:
            self.pool.refill([self.box])
        self.batch: Any = iter(())
        self.sent: dict[int, float] = {}
        """By the number of a message that waits, when it was sent."""
        self.seen: dict[int, float] = {}
        """By the number of a message that waits, when a look has first found it."""

    def put(self) -> None:
        self.number += 1
        went = self.target.put((self.number, None, None))
        assert not isinstance(went, Refusal)
        if isinstance(went, tuple):
            self.forget(went[0])
        self.sent[self.number] = self.now

    def forget(self, number: int) -> None:
        self.sent.pop(number)
        self.seen.pop(number, None)

    def begin(self) -> None:
        """Begin the next message; take what waits first where the batch has ended."""
        self.life.current = None
        envelope = next(self.batch, None)
        if envelope is None:
            self.box.hold(self.life)  # type: ignore[arg-type]
            self.batch = self.box.take(self.life) or iter(())  # type: ignore[arg-type]
            envelope = next(self.batch, None)
        if envelope is not None:
            self.life.since, self.life.current = self.now, envelope
            self.began_of = self.sent[envelope[0]]
            self.forget(envelope[0])

    def give_back(self) -> None:
        envelope = self.life.current
        if envelope is not None:
            assert self.box.give_back(self.life, envelope) is None  # type: ignore[arg-type]
            self.sent[envelope[0]], self.batch = self.began_of, iter(())

    def withdraw(self) -> None:
        waiting = list(self.target.queue)
        if waiting:
            envelope = self.random.choice(waiting)
            assert self.target.withdraw(envelope)
            self.forget(envelope[0])

    def close(self) -> None:
        """Close it, and open it again."""
        self.life.current = None
        for number, _, _ in self.box.close(Refusal.STOPPED):
            self.forget(number)
        self.batch = iter(())
        self.box.open()

    def look(self) -> None:
        found = waited_s(self.target, self.now)
        for number in self.sent:
            self.seen.setdefault(number, self.now)
        waits = [at for number, at in self.sent.items()]
        assert 0.0 <= found <= max((self.now - at for at in waits), default=0.0), "longer than any has waited"
        self.found = found

    def step(self) -> None:
        self.now += self.random.choice((0.0, 0.5, 2.0))
        acts = [self.put] * 5 + [self.begin] * 4 + [self.look] * 4 + [self.withdraw, self.give_back]
        self.random.choice([*acts, self.close] if self.random.random() < 0.3 else acts)()


BOUNDED = {
    "unbounded": MailboxLimit(),
    "drop oldest": MailboxLimit(capacity=4, overflow=Overflow.DROP_OLDEST),
}


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("bounds", BOUNDED.values(), ids=BOUNDED)
def test_never_is_more_said_than_the_oldest_message_has_waited(bounds: MailboxLimit, pooled: bool) -> None:
    for seed in range(60):
        world = World(seed, bounds, pooled=pooled)
        for _ in range(150):
            world.step()


@pytest.mark.parametrize("pooled", [False, True])
def test_what_waits_in_line_has_waited_since_the_look_that_found_it_first(
    pooled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handled, "MOST_MARKS", 1000)
    for seed in range(40):
        world = World(seed, MailboxLimit(), pooled=pooled)
        for _ in range(150):
            world.now += world.random.choice((0.5, 2.0))
            world.random.choice([world.put, world.put, world.begin, world.look])()
            world.look()
            waits = [world.now - world.seen[number] for number in world.sent]
            assert world.found >= max(waits, default=0.0)


def test_many_looks_leave_few_marks_and_what_they_forget_makes_nobody_older() -> None:
    world = World(0, MailboxLimit(), pooled=False)
    for _ in range(10 * MOST_MARKS):
        world.put()
        world.now += 1.0
        world.look()
    assert len(world.box.marks) <= MOST_MARKS
    assert world.found == 10 * MOST_MARKS - 1
    while world.sent:
        world.begin()
        world.look()
    assert waited_s(world.box, world.now) == 0.0
    assert world.box.marks == ()


def test_each_message_is_in_its_bucket() -> None:
    measures = Measures()
    row = measures.row_of("t/w")
    measures.add(row, 1000, 0.002, [])
    measures.add(row, 4, 4000.0, [BOUNDS[1], BOUNDS[-1] + 1.0])
    measures.add(row, 1, 0.02, [0.02])
    *buckets, total_s = measures.times()["t/w"]
    assert {at: amount for at, amount in enumerate(buckets) if amount} == {
        0: 1002,
        1: 1,
        BOUNDS.index(0.025): 1,
        len(BOUNDS): 1,
    }
    assert total_s == pytest.approx(4000.022)


def test_who_looks_between_two_steps_never_sees_fewer_messages_than_before() -> None:
    """As a scrape by another thread, or a finalizer in this one: fewer would be read as a start from nothing."""
    measures = Measures()
    row = measures.row_of("t/w")
    measures.add(row, 10, 0.1, [])
    seen = list[list[float]]()

    class Slow(list[float]):
        def __iter__(self) -> Iterator[float]:
            for each in super().__iter__():
                seen.append(measures.times()["t/w"])
                yield each

    seen.append(measures.times()["t/w"])
    measures.add(row, 3, 0.1, Slow([0.02, 0.3]))
    seen.append(measures.times()["t/w"])
    assert len(seen) == 4
    assert all(was <= now for before, after in pairwise(seen) for was, now in zip(before, after, strict=True))


def test_who_looks_from_another_thread_waits_until_a_batch_is_added() -> None:
    measures = Measures()
    row, looked = measures.row_of("t/w"), list[float]()

    class Slow(list[float]):
        def __iter__(self) -> Iterator[float]:
            looks.append(in_thread(lambda: looked.append(sum(measures.times()["t/w"][:-1]))))
            yield from super().__iter__()

    looks = list[Any]()
    measures.add(row, 2, 0.1, Slow([0.02, 0.3]))
    assert sum(measures.times()["t/w"][:-1]) == 2
    looks[0]()
    assert looked == [2]


def test_a_batch_is_added_once_also_where_a_finalizer_looks_before_the_last_one_is_taken() -> None:
    """Both orders of the two that take what was handed over: who looks in between has all of it, and then the other."""
    measures = Measures()
    row, seen = measures.row_of("t/w"), list[float]()

    class News(deque[Any]):
        def popleft(self) -> Any:
            if not seen:
                seen.append(0.0)
                seen[0] = sum(measures.times()["t/w"][:-1])
            return super().popleft()

    measures._news = News()
    measures.add(row, 3, 0.1, ())
    assert sum(measures.times()["t/w"][:-1]) == 3
    assert seen == [3.0]


class Counter:
    """One who counts, and is looked at in the middle of that."""

    def __init__(self, measures: Measures) -> None:
        self.row, self.count, self.told, self.looks = measures.row_of("t/w"), 0, 0, list[float]()
        self.ends_in_between = False
        self.look: Callable[[], float] | None = None
        self._is_over = False

    @property
    def is_over(self) -> bool:
        was = self._is_over
        if self.ends_in_between:
            self.count, self._is_over = self.count + 5, True  # its last batch, and its end
        return was

    def hand_over(self) -> None:
        more = self.count - self.told
        self.told = self.count
        if self.look is not None:
            self.looks.append(self.look())
        self.row[0] += more


def test_an_incarnation_that_ends_while_somebody_looks_is_counted_once_in_both_orders() -> None:
    measures = Measures()
    early, late = Counter(measures), Counter(measures)
    early.count, early._is_over = 3, True  # the end is first
    late.count, late.ends_in_between = 4, True  # the look is first
    measures.watch(early)
    measures.watch(late)

    assert measures.times()["t/w"][0] == 3 + 4 + 5
    assert list(measures._counting) == [late]
    late.ends_in_between = False
    assert measures.times()["t/w"][0] == 3 + 4 + 5
    assert not measures._counting


def test_a_look_in_the_middle_of_another_adds_nothing_twice_and_finds_no_less_than_the_one_before() -> None:
    measures = Measures()
    counter = Counter(measures)
    measures.watch(counter)
    counter.look = lambda: measures.times()["t/w"][0]
    found = []
    for _ in range(3):
        counter.count += 10
        found.append(measures.times()["t/w"][0])

    assert found == [10, 20, 30]
    assert counter.looks == [0, 10, 20]


def test_those_that_are_over_are_let_go_of_while_nobody_asks() -> None:
    measures = Measures()
    for _ in range(1000):
        counter = Counter(measures)
        counter.count, counter._is_over = 1, True
        measures.watch(counter)
        assert len(measures._counting) <= 65

    assert measures.times()["t/w"][0] == 1000


def test_what_is_handed_over_is_bounded_while_nobody_asks() -> None:
    measures = Measures()
    row = measures.row_of("t/w")
    for _ in range(3 * MOST_NEWS):
        measures.add(row, 2, 0.1, ())
        assert len(measures._news) < MOST_NEWS
    assert row[0] == 2 * 3 * MOST_NEWS


def test_a_crowd_shares_a_label_and_who_has_one_of_its_own_keeps_it() -> None:
    measures = Measures()
    labels = [measures.label(f"t/crowd/w{n}") for n in range(MOST_BELOW + 50)]
    assert labels == [*(f"t/crowd/w{n}" for n in range(MOST_BELOW)), *["t/crowd/*"] * 50]
    assert measures.label("t/crowd/w0") == "t/crowd/w0"
    assert measures.label("t/pool#70000") == "t/pool"
    many = {measures.label(f"t/s{n}/w{k}") for n in range(2 * MOST_LABELS) for k in range(2)}
    assert len({label for label in many if not label.endswith("*")}) == MOST_LABELS - MOST_BELOW - 1
    assert "*" in many
    assert len(many) < 2 * MOST_LABELS


def test_what_several_threads_add_to_one_row_is_all_there() -> None:
    measures, times = Measures(), 2000

    def add() -> None:
        for _ in range(times):
            measures.add(measures.row_of("t/pool#1"), 2, 0.5, [0.3])

    for each in [in_thread(add) for _ in range(4)]:
        each()
    row = measures.times()["t/pool"]
    assert (sum(row[:-1]), row[BOUNDS.index(0.5)], row[-1]) == (8 * times, 4 * times, 2.0 * times)
