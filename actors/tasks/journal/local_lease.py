"""The right to start something: until when this process may, where several could (``trees.ha``).

Whoever starts something asks ``holds`` first: one reading of a clock and one comparison. Once it was found to be over,
it is over for good, whatever comes later: nobody is left waiting for something that was refused only for a moment.

Locking: ``_lock`` guards the end against a renewal that comes at the same moment; ``lapsed`` is called without it. It
is re-entrant, because a finalizer or a signal handler may run at any step under it and ask again: an end is looked at
after each store, and stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from actors.concurrency.look_lock import LookLock
from actors.tasks.model.task_errors import LeaseLostError


class LocalLease:
    """Until when this process may start something; not at all before the first ``extend``."""

    def __init__(self, now: Callable[[], float], store: str, root: str, lapsed: Callable[[], object]) -> None:
        self._now = now
        self._store = store
        self._root = root
        self._lapsed = lapsed
        self._lock = LookLock()
        self._until = -math.inf
        self._over = False
        self.token = 0
        """Number that effects outside should carry: it grows with every change of hands."""

    def __repr__(self) -> str:
        return f"<LocalLease {self.token} {'over' if self._over else 'held'}>"

    def holds(self) -> bool:
        """True while something may be started."""
        return self._now() < self._until or self._look_again()

    def _look_again(self) -> bool:
        """Slow, but exact: it may have been renewed just now. Where not, that is its end."""
        held, new = self._lock.look(self._held_or_new)
        if new:
            self._lapsed()
        return held

    def _held_or_new(self) -> tuple[bool, bool]:
        """With the lock held: whether it holds, and whether this look is the first that finds its end."""
        if self._now() < self._until:
            return True, False
        new = self._until > -math.inf
        if new:
            self._over = True
        self._until = -math.inf
        return False, new

    def extend(self, token: int, until: float) -> bool:
        """Note that the lease was taken, or renewed; False where it was found to be over before."""
        return self._lock.look(partial(self._extend, token, until))

    def _extend(self, token: int, until: float) -> bool:
        if not self._over:
            self.token, self._until = token, max(until, self._until)
        if self._over:  # perhaps by a call in between
            self._until = -math.inf
        return not self._over

    def end(self) -> None:
        """Nothing is started any more."""
        self._lock.look(self._end)

    def _end(self) -> None:
        self._over = True
        self._until = -math.inf

    def read(self) -> int:
        """The token, for an effect that is about to be had.

        Raises:
            LeaseLostError: the lease is over, or may be.
        """
        if not self.holds():
            why = f"{self._root!r} is not led by this process any more, or may not be (its token was {self.token})"
            raise LeaseLostError(self._store, self._root, "", why)
        return self.token
