"""Makes the report of a task that has ended. Pure: from a state, and the journal where that does not hold a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from actors.tasks.journal.dropped import NotHeld
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.report import Report, SubtaskReport
from actors.tasks.model.step_events import ROLES
from actors.tasks.model.task import NO_USAGE, SUCCEEDED, SubtaskStatus, TaskStatus, Usage, usage_of
from actors.tasks.model.task_errors import (
    BudgetExceededError,
    NoCapableWorkerError,
    PlanError,
    TaskCancelledError,
    TaskDeadlineError,
    TaskError,
    TaskFailedError,
)

_ENDED_BADLY: Final = frozenset({SubtaskStatus.FAILED, SubtaskStatus.SKIPPED, SubtaskStatus.CANCELLED})


def report_of(state: TaskState, journal: Callable[[], Sequence[Any]]) -> Report:
    """The report of a task that has ended; the journal is read only where not all results are held."""
    return report_with(state, *words_of(state, journal))


def kept_results(records: Sequence[Any]) -> dict[str, Any]:
    """Return the last result of each subtask, from a journal."""
    return {each.subtask: each.value for each in records if isinstance(each, task_events.SubtaskSucceeded)}


def words_of(state: TaskState, journal: Callable[[], Sequence[Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The results for a report, and by itself under the name ``output`` what was made of them, where something was.

    What the journal does not have is not in them either: read from an outline, they may have to be fetched.
    """
    results, is_made = state.results(), state.combined and not state.uncombined
    output = {"output": state.output} if is_made else {}
    if any(isinstance(value, NotHeld) for value in (*results.values(), state.output)):
        records = journal()
        kept = kept_results(records)
        results = {id_: kept.get(id_, value) for id_, value in results.items()}
        made = (each.output for each in reversed(records) if isinstance(each, task_events.Synthesized))
        output = {"output": next(made, None)} if is_made else {}
    return results, output


def report_with(state: TaskState, results: dict[str, Any], output: dict[str, Any]) -> Report:
    """The report of a task that has ended, with these ``words_of`` it."""
    failed, skipped = dict[str, str](), dict[str, str]()
    for node in state.nodes.values():
        if node.status in _ENDED_BADLY:
            (failed if node.status is SubtaskStatus.FAILED else skipped)[node.id] = node.error
    report = Report(
        task_id=state.id,
        goal=state.task.goal,
        metadata=state.task.metadata,
        status=state.status,
        output=output["output"] if output else dict(results),
        results=results,
        failed=failed,
        skipped=skipped,
        compensated=list(state.compensated),
        undo_errors=dict(state.undo_errors),
        iterations=state.iterations,
        best_effort=state.best_effort,
        usage=total_usage(state),
        usage_by_role=usage_by_role(state),
        timings=_timings(state),
        graph=graph_of(state),
        notes=(*state.notes, *_best_efforts(state), *_over_budget(state), *state.warnings),
        path=state.path,
        replans=state.replans,
        error=error_of(state),
    )
    if report.error is not None:
        report.error.report = report
    return report


def _best_efforts(state: TaskState) -> Iterator[str]:
    for node in state.best_efforts():
        yield f"{node.id}: the best effort of {node.worker}: its own review has not passed, or could not be made"


def _over_budget(state: TaskState) -> tuple[str, ...]:
    """Say what used up too much when nothing was left to be saved: the last subtask, a reviewer, a synthesizer."""
    budget, ending = state.task.budget, state.ending
    over = budget.exceeded_by(total_usage(state)) if budget is not None else ""
    told = ending is not None and ending.kind == "budget"
    return (f"budget exceeded: {over}",) if over and not told else ()


def total_usage(state: TaskState) -> Usage:
    """Return what a task has used up so far."""
    return state.usage + usage_of(0, 0.0, state.running_s)


def used_so_far(state: TaskState) -> Usage:
    """Return what a part of a team has used up so far, also before it was reopened."""
    return state.earlier + total_usage(state)


def usage_by_role(state: TaskState) -> dict[str, Usage]:
    """Return what a task has used up so far, by role."""
    used = dict(state.used_by)
    if state.running_s:
        used["work"] = used.get("work", NO_USAGE) + usage_of(0, 0.0, state.running_s)
    return {role: used[step] for step, role in ROLES.items() if step in used}


def graph_of(state: TaskState) -> tuple[SubtaskReport, ...]:
    """Every subtask as it stands now."""
    return tuple(
        SubtaskReport(
            node.id,
            node.status,
            node.worker,
            tuple(node.spec.depends_on),
            node.parent,
            node.attempt,
            node.queued_s,
            node.running_s,
            "" if node.status is SUCCEEDED else node.error,
            node.spec.instruction,
            node.usage,
            node.started_at,
            node.ended_at,
        )
        for node in list(state.nodes.values())
    )


def _timings(state: TaskState) -> dict[str, Any]:
    each, queued, running = dict[str, dict[str, Any]](), 0.0, 0.0
    for node in state.nodes.values():
        each[node.id] = {"queued": node.queued_s, "running": node.running_s, "attempts": node.attempt}
        queued += node.queued_s
        running += node.running_s
    planned = state.planned_at - state.submitted_at if state.planned_at else state.finished_at - state.submitted_at
    return {
        "planned": planned,
        "queued": queued,
        "running": running,
        "total": state.finished_at - state.submitted_at,
        "subtasks": each,
    }


def error_of(state: TaskState) -> TaskError | None:
    """Return the error that waiters get."""
    ending = state.ending
    if state.final is TaskStatus.SUCCEEDED or ending is None:
        return None
    if state.final is TaskStatus.CANCELLED:
        return TaskCancelledError(state.id, ending.error)
    refusal = state.refusal
    if ending.kind == "plan" and refusal is not None:
        if refusal.needed is not None:
            hint = refusal.problems[0].hint if refusal.problems else ""
            return NoCapableWorkerError(refusal.needed, refusal.known, task=state.id, hint=hint)
        return PlanError(state.id, refusal.problems, refusal.number)
    kinds: dict[str, type[TaskFailedError]] = {"budget": BudgetExceededError, "deadline": TaskDeadlineError}
    error = kinds.get(ending.kind, TaskFailedError)(state.id, ending.error)
    error.kind = ending.kind
    return error
