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


def is_small(value: object, *, of_json: bool = True) -> bool:
    """True where a value is so small that what is done with all of it holds up nobody. Looks at no more than that.

    Args:
        value: any; what is no JSON is never small, because nobody knows what it does when it is looked at.
        of_json: the value is JSON for sure, so that only its size matters.
    """
    nodes, chars = 0, 0
    left: list[Any] = [value]
    while left:
        each = left.pop()
        kind = type(each)
        nodes += 1
        if kind is str:
            chars += len(each)
        elif kind is dict:
            nodes += len(each)
            if nodes > SMALL_NODES:
                return False
            left += each.values()
            chars += sum(map(len, map(str, each)))
        elif kind is list:
            if nodes + len(each) > SMALL_NODES:
                return False
            left += each
        elif kind not in _ATOMS and not of_json:
            return False
        if nodes > SMALL_NODES or chars > SMALL_CHARS:
            return False
    return True
