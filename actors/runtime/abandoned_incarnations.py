"""Abandoned incarnations: their thread or task still runs, though nobody waits for it.

Locking: ``_lock`` guards ``incarnations``. No other lock is taken while it is held, but a finalizer may run there and
come here again, so it is re-entrant, and a wait there is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from actors.concurrency.look_lock import LookLock
from actors.execution.incarnation import Incarnation
from actors.model import events


class AbandonedIncarnations:
    """Part of a tree that knows what still runs where nobody waits for it any more."""

    def __init__(self, publish: Callable[[events.Event], object]) -> None:
        self._publish = publish
        self._lock = LookLock()
        self.incarnations: set[Incarnation] = set()
        """Incarnations that were abandoned and still run."""

    def forked(self) -> None:
        """Take a new lock in the child of a fork: a thread that is not here may have held the old one."""
        self._lock = LookLock()

    def add(self, incarnation: Incarnation) -> None:
        """Note that an incarnation was abandoned."""
        self._lock.look(partial(self._add, incarnation))
        self._publish(events.ChildAbandoned(incarnation.mailbox.path, incarnation.mailbox.abandoned))

    def _add(self, incarnation: Incarnation) -> None:
        if incarnation.abandoned:  # else it came back before this
            self.incarnations.add(incarnation)

    def returned(self, incarnation: Incarnation) -> None:
        """Note that the thread of an abandoned incarnation has returned."""
        self._lock.look(partial(self.incarnations.discard, incarnation))

    def by_path(self) -> Counter[str]:
        """Count them by path."""
        return Counter(incarnation.mailbox.path for incarnation in list(self.incarnations))
