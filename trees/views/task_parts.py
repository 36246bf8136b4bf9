"""Two facts about a task that its handle and its views tell alike."""

from __future__ import annotations

from actors.tasks.journal.task_state import TaskState
from actors.tasks.model.task import SubtaskStatus


def done_of(state: TaskState) -> list[str]:
    """The subtasks whose results are there."""
    return [node.id for node in state.nodes.values() if node.status is SubtaskStatus.SUCCEEDED]


def part_of(state: TaskState) -> str | None:
    """The subtask that a team's part of a task stands for; None where it is a task by itself."""
    return None if state.parent is None else state.parent.rpartition("/")[2].rpartition("#")[0]
