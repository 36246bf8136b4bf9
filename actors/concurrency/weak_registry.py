"""Things of this process that are listed as long as somebody holds them.

A ``weakref.WeakSet`` is walked through by Python code: another thread that adds to it, or takes something out, makes
that a RuntimeError. Here whoever looks has a list that was made in one step of C, and each change is such a step too.
"""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

ThingT = TypeVar("ThingT")


class WeakRegistry(Generic[ThingT]):
    """A set, by identity, that holds nothing alive. Any thread may change it while another one looks."""

    __slots__ = ("_things",)

    def __init__(self) -> None:
        self._things: weakref.WeakValueDictionary[int, ThingT] = weakref.WeakValueDictionary()

    def add(self, thing: ThingT) -> None:
        """List it, as long as somebody holds it."""
        self._things[id(thing)] = thing

    def discard(self, thing: ThingT) -> None:
        """List it no longer."""
        self._things.pop(id(thing), None)

    def snapshot(self) -> list[ThingT]:
        """All that are listed now."""
        return [thing for ref in self._things.valuerefs() if (thing := ref()) is not None]
