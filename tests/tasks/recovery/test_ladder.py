"""The next rung after a failed attempt: pure, so no tree and no clock."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.model.errors import Escalated, Failed, RecursionDetectedError
from actors.tasks.model.outcome import Failure, FailureKind
from actors.tasks.model.policy import Escalate, Failover, Ladder, Retry, Rung, RungFacts
from actors.tasks.model.task_errors import AttemptTimeoutError, BreakerOpenError
from actors.tasks.model.task_events import LadderPosition
from actors.tasks.recovery.ladder import AskPerson, Decision, GiveUp, TryAgain, asked_for, decide

PLAIN = Retry(max_attempts=3, initial_s=1.0, factor=2.0, max_s=30.0, jitter=0.0)


class Always:
    """A source of randomness that is none."""

    def __init__(self, value: float = 0.0) -> None:
        self._value = value

    def random(self) -> float:
        return self._value


def failed(error: BaseException | None = None, kind: FailureKind = FailureKind.FAILED, **words: Any) -> Failure:
    return Failure(kind, error or ValueError("no"), **words)


def among(*workers: str) -> Callable[[tuple[str, ...]], str | None]:
    return lambda tried: next((worker for worker in workers if worker not in tried), None)


def step(
    ladder: Ladder,
    standing: LadderPosition | None = None,
    failure: Failure | None = None,
    worker: str | None = "a",
    workers: tuple[str, ...] = ("a",),
) -> Decision:
    return decide(ladder, standing or LadderPosition(), failure or failed(), worker, among(*workers), Always())


def climb(ladder: Ladder, workers: tuple[str, ...] = ("a",), failure: Failure | None = None) -> list[str]:
    """Who has the attempts, one after the other, where each of them fails; an ask is never answered."""
    had, standing = [], LadderPosition()
    while True:
        worker = standing.target or workers[0]
        had.append(worker)
        decision = step(ladder, standing, failure, worker, workers)
        while isinstance(decision, AskPerson):
            had.append("?")
            after = LadderPosition(decision.standing.rung + 1, 0, decision.standing.target, decision.standing.tried)
            decision = step(ladder, after, failed(kind=FailureKind.UNANSWERED), worker, workers)
        if isinstance(decision, GiveUp):
            return had
        standing = decision.standing


def test_attempts_are_counted_with_the_first() -> None:
    assert climb((PLAIN,)) == ["a", "a", "a"]
    assert climb((Retry(max_attempts=1),)) == ["a"]


def test_without_a_rung_there_is_one_attempt() -> None:
    assert climb(()) == ["a"]


def test_each_delay_is_the_factor_longer_up_to_the_longest() -> None:
    rung = Retry(initial_s=0.5, factor=3.0, max_s=4.0, jitter=0.0)

    assert [rung.delay_s(tries, Always()) for tries in (1, 2, 3, 4, 10_000)] == [0.5, 1.5, 4.0, 4.0, 4.0]


@given(tries=st.integers(1, 100), luck=st.floats(0, 1, exclude_max=True), jitter=st.floats(0, 1))
def test_jitter_only_adds_and_never_more_than_its_share(tries: int, luck: float, jitter: float) -> None:
    rung = Retry(initial_s=0.5, max_s=30.0, jitter=jitter)
    base = rung.model_copy(update={"jitter": 0.0}).delay_s(tries, Always(luck))

    assert base <= rung.delay_s(tries, Always(luck)) <= base * (1 + jitter) + 1e-9


def test_the_delay_of_the_decision_is_that_of_the_attempts_so_far() -> None:
    first = step((PLAIN,))
    assert isinstance(first, TryAgain)
    second = step((PLAIN,), first.standing)
    assert isinstance(second, TryAgain)

    assert (first.delay_s, second.delay_s) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ConnectionError(), True),
        (ConnectionResetError(), True),
        (ValueError(), False),
        (Failed(ConnectionError()), True),
        (Failed(ValueError()), False),
        (Failed("connection lost"), False),
        (SystemExit(), False),
    ],
    ids=repr,
)
def test_only_what_retry_on_names_is_tried_again_also_inside_of_failed(error: BaseException, again: bool) -> None:
    decision = step((Retry(retry_on=(ConnectionError,)),), failure=failed(error))

    assert isinstance(decision, TryAgain) is again


@pytest.mark.parametrize("error", [ValueError(), Failed(ValueError()), UnicodeError()], ids=repr)
def test_what_give_up_on_names_is_not_tried_again_though_retry_on_names_it_too(error: BaseException) -> None:
    ladder = (Retry(retry_on=(Exception,), give_up_on=(ValueError,)),)

    assert isinstance(step(ladder, failure=failed(error)), GiveUp)
    assert isinstance(step(ladder, failure=failed(OSError())), TryAgain)


def test_a_crash_by_what_is_no_exception_is_tried_again_where_everything_is() -> None:
    assert isinstance(step((Retry(),), failure=failed(SystemExit(3), FailureKind.CRASHED)), TryAgain)


def test_a_timeout_can_be_named_as_timeout_error() -> None:
    late = failed(AttemptTimeoutError("a", 1, "running", 1.0), FailureKind.TIMEOUT)

    assert isinstance(step((Retry(retry_on=(TimeoutError,)),), failure=late), TryAgain)
    assert isinstance(step((Retry(give_up_on=(TimeoutError,)),), failure=late), GiveUp)


def test_what_says_that_it_would_fail_again_skips_retry_but_not_the_next_rungs() -> None:
    hopeless = failed(Failed("no", retryable=False), retryable=False)

    assert isinstance(step((PLAIN,), failure=hopeless), GiveUp)
    assert climb((PLAIN, Failover()), ("a", "b"), hopeless) == ["a", "b"]
    assert isinstance(step((PLAIN, Escalate()), failure=hopeless), AskPerson)


def test_failover_gives_the_next_worker_fresh_tries() -> None:
    assert climb((Retry(max_attempts=2, initial_s=0), Failover()), ("a", "b", "c")) == ["a", "a", "b", "b", "c", "c"]


def test_failover_is_at_once() -> None:
    decision = step((Failover(),), workers=("a", "b"))
    assert isinstance(decision, TryAgain)

    assert (decision.delay_s, decision.standing.target) == (0.0, "b")


def test_a_recursion_is_neither_tried_again_nor_given_to_another() -> None:
    circle = failed(RecursionDetectedError(("p/a", "p/b", "p/a")), FailureKind.RECURSION, retryable=False)

    assert isinstance(step((PLAIN, Failover()), failure=circle, workers=("a", "b")), GiveUp)


def test_no_breaker_that_admits_is_an_attempt_that_may_be_tried_again() -> None:
    nobody = failed(BreakerOpenError("x", ("a",), 3.0), FailureKind.BREAKER)

    assert isinstance(step((PLAIN,), failure=nobody, worker=None), TryAgain)
    assert isinstance(step((Retry(give_up_on=(BreakerOpenError,)),), failure=nobody, worker=None), GiveUp)


def test_two_retries_in_a_row_count_each_for_itself() -> None:
    network = Retry(max_attempts=2, initial_s=1.0, jitter=0.0, retry_on=(ConnectionError,))
    anything = Retry(max_attempts=3, initial_s=7.0, jitter=0.0)
    first = step((network, anything), failure=failed(ConnectionError()))
    assert isinstance(first, TryAgain)
    second = step((network, anything), first.standing, failed(ConnectionError()))
    assert isinstance(second, TryAgain)

    assert (first.standing.rung, first.delay_s) == (0, 1.0)
    assert (second.standing.rung, second.standing.tries, second.delay_s) == (1, 1, 7.0)


def test_the_rungs_are_climbed_in_their_order_to_the_last() -> None:
    assert climb((Retry(max_attempts=2), Failover(), Escalate(timeout_s=1), Retry(max_attempts=2)), ("a", "b")) == [
        *["a", "a", "b", "b", "?", "b"]
    ]


def test_after_a_persons_word_there_is_one_attempt_and_then_the_next_rung() -> None:
    ladder = (Escalate(question="first?"), Retry(max_attempts=2, initial_s=3.0, jitter=0.0), Escalate("second?"))
    vouched = LadderPosition(rung=0, last_chance=True)
    decision = step(ladder, vouched)
    assert isinstance(decision, TryAgain)
    last = step(ladder, LadderPosition(rung=2, last_chance=True))

    assert (decision.standing.rung, decision.standing.last_chance, decision.delay_s) == (1, False, 3.0)
    assert isinstance(last, GiveUp)


def test_a_question_is_that_of_the_rung_before_that_of_the_worker() -> None:
    asked = failed(Escalated("worker's?"), FailureKind.ESCALATED, question="worker's?")
    own, worker = step((Escalate("rung's?"),), failure=asked), step((Escalate(),), failure=asked)
    assert isinstance(own, AskPerson)
    assert isinstance(worker, AskPerson)

    assert (own.question, worker.question) == ("rung's?", "worker's?")


def test_a_worker_that_asks_for_a_person_skips_to_the_next_escalate() -> None:
    ask = asked_for((PLAIN, Failover(), Escalate(timeout_s=9)), LadderPosition(tries=1), "may I?")
    assert ask is not None

    assert (ask.question, ask.timeout_s, ask.standing.rung) == ("may I?", 9, 2)


def test_a_worker_that_asks_where_no_escalate_is_left_gets_none() -> None:
    assert asked_for((PLAIN, Failover()), LadderPosition(), "may I?") is None
    assert asked_for((Escalate(), PLAIN), LadderPosition(rung=1), "may I?") is None


def test_a_worker_that_asks_again_after_an_answer_gets_the_same_rung_while_it_has_questions_left() -> None:
    ladder = (Escalate("one?", max_questions=2), PLAIN, Escalate("two?"))
    first = asked_for(ladder, LadderPosition(), "may I?")
    assert first is not None
    second = asked_for(ladder, replace(first.standing, last_chance=True), "again?")
    assert second is not None
    third = asked_for(ladder, replace(second.standing, last_chance=True), "again?")
    assert third is not None

    places = [(ask.question, ask.standing.rung, ask.standing.questions) for ask in (first, second, third)]
    assert places == [("one?", 0, 1), ("one?", 0, 2), ("two?", 2, 1)]
    assert not any(ask.standing.last_chance for ask in (first, second, third))
    assert asked_for(ladder[:1], replace(second.standing, last_chance=True), "again?") is None


def test_a_failure_that_nobody_is_to_be_asked_about_passes_the_rungs_that_ask() -> None:
    asked = failed(Escalated("again?"), FailureKind.ESCALATED, may_ask=False)

    assert isinstance(step((Escalate(),), failure=asked), GiveUp)
    assert isinstance(step((Escalate(), Failover()), failure=asked, workers=("a", "b")), TryAgain)


@given(
    ladder=st.lists(
        st.one_of(st.builds(Retry, max_attempts=st.integers(1, 3), initial_s=st.just(0.0)), st.just(Failover())),
        max_size=5,
    ),
    count=st.integers(1, 4),
)
def test_every_ladder_comes_to_an_end_and_gives_no_worker_more_than_all_retries_together(
    ladder: list[Retry | Failover], count: int
) -> None:
    workers = tuple("abcd"[:count])
    had = climb(tuple(ladder), workers)
    most = 1 + sum(rung.max_attempts for rung in ladder if isinstance(rung, Retry))

    assert all(had.count(worker) <= most for worker in workers)
    assert had == sorted(had)
    assert set(had) == (set(workers) if any(isinstance(rung, Failover) for rung in ladder) else {"a"})


class Here(Rung, frozen=True, kw_only=False):
    """A rung of a kind that nobody else knows: tries again, so many times, and remembers nothing else."""

    times: int = 1

    def next(self, position: LadderPosition, failure: Failure, facts: RungFacts) -> Decision | None:
        if position.tries == self.times:
            return None
        return TryAgain(0.0, replace(position, tries=position.tries + 1))


@pytest.mark.parametrize(
    ("ladder", "had"),
    [
        ((Here(2),), ["a", "a", "a"]),
        ((Here(1), Here(2)), ["a", "a", "a", "a"]),
        ((Here(1), Failover()), ["a", "a", "b", "b"]),
        ((Here(1), Escalate(), Here(1)), ["a", "a", "?", "a"]),
        ((Rung(), Here(1)), ["a", "a"]),
    ],
    ids=["alone", "twice", "then another worker", "around a person", "after one that does nothing"],
)
def test_a_rung_decides_by_itself_whatever_kind_it_is_of(ladder: Ladder, had: list[str]) -> None:
    assert climb(ladder, workers=("a", "b")) == had
    assert asked_for((*ladder, Escalate("well?")), LadderPosition(), "may I?") is not None
