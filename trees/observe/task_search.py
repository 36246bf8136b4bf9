"""Search for tasks by status and text, in a live tree and in a store."""

from __future__ import annotations

from typing import Final

from actors.model.events import Event
from actors.tasks.model import TaskStatus, TaskSubmitted
from trees.observe.source import SourceError

MOST_LOOKS: Final = 5000
"""Tasks that a search looks at, the newest first."""


def require_status(status: str | None) -> None:
    """Refuse what is no status of a task."""
    if status is not None and status not in set(TaskStatus):
        raise SourceError(400, f"There is no status {status[:40]!r}; there are {', '.join(TaskStatus)}.")


def goal_of(first: Event | None) -> str:
    """Return what a task is about, from its first record."""
    return first.spec.goal if isinstance(first, TaskSubmitted) else ""
