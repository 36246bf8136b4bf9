"""Lock of something that is changed in steps: other threads wait, and what comes in between changes nothing.

A finalizer may run at every allocation, and a signal handler between any two instructions of the main thread. So either
may run on a thread that has this lock, in the middle of a change:

===================  ===============================================================================================
in between           what becomes of it
===================  ===============================================================================================
a look               goes on (the lock is re-entrant), and may see a change half done
a change             ``BlockingAskError``, before anything is done: it would meet what is half done
a wait for a reply   ``BlockingAskError``, at once: whoever is to reply may need this lock, and never would. So in
                     the middle of a look, too, and while this thread waits for the lock: the mark that refuses
                     waits is there before the lock is, and goes after it
===================  ===============================================================================================

``actors.concurrency.in_turn`` is for what nobody waits for: there a change in between is done next. Before the mark of
a change, and after it, nothing is half done: what comes in there is done as a whole. A signal handler that raises
leaves neither the lock nor the mark behind: Python runs none between the take of a lock and its block.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from actors.concurrency.thread_state import ON_A_THREAD, without_waits
from actors.model.errors import BlockingAskError

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


class ChangeLock(LookLock):
    """Lets one thread at a time change what it guards.

    Args:
        path: of whom the caller would have to wait for, for the error.
    """

    __slots__ = ("_is_busy", "_path")

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._is_busy = False
        """True while the thread that has the lock changes something."""

    def change(self, act: Callable[[], T]) -> T:
        """Have it done, and return what it returns.

        Raises:
            BlockingAskError: this thread is in the middle of another one.
        """
        return without_waits(partial(self._change, act))

    def _change(self, act: Callable[[], T]) -> T:
        with self.looking:
            if self._is_busy:
                raise BlockingAskError(self._path, ON_A_THREAD, is_in_between=True)
            try:
                self._is_busy = True
                return act()
            finally:
                self._is_busy = False
