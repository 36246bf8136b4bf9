"""What the end of an attempt means: done, a failure of its own, or nobody's failure. Pure, but for looking at it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, TypeAlias

from actors.errors import ActorStoppedError, Escalated, Failed, Later, RecursionDetectedError, Rejected
from actors.fields import MAX_SECONDS
from actors.tasks.attempt import STOP, Attempt
from actors.tasks.errors import (
    AttemptTimeoutError,
    BudgetExceededError,
    LeaseLostError,
    Phase,
    SubtaskFailedError,
    TaskFailedError,
    TeamFailedError,
)
from actors.tasks.outcome import Done, Failure, Kind
from actors.tasks.perform import InvalidResultError
from actors.tasks.task import Usage


class _Neutral(Enum):
    """Ended for reasons of others: no failure, and no attempt."""

    NEUTRAL = "neutral"


_OF_OTHERS: Final = (SubtaskFailedError, TaskFailedError, TeamFailedError)
Neutral: TypeAlias = _Neutral
NEUTRAL: Final = _Neutral.NEUTRAL
_NO_SECONDS: Final = Failed("Later(after_s) takes a number of seconds", retryable=False)
Outcome: TypeAlias = Done | Failure | Neutral | Later


def classify(attempt: Attempt, limit_of: Callable[[str], float] = lambda _: 0.0) -> Outcome:
    """What its end means; ``limit_of`` a field's name is how long it could be at something."""
    error = attempt.error
    if error is None:
        return _within_budget(attempt)
    if attempt.is_own_error and not (attempt.ended_by == STOP and isinstance(error, ActorStoppedError)):
        return _own(attempt, attempt.caught or error)
    if attempt.ended_by in {"timeout", "idle"}:
        phase: Phase = "running" if attempt.ended_by == "timeout" else "idle"
        limit_s = limit_of("timeout_s" if phase == "running" else "idle_timeout_s")
        number = attempt.context.attempt if attempt.context is not None else 1
        return Failure(Kind.TIMEOUT, AttemptTimeoutError(attempt.subtask.id, number, phase, limit_s), counts=True)
    return NEUTRAL


def _within_budget(attempt: Attempt) -> Done | Failure:
    done: Done = attempt.value
    budget = attempt.subtask.budget
    if budget is None:
        return done
    ran = attempt.desk.system.now() - attempt.started if attempt.started is not None else 0.0
    over = budget.exceeded_by(done.usage + Usage(seconds=max(0.0, ran)))
    if not over:
        return done
    return Failure(Kind.INVALID, BudgetExceededError(attempt.task, f"{attempt.subtask.id}: {over}"), retryable=False)


def _is_seconds(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value <= MAX_SECONDS


def _own(attempt: Attempt, error: BaseException) -> Outcome:  # noqa: PLR0911 - a table
    """What left the worker's code."""
    if isinstance(error, LeaseLostError):
        return NEUTRAL  # its process may not lead any more: whoever leads runs it again
    if isinstance(error, Later):
        return error if _is_seconds(error.after_s) else Failure(Kind.FAILED, _NO_SECONDS, retryable=False)
    if isinstance(error, Rejected):
        return Failure(Kind.REJECTED, error)
    if isinstance(error, Escalated):
        return Failure(Kind.ESCALATED, error, question=error.question)
    of_other = isinstance(error, _OF_OTHERS) and error.kind == Kind.RECURSION
    if of_other or isinstance(error, RecursionDetectedError):
        return Failure(Kind.RECURSION, error, retryable=False)
    if isinstance(error, InvalidResultError):
        return Failure(Kind.INVALID, error)
    if attempt.crashed:
        return Failure(Kind.CRASHED, error, counts=True)
    retryable = error.retryable if isinstance(error, Failed) else True
    return Failure(Kind.FAILED, error, retryable=retryable, counts=_says_something_of_the_worker(error))


def _says_something_of_the_worker(error: BaseException) -> bool:
    """False where the request was at fault, or somebody else who had a part in it."""
    if isinstance(error, TeamFailedError):
        return error.retryable
    return not isinstance(error, (Failed, *_OF_OTHERS))
