"""The circuit breaker on times passed in, against its rule written out naively."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from actors.tasks.model.policy import Breaker
from actors.tasks.scheduling.circuit_breaker import CircuitBreaker

POLICY = Breaker(failure_threshold=3, window_s=10.0, cooldown_s=5.0)


def fail(breaker: CircuitBreaker, *times: float) -> None:
    for now in times:
        breaker.failed(breaker.begin(now), now)


def opened(at: float = 100.0) -> CircuitBreaker:
    """Three failures at the same moment."""
    breaker = CircuitBreaker(POLICY)
    fail(breaker, at, at, at)
    return breaker


def test_a_new_breaker_is_closed_and_admits() -> None:
    breaker = CircuitBreaker(POLICY)

    assert (breaker.state, breaker.failures, breaker.opened_at) == ("closed", (), None)
    assert breaker.admits(0.0)
    assert breaker.retry_in_s(0.0) == 0.0


def test_it_opens_at_the_failure_that_reaches_the_threshold_and_not_before() -> None:
    breaker = CircuitBreaker(POLICY)
    fail(breaker, 1.0, 2.0)
    before = breaker.state
    fail(breaker, 3.0)

    assert before == "closed"
    assert (breaker.state, breaker.failures, breaker.opened_at) == ("open", (1.0, 2.0, 3.0), 3.0)
    assert not breaker.admits(3.0)


def test_a_threshold_of_one_opens_at_the_first_failure() -> None:
    breaker = CircuitBreaker(Breaker(failure_threshold=1))
    fail(breaker, 0.0)

    assert breaker.state == "open"


def test_a_failure_exactly_one_window_old_still_counts() -> None:
    breaker = CircuitBreaker(POLICY)
    fail(breaker, 0.0, 5.0, 10.0)

    assert breaker.state == "open"


def test_a_failure_older_than_the_window_no_longer_counts() -> None:
    breaker = CircuitBreaker(POLICY)
    fail(breaker, 0.0, 5.0, 10.001)

    assert (breaker.state, breaker.failures) == ("closed", (5.0, 10.001))


def test_a_success_while_it_is_closed_forgets_no_failure() -> None:
    breaker = CircuitBreaker(POLICY)
    fail(breaker, 1.0, 2.0)
    changed = breaker.succeeded(breaker.begin(3.0), 3.0)
    fail(breaker, 4.0)

    assert not changed
    assert breaker.state == "open"


def test_cancelled_attempts_count_as_neither_success_nor_failure() -> None:
    breaker = CircuitBreaker(POLICY)
    fail(breaker, 1.0, 2.0)
    for _ in range(10):
        breaker.neutral(breaker.begin(3.0))

    assert (breaker.state, breaker.failures) == ("closed", (1.0, 2.0))


def test_it_admits_a_probe_once_the_cooldown_is_over_and_not_a_moment_sooner() -> None:
    breaker = opened(100.0)

    assert not breaker.admits(104.999)
    assert breaker.retry_in_s(104.0) == 1.0
    assert breaker.admits(105.0)
    assert breaker.retry_in_s(105.0) == 0.0


def test_looking_does_not_take_the_probe() -> None:
    breaker = opened(100.0)

    assert all(breaker.admits(105.0) for _ in range(20))
    assert breaker.state == "open"


def test_of_twenty_that_come_at_once_after_the_cooldown_one_is_admitted() -> None:
    breaker = opened(100.0)
    admitted = 0
    for _ in range(20):
        if breaker.admits(105.0):
            admitted += 1
            breaker.begin(105.0)

    assert admitted == 1
    assert breaker.state == "half_open"


def test_while_the_probe_is_under_way_the_wait_is_a_whole_cooldown() -> None:
    breaker = opened(100.0)
    breaker.begin(105.0)

    assert breaker.retry_in_s(1_000.0) == POLICY.cooldown_s


def test_the_success_of_the_probe_closes_it_and_forgets_all_failures() -> None:
    breaker = opened(100.0)
    breaker.succeeded(breaker.begin(105.0), 106.0)

    assert (breaker.state, breaker.failures, breaker.opened_at) == ("closed", (), None)


def test_the_failure_of_the_probe_opens_it_for_a_new_cooldown() -> None:
    breaker = opened(100.0)
    changed = breaker.failed(breaker.begin(105.0), 107.0)

    assert changed
    assert (breaker.state, breaker.opened_at) == ("open", 107.0)
    assert not breaker.admits(111.999)
    assert breaker.admits(112.0)


def test_a_cancelled_probe_is_given_back_at_once() -> None:
    breaker = opened(100.0)
    probe = breaker.begin(105.0)
    busy = breaker.admits(106.0)
    breaker.neutral(probe)

    assert not busy
    assert breaker.state == "half_open"
    assert breaker.admits(106.0)
    assert breaker.retry_in_s(106.0) == 0.0


def test_a_cancelled_probe_that_is_told_of_late_decides_nothing_any_more() -> None:
    breaker = opened(100.0)
    first = breaker.begin(105.0)
    breaker.neutral(first)
    breaker.begin(106.0)

    breaker.succeeded(first, 107.0)
    assert not breaker.failed(first, 107.0)
    assert breaker.state == "half_open"
    assert not breaker.admits(107.0)


@pytest.mark.parametrize("late", ["succeeded", "failed", "neutral"])
def test_a_late_end_from_before_the_trip_changes_nothing(late: str) -> None:
    breaker = CircuitBreaker(POLICY)
    old = breaker.begin(99.0)
    fail(breaker, 100.0, 100.0, 100.0)
    getattr(breaker, late)(old, *(() if late == "neutral" else (101.0,)))
    breaker.begin(105.0)
    getattr(breaker, late)(old, *(() if late == "neutral" else (106.0,)))

    assert (breaker.state, breaker.opened_at, breaker.failures) == ("half_open", 100.0, (100.0, 100.0, 100.0))
    assert not breaker.admits(106.0)


def test_a_late_failure_from_before_the_trip_does_not_count_once_it_is_closed_again() -> None:
    breaker = CircuitBreaker(POLICY)
    old = breaker.begin(99.0)
    fail(breaker, 100.0, 100.0, 100.0)
    breaker.succeeded(breaker.begin(105.0), 105.0)

    assert not breaker.failed(old, 106.0)
    assert breaker.failures == ()


def test_the_end_of_a_probe_counts_once() -> None:
    breaker = opened(100.0)
    probe = breaker.begin(105.0)
    breaker.succeeded(probe, 106.0)

    assert not breaker.failed(probe, 107.0)
    assert (breaker.state, breaker.failures) == ("closed", ())


def test_an_attempt_that_was_not_admitted_decides_nothing() -> None:
    breaker = opened(100.0)
    pushed_through = breaker.begin(101.0)
    breaker.begin(105.0)
    second_probe = breaker.begin(105.0)

    assert not breaker.succeeded(pushed_through, 106.0)
    assert not breaker.succeeded(second_probe, 106.0)
    assert not breaker.failed(second_probe, 106.0)
    assert breaker.state == "half_open"


def test_a_worker_that_fails_every_probe_for_ever_keeps_a_bounded_list() -> None:
    breaker = CircuitBreaker(Breaker(failure_threshold=3, window_s=1e9, cooldown_s=1.0))
    fail(breaker, *(float(now) for now in range(1_000)))

    assert breaker.failures == (997.0, 998.0, 999.0)


@pytest.mark.parametrize(("opened_at", "cooldown", "now"), [(0.1, 0.7, 0.2), (0.2, 5.0, 1.1), (0.2, 30.0, 4.4)])
def test_a_wait_is_long_enough_also_where_the_sum_is_rounded_down(
    opened_at: float, cooldown: float, now: float
) -> None:
    breaker = CircuitBreaker(Breaker(failure_threshold=1, cooldown_s=cooldown))
    fail(breaker, opened_at)

    assert now + (opened_at + cooldown - now) < opened_at + cooldown
    assert breaker.admits(now + breaker.retry_in_s(now))


@given(
    opened_at=st.floats(0.0, 2e9),
    cooldown=st.floats(1e-6, 1e9),
    share=st.floats(0.0, 1.0),
)
def test_waiting_as_long_as_it_says_is_always_enough(opened_at: float, cooldown: float, share: float) -> None:
    breaker = CircuitBreaker(Breaker(failure_threshold=1, cooldown_s=cooldown))
    fail(breaker, opened_at)
    now = opened_at + cooldown * share
    wait = breaker.retry_in_s(now)

    assert breaker.admits(now + wait)
    assert wait <= cooldown + 1e-6
    assert (wait == 0.0) is breaker.admits(now)


def ends(breaker: CircuitBreaker, signs: str, now: float = 1.0) -> CircuitBreaker:
    """One end for each sign: ``x`` failed, ``.`` went well."""
    for sign in signs:
        (breaker.failed if sign == "x" else breaker.succeeded)(breaker.begin(now), now)
    return breaker


@pytest.mark.parametrize(
    ("rate", "signs", "state"),
    [
        (0.5, "xxx", "open"),
        (0.5, "xx", "closed"),
        (0.5, "...xxx", "open"),
        (0.5, "....xxx", "closed"),
        (0.5, "....xxxx", "open"),
        (0.5, "xx....x", "closed"),
        (0.5, "xx....xx", "open"),
        (0.02, "." * 100 + "xxx", "open"),
        (1.0, ".xxxx", "closed"),
        (1.0, "xxx", "open"),
        (0.0, "." * 100 + "xxx", "open"),
    ],
)
def test_it_opens_on_a_number_of_failures_that_is_a_share_of_what_ended(rate: float, signs: str, state: str) -> None:
    policy = Breaker(failure_threshold=3, window_s=10.0, failure_rate=rate)

    assert ends(CircuitBreaker(policy), signs).state == state


def test_what_ended_before_the_window_is_no_part_of_the_share() -> None:
    breaker = ends(CircuitBreaker(POLICY), "." * 50, now=1.0)

    assert ends(breaker, "xxx", now=13.0).state == "open"


def test_of_a_million_ends_a_few_numbers_are_kept() -> None:
    breaker = CircuitBreaker(POLICY)
    for now in range(1_000):
        ends(breaker, "...x", now=now * 0.1)

    assert len(breaker.ended) <= 12
    assert sum(each[1] for each in breaker.ended) < 600


def test_the_attempts_of_one_subtask_count_once() -> None:
    breaker = CircuitBreaker(POLICY)
    changed = [breaker.failed(breaker.begin(1.0), 1.0)]
    changed += [breaker.failed(breaker.begin(at), at, counted=1.0) for at in (2.0, 3.0, 4.0)]
    breaker.succeeded(breaker.begin(5.0), 5.0, counted=1.0)

    assert changed == [True, False, False, False]
    assert (breaker.state, breaker.failures, breaker.ended) == ("closed", (1.0,), [[1.0, 1, 1]])


@pytest.mark.parametrize("counted", [1.0, None])
def test_a_failure_that_is_older_than_the_window_is_counted_anew(counted: float | None) -> None:
    breaker = CircuitBreaker(POLICY)
    breaker.failed(breaker.begin(1.0), 1.0)

    assert breaker.failed(breaker.begin(11.5), 11.5, counted=counted)
    assert breaker.failures == (11.5,)


def test_a_failure_of_before_it_was_closed_is_counted_anew() -> None:
    breaker = opened(100.0)
    breaker.succeeded(breaker.begin(105.0), 105.0)

    assert breaker.failed(breaker.begin(106.0), 106.0, counted=100.0)


def test_a_probe_that_fails_opens_it_though_its_subtask_was_counted_before() -> None:
    breaker = opened(100.0)

    assert breaker.failed(breaker.begin(105.0), 106.0, counted=100.0)
    assert (breaker.state, breaker.opened_at) == ("open", 106.0)


class _Walk(RuleBasedStateMachine):
    """Any order of beginnings, ends, waits and restores; the model knows attempts and not tokens."""

    attempts = Bundle("attempts")

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.breaker = CircuitBreaker(POLICY.model_copy(update={"failure_rate": 0.0}))  # the number alone decides
        self.started = 0
        self.state = "closed"
        self.failures: list[float] = []
        self.opened_at: float | None = None
        self.counting: set[int] = set()
        self.probe: int | None = None

    def _admits(self) -> bool:
        if self.state == "open":
            assert self.opened_at is not None
            return self.now - self.opened_at >= 5.0
        return self.state == "closed" or self.probe is None

    @rule(seconds=st.sampled_from([0.5, 1.0, 4.5, 5.0, 10.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(target=attempts)
    def begin(self) -> tuple[int, int]:
        self.started += 1
        if self._admits():
            if self.state == "closed":
                self.counting.add(self.started)
            else:
                self.state, self.probe = "half_open", self.started
        return self.started, self.breaker.begin(self.now)

    @rule(attempt=attempts, how=st.sampled_from(["succeeded", "failed", "failed", "failed", "neutral"]))
    def end(self, attempt: tuple[int, int], how: str) -> None:
        number, token = attempt
        if number == self.probe:
            self._end_of_probe(how)
        elif number in self.counting and how == "failed":
            self.failures = [at for at in self.failures if self.now - at <= 10.0] + [self.now]
            if len(self.failures) >= 3:
                self._trip()
        getattr(self.breaker, how)(token, *(() if how == "neutral" else (self.now,)))

    def _end_of_probe(self, how: str) -> None:
        self.probe = None
        if how == "succeeded":
            self.state, self.failures, self.opened_at = "closed", [], None
        elif how == "failed":
            self.failures = ([at for at in self.failures if self.now - at <= 10.0] + [self.now])[-3:]
            self._trip()

    def _trip(self) -> None:
        self.state, self.opened_at = "open", self.now
        self.counting = set()

    @invariant()
    def it_is_as_the_model_says(self) -> None:
        assert self.breaker.state == self.state
        assert list(self.breaker.failures) == self.failures
        assert self.breaker.opened_at == self.opened_at
        assert self.breaker.admits(self.now) is self._admits()
        assert (self.breaker.retry_in_s(self.now) == 0.0) is self._admits()


TestAnyOrder = _Walk.TestCase
