"""Classification of the end of an attempt: done, a failure of its own, or neutral. Pure, but for looking at it.

An error that leaves user code was made plain data where that code runs (``actors.tasks.execution.error_facts``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actors.messaging.envelope import STOP
from actors.messaging.message_errors import ActorStoppedError
from actors.model.errors import Later
from actors.model.raised import is_a, origins_of
from actors.tasks.execution.error_facts import NEUTRAL, Outcome
from actors.tasks.model import (
    NO_USAGE,
    AttemptEnded,
    AttemptTimeoutError,
    BudgetExceededError,
    Done,
    Failure,
    FailureKind,
    TimeoutPhase,
    Usage,
    text_of,
    usage_of,
)

if TYPE_CHECKING:
    from actors.tasks.execution.attempt import Attempt


def classify(attempt: Attempt, before: Usage = NO_USAGE, *, is_ending: bool = False) -> Outcome:
    """Classify the end of an attempt.

    A budget of a subtask is for all of its attempts together: ``before`` is what is recorded of them by now. Once it is
    used up nothing is tried again, however this one has ended. While all is being stopped (``is_ending``), or the group
    of its worker is restarted, it is no failure of its own that a helper was stopped first.
    """
    outcome: Outcome = attempt.value if attempt.error is None else _outcome(attempt, is_ending=is_ending)
    budget = attempt.subtask.budget
    over = budget.exceeded_by(before + _used(attempt)) if budget is not None else ""
    if not over or not isinstance(outcome, (Done, Failure)):
        return outcome
    if isinstance(outcome, Failure):
        told = f"{outcome.told or text_of(outcome.error)}; its budget is used up: {over}"
        return replace(outcome, over_budget=True, told=told)
    error = BudgetExceededError(attempt.task, f"{attempt.subtask.id}: {over}")
    return Failure(FailureKind.INVALID, error, retryable=False, over_budget=True)


def as_failure(outcome: Failure | Later) -> Failure:
    """Return the failure of a step or an undo, which nobody may put off."""
    return outcome if isinstance(outcome, Failure) else Failure(FailureKind.FAILED, outcome, told=text_of(outcome))


def _outcome(attempt: Attempt, *, is_ending: bool) -> Outcome:
    caught = attempt.caught
    if caught is not None and attempt.is_own_error and not _is_of_others(attempt, caught, is_ending=is_ending):
        return attempt.said
    if attempt.ended_by in {"timeout", "idle"}:
        return Failure(FailureKind.TIMEOUT, _timeout_of(attempt), counts=True)
    return NEUTRAL


def _timeout_of(attempt: Attempt) -> AttemptTimeoutError:
    spec = attempt.spec
    phase: TimeoutPhase = "running" if spec.role == "work" else "step"
    limit_s = spec.timeout_s
    if attempt.ended_by == "idle":
        phase, limit_s = "idle", spec.idle_timeout_s
    return AttemptTimeoutError(attempt.subtask.id, spec.values.number, phase, limit_s or 0.0)


def _is_of_others(attempt: Attempt, caught: BaseException, *, is_ending: bool) -> bool:
    """True if its code has failed because the attempt was ended, or because a worker that it asked is stopped.

    While the attempt or all is being stopped, both workers are meant by that; else the error says so. Frameworks raise
    errors of their own from such an error, so it may be anywhere in what the error stems from.
    """
    is_stopped = is_ending or attempt.ended_by == STOP
    return any(
        (attempt.ended_by is not None and is_a(each, AttemptEnded))
        or (is_a(each, ActorStoppedError) and (is_stopped or each.asker_stops_first))
        for each in origins_of(caught)
    )


def _used(attempt: Attempt) -> Usage:
    """Return what an attempt has used up that is yet to be recorded."""
    used = attempt.unrecorded
    if attempt.started is None or used.seconds:
        return used
    return used + usage_of(0, 0.0, attempt.owner.system.now() - attempt.started)
