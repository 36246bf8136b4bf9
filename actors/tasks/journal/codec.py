"""How a record is written down: its kind, and JSON in ASCII. Nothing is ever pickled.

Comes in: a record of ``actors.tasks.model.task_events``. Goes out: text that any database takes, and from it the same
record again. What JSON has no words for survives as well: NaN, the infinities, NUL, half a character (a lone
surrogate), integers of any size.

Tasks and plans are checked by their own classes when they are read; other fields are taken as they are.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from dataclasses import is_dataclass
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import pydantic_core
from pydantic import BaseModel

from actors.model.errors import ConfigError
from actors.model.event_dict import kept_fields
from actors.model.events import Event, journalled_kind, require_journalled
from actors.tasks.model import StoreError

_PLAIN = {str, int, float, bool, dict, tuple}
"""Types of most values of records, which are no models for sure."""


def encode(record: Event) -> tuple[str, str]:
    """Return a record as the name of its kind and JSON. A field that has its default is not written.

    Raises:
        TypeError: the record could not be read back by the name of its kind: a bug.
    """
    require_journalled(record)
    cls: Any = type(record)
    values = {name: value for name, default in _written(cls) if (value := getattr(record, name)) is not default}
    for name, value in values.items():
        if type(value) not in _PLAIN and isinstance(value, BaseModel):  # which looks long at each
            values[name] = value.model_dump(exclude_unset=True)
    return cls.__name__, to_json(values)


def decode(kind: str, body: str) -> Event:
    """Return the record that was encoded.

    Raises:
        StoreError: the text is no record of ours.
    """
    cls = journalled_kind(kind)
    if cls is None:
        raise StoreError("journal", f"holds a record of the unknown kind {kind!r}. It was written by a newer version")
    try:
        record: Event = _made(cls, from_json(body))
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError, ConfigError) as error:
        # The error says nothing of the values: a record holds private data.
        what = f"holds a {kind} that is none ({type(error).__name__}). It is damaged, or was written by a newer version"
        raise StoreError("journal", what) from None
    return record


def to_json(value: object) -> str:
    """Return JSON in ASCII; of records and models that of dicts."""
    try:
        return pydantic_core.to_json(value, ensure_ascii=True, inf_nan_mode="constants").decode()
    except ValueError:  # half a character
        return json.dumps(value, separators=(",", ":"), default=pydantic_core.to_jsonable_python)


def from_json(text: str) -> Any:
    """Return the value that was written."""
    try:
        return pydantic_core.from_json(text)
    except ValueError:  # half a character, or more digits than Python reads at once
        return json.loads(text, parse_int=lambda digits: int(Decimal(digits)))


@cache
def _written(cls: Any) -> list[tuple[str, object]]:
    return [(each.name, each.default) for each in kept_fields(cls)]


def _made(cls: Any, data: dict[str, Any]) -> Any:
    for name, read in _readers(cls):
        if name in data:
            data[name] = read(data[name])
    return cls(**data)


@cache
def _readers(cls: Any) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return the fields of a dataclass that JSON has no type for, each with what makes its value."""
    hints = get_type_hints(cls)
    found = [(each.name, _reader(hints[each.name])) for each in kept_fields(cls)]
    return [(name, read) for name, read in found if read is not None]


@cache
def _reader(hint: Any) -> Callable[[Any], Any] | None:
    """Return what makes a value of this type of its JSON; None: JSON has it as it is."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType, tuple}:
        read = _reader(inner[0])
        if origin is tuple:
            return tuple if read is None else lambda values: tuple(map(read, values))
        return None if read is None else lambda value: None if value is None else read(value)
    if not isinstance(hint, type):
        return None
    if issubclass(hint, BaseModel):
        return lambda value: hint(**value)
    if is_dataclass(hint):
        return lambda value: _made(hint, value)
    return hint if issubclass(hint, Enum) else None
