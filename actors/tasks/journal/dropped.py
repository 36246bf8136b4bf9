"""Large values that stay in the store: what stands for them in memory, and how they are put back.

A journal that goes on is at hand, but what is large in it need not be: once a record is kept, its large values are read
from the store when somebody needs them. A ``Dropped`` stands where such a value was, and says where it is kept::

    a record                     what of it may stay in the store, once that is longer than a store keeps in a row
    kinds that are ``unfolded``  the whole large field: a result, the output. No state depends on what is in it
    a task that was submitted    each of its inputs that is large. The rest of the task is needed for every decision
    all others                   nothing: a plan, what was asked for, an answer. What is next is decided on them

A store reads a record whole where it holds one with a ``Dropped``. Pure.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

from actors.model.events import Event
from actors.tasks.model.shared_values import is_small
from actors.tasks.model.task import Task


class NotHeld:
    """Stands for a value that is not in memory."""

    __slots__ = ()


class Dropped(NotHeld):
    """Stands for a value in the store: the large field of a record, or one of the inputs in it.

    No dataclass: nothing makes JSON of it, so a record that would hold one is refused.
    """

    __slots__ = ("key", "number", "stream")

    def __init__(self, stream: str, number: int, key: str | None = None) -> None:
        self.stream = stream
        self.number = number
        """Number of the record that has it."""
        self.key = key
        """Name of the input; None: the whole field."""

    def __repr__(self) -> str:
        return f"<Dropped {self.stream}[{self.number}] {self.key or ''}>"

    def __eq__(self, other: object) -> bool:
        return type(other) is Dropped and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def without_large(record: Event, stream: str, number: int) -> Event:
    """A record of a journal without what may stay in the store; the record itself where that is nothing."""
    if not record.large:
        return record
    field = getattr(record, record.large)
    if record.unfolded:
        return _with_large(record, Dropped(stream, number))
    if not isinstance(field, Task) or all(map(is_small, field.inputs.values())):
        return record
    inputs = {key: value if is_small(value) else Dropped(stream, number, key) for key, value in field.inputs.items()}
    return _with_large(record, changed(field, inputs=inputs))


def changed(task: Task, **values: Any) -> Task:
    """A copy with other values, which are not checked: what stands for an input is no JSON."""
    copied = copy(task)
    vars(copied).update(values)
    return copied


def _with_large(record: Event, value: object) -> Event:
    changes: dict[str, Any] = {record.large: value}
    return replace(record, **changes)


def dropped_of(record: Event) -> Dropped | None:
    """Return one of the values that a record lacks; None: it is whole."""
    field = getattr(record, record.large) if record.large else None
    values = field.inputs.values() if isinstance(field, Task) else (field,)
    return next((value for value in values if isinstance(value, Dropped)), None)


def is_same(kept: Event | None, record: Event | None) -> bool:
    """True where a store gives back this record, perhaps without what is large in it."""
    at = dropped_of(kept) if kept is not None else None
    return kept == (record if at is None or record is None else without_large(record, at.stream, at.number))
