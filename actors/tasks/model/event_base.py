"""Base of the events of tasks; the kinds are in ``actors.tasks.model.task_events``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, ClassVar, Concatenate, Final, NamedTuple, ParamSpec

from actors.model.event_metadata import KEPT, NO_CONTENT, SECONDS, UNLOGGED
from actors.model.events import Event
from actors.model.record import record


class _NoMetadata(dict[str, Any]):
    """Metadata of all tasks that have none: one for all their events, so nothing is put in."""

    def __setitem__(self, key: str, value: object) -> None:
        raise TypeError("the metadata of an event cannot be changed")

    __hash__ = object.__hash__  # type: ignore[assignment]  # what may be the default of a field has one


NO_METADATA: Final = _NoMetadata()


@record(frozen=True, slots=True)
class TaskEvent(Event):
    """Something that happened to a task of the supervisor at ``path``."""

    is_base: ClassVar[bool] = True
    journalled: ClassVar[bool] = True

    task: str  # its id
    at: float = field(metadata=UNLOGGED)
    seq: int = field(default=0, kw_only=True, repr=False, compare=False, metadata=NO_CONTENT)
    """Number of the event within its task, those of its teams' parts included: see
    ``actors.tasks.orchestration.event_numbers``. 0: of a journal of an older version, until ``handle.events()`` has
    counted them."""
    metadata: Mapping[str, Any] = field(
        default=NO_METADATA, kw_only=True, repr=False, compare=False, metadata=NO_CONTENT | {KEPT: False}
    )
    """Metadata of the task, and over it that of the subtask. A journal has it in the task and in the plan only."""

    @property
    def task_id(self) -> str:
        """Alias by the name that a report has for it."""
        return self.task


@record(frozen=True, slots=True)
class SubtaskEvent(TaskEvent):
    """Something that happened to one subtask."""

    is_base: ClassVar[bool] = True

    subtask: str

    @property
    def subject(self) -> str:
        """Path of the worker that it is about, as far as that is known."""
        worker = getattr(self, "worker", None)
        return f"{self.path}/{worker}" if worker else self.path

    @property
    def has_question(self) -> bool:
        """Where a person was asked, or has said no, question or answer stands in the place of an error."""
        return getattr(self, "kind", "") in {"escalated", "unanswered", "denied"}


@record(frozen=True, slots=True)
class AttemptEvent(SubtaskEvent):
    """End of an attempt, and how long it took. Records of older versions do not tell: 0."""

    is_base: ClassVar[bool] = True

    queued_s: float = field(default=0.0, kw_only=True, repr=False, compare=False, metadata=NO_CONTENT | SECONDS)
    """Seconds for which the subtask stood in line before this attempt."""
    ran_s: float = field(default=0.0, kw_only=True, repr=False, compare=False, metadata=NO_CONTENT | SECONDS)
    """Seconds from giving the attempt to a worker to its end. 0: no attempt ran, a person gave the result."""


give_seq: Final[Callable[[TaskEvent, int], None]] = vars(TaskEvent)["seq"].__set__
"""``give_seq(event, number)`` gives a record its number. For whoever records it alone."""
give_metadata: Final[Callable[[TaskEvent, Mapping[str, Any]], None]] = vars(TaskEvent)["metadata"].__set__
"""``give_metadata(event, metadata)`` gives a record the metadata of its task. For whoever records it alone."""

_give_queued_s: Final[Callable[[AttemptEvent, float], None]] = vars(AttemptEvent)["queued_s"].__set__
_give_ran_s: Final[Callable[[AttemptEvent, float], None]] = vars(AttemptEvent)["ran_s"].__set__


def give_times(event: AttemptEvent, queued_s: float, ran_s: float) -> None:
    """Tell a record how long its attempt took. For whoever records it alone."""
    _give_queued_s(event, queued_s)
    _give_ran_s(event, ran_s)


FieldsP = ParamSpec("FieldsP")


class Draft(NamedTuple):
    """An event that is decided upon and yet to be recorded, which gives it its path, task and time."""

    made: Callable[..., TaskEvent]
    fields: tuple[Any, ...]
    more: Mapping[str, Any]

    def with_fields(self, **more: Any) -> Draft:
        """With these fields as well."""
        return self._replace(more={**self.more, **more})


def draft(
    made: Callable[Concatenate[str, str, float, FieldsP], TaskEvent],
    /,
    *fields: FieldsP.args,
    **more: FieldsP.kwargs,
) -> Draft:
    """An event of this kind, with all of its fields but path, task and time."""
    return Draft(made, fields, more)
