"""Bases of the events of tasks; the kinds are in ``actors.tasks.model.task_events``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, Literal, TypeAlias

from actors.model.event_metadata import NO_CONTENT, SECONDS, UNLOGGED
from actors.model.events import Event
from actors.model.record import record
from actors.tasks.model.usage import NO_USAGE, Usage

Role: TypeAlias = Literal["task", "work", "plan", "review", "combine", "undo"]
ROLES: Final[dict[str, str]] = {
    "plan": "planner",
    "review": "reviewer",
    "combine": "synthesizer",
    "work": "workers",
}
"""Who uses up what a unit of this role uses up; an undo is the work of workers, too."""


class _Nothing(dict[Any, Any]):
    """What most tasks, units and events have nothing in: one dict for all of them, so nothing is put into it."""

    def __setitem__(self, key: object, value: object) -> None:
        raise TypeError("the metadata of an event cannot be changed")

    __hash__ = object.__hash__  # type: ignore[assignment]  # what may be the default of a field has one


NONE: Final = _Nothing()


@record
class TaskEvent(Event):
    """Something that happened to a task; ``path`` is that of the supervisor whose workers do it."""

    is_base = True
    journalled = True

    task: str  # its id
    at: float = field(metadata=UNLOGGED)
    seq: int = field(default=0, kw_only=True, repr=False, compare=False, metadata=NO_CONTENT)
    """Number of the event in the journal of its task, from 1 on, without gaps."""
    metadata: Mapping[str, Any] = field(default=NONE, kw_only=True, repr=False, compare=False, metadata=NO_CONTENT)
    """Metadata of the task, and over it that of the subtask."""

    @property
    def task_id(self) -> str:
        """Alias by the name that a report has for it."""
        return self.task


@record
class CourseEvent(TaskEvent):
    """Something that happened to the plan, the review or the output of a task, or of a team's part of it."""

    is_base = True

    subtask: str = field(default="", kw_only=True)
    """Path of the team in the task. Empty: the task itself."""

    @property
    def is_deep(self) -> bool:
        """True where it happened inside a team."""
        return bool(self.subtask)


@record
class SubtaskEvent(TaskEvent):
    """Something that happened to one subtask, or to a call of a planner, reviewer, synthesizer or undo.

    Whoever wants those of subtasks only looks for ``role == "work"``.
    """

    is_base = True

    subtask: str
    """Path of the subtask in the task: ``research``; of a team's member ``team/research``; of what ``research`` has
    asked for ``research/@1``. Of a call of a planner, reviewer or synthesizer: the path of its team, or nothing."""
    role: str = field(default="work", kw_only=True, repr=False, metadata=NO_CONTENT)
    """work, plan, review, combine or undo. ``subtask`` is the one that is undone, or the team that plans."""

    @property
    def subject(self) -> str:
        """Path of the worker that it is about, as far as that is known."""
        worker = getattr(self, "worker", None)
        return f"{self.path}/{worker}" if worker else self.path

    @property
    def is_deep(self) -> bool:
        """True if it happened inside a team. A call of a planner, reviewer or synthesizer has the path of its team."""
        places = [part for part in self.subtask.split("/") if part and part[0] != "@"]
        return len(places) > (self.role in {"work", "undo"})

    @property
    def has_question(self) -> bool:
        """Where a person was asked, or has said no, question or answer stands in the place of an error."""
        return getattr(self, "kind", "") in {"escalated", "unanswered", "denied"}


@record
class AttemptEvent(SubtaskEvent):
    """End of an attempt: how long it took, and what it has used up."""

    is_base = True

    usage: Usage = field(default=NO_USAGE, kw_only=True)
    queued_s: float = field(default=0.0, kw_only=True, repr=False, compare=False, metadata=NO_CONTENT | SECONDS)
    """Seconds for which the subtask stood in line before this attempt."""
    ran_s: float = field(default=0.0, kw_only=True, repr=False, compare=False, metadata=NO_CONTENT | SECONDS)
    """Seconds from giving the attempt to a worker to its end. 0: no attempt ran, a person gave the result."""
