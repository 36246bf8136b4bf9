"""Delays that grow, from a first one to a longest: how ``initial_s`` and ``max_s`` go together. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from actors.model.errors import Problem
from actors.validation.field_types import MAX_SECONDS

LONGEST_S: Final = 30.0
"""Default of ``max_s``, in seconds."""


def with_longest(given: Any) -> Any:
    """Return the unchecked arguments; a first delay above the default of ``max_s`` is the longest one as well."""
    if not isinstance(given, Mapping) or "max_s" in given:
        return given
    first = given.get("initial_s")
    if isinstance(first, bool) or not isinstance(first, (int, float)) or not LONGEST_S < first <= MAX_SECONDS:
        return given
    return {**given, "max_s": first}


def delay_problems(title: str, given: Mapping[str, Any]) -> list[Problem]:
    """Refuse a longest delay below the first one, where both were given. A first one by default is cut to it."""
    first, most = given.get("initial_s"), given.get("max_s")
    if isinstance(first, (int, float)) and isinstance(most, (int, float)) and 0 <= most < first:
        what = f"{most!r} is less than initial_s={first!r}"
        return [Problem(f"{title}.max_s", what, "Raise max_s: no delay is longer than it.")]
    return []
