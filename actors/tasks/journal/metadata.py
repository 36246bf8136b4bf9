"""Metadata of tasks as journals have it: tasks are found by it, and events that were read back get it again.

Comes in: what somebody looks for, and the first record of a task; or the records of one task, oldest first. Goes out:
whether it has that, or the same records with their metadata, which a journal has in the task and in the plan only.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from actors.model.events import Event
from actors.tasks.model.event_base import TaskEvent
from actors.tasks.model.task import Task
from actors.tasks.model.task_events import Planned, SubtaskDelegated, TaskSubmitted


def has_metadata(first: Event | None, wanted: Mapping[str, Any]) -> bool:
    """True where this is the first record of a task with all of these entries."""
    if not isinstance(first, TaskSubmitted):
        return False
    labels = first.spec.metadata
    return all(name in labels and _are_alike(labels[name], value) for name, value in wanted.items())


def wanted_metadata(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return what somebody looks for in the form in which it is kept: dates are texts, tuples are lists.

    Raises:
        ConfigError: nobody can have that for metadata.
    """
    return Task(goal="?", metadata=dict(wanted)).metadata


def _are_alike(kept: object, wanted: object) -> bool:
    """True where both are the same JSON, in which ``true`` is no number."""
    if isinstance(kept, dict) and isinstance(wanted, dict):
        return kept.keys() == wanted.keys() and all(_are_alike(kept[name], wanted[name]) for name in kept)
    if isinstance(kept, list) and isinstance(wanted, list):
        return len(kept) == len(wanted) and all(map(_are_alike, kept, wanted))
    return isinstance(kept, bool) is isinstance(wanted, bool) and kept == wanted


class MetadataReader:
    """Metadata of the events of one task. It must be shown all of them, oldest first."""

    def __init__(self) -> None:
        self._of_task: dict[str, Any] = {}
        self._of_subtasks: dict[str, dict[str, Any]] = {}

    def labelled(self, event: TaskEvent) -> TaskEvent:
        """The event with its metadata."""
        if isinstance(event, TaskSubmitted):
            self._of_task = event.spec.metadata
        elif isinstance(event, Planned):
            for spec in event.plan.subtasks:  # what another plan leaves out may yet be undone
                if spec.metadata or spec.id in self._of_subtasks:
                    self._of_subtasks[spec.id] = spec.metadata
        elif isinstance(event, SubtaskDelegated) and event.spec.metadata:
            self._of_subtasks[event.subtask] = event.spec.metadata
        own = self._of_subtasks.get(getattr(event, "subtask", ""))
        labels = {**self._of_task, **own} if own else self._of_task
        return replace(event, metadata=labels) if labels and not event.metadata else event
