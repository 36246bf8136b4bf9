"""Things of this process that are listed as long as somebody holds them.

A ``weakref.WeakSet`` is walked through by Python code: another thread that adds to it, or takes something out, makes
that a RuntimeError. Here whoever looks has a list that was made in one step of C, and each change is such a step too.

No code runs when a thing goes. A callback of a weak reference runs wherever the thing is let go of, often on the main
thread, and Python prints an exception that a signal handler raises in it: a Ctrl-C of that moment would be lost. So
what is left of those that are gone is swept out when others come.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar
from weakref import ref

ThingT = TypeVar("ThingT")

_FEW: Final = 16
"""References before it is looked for those whose things are gone."""


class WeakRegistry(Generic[ThingT]):
    """A set, by identity, that holds nothing alive. Any thread may change it while another one looks."""

    __slots__ = ("_refs", "_sweep_at")

    def __init__(self) -> None:
        self._refs: dict[int, ref[ThingT]] = {}
        """References by their own identity: a thing has one reference without a callback, as long as that is held."""
        self._sweep_at = _FEW

    def add(self, thing: ThingT) -> None:
        """List it, as long as somebody holds it."""
        found = ref(thing)
        self._refs[id(found)] = found
        if len(self._refs) >= self._sweep_at:
            self._sweep()

    def discard(self, thing: ThingT) -> None:
        """List it no longer."""
        found = ref(thing)  # held meanwhile, so its identity is that of no other one
        self._refs.pop(id(found), None)

    def snapshot(self) -> list[ThingT]:
        """All that are listed now."""
        return [thing for each in list(self._refs.values()) if (thing := each()) is not None]

    def _sweep(self) -> None:
        """Forget the references of those that are gone. Each is held here meanwhile, so its identity is its own."""
        for each in list(self._refs.values()):
            if each() is None:
                self._refs.pop(id(each), None)
        self._sweep_at = max(_FEW, 2 * len(self._refs))
