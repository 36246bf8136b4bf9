"""Tables that hold none of their things alive, and run no code when one goes.

A ``WeakValueDictionary`` and a ``WeakKeyDictionary`` have a callback for each thing, which is Python code. It runs
wherever the last hold on a thing goes, often on the main thread, and Python prints an exception that a signal handler
raises in it: a Ctrl-C of that moment would be lost. Here what is left of those that are gone is swept out when others
come. Any thread may use them: each change is one step of C.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar
from weakref import ref

ThingT = TypeVar("ThingT")
KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

_FEW: Final = 16
"""Entries before it is looked for those whose things are gone."""


class WeakValues(Generic[KeyT, ThingT]):
    """Things by their keys.

    Two changes of one key at once: the last one counts. A sweep may take out a thing that comes in under the key of one
    that is gone, so a table is for what can be made once more.
    """

    __slots__ = ("_refs", "_sweep_at")

    def __init__(self) -> None:
        self._refs: dict[KeyT, ref[ThingT]] = {}
        self._sweep_at = _FEW

    def get(self, key: KeyT) -> ThingT | None:
        """Return the thing under this key; None: there is none, or nobody holds it."""
        found = self._refs.get(key)
        return None if found is None else found()

    def put(self, key: KeyT, thing: ThingT) -> None:
        """Have it found under this key, as long as somebody holds it."""
        self._refs[key] = ref(thing)
        if len(self._refs) >= self._sweep_at:
            for each, found in self._refs.copy().items():
                if found() is None:
                    self._refs.pop(each, None)
            self._sweep_at = max(_FEW, 2 * len(self._refs))


class WeakKeys(Generic[ThingT, ValueT]):
    """Values that belong to things.

    What belongs to a thing is held until a sweep after that has gone, and must not hold the thing.
    """

    __slots__ = ("_sweep_at", "_values")

    def __init__(self) -> None:
        self._values: dict[ref[ThingT], ValueT] = {}
        """By reference: those to one thing are equal, and one whose thing is gone is equal to itself only."""
        self._sweep_at = _FEW

    def get(self, thing: ThingT) -> ValueT | None:
        """Return what belongs to a thing; None: nothing does."""
        return self._values.get(ref(thing))

    def put(self, thing: ThingT, value: ValueT) -> None:
        """Have this belong to a thing."""
        self._values[ref(thing)] = value
        self._sweep()

    def first(self, thing: ThingT, value: ValueT) -> ValueT:
        """Have this belong to a thing to which nothing does, in one step of C; return what does."""
        found = self._values.setdefault(ref(thing), value)
        self._sweep()
        return found

    def _sweep(self) -> None:
        if len(self._values) >= self._sweep_at:
            for each in list(self._values):
                if each() is None:
                    self._values.pop(each, None)
            self._sweep_at = max(_FEW, 2 * len(self._values))
