"""Lock of something that several threads look at and change: other threads wait, the same thread goes on.

A finalizer may run at every allocation, and a signal handler between any two instructions of the main thread. So either
may run on a thread that has this lock. There a look goes on, because the lock is re-entrant, and may see a change half
done. A wait for a reply is refused at once with ``BlockingAskError``: the code that is to reply may need this lock.

``actors.concurrency.in_turn`` is for what nobody waits for: there a change in between is done next. A signal handler
that raises leaves neither the lock nor the mark that refuses waits behind: Python runs none between the take of a lock
and its block.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from actors.concurrency.thread_state import without_waits

T = TypeVar("T")


class LookLock:
    """Lets one thread at a time look at what it guards. Who comes in between, on the same thread, looks as well."""

    __slots__ = ("looking",)

    def __init__(self) -> None:
        self.looking = threading.RLock()
        """Keeps other threads out."""

    def look(self, act: Callable[[], T]) -> T:
        """Have it looked at, or changed where that may be met half done; return what that returns."""
        return without_waits(partial(self._look, act))

    def _look(self, act: Callable[[], T]) -> T:
        with self.looking:
            return act()
