"""Metadata of tasks as journals have it: tasks are found by it, and events that were read back get it again. Pure.

A journal has metadata in the task, in plans and in what was asked for only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from actors.model.events import Event
from actors.tasks.model.event_base import TaskEvent
from actors.tasks.model.task_events import Planned, SubtaskDelegated, TaskSubmitted


def has_metadata(first: Event | None, wanted: Mapping[str, Any]) -> bool:
    """True if this is the first record of a task with all of these entries."""
    return isinstance(first, TaskSubmitted) and wanted.items() <= first.spec.metadata.items()


class MetadataReader:
    """Metadata of the events of one task. It must be shown all of them, the oldest first."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, Any]] = {"": {}}
        """By the path of the subtask, with that of the task; of the task itself under the empty path."""

    def labelled(self, event: TaskEvent) -> TaskEvent:
        """Return the event with its metadata."""
        of = self._of
        if isinstance(event, TaskSubmitted):
            of[""] = event.spec.metadata
        elif isinstance(event, Planned):
            above, prefix = of.get(event.subtask, of[""]), f"{event.subtask}/" if event.subtask else ""
            of.update((f"{prefix}{spec.id}", above | spec.metadata) for spec in event.plan.subtasks)
        elif isinstance(event, SubtaskDelegated):
            of[event.subtask] = of[""] | event.spec.metadata
        labels = of.get(getattr(event, "subtask", ""), of[""])
        return replace(event, metadata=labels) if labels and not event.metadata else event
