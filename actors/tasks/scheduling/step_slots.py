"""Slots for the steps of one orchestrator: how many planners, reviewers, synthesizers and undos run at once.

A burst of thousands of tasks makes as many calls of a model one after the other, and not at once. They begin in the
order in which they came. One that waits holds nothing, and its time limit counts from when it begins.

Only the tree's event loop touches them, so there is no lock. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Slots:
    """At most ``most`` at once; the rest waits in line."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._busy: set[Any] = set()
        self._waiting: dict[Any, Callable[[], object]] = {}

    def __repr__(self) -> str:
        return f"<Slots {len(self._busy)}/{self._most}, {len(self._waiting)} wait>"

    def enter(self, who: Any, begin: Callable[[], object]) -> bool:
        """True where it has a slot, or there is one, which is taken; else ``begin`` is called when it gets one.

        Whoever waits already keeps its place, and what was to be called before is not.
        """
        if who in self._busy:
            return True
        if who not in self._waiting and len(self._busy) < self._most:
            self._busy.add(who)
            return True
        self._waiting[who] = begin
        return False

    def leave(self, who: Any) -> None:
        """Give up a slot, or the wait for one. A second time it does nothing."""
        self._waiting.pop(who, None)
        if who not in self._busy:
            return
        self._busy.discard(who)
        if self._waiting:
            following = next(iter(self._waiting))
            begin = self._waiting.pop(following)
            self._busy.add(following)
            begin()
