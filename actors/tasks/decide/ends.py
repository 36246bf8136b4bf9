"""The end of a course that cannot succeed any more: which record says so, and how each of its subtasks ends.

A team that fails is a failing worker only if something of it is at fault. What says that the request was at fault
(``Failed``, a result of the wrong type, a mistake in the plan, an exhausted budget) is neutral for the breaker of the
team as it is for that of a worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from actors.tasks.decide.attempt import UNWANTED, reason_of
from actors.tasks.decide.drafts import Draft, draft
from actors.tasks.journal.course import Course
from actors.tasks.journal.fold import TaskState
from actors.tasks.journal.unit import Unit
from actors.tasks.model import task_events
from actors.tasks.model.outcome import FOR_GOOD, Failure, FailureKind
from actors.tasks.model.task import RUNNING, SubtaskStatus, TaskStatus
from actors.tasks.model.task_errors import AttemptTimeoutError, TeamFailedError
from actors.tasks.planning.planners import StaticPlan
from actors.tasks.planning.settings import Tasks

_OF_THE_REQUEST: Final = frozenset({"budget", "cancel", "review"})
"""Kinds of ends that say nothing of those who did it."""
_OF_THE_WORKER: Final = frozenset({FailureKind.CRASHED, FailureKind.IN_DOUBT, FailureKind.TIMEOUT, FailureKind.LOST})


def fails(course: Course, kind: str, error: str) -> Draft:
    """End a course as failed."""
    return draft(course.unit, task_events.TaskEnding, TaskStatus.FAILED, kind, error)


def over_budget(state: TaskState, unit: Unit) -> Draft | None:
    """End the innermost task or team above a unit whose budget is used up, as long as something is left to save."""
    for each in unit.line:
        course = each.course
        if course is None or course.ending is not None or each.status is not RUNNING or not each.is_composite:
            continue
        if each.spec.budget is None:  # that of a task, too
            continue
        over = exceeded(state, course) if course.open or course.phase == "planning" else ""
        if over:
            return fails(course, "budget", over)
    return None


def exceeded(state: TaskState, course: Course) -> str:
    """Say what of the budget of a course is used up and how far, or nothing."""
    unit, budget = course.unit, course.unit.spec.budget
    if budget is None:
        return ""
    used = state.total_usage() - state.usage_before if unit.role == "task" else unit.total_usage
    return budget.exceeded_by(used)


def skipped(unit: Unit) -> Draft:
    """Record of a subtask that was not begun when its task, or its team, ended."""
    return draft(unit, task_events.SubtaskSkipped, f"the task ended before: {reason_of(unit)}")


def barred(unit: Unit, gone: Unit) -> Draft:
    """Record of a subtask that is not begun because one that it needs has ended without a result."""
    ended = "has failed" if gone.status is SubtaskStatus.FAILED else "did not run"
    return draft(unit, task_events.SubtaskSkipped, f"needs {gone.id!r}, which {ended}")


def cut_short(unit: Unit) -> Iterator[Draft]:
    """Yield the records of all subtasks below an ending unit that do not run.

    Those that run say themselves how they end; a team says so when all in it has ended.
    """
    course = unit.course
    for each in list(course.units.values()) if course is not None else ():
        if each.is_done:
            continue
        if each.status is RUNNING:
            if each.is_composite:
                yield from cut_short(each)
            continue
        if each.made or each.status is SubtaskStatus.WAITING or each.has_begun:
            yield draft(each, task_events.SubtaskCancelled, reason_of(each), False)  # noqa: FBT003 - a field
        else:
            yield skipped(each)


def unwanted(unit: Unit) -> Draft:
    """Record of a subtask that was asked for, and that nobody waits for any longer."""
    return draft(unit, task_events.SubtaskCancelled, UNWANTED, False)  # noqa: FBT003 - a field


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
