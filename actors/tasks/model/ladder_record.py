"""Ladders that belong to a task or a subtask: they are recorded with it, and so have a form as JSON.

Comes in: rungs of ours, or what was recorded of them. Goes out: the same rungs. A rung is recorded as its name and the
fields that were given; an exception type as ``module:name``. Reading imports nothing, because whoever looks at a store
need not have the code: a type that is not loaded is known by its name, and so are its subclasses when they are raised.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Annotated, Any, Final, TypeAlias, cast

from pydantic import PlainSerializer, PlainValidator
from pydantic.json_schema import SkipJsonSchema

from actors.model.errors import ConfigError
from actors.tasks.model.policy import Escalate, Failover, Ladder, Retry, Rung
from actors.validation.validation_messages import listed, nearest, type_phrase, validation_error, validation_errors

_RUNGS: Final[dict[str, type[Rung]]] = {cls.__name__: cls for cls in (Retry, Failover, Escalate)}
_TYPES: Final = frozenset({"retry_on", "give_up_on"})
"""Fields that hold types of exceptions."""
_HINT: Final = "Write [Retry(), Failover(), Escalate()]."


def _read(value: object) -> Ladder | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)):
        raise validation_error(f"expected a list of rungs, got {type_phrase(value)}", _HINT)
    return tuple(_rung(each, f"[{at}]") for at, each in enumerate(value))


def _rung(value: object, at: str) -> Rung:
    if type(value) in _RUNGS.values():
        return value  # type: ignore[return-value]  # one of ours
    if isinstance(value, Rung):
        hint = "It is recorded with the task, which takes rungs of the library. Give yours to a worker or to Tasks()."
        raise validation_error(f"{type_phrase(value)} is a rung of your own", hint, at)
    if not isinstance(value, Mapping) or "rung" not in value:
        raise validation_error(f"expected a rung, got {type_phrase(value)}", _HINT, at)
    data = {str(name): each for name, each in value.items()}
    word = str(data.pop("rung"))
    if word not in _RUNGS:
        raise validation_error("names no rung", f"{nearest(word, _RUNGS)}Use {listed(_RUNGS)}.", at)
    for name in _TYPES & data.keys():
        if isinstance(data[name], (list, tuple)):
            data[name] = [_type_of(each) if isinstance(each, str) else each for each in data[name]]
    try:
        return _RUNGS[word](**data)
    except ConfigError as error:
        raise validation_errors([(f"{at}: {one.path}", one.what, one.hint) for one in error.problems]) from None


def _written(ladder: Sequence[Rung] | None) -> list[dict[str, Any]] | None:
    if ladder is None:
        return None
    return [{"rung": type(rung).__name__} | _fields(rung) for rung in ladder]


def _fields(rung: Rung) -> dict[str, Any]:
    given = [name for name in type(rung).model_fields if name in rung.model_fields_set]
    return {name: _plain(name, getattr(rung, name)) for name in given}


def _plain(name: str, value: Any) -> Any:
    return [f"{each.__module__}:{each.__qualname__}" for each in value] if name in _TYPES else value


class _ByName(type):
    """Type of exceptions that are known by their name only."""

    def __subclasscheck__(cls, other: type) -> bool:
        return any((each.__module__, each.__qualname__) == (cls.__module__, cls.__qualname__) for each in other.__mro__)


def _type_of(name: str) -> type[BaseException]:
    module, _, path = name.rpartition(":")
    found: Any = sys.modules.get(module) if module else builtins
    for part in path.split("."):  # not by getattr, with which a module may do anything
        found = vars(found).get(part) if isinstance(found, (ModuleType, type)) else None
    if isinstance(found, type) and issubclass(found, Exception):
        return found
    return _named(module, path)


@lru_cache(1024)
def _named(module: str, path: str) -> type[BaseException]:
    fields = {"__module__": module, "__qualname__": path}
    made: Any = _ByName(path.rpartition(".")[2], (Exception,), fields)
    return cast("type[BaseException]", made)


RecordedLadder: TypeAlias = Annotated[
    Sequence[Rung] | None, PlainValidator(_read), PlainSerializer(_written), SkipJsonSchema()
]
"""A list of rungs of the library, tried one after the other; kept as a tuple. None: there is none."""
