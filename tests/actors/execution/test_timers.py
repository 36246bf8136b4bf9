"""Timers: one thread, one heap, on the machine's clock and on one that is moved by hand."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.execution.timers import Timers
from actors.model.clock import SystemClock
from actors.testing import ManualClock
from tests.support.hardening import LONG_S


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(0.0)


@pytest.fixture
def failures() -> list[BaseException]:
    return []


@pytest.fixture
def timers(clock: ManualClock, failures: list[BaseException]) -> Iterator[Timers]:
    timers = Timers("timers", clock, failed=failures.append)
    timers.open()
    yield timers
    timers.close(LONG_S)


def test_what_is_due_fires_in_the_order_of_its_time_in_the_thread_that_moves_the_clock(
    clock: ManualClock, timers: Timers
) -> None:
    fired = []
    for due in (3.0, 1.0, 2.0, 9.0):
        timers.call_at(due, lambda due=due: fired.append((due, threading.current_thread())))
    clock.advance(5.0)

    assert fired == [(due, threading.current_thread()) for due in (1.0, 2.0, 3.0)]


def test_what_was_cancelled_does_not_fire(clock: ManualClock, timers: Timers) -> None:
    fired = []
    timers.call_at(1.0, lambda: fired.append(1)).cancel()
    timers.call_at(2.0, lambda: fired.append(2))
    clock.advance(5.0)

    assert fired == [2]


def test_a_callback_that_raises_is_reported_and_stops_no_other(
    clock: ManualClock, timers: Timers, failures: list[BaseException]
) -> None:
    fired = []
    timers.call_at(1.0, lambda: 1 // 0)
    timers.call_at(2.0, lambda: fired.append(2))
    clock.advance(5.0)

    assert fired == [2]
    assert [type(error) for error in failures] == [ZeroDivisionError]


def test_a_timer_that_is_set_by_a_timer_and_is_due_fires_at_once(clock: ManualClock, timers: Timers) -> None:
    fired = []
    timers.call_at(1.0, lambda: timers.call_at(2.0, lambda: fired.append("inner")))
    clock.advance(5.0)

    assert fired == ["inner"]


@pytest.mark.parametrize("first", ["the clock", "the timer"])
def test_a_timer_fires_whether_the_clock_is_moved_before_it_is_set_or_after(
    first: str, clock: ManualClock, timers: Timers
) -> None:
    """The race of who has looked at the clock, and is about to set a timer, and who moves it."""
    fired, due = threading.Event(), clock.now() + 1
    if first == "the clock":
        clock.advance(2)
        timers.call_at(due, fired.set)
        for each in timers.firing:
            each.wait(LONG_S)
    else:
        timers.call_at(due, fired.set)
        assert not fired.is_set()
        clock.advance(2)

    assert fired.is_set()
    assert timers.firing == []


def test_what_is_due_as_it_is_set_fires_when_whoever_sets_it_has_it(clock: ManualClock, timers: Timers) -> None:
    """On another thread, as with a clock that runs: under the locks of who sets it nothing is called."""
    lock, threads = threading.Lock(), list[threading.Thread]()

    def fire() -> None:
        with lock:
            threads.append(threading.current_thread())

    with lock:
        timers.call_at(clock.now() - 1, fire)
    for each in timers.firing:
        each.wait(LONG_S)

    assert threads != []
    assert threading.current_thread() not in threads


def test_nothing_fires_any_more_once_it_was_closed(clock: ManualClock, timers: Timers) -> None:
    fired = []
    timers.call_at(1.0, lambda: fired.append(1))
    timers.close(0)
    timers.call_at(2.0, lambda: fired.append(2))
    clock.advance(5.0)

    assert fired == []


@given(st.lists(st.tuples(st.integers(1, 20), st.booleans()), max_size=40), st.lists(st.integers(1, 9), max_size=9))
def test_whatever_is_set_and_kept_fires_once_and_never_early(plan: list[tuple[int, bool]], steps: list[Any]) -> None:
    clock, fired = ManualClock(0.0), []
    timers = Timers("timers", clock, failed=lambda error: None)
    set_ = [timers.call_at(float(due), lambda n=n: fired.append((n, clock.now()))) for n, (due, _) in enumerate(plan)]
    for timer, (_, cancelled) in zip(set_, plan, strict=True):
        if cancelled:
            timer.cancel()
    for step in steps:
        clock.advance(float(step))
    timers.close(0)

    assert sorted(n for n, _ in fired) == [
        n for n, (due, cancelled) in enumerate(plan) if not cancelled and steps and due <= sum(steps)
    ]
    assert all(at >= plan[n][0] for n, at in fired)


def test_on_the_machines_clock_a_nearer_timer_overtakes_one_that_is_waited_for(failures: list[BaseException]) -> None:
    clock, order, both = SystemClock(offset_s=12345.6), [], threading.Event()
    timers = Timers("timers", clock, failed=failures.append)
    timers.open()
    timers.call_at(clock.now() + 1.5, lambda: (order.append("far"), both.set()))
    timers.call_at(clock.now() + 0.02, lambda: order.append("near"))

    assert both.wait(LONG_S)
    timers.close(LONG_S)
    assert order == ["near", "far"]


def test_timers_that_are_set_and_cancelled_one_after_the_other_wake_its_thread_once(
    failures: list[BaseException],
) -> None:
    """Each attempt that streams, or has a timeout, sets one and cancels it soon."""
    clock, woken = SystemClock(), list[int]()
    timers = Timers("timers", clock, failed=failures.append)

    class Counted:
        give = staticmethod(lambda: woken.append(1))

    timers._wake = Counted()  # type: ignore[assignment]
    first = timers.call_at(clock.now() + 1000.0, lambda: None)
    timers.fire_due()  # as its thread does, which is awake now, and then sleeps
    timers._first_due()
    first.cancel()
    for _ in range(100):
        timers.call_at(clock.now() + 1000.0, lambda: None).cancel()
    before = len(woken)
    timers.call_at(clock.now() + 500.0, lambda: None)

    assert (before, len(woken)) == (1, 2)


def test_its_thread_wakes_once_for_many_limits_that_were_cancelled_and_then_for_the_next_one(
    failures: list[BaseException],
) -> None:
    clock, fired, looks = SystemClock(), threading.Event(), list[float]()
    timers = Timers("timers", clock, failed=failures.append)
    first_due = timers._first_due

    def watched() -> float:
        looks.append(clock.now())
        return first_due()

    timers._first_due = watched  # type: ignore[method-assign]
    timers.open()
    begun = clock.now()
    for number in range(1000):
        timers.call_at(begun + 2.0 + number / 10_000, fired.set).cancel()
    timers.call_at(begun + 2.2, fired.set)
    assert fired.wait(LONG_S)
    timers.close(LONG_S)

    assert clock.now() - begun >= 2.2
    assert len(looks) < 100  # one for each that was sooner at first, and then at 2.0, 2.1 and 2.2; not for all 1,000
