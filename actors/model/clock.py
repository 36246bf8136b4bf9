"""Time, and the only door to it.

Everything that measures or waits asks a ``Clock``. In production that is ``SystemClock``; in tests
``actors.testing.ManualClock``, which stands still until it is told to move. Times are seconds on a monotonic
clock whose zero means nothing.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Protocol

monotonic = time.monotonic
"""The machine's monotonic clock: only for how long a thread may block, never for what a tree decides."""

_ASLEEP_TOO = getattr(time, "CLOCK_BOOTTIME", None)

unstopped: Callable[[], float] = (
    time.monotonic if _ASLEEP_TOO is None else functools.partial(time.clock_gettime, _ASLEEP_TOO)
)
"""As ``monotonic``, and it goes on while the machine sleeps, where the platform can tell: for the lease of a leader."""

cpu_s = time.process_time
"""Seconds of CPU that this process has used, all threads together."""


def local(seconds: float) -> str:
    """A time in seconds since 1970 as people here read it: ``2031-05-06 07:08:09.123``."""
    whole, milliseconds = divmod(int(seconds * 1000), 1000)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(whole))}.{milliseconds:03}"


class Clock(Protocol):
    """Interface to time that a tree needs."""

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
