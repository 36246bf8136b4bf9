"""The end of a task that cannot succeed any more: which record says so, and how each of its subtasks ends.

Pure: ``actors.tasks.orchestration.lifecycle`` records and ends.
"""

from __future__ import annotations

from actors.tasks.journal.reporting import total_usage
from actors.tasks.journal.subtask_state import UNWANTED, SubtaskState
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.event_base import Draft, draft
from actors.tasks.model.task import SubtaskStatus, TaskStatus


def over_budget(state: TaskState) -> Draft | None:
    """End a task whose budget is used up, as long as there is something left to save."""
    unfinished = state.open or state.phase in {"planning", "replanning"}
    over = exceeded(state) if unfinished and state.ending is None else ""
    return draft(task_events.TaskEnding, TaskStatus.FAILED, "budget", over) if over else None


def exceeded(state: TaskState) -> str:
    """Say what of the budget of a task is used up and how far, or nothing."""
    budget = state.task.budget
    return budget.exceeded_by(total_usage(state)) if budget is not None else ""


def skipped(node: SubtaskState, kind: str) -> Draft:
    """Record of a subtask that was not begun when its task ended."""
    return draft(task_events.SubtaskSkipped, node.id, f"the task ended before: {kind}")


def barred(node: SubtaskState, gone: SubtaskState) -> Draft:
    """Record of a subtask that is not begun because one that it needs has ended without a result."""
    ended = "has failed" if gone.status is SubtaskStatus.FAILED else "did not run"
    return draft(task_events.SubtaskSkipped, node.id, f"needs {gone.id!r}, which {ended}")


def cut_short(node: SubtaskState, kind: str) -> Draft | None:
    """Record of a subtask whose task is ending; None: it has ended, or is running and says itself how it ends."""
    if node.is_done or node.status is SubtaskStatus.RUNNING:
        return None
    if node.made or node.status is SubtaskStatus.WAITING or node.has_begun:
        return draft(task_events.SubtaskCancelled, node.id, kind, unknown=False)
    return skipped(node, kind)


def unwanted(node: SubtaskState) -> Draft:
    """Record of a subtask that was asked for, and that nobody waits for any longer."""
    return draft(task_events.SubtaskCancelled, node.id, UNWANTED, unknown=False)
