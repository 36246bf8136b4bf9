"""A run of a task as text, as JSON, as mermaid."""

from __future__ import annotations

from typing import Any

from actors.tasks.report import Report
from actors.tasks.state import TaskState


def render(run: TaskState | Report, format: str, now: float, progress: dict[str, Any]) -> str:
    """The run in one of the formats."""
    return f"{run} {format} {now} {progress}"
