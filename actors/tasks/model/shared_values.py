"""JSON values that many hold at once: the journal, the orchestrator, and every attempt that depends on them.

There is one form of each, which nobody changes. Code that may change it gets a copy of its own, made in the worker that
asks for it and only when it does: never on the orchestrator's loop, and never once for each dependant that does not
look. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

from typing import Any, Final

SMALL_NODES: Final = 1_000
"""Values inside a value, with itself: so many are copied, checked or measured in the time of a few messages."""
SMALL_CHARS: Final = 100_000
"""Size up to which its texts count as small, in characters."""
_CONTAINERS: Final = frozenset({dict, list})
_ATOMS: Final = frozenset({int, float, bool, type(None)})


def copied(value: Any) -> Any:
    """Copy a JSON value for code that may change it. Only dicts and lists are copied: nothing else can be changed."""
    if type(value) is dict:
        return {key: copied(each) if type(each) in _CONTAINERS else each for key, each in value.items()}
    if type(value) is list:
        return [copied(each) if type(each) in _CONTAINERS else each for each in value]
    return value


def is_small(value: object, *, of_json: bool = True) -> bool:
    """Return whether a value is so small that work on all of it takes a moment. Looks at no more than that.

    Args:
        value: any; what is no JSON is never small, because looking at it may run the code of a user.
        of_json: the value is JSON for sure, so that only its size matters.
    """
    nodes, chars = 1, 0
    left: list[Any] = [value]
    while left:
        each = left.pop()
        kind = type(each)
        if kind is str:
            chars += len(each)
        elif kind in _CONTAINERS:
            nodes += len(each)
            if nodes > SMALL_NODES:
                return False
            left += each
            if kind is dict:
                left += each.values()
        elif kind not in _ATOMS and not of_json:
            return False
        if chars > SMALL_CHARS:
            return False
    return True
