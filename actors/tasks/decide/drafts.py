"""Drafts of events, and the facts that decisions need beside the state of the task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from actors.model.spec import RandomSource
from actors.tasks.journal.fold import TaskState
from actors.tasks.journal.unit import Unit
from actors.tasks.model import TaskEvent
from actors.tasks.planning.settings import Tasks
from actors.tasks.scheduling.worker_registry import WorkerRegistry


class Draft(NamedTuple):
    """An event that is decided upon and yet to be recorded, which gives it its path, task, time and number."""

    unit: Unit
    """The unit that it is about."""
    made: type[TaskEvent]
    fields: tuple[Any, ...]
    more: Mapping[str, Any]

    def with_fields(self, **more: Any) -> Draft:
        """With these fields as well."""
        return self._replace(more={**self.more, **more})


def draft(unit: Unit, made: type[TaskEvent], *fields: Any, **more: Any) -> Draft:
    """An event of this kind, with all fields but those that its recording fills in."""
    return Draft(unit, made, fields, more)


class Facts(NamedTuple):
    """Facts that a decision needs beside the state of the task."""

    settings: Tasks
    workers: WorkerRegistry
    now: float
    """Seconds since 1970."""
    random: RandomSource
    state: TaskState
    is_wanted: bool = True
    """False for what was asked for, and nobody waits for any longer."""
    output_is_checked: bool = False
    """True for a team whose output has a declared type (``output=``): code of the user's looks at it, as a step."""
