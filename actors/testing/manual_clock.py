"""Time by hand."""

from __future__ import annotations

from collections.abc import Callable


class ManualClock:
    """A clock that stands still until ``advance`` moves it; what is due then happens in the thread that moves it.

    What is set only then, by code that has looked at the clock before, and is due already, happens on another thread at
    once. ``settle`` waits for it.
    """

    manual = True

    def __init__(self, start: float = 1000.0) -> None:
        self._now = start
        self._watchers: list[Callable[[], None]] = []

    def now(self) -> float:
        """Seconds."""
        return self._now

    def wall(self) -> float:
        """Seconds since 1970, as if the clock had started then."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move time forward. Timers that are due fire before this returns; what they set off may still go on."""
        self._now += seconds
        for moved in list(self._watchers):
            moved()

    def watch(self, moved: Callable[[], None]) -> Callable[[], None]:
        """Have ``moved`` called at each advance; returns how to end that."""
        self._watchers.append(moved)
        return lambda: self._watchers.remove(moved) if moved in self._watchers else None
