"""Timers of a tree: one thread, one heap.

Timers only put messages into mailboxes or complete replies; they never run user code, so one thread serves a whole
tree. A cancelled timer lets go of its callback at once, so that it keeps nothing alive.

With a manual clock there is no waiting: moving the clock fires what is due, in order, in the thread that moves it.

Locking: ``_lock`` (inside ``_wake``) guards the heap. Callbacks run after it was released.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable

from actors.concurrency.thread_state import join_thread, start_thread
from actors.model.clock import Clock

LONGEST_S = 86_400.0
"""One wait of its thread: the platform refuses those that are too long, and a timer may be as far off as it likes."""
_PURGE = 1024


class Timer:
    """One thing to happen once."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Cancel it, unless it is happening just now."""
        self.callback = None


class Timers:
    """Calls back at given times of a clock."""

    def __init__(self, name: str, clock: Clock, *, failed: Callable[[BaseException], None]) -> None:
        self.name = name
        self._clock = clock
        self._failed = failed
        self._wake = threading.Condition(threading.Lock())
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._purge_at = _PURGE
        self._thread: threading.Thread | None = None
        self._closed = False
        self._unwatch = clock.watch(self.fire_due)

    def call_at(self, due: float, callback: Callable[[], object]) -> Timer:
        """Call ``callback()`` at ``due``, in seconds of the clock."""
        timer = Timer(callback)
        with self._wake:
            if self._closed:
                return timer
            if len(self._heap) >= self._purge_at:
                self._purge()
            heapq.heappush(self._heap, (due, next(self._numbers), timer))
            if self._clock.manual:
                return timer
            if self._heap[0][2] is timer:
                self._wake.notify()
        return timer

    def open(self) -> None:
        """Start its thread.

        Raises:
            RuntimeError: the machine gives it none.
        """
        if not self._clock.manual:
            thread = threading.Thread(target=self._main, name=self.name, daemon=True)
            start_thread(thread)
            self._thread = thread

    def fire_due(self) -> None:
        """Call back all that is due by now, in order of their times."""
        while (timer := self._pop_due()) is not None:
            callback, timer.callback = timer.callback, None
            if callback is not None:
                try:
                    callback()
                except BaseException as error:
                    self._failed(error)

    def _pop_due(self) -> Timer | None:
        with self._wake:
            while self._heap:
                due, _, timer = self._heap[0]
                if timer.callback is not None and due > self._clock.now():
                    return None
                heapq.heappop(self._heap)
                if timer.callback is not None:
                    return timer
            return None

    def _purge(self) -> None:
        """With the lock held: drop what was cancelled. Costs as much as has been added since the last time."""
        self._heap = [entry for entry in self._heap if entry[2].callback is not None]
        heapq.heapify(self._heap)
        self._purge_at = max(_PURGE, 2 * len(self._heap))

    def _main(self) -> None:
        while True:
            self.fire_due()
            with self._wake:
                if self._closed:
                    return
                left = self._heap[0][0] - self._clock.now() if self._heap else None
                if left is None or left > 0:
                    self._wake.wait(None if left is None else min(left, LONGEST_S))

    def close(self, timeout_s: float) -> None:
        """Nothing happens any more; waits at most ``timeout_s`` for the thread."""
        self._unwatch()
        with self._wake:
            self._closed = True
            self._heap.clear()
            self._wake.notify_all()
        if self._thread is not None:
            join_thread(self._thread, timeout_s)
