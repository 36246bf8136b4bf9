"""Things that are done one after the other, also where code comes in between on the same thread.

A finalizer may run at every allocation, and a signal handler between any two instructions of the main thread. If it
wants to change what is just being changed, a plain lock would make it wait for its own thread for ever, and a
re-entrant one alone would let it change what is half done.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from actors.concurrency.thread_state import without_waits

T = TypeVar("T")
B = TypeVar("B")


class InTurn:
    """Does one thing at a time: other threads wait; what comes in between on the same thread is done next.

    ``_lock`` keeps other threads out. It is re-entrant, so whoever only looks may do so anywhere, and may find a thing
    half done. An act that raises is over; what waits behind it is done with the next one.

    Nobody waits for a reply on a thread that has the lock (``without_waits``): whoever is to reply may need it.

    An act is queued under the lock. So each thread does its own, and what it raises; were it queued before, the thread
    that has the lock could take it, and its owner would return while it is being done.
    """

    __slots__ = ("_acts", "_is_busy", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._acts: deque[Callable[[], object]] = deque()
        self._is_busy = False
        """True while the thread with the lock does something."""

    def do(self, act: Callable[[], object]) -> None:
        """Have it done by the time this returns, or, in between, by the time the call below this one does."""
        without_waits(partial(self._do, act))

    def _do(self, act: Callable[[], object]) -> None:
        with self._lock:
            self._acts.append(act)
            self._go_on()

    def get(self, act: Callable[[], T], between: B) -> T | B:
        """Have it done now, and return what it returns; in between it is not done, and this is ``between``."""
        return without_waits(partial(self._get, act, between))

    def look(self, look: Callable[[], T]) -> T:
        """Have it looked at while no other thread does anything; in between, at what is half done."""
        return without_waits(partial(self._look, look))

    def _look(self, look: Callable[[], T]) -> T:
        with self._lock:
            return look()

    def _get(self, act: Callable[[], T], between: B) -> T | B:
        with self._lock:
            if self._is_busy:
                return between
            try:
                self._is_busy = True
                return act()
            finally:
                self._is_busy = False
                if self._acts:
                    self._go_on()

    def _go_on(self) -> None:
        while self._acts and not self._is_busy:  # once more after the last: something may have come when it ended
            try:
                self._is_busy = True
                while self._acts:
                    self._acts.popleft()()
            finally:
                self._is_busy = False
