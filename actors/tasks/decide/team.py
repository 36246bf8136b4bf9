"""Failure of a team: made of how its course has ended, for the ladder above.

A team that fails is a failing worker only where something of it is at fault. What says that the request was at fault
(``Failed``, a result of the wrong type, a mistake in the plan, an exhausted budget) is neutral for the breaker of the
team as it is for that of a worker.
"""

from __future__ import annotations

from typing import Final

from actors.tasks.journal.course import Course
from actors.tasks.journal.unit import Unit
from actors.tasks.model.outcome import FOR_GOOD, Failure, FailureKind
from actors.tasks.model.task import SubtaskStatus
from actors.tasks.model.task_errors import AttemptTimeoutError, TeamFailedError
from actors.tasks.planning.planners import StaticPlan
from actors.tasks.planning.settings import Tasks

_OF_THE_REQUEST: Final = frozenset({"budget", "cancel", "review"})
"""Kinds of ends that say nothing of those who did it."""
_OF_THE_WORKER: Final = frozenset({FailureKind.CRASHED, FailureKind.IN_DOUBT, FailureKind.TIMEOUT, FailureKind.LOST})


def failure_of(course: Course, settings: Tasks, limit_s: float) -> Failure:
    """Return the failure of the unit that a team has, whose course has ended badly."""
    unit, ending = course.unit, course.ending
    kind = ending.kind if ending is not None else ""
    if kind in {"timeout", "idle"}:
        phase = "running" if kind == "timeout" else "idle"
        error = AttemptTimeoutError(unit.id, unit.attempt, phase, limit_s)  # type: ignore[arg-type]
        return Failure(FailureKind.TIMEOUT, error, counts=True)
    why = ending.error if ending is not None else ""
    culprits = course.missing()
    of_member = next((each.kind for each in culprits if each.kind in FOR_GOOD), "")
    may_again = not any(map(_is_spent, culprits))
    counts = _is_at_fault(course, settings)
    failed = TeamFailedError(why, kind=of_member or kind, counts=counts, retryable=may_again)
    for_good = next((each for each in FOR_GOOD if each == failed.kind), None)
    if for_good is not None:
        return Failure(for_good, failed, retryable=False, counts=failed.counts, told=why)
    over = kind == "budget" and unit.spec.budget is not None
    return Failure(FailureKind.FAILED, failed, retryable=may_again, counts=failed.counts, told=why, over_budget=over)


def _is_at_fault(course: Course, settings: Tasks) -> bool:
    """Return True where the end of a course says something of its team, and not only of the request."""
    kind, refusal = course.ending.kind if course.ending is not None else "", course.refusal
    if kind == "plan" and refusal is not None:
        is_fixed = isinstance(settings.planner, StaticPlan)
        return refusal.is_last and refusal.needed is None and not is_fixed  # the planner itself has failed
    if kind == FailureKind.DENIED:
        return any(step.failed for step in course.steps.values())
    if kind == "subtask":
        return any(each.counted is not None or each.kind in _OF_THE_WORKER for each in _failed(course))
    return kind not in _OF_THE_REQUEST


def _is_spent(unit: Unit) -> bool:
    """Return True where a subtask has used up its budget, which is for all of its attempts together."""
    budget = unit.spec.budget
    return budget is not None and bool(budget.exceeded_by(unit.total_usage))


def _failed(course: Course) -> list[Unit]:
    """Return what has failed for good: subtasks of the plan, and what these had asked others of the team for."""
    failed = [unit for unit in course.units.values() if unit.status is SubtaskStatus.FAILED]
    culprits = [unit for unit in course.missing() if unit.status is SubtaskStatus.FAILED]
    for culprit in culprits:  # it grows
        culprits += [unit for unit in failed if unit.asker is culprit]
    return culprits
