"""Signs of life of one incarnation: made by whoever runs its code, read by ``actors.execution.stall_watch``.

Only an incarnation with ``stall_s`` has one. A sign costs one reading of the clock and one store, and no lock. A wait
in the library (``actors.sleep``, an ask) is one long sign: who waits there for a colleague does not hang, the colleague
does. Code of one handler may wait on several threads, or in several tasks, at once: each is one item of ``_waits``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Pulse:
    """Signs of life of one incarnation."""

    __slots__ = ("_now", "_waits", "last")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._waits: deque[None] = deque()
        self.last = now()
        """Time of the last sign, on the tree's clock."""

    def beat(self) -> None:
        """Give a sign of life."""
        self.last = self._now()

    @property
    def waits(self) -> bool:
        """True while its code waits in the library."""
        return bool(self._waits)

    def enter(self) -> None:
        """Begin a wait in the library."""
        self._waits.append(None)

    def leave(self) -> None:
        """End a wait: that is a sign of life, which is there before the wait is gone."""
        self.last = self._now()
        if self._waits:
            self._waits.pop()

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *_: object) -> None:
        self.leave()
