"""Makes the report of a task that has ended, of its state. Pure."""

from __future__ import annotations

from typing import Any

from actors.model.errors import Problem
from actors.tasks.journal.fold import TaskState, unit_status_of
from actors.tasks.journal.unit import GONE, Unit
from actors.tasks.model import (
    NO_USAGE,
    QUEUED,
    ROLES,
    RUNNING,
    SUCCEEDED,
    BudgetExceededError,
    NoCapableWorkerError,
    PlanError,
    Report,
    SubtaskReport,
    SubtaskStatus,
    TaskCancelledError,
    TaskDeadlineError,
    TaskError,
    TaskFailedError,
    TaskStatus,
    Usage,
    usage_of,
)


def report_of(state: TaskState) -> Report:
    """The report of a task that has ended."""
    course = state.course
    results = course.results()
    failed, skipped = dict[str, str](), dict[str, str]()
    for unit in course.units.values():
        if unit.status in GONE:
            (failed if unit.status is SubtaskStatus.FAILED else skipped)[unit.id] = unit.error
    best_efforts = [
        f"{unit.id}: the best effort of {unit.worker}: its own review has not passed, or could not be made"
        for unit in course.best_efforts()
    ]
    report = Report(
        task_id=state.id,
        goal=state.task.goal,
        metadata=state.task.metadata,
        status=state.final or TaskStatus.FAILED,
        output=course.output if course.combined else dict(results),
        results=results,
        failed=failed,
        skipped=skipped,
        compensated=[path for path in state.undone if path in course.units],
        undo_errors=state.undo_errors(),
        iterations=course.iterations,
        best_effort=course.best_effort,
        usage=state.root.usage,
        usage_by_role=usage_by_role(state),
        timings=_timings(state),
        graph=tuple(SubtaskReport(**row_of(unit)) for unit in course.units.values()),
        notes=(*course.notes, *best_efforts, *_over_budget(state), *course.warnings),
        path=state.path,
        replans=course.replans,
        error=error_of(state),
    )
    if report.error is not None:
        report.error.report = report
    return report


def _over_budget(state: TaskState) -> tuple[str, ...]:
    """Say what used up too much when nothing was left to be saved: the last subtask, a reviewer, a synthesizer."""
    budget, ending = state.task.budget, state.course.ending
    over = budget.exceeded_by(state.root.total_usage) if budget is not None else ""
    return (f"budget exceeded: {over}",) if over and not (ending is not None and ending.kind == "budget") else ()


def usage_by_role(state: TaskState) -> dict[str, Usage]:
    """Return what a task has used up so far, by role."""
    told, untold = state.usage_by, usage_of(0, 0.0, state.root.untold_s)
    if untold.seconds:
        told = {**told, "work": told.get("work", NO_USAGE) + untold}
    return {role: told[step] for step, role in ROLES.items() if step in told}


def row_of(unit: Unit, now: float = 0.0) -> dict[str, Any]:
    """Return the fields of a ``SubtaskReport``, as the unit stands at this time; 0: once it has ended."""
    is_queued, is_running = unit.status is QUEUED, unit.status is RUNNING
    return {
        "id": unit.id,
        "status": unit_status_of(unit),
        "worker": unit.worker,
        "depends_on": tuple(unit.spec.depends_on),
        "parent": unit.asker.id if unit.asker is not None else None,
        "attempts": unit.attempt,
        "queued_s": unit.queued_s + (max(0.0, now - unit.queued_at) if is_queued else 0.0),
        "running_s": unit.running_s + (max(0.0, now - unit.started_at) if is_running else 0.0),
        "note": "" if unit.status is SUCCEEDED else unit.error,
        "instruction": unit.spec.instruction,
        "usage": unit.usage,
        "started_at": unit.started_at,
        "ended_at": unit.ended_at,
    }


def _timings(state: TaskState) -> dict[str, float]:
    units, began, ended = state.course.units.values(), state.root.started_at, state.root.ended_at
    return {
        "planned": max(0.0, (state.course.planned_at or ended) - began),
        "queued": sum([unit.queued_s for unit in units]),
        "running": sum([unit.running_s for unit in units]),
        "total": ended - began,
    }


def error_of(state: TaskState) -> TaskError | None:
    """Return the error that waiters get."""
    course = state.course
    ending = course.ending
    if state.final is TaskStatus.SUCCEEDED or ending is None:
        return None
    if state.final is TaskStatus.CANCELLED:
        return TaskCancelledError(state.id, ending.error)
    call, refusal = course.calls.get("plan"), course.refusal
    if ending.kind == "plan" and call is not None and call.status is SubtaskStatus.FAILED:
        hint = "Repair it, or find out what it does to its process."
        return PlanError(state.id, (Problem(f"task {state.id}", ending.error, hint),), call.made)
    if ending.kind == "plan" and refusal is not None:
        if refusal.needed is not None:
            hint = refusal.problems[0].hint if refusal.problems else ""
            return NoCapableWorkerError(refusal.needed, refusal.known, task=state.id, hint=hint)
        return PlanError(state.id, refusal.problems, refusal.number)
    kinds: dict[str, type[TaskFailedError]] = {"budget": BudgetExceededError, "deadline": TaskDeadlineError}
    error = kinds.get(ending.kind, TaskFailedError)(state.id, ending.error)
    error.kind = ending.kind
    return error
