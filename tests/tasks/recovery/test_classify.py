"""What the end of an attempt means, on attempts that nobody ever ran."""

from __future__ import annotations

from typing import Any

import pytest

from actors.messaging.message_errors import ActorStoppedError
from actors.model.errors import Escalated, Failed, Later, RecursionDetectedError, Rejected, WorkerCrashedError
from actors.tasks.execution.attempt import Attempt, AttemptEnded
from actors.tasks.execution.attempt_spec import AttemptOutcome, AttemptSpec
from actors.tasks.execution.error_facts import error_facts
from actors.tasks.execution.run_attempt import InvalidResultError
from actors.tasks.model.outcome import Done, Failure, FailureKind
from actors.tasks.model.task import Budget, Subtask, Usage
from actors.tasks.model.task_errors import (
    AttemptTimeoutError,
    BudgetExceededError,
    SubtaskFailedError,
    TeamFailedError,
)
from actors.tasks.recovery.classify import NEUTRAL, classify


class Nobody:
    """Hears of the ends of attempts, and does nothing."""

    def post(self, message: object) -> bool:
        return message is not None


def attempt(budget: Budget | None = None) -> Attempt:
    desk: Any = Nobody()
    return Attempt(AttemptSpec("t/s#1.1", desk, "t", Subtask(id="s", budget=budget), "w", "r/w"))


def raised(error: BaseException, *, crashed: bool = False) -> Attempt:
    """Its code let this out."""
    made = attempt()
    made.note(AttemptOutcome(error, crashed))
    told = error
    if crashed:
        told = WorkerCrashedError("r/w", type(error).__name__)
        told.__cause__ = error
    made.fail(told)
    return made


def failure(made: Attempt, **limits: float) -> Failure:
    outcome = classify(made, limits.__getitem__)
    assert isinstance(outcome, Failure)
    return outcome


def test_what_was_completed_is_done() -> None:
    made = attempt()
    made.complete(Done("value"))

    assert classify(made) == Done("value")


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("why", ["timeout", "idle", "withdrawn", "cancel", "stop"])
def test_code_that_fails_of_a_step_which_its_end_forbade_has_ended_as_it_was_ended(why: str, wrapped: bool) -> None:
    forbidden: Exception = AttemptEnded(why)
    error = RuntimeError("of a framework") if wrapped else forbidden
    error.__cause__ = forbidden if wrapped else None
    made = attempt()
    made.note(AttemptOutcome(error, said=error_facts(error, crashed=False)))
    made.end_for(why)
    made.fail(error)

    outcome = classify(made, {"timeout_s": 1.0, "idle_timeout_s": 1.0}.__getitem__)
    if why in {"timeout", "idle"}:
        assert isinstance(outcome, Failure)
        assert (outcome.kind, outcome.counts) == (FailureKind.TIMEOUT, True)
    else:
        assert outcome is NEUTRAL


def test_code_that_fails_of_a_step_and_was_not_ended_has_failed() -> None:
    assert failure(raised(AttemptEnded("cancel"))).kind is FailureKind.FAILED


@pytest.mark.parametrize(
    ("error", "crashed", "kind", "retryable", "counts"),
    [
        (ValueError("no"), False, FailureKind.FAILED, True, True),
        (Failed("no"), False, FailureKind.FAILED, True, False),
        (Failed("no", retryable=False), False, FailureKind.FAILED, False, False),
        (ValueError("no"), True, FailureKind.CRASHED, True, True),
        (SystemExit(1), True, FailureKind.CRASHED, True, True),
        (InvalidResultError("no"), False, FailureKind.INVALID, True, False),
        (Rejected(), False, FailureKind.REJECTED, True, False),
        (Escalated("may I?"), False, FailureKind.ESCALATED, True, False),
        (RecursionDetectedError(("r/a", "r/a")), False, FailureKind.RECURSION, False, False),
        (RecursionDetectedError(("r/a", "r/a")), True, FailureKind.RECURSION, False, False),
        (SubtaskFailedError("t", "s", "no", kind=FailureKind.RECURSION), False, FailureKind.RECURSION, False, False),
        (SubtaskFailedError("t", "s", "no", kind=FailureKind.CRASHED), False, FailureKind.FAILED, True, False),
        (TeamFailedError("no"), False, FailureKind.FAILED, True, True),
        (TeamFailedError("no", retryable=False), False, FailureKind.FAILED, False, False),
    ],
)
def test_what_left_the_code_is_a_failure_of_its_kind(
    error: BaseException, crashed: bool, kind: FailureKind, retryable: bool, counts: bool
) -> None:
    outcome = failure(raised(error, crashed=crashed))

    assert (outcome.kind, outcome.retryable, outcome.counts) == (kind, retryable, counts)
    assert outcome.error is error


def test_the_question_of_a_worker_goes_with_its_failure() -> None:
    assert failure(raised(Escalated("may I?"))).question == "may I?"


def test_later_is_no_failure() -> None:
    found = classify(raised(Later(3.0, "the model is busy")))

    assert isinstance(found, Later)
    assert (found.after_s, found.why) == (3.0, "the model is busy")


@pytest.mark.parametrize(("ended_by", "phase", "limit_s"), [("timeout", "running", 5.0), ("idle", "idle", 2.0)])
def test_a_timeout_names_its_phase_and_its_limit(ended_by: str, phase: str, limit_s: float) -> None:
    made = attempt()
    made.end_for(ended_by)
    made.fail(AttemptEnded(ended_by))
    outcome = failure(made, timeout_s=5.0, idle_timeout_s=2.0)

    assert (outcome.kind, outcome.counts, outcome.retryable) == (FailureKind.TIMEOUT, True, True)
    assert isinstance(outcome.error, AttemptTimeoutError)
    assert (outcome.error.subtask, outcome.error.phase, outcome.error.limit_s) == ("s", phase, limit_s)


@pytest.mark.parametrize("ended_by", ["cancel", "preempt", "stop", "withdrawn"])
def test_what_was_ended_by_others_is_neutral(ended_by: str) -> None:
    made = attempt()
    made.end_for(ended_by)
    made.fail(AttemptEnded(ended_by))

    assert classify(made) is NEUTRAL


def test_an_attempt_whose_worker_was_stopped_is_neutral() -> None:
    made = attempt()
    made.fail(ActorStoppedError("r/w", "was stopped"))

    assert classify(made) is NEUTRAL


def test_an_error_of_its_own_counts_also_where_it_was_being_ended() -> None:
    error = ValueError("no")
    made = attempt()
    made.end_for("timeout")
    made.note(AttemptOutcome(error))
    made.fail(error)

    assert failure(made).kind is FailureKind.FAILED


def test_what_was_caught_before_its_worker_died_of_something_else_does_not_count() -> None:
    made = attempt()
    made.note(AttemptOutcome(ValueError("no")))
    made.fail(ActorStoppedError("r/w", "was killed"))

    assert classify(made) is NEUTRAL


def test_a_result_over_its_subtasks_budget_is_a_failure_that_is_not_tried_again() -> None:
    made = attempt(Budget(tokens=100))
    made.use(Usage(tokens=120))
    made.complete(Done("value", made.used))
    outcome = failure(made)

    assert (outcome.kind, outcome.retryable) == (FailureKind.INVALID, False)
    assert isinstance(outcome.error, BudgetExceededError)
    assert "tokens 120 of 100" in str(outcome.error)


def test_a_result_within_its_budget_is_done() -> None:
    made = attempt(Budget(tokens=100))
    made.use(Usage(tokens=100))
    made.complete(Done("value", made.used))

    assert classify(made) == Done("value", Usage(tokens=100))
