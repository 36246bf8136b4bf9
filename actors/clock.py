"""Time, and the only door to it.

Everything that measures or waits asks a ``Clock``. In production that is ``SystemClock``; in tests
``actors.testing.ManualClock``, which stands still until it is told to move. Times are seconds on a monotonic
clock whose zero means nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

monotonic = time.monotonic
"""The machine's monotonic clock: only for how long a thread may block, never for what a tree decides."""

cpu_s = time.process_time
"""Seconds of CPU that this process has used, all threads together."""


class Clock(Protocol):
    """What a tree needs of time."""

    @property
    def manual(self) -> bool:
        """True where time moves only when somebody moves it."""

    @property
    def now(self) -> Callable[[], float]:
        """``now()``: seconds on a monotonic clock."""

    def wall(self) -> float:
        """Seconds since 1970, for people."""

    def watch(self, moved: Callable[[], None]) -> Callable[[], None]:
        """Have ``moved`` called whenever time was moved by hand; returns how to end that."""


class SystemClock:
    """The machine's own clock.

    ``offset_s`` is added to every reading. Tests give a random one, so that code which peeks at another clock
    is wrong at once and visibly.
    """

    manual = False

    def __init__(self, offset_s: float = 0.0) -> None:
        self.now: Callable[[], float] = time.monotonic
        if offset_s:
            self.now = lambda: time.monotonic() + offset_s

    def wall(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def watch(self, moved: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002 - nobody moves this clock
        """Nothing moves this clock by hand: ``moved`` is never called."""
        return lambda: None
