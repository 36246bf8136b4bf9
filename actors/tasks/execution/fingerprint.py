"""Fingerprint of the arguments of a step: equal for equal arguments, in every process.

Comes in: what a step is called with. Goes out: 16 hexadecimal digits, from which nothing can be read back. A value is
taken by what JSON would say of it: models and dataclasses by their fields, enums by their value, sets and the keys of
dicts in sorted order, bytes by what is in them, dates, numbers and paths by their text. What has no such form counts by
the name of its type, a function by its own: a step that is called with another client or open file is the same step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any, Final

from pydantic import BaseModel

_ATOMS: Final = frozenset({str, int, float, bool, type(None)})
_TOLD: Final = frozenset({"datetime", "decimal", "fractions", "ipaddress", "pathlib", "uuid", "zoneinfo"})
"""Modules of types whose values are told apart by their text."""
_DEPTH: Final = 100
"""Depth to which a value is looked into."""


def fingerprint(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return the fingerprint of these arguments."""
    is_plain = not kwargs and _ATOMS.issuperset(map(type, args))
    text = repr(args) if is_plain else json.dumps(_plain([list(args), dict(kwargs)], 0))
    return blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def _plain(value: Any, depth: int) -> Any:  # noqa: PLR0911 - a table
    kind = type(value)
    if kind in _ATOMS:
        return value
    if depth > _DEPTH:
        return _named(kind)
    if isinstance(value, (list, tuple)):
        return [_plain(each, depth + 1) for each in value]
    if isinstance(value, Mapping):
        return {"{}": sorted([_text(key, depth), _text(each, depth)] for key, each in value.items())}
    if isinstance(value, (set, frozenset)):
        return {"set": sorted(_text(each, depth) for each in value)}
    if isinstance(value, Enum):
        return [_named(kind), _plain(value.value, depth + 1)]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"bytes": blake2b(bytes(value), digest_size=16).hexdigest()}
    if isinstance(value, (str, int, float)):
        return [_named(kind), _atom(value)]
    if kind is complex or not _TOLD.isdisjoint(base.__module__.partition(".")[0] for base in kind.__mro__):
        return [_named(kind), str(value)]
    found = _fields_of(value)
    return _named_itself(value) if found is None else [_named(kind), _plain(found, depth + 1)]


def _atom(value: str | float) -> Any:
    """Return the plain value of a subclass."""
    if isinstance(value, str):
        return str.__str__(value)
    return int(value) if isinstance(value, int) else float(value)


def _fields_of(value: Any) -> dict[str, Any] | None:
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return None


def _text(value: Any, depth: int) -> str:
    return json.dumps(_plain(value, depth + 1))


def _named(kind: type[Any]) -> str:
    return f"<{kind.__module__}.{kind.__qualname__}>"


def _named_itself(value: Any) -> str:
    """Name of a function or class, which every process has; else that of the type."""
    name = getattr(value, "__qualname__", None)
    return f"<{getattr(value, '__module__', '')}.{name}>" if isinstance(name, str) else _named(type(value))
