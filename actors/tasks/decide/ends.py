"""The end of a course that cannot succeed any more: which record says so, and how each of its subtasks ends.

A team that fails is a failing worker only if a subtask that it needs has failed by a fault of its worker, or if the
time of the team is up.
"""

from __future__ import annotations

from collections.abc import Iterator

from actors.model.errors import Failed
from actors.tasks.decide.attempt import cut_off
from actors.tasks.decide.drafts import Draft, draft
from actors.tasks.journal.course import Course
from actors.tasks.journal.unit import Unit
from actors.tasks.model import (
    FOR_GOOD,
    RUNNING,
    AttemptTimeoutError,
    Executable,
    Failure,
    FailureKind,
    SubtaskStatus,
    TaskStatus,
    task_events,
)


def fails(course: Course, kind: str, error: str) -> Draft:
    """End a course as failed."""
    return draft(course.unit, task_events.TaskEnding, TaskStatus.FAILED, kind, error)


def over_budget(unit: Unit) -> Draft | None:
    """End the innermost task or team above a unit whose budget is used up, as long as something is left to save."""
    for each in unit.line:
        course = each.course
        if each.spec.budget is None or course is None or course.ending is not None:  # of a task it is there, too
            continue
        if each.status is not RUNNING or not each.is_composite:
            continue
        over = exceeded(course) if course.open or course.phase == "planning" else ""
        if over and _goes_on(course):
            return fails(course, "budget", over)
    return None


def _goes_on(course: Course) -> bool:
    """Return False where all that a course waits for is the end of teams in which nothing is left to be done."""
    left = [unit for unit in course.units.values() if not unit.is_done]
    teams = [unit.course for unit in left if unit.course is not None and unit.is_composite and unit.status is RUNNING]
    return course.phase == "planning" or len(teams) < len(left) or any(map(_goes_on, teams))


def exceeded(course: Course) -> str:
    """Say what of the budget of a course is used up and how far, or nothing."""
    budget = course.unit.spec.budget
    return "" if budget is None else budget.exceeded_by(course.unit.total_usage)


def skipped(unit: Unit) -> Draft:
    """Record of a subtask that was not begun when its task, or its team, ended."""
    return draft(unit, task_events.SubtaskSkipped, f"the task ended before: {cut_off(unit)}")


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
        if each.made or each.status is SubtaskStatus.WAITING or (each.effect is not None and each.effect.acted):
            yield draft(each, task_events.SubtaskCancelled, cut_off(each), False)  # noqa: FBT003 - a field
        else:
            yield skipped(each)


def failure_of(course: Course, team: Executable | None) -> Failure:
    """Return the failure of the unit that a team has, whose course has ended badly; None: the team is gone."""
    unit, ending = course.unit, course.ending
    kind, why = (ending.kind, ending.error) if ending is not None else ("", "")
    if kind in {"timeout", "idle"}:
        name = "timeout_s" if kind == "timeout" else "idle_timeout_s"
        own = getattr(unit.spec, name)
        limit_s = getattr(team, name, 0.0) if own is None else own
        error = AttemptTimeoutError(unit.id, unit.attempt, "running" if kind == "timeout" else "idle", limit_s)
        return Failure(FailureKind.TIMEOUT, error, counts=True)
    culprits = course.missing()
    budgets = ((each.spec.budget, each.total_usage) for each in culprits)
    is_spent = any(budget is not None and budget.exceeded_by(used) for budget, used in budgets)
    is_at_fault = kind == "subtask" and any(each.at_fault for each in culprits)
    kinds = [each.kind for each in culprits] + [kind]
    for_good = next((each for each in FOR_GOOD if each in kinds), None)
    found, is_over = for_good or FailureKind.FAILED, kind == "budget"
    return Failure(found, Failed(why), not is_spent, is_at_fault, over_budget=is_over, told=why)
