"""JSON values that many hold at once: the journal, the orchestrator, and every attempt that depends on them.

There is one form of each, which nobody changes. Code that may change it gets a copy of its own, made in the worker that
asks for it and only when it does: never on the orchestrator's loop, and never once for each dependant that does not
look. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

SMALL_NODES: Final = 1_000
"""Values inside a value, with itself: so many are copied, checked or measured in the time of a few messages."""
SMALL_CHARS: Final = 100_000
"""Size up to which its texts count as small, in characters."""
_CONTAINERS: Final = frozenset({dict, list})
_ATOMS: Final = frozenset({int, float, bool, type(None)})


def copied(value: Any) -> Any:
    """A JSON value for somebody who may change it: what is shared stays as it was.

    Only dicts and lists are copied: nothing else in it can be changed.
    """
    if type(value) not in _CONTAINERS:
        return value
    copied = value.copy()
    left = [copied]
    while left:
        each = left.pop()
        entries = each.items() if type(each) is dict else enumerate(each)
        for key, inner in [entry for entry in entries if type(entry[1]) in _CONTAINERS]:
            each[key] = inner.copy()
            left.append(each[key])
    return copied


def is_small(value: object, *, of_json: bool = True) -> bool:  # noqa: C901 - the hot path, in one piece
    """True where a value is so small that what is done with all of it holds up nobody. Looks at no more than that.

    Args:
        value: any; what is no JSON is never small, because nobody knows what it does when it is looked at.
        of_json: the value is JSON for sure, so that only its size matters.
    """
    nodes, chars = 1, 0
    left: list[Any] = [value]
    while left:
        each = left.pop()
        kind = type(each)
        if kind is dict:
            nodes += 2 * len(each)
            inner: Iterable[Any] = each.values()
        elif kind is list:
            nodes += len(each)
            inner = each
        elif kind is str or kind in _ATOMS:
            inner = (each,)
        elif of_json:
            continue
        else:
            return False
        if nodes > SMALL_NODES:
            return False
        if kind is dict:
            chars += sum(map(len, map(str, each)))
        for one in inner:
            if type(one) is str:
                chars += len(one)
            elif type(one) not in _ATOMS:
                left.append(one)
        if chars > SMALL_CHARS:
            return False
    return True
