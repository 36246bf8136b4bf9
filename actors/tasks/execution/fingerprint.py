"""Fingerprint of the arguments of a step: equal for equal arguments, in every process.

A value is taken by what JSON would say of it: models and dataclasses by their fields, enums by their value, sets in
sorted order, bytes by what is in them, dates, numbers and paths by their text. What has no such form counts by the name
of its type, a function by its own: a step that is called with another client or open file is the same step. Arguments
that hold themselves, or dicts with keys that cannot be sorted, count by their types alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any, Final

from pydantic import BaseModel

_TOLD: Final = frozenset({"datetime", "decimal", "fractions", "ipaddress", "pathlib", "uuid", "zoneinfo"})
"""Modules of types whose values are told apart by their text."""


def fingerprint(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return the fingerprint of these arguments: 16 hexadecimal digits."""
    try:
        text = _text([args, kwargs])
    except (TypeError, ValueError, RecursionError):
        text = _text([[_named(type(each)) for each in args], sorted(kwargs)])
    return blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:  # noqa: PLR0911 - a table
    """Return what stands for a value that JSON has no form of."""
    if isinstance(value, (Mapping, BaseModel)):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(map(_text, value))
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return value.hex()
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if type(value).__module__.partition(".")[0] in _TOLD:
        return str(value)
    return _named(value if hasattr(value, "__qualname__") else type(value))


def _named(value: Any) -> str:
    """Name of a function or a class, which every process has."""
    return f"<{getattr(value, '__module__', '')}.{value.__qualname__}>"
