"""Classification of the end of an attempt: done, a failure of its own, or neutral. Pure, but for looking at it.

An error that leaves user code is looked at once, by ``error_facts``, where that code runs
(``actors.tasks.execution.run_attempt``): its text, its question, what ``retryable`` says and all else that may run the
user's code becomes plain data there. Whatever raises while it is looked at makes of it an ``UnreadableError``. The
orchestrator never touches the error itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from actors.messaging.message_errors import ActorStoppedError
from actors.model.errors import Escalated, Failed, Later, RecursionDetectedError, Rejected
from actors.tasks.model.attempt_end import LOST, STOP
from actors.tasks.model.outcome import Done, Failure, FailureKind, InvalidResultError, name_of, plain_text, text_of
from actors.tasks.model.task import NO_USAGE, Usage, usage_of
from actors.tasks.model.task_errors import (
    AttemptLostError,
    AttemptTimeoutError,
    BudgetExceededError,
    LeaseLostError,
    NoCapableWorkerError,
    SubtaskFailedError,
    TaskFailedError,
    TeamFailedError,
    TimeoutPhase,
)
from actors.validation.field_types import MAX_SECONDS

if TYPE_CHECKING:
    from actors.tasks.execution.attempt import Attempt


class _Neutral(Enum):
    """Ended for reasons of others: no failure, and no attempt."""

    NEUTRAL = "neutral"


_OF_OTHERS: Final = (SubtaskFailedError, TaskFailedError, TeamFailedError)
Neutral: TypeAlias = _Neutral
NEUTRAL: Final = _Neutral.NEUTRAL
_NO_SECONDS: Final = Failed("Later(after_s) takes a number of seconds", retryable=False)
Outcome: TypeAlias = Done | Failure | Neutral | Later


def classify(attempt: Attempt, limit_of: Callable[[str], float] = lambda _: 0.0, before: Usage = NO_USAGE) -> Outcome:
    """Classify the end of an attempt; ``limit_of`` gives the seconds of a limit by the name of its field.

    A budget of a subtask is for all of its attempts together: ``before`` is what is recorded of them by now. Once it is
    used up nothing is tried again, however this one has ended.
    """
    outcome = _outcome(attempt, limit_of)
    over = _over_budget(attempt, before) if isinstance(outcome, (Done, Failure)) else ""
    if not over:
        return outcome
    if isinstance(outcome, Failure):
        told = f"{outcome.told or text_of(outcome.error)}; its budget is used up: {over}"
        return replace(outcome, over_budget=True, told=told)
    error = BudgetExceededError(attempt.task, f"{attempt.subtask.id}: {over}")
    return Failure(FailureKind.INVALID, error, retryable=False, over_budget=True)


def _outcome(attempt: Attempt, limit_of: Callable[[str], float]) -> Outcome:
    error = attempt.error
    if error is None:
        done: Done = attempt.value
        return done
    if attempt.is_own_error and not (attempt.ended_by == STOP and isinstance(error, ActorStoppedError)):
        return (
            attempt.said if attempt.said is not None else error_facts(attempt.caught or error, crashed=attempt.crashed)
        )
    if attempt.ended_by in {"timeout", "idle"}:
        phase: TimeoutPhase = "running" if attempt.ended_by == "timeout" else "idle"
        limit_s = limit_of("timeout_s" if phase == "running" else "idle_timeout_s")
        number = attempt.values.number
        return Failure(
            FailureKind.TIMEOUT, AttemptTimeoutError(attempt.subtask.id, number, phase, limit_s), counts=True
        )
    if attempt.ended_by == LOST:
        return Failure(FailureKind.LOST, AttemptLostError(attempt.subtask.id, attempt.losses), counts=True)
    return NEUTRAL


def _over_budget(attempt: Attempt, before: Usage) -> str:
    """Parts of its subtask's budget that are used up, and how far."""
    budget = attempt.subtask.budget
    if budget is None:
        return ""
    used, ran = attempt.unrecorded, 0.0
    if attempt.started is not None and not used.seconds:
        ran = attempt.desk.system.now() - attempt.started
    return budget.exceeded_by(before + used + usage_of(0, 0.0, ran))


class UnreadableError(Exception):
    """Stands for an error of user code that cannot even be looked at: what it is asked for raises."""

    def __init__(self, error: BaseException, broken: BaseException) -> None:
        super().__init__(f"an error of the type {name_of(error)} cannot be looked at: that raised {name_of(broken)}")


def _is_seconds(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value <= MAX_SECONDS


def error_facts(error: BaseException, *, crashed: bool) -> Outcome:
    """Outcome of an error that left the worker's code, as plain data. Raises whatever looking at the error raises."""
    outcome = _error_facts(error, crashed=crashed)
    if not isinstance(outcome, Failure):
        return outcome
    return replace(outcome, told=text_of(outcome.error), types=_types(error))


def _error_facts(error: BaseException, *, crashed: bool) -> Outcome:  # noqa: PLR0911 - a table
    if isinstance(error, LeaseLostError):
        return NEUTRAL  # its process may not lead any more: whoever leads runs it again
    if isinstance(error, Later):
        return _later(error)
    if isinstance(error, Rejected):
        return Failure(FailureKind.REJECTED, error)
    if isinstance(error, Escalated):
        question: object = error.question
        return Failure(FailureKind.ESCALATED, error, question="" if question is None else plain_text(question))
    of_other = isinstance(error, _OF_OTHERS) and plain_text(error.kind) == FailureKind.RECURSION
    if of_other or isinstance(error, RecursionDetectedError):
        return Failure(FailureKind.RECURSION, error, retryable=False)
    if isinstance(error, InvalidResultError):
        return Failure(FailureKind.INVALID, error)
    if crashed:
        return Failure(FailureKind.CRASHED, error, counts=True)
    if isinstance(error, NoCapableWorkerError):
        needed, known = (tuple(plain_text(each) for each in names) for names in (error.needed, error.known))
        hint = plain_text(getattr(error, "hint", ""))
        error = NoCapableWorkerError(needed, known, task=plain_text(error.task), hint=hint)
    retryable = bool(error.retryable) if isinstance(error, Failed) else True
    return Failure(FailureKind.FAILED, error, retryable=retryable, counts=_says_something_of_the_worker(error))


def _says_something_of_the_worker(error: BaseException) -> bool:
    """False where the request was at fault, or somebody else who had a part in it."""
    if isinstance(error, TeamFailedError):
        return error.retryable
    return not isinstance(error, (Failed, *_OF_OTHERS))


def _later(error: Later) -> Later | Failure:
    after_s = error.after_s
    if not _is_seconds(after_s):
        return Failure(FailureKind.FAILED, _NO_SECONDS, retryable=False)
    return error if type(error) is Later and type(after_s) is float else Later(float(after_s))


def _types(error: BaseException) -> tuple[type[BaseException], ...]:
    """Type of an error, and of the error that it has come from."""
    try:
        inner = getattr(error, "error", None)
    except Exception:  # noqa: BLE001 - a property of the user's; then there is none
        inner = None
    return (type(error), type(inner)) if isinstance(inner, BaseException) else (type(error),)
