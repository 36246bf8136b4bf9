"""Signs of life of one incarnation: made by whoever runs its code, read by ``actors.execution.stall_watch``.

Only an incarnation with ``stall_s`` has one. A sign costs one reading of the clock and one store, and no lock. A wait
in the library (``actors.sleep``, an ask) is one long sign: who waits there for a colleague does not hang, the colleague
does. Code of one handler may wait on several threads, or in several tasks, at once: each is one item of ``_waits``, the
request that it waits for. Those of a request end with it, whatever of it still waits.

*The end of a request, against the end of one of its waits on another thread*: whoever takes the item out ends the wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Pulse:
    """Signs of life of one incarnation."""

    __slots__ = ("_now", "_waits", "last")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._waits: deque[object] = deque()
        self.last = now()
        """Time of the last sign, on the tree's clock."""

    def beat(self) -> None:
        """Give a sign of life."""
        self.last = self._now()

    @property
    def waits(self) -> bool:
        """True while its code waits in the library."""
        return bool(self._waits)

    def enter(self, request: object = None) -> None:
        """Begin a wait in the library, for a request; None: for none."""
        self._waits.append(request)

    def leave(self, request: object = None) -> bool:
        """End a wait: that is a sign of life, which is there before the wait is gone. False: it was ended already."""
        if request not in self._waits:
            return False  # its request is over: what is left of that says nothing of the worker
        self.last = self._now()
        try:
            self._waits.remove(request)
        except ValueError:  # just now, on another thread
            return False
        return True

    def end(self, request: object) -> None:
        """End all waits of a request."""
        while request in self._waits:
            self.leave(request)
