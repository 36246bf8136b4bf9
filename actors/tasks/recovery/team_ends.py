"""Outcome of an attempt that a team had: made of how the team's part of the task has ended. Pure.

A team that fails is a failing worker only where something of it is at fault. What says that the request was at fault
(``Failed``, a result of the wrong type, a mistake in the plan, an exhausted budget) is neutral for the breaker of the
team as it is for that of a worker.
"""

from __future__ import annotations

from typing import Final

from actors.tasks.execution.attempt import Attempt
from actors.tasks.execution.run_attempt import to_outcome
from actors.tasks.journal.subtask_state import SubtaskState
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model.outcome import FOR_GOOD, Done, FailureKind
from actors.tasks.model.report import Report
from actors.tasks.model.task import SubtaskStatus, TaskStatus
from actors.tasks.model.task_errors import TaskFailedError, TeamFailedError
from actors.tasks.planning.planners import StaticPlan
from actors.tasks.planning.settings import Tasks
from actors.tasks.recovery.next_step import missing

_OF_THE_REQUEST: Final = frozenset({"budget", "cancel", "review"})
"""Kinds of ends of a task that say nothing of those who did it."""
_OF_THE_WORKER: Final = frozenset({FailureKind.CRASHED, FailureKind.IN_DOUBT, FailureKind.TIMEOUT, FailureKind.LOST})


def outcome_of(attempt: Attempt, state: TaskState, report: Report, settings: Tasks) -> Done:
    """Return the outcome of an attempt whose part of a task has ended.

    Raises:
        TeamFailedError: the part has failed.
        Exception: its output is no result.
    """
    if attempt.spec.role == "undo" and report.undo_errors:
        said = "; ".join(f"{id_}: {text}" for id_, text in report.undo_errors.items())
        raise TeamFailedError(said, retryable=False)
    if attempt.spec.role == "undo":
        return Done(None)
    if report.status is not TaskStatus.SUCCEEDED:
        error = report.error
        kind = error.kind if isinstance(error, TaskFailedError) else ""
        kind = next((node.kind for node in missing(state) if node.kind in FOR_GOOD), kind)
        may_again = not any(map(_is_spent, missing(state)))
        raise TeamFailedError(str(error), kind=kind, counts=_is_at_fault(state, settings), retryable=may_again)
    return to_outcome(attempt, report.output)


def _is_at_fault(state: TaskState, settings: Tasks) -> bool:
    """Return True where the end of a part says something of its team, and not only of the request."""
    kind, refusal = state.ending.kind if state.ending is not None else "", state.refusal
    if kind == "plan" and refusal is not None:
        is_fixed = state.task.plan is not None or isinstance(settings.planner, StaticPlan)
        return refusal.is_last and refusal.needed is None and not is_fixed  # the planner itself has failed
    if kind == FailureKind.DENIED:
        return bool(state.stage.failed)  # of a reviewer that has failed, or of a review that has said no
    if kind == "subtask":
        return any(_blames(node) for node in _failed(state))
    return kind not in _OF_THE_REQUEST


def _is_spent(node: SubtaskState) -> bool:
    """Return True where a subtask has used up its budget, which is for all of its attempts together."""
    budget = node.spec.budget
    return budget is not None and bool(budget.exceeded_by(node.total_usage))


def _failed(state: TaskState) -> list[SubtaskState]:
    """Return what has failed for good: subtasks of the plan, and what these had asked others of the team for."""
    failed = [node for node in state.nodes.values() if node.status is SubtaskStatus.FAILED]
    culprits = [node for node in missing(state) if node.status is SubtaskStatus.FAILED]
    for culprit in culprits:  # it grows
        culprits += [node for node in failed if node.parent == culprit.id]
    return culprits


def _blames(node: SubtaskState) -> bool:
    """Return True where a failed subtask says something of who did it."""
    return node.counted is not None or node.kind in _OF_THE_WORKER
