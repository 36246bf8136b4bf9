"""The right to start something: until when this process may, where several could (``trees.ha``).

``holds`` is asked before anything is started: one reading of a clock and one comparison. A lease that was once found to
be over stays over: a later renewal is refused.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from actors.tasks.model import LeaseLostError


class LocalLease:
    """Until when this process may start something; not at all before the first ``extend``.

    Args:
        now: the clock, in seconds.
        store: name of the store, for errors.
        root: id of the root of the tree.
        lapsed: called once when the lease is found to be over, without the lock.
    """

    def __init__(self, now: Callable[[], float], store: str, root: str, lapsed: Callable[[], object]) -> None:
        self._now, self._store, self._root, self._lapsed = now, store, root, lapsed
        self._lock = threading.Lock()  # between the first look that finds the end and a renewal at the same moment
        self._until = -math.inf
        self._over = False
        self.token = 0
        """Number that effects outside should carry: it grows with every change of hands."""

    def holds(self) -> bool:
        """True while something may be started."""
        if self._now() < self._until:
            return True
        with self._lock:
            if self._now() < self._until:  # it was renewed just now
                return True
            is_new = self._until > -math.inf
            self._over, self._until = self._over or is_new, -math.inf
        if is_new:
            self._lapsed()
        return False

    def extend(self, token: int, until: float) -> bool:
        """Note that the lease was taken, or renewed; False if it was found to be over before."""
        with self._lock:
            if not self._over:
                self.token, self._until = token, max(until, self._until)
            return not self._over

    def end(self) -> None:
        """Nothing is started any more."""
        with self._lock:
            self._over, self._until = True, -math.inf

    def read(self) -> int:
        """Return the token, for an effect that is about to be had.

        Raises:
            LeaseLostError: the lease is over, or may be.
        """
        if not self.holds():
            why = f"{self._root!r} is not led by this process any more, or may not be (its token was {self.token})"
            raise LeaseLostError(self._store, self._root, "", why)
        return self.token
