"""Timers of a tree: one thread, one heap.

Timers only put messages into mailboxes or complete replies; they never run user code, so one thread serves a whole
tree. A cancelled timer lets go of its callback at once, so that it keeps nothing alive.

With a manual clock there is no waiting: moving the clock fires what is due, in order, in the thread that moves it. The
race: *the clock is moved between the look at it and the setting of a timer*. A timer is entered first, then the clock
is looked at; who moves the clock moves it first, then looks for timers. So one of the two finds the other. A timer that
is due as it is set is fired by a thread of its own: whoever sets it may not expect that yet.

Locking: ``_lock`` guards the heap. Callbacks run after it was released. It is re-entrant, because a finalizer or a
signal handler may run at any step under it and set a timer: the heap is changed in steps of C only, and what was looked
at is looked at again once it was taken. A wait for a reply is refused there, because whoever is to reply may need a
timer. The thread sleeps without the lock, and a ``Wakeup`` that comes before is kept.

Most timers are limits that are cancelled soon, one after the other. So a timer wakes the thread only if it is due
before the thread wakes by itself (``_wakes_at``), and a cancel never does. When it wakes, the thread drops all that was
cancelled before the next one that was not, and sleeps up to the last of these at most, as if it were to happen: what is
set meanwhile is mostly due later. So it wakes once for each distance of these limits, and not for each of them. The
race: *a timer is set while the thread looks how long to sleep*. Both are done under the lock. A timer that comes in
between on the thread itself is in the heap before the thread looks, or it finds that the thread does not sleep yet
(``_wakes_at`` is infinite), and gives a ``Wakeup``.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
from collections.abc import Callable
from functools import partial
from threading import get_ident

from actors.concurrency.look_lock import LookLock
from actors.concurrency.thread_state import in_background, join_thread, serves_others, start_thread
from actors.concurrency.wakeup import Wakeup
from actors.messaging.reply import Reply
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
        self._lock = LookLock()
        self._wake = Wakeup()
        self._wakes_at = math.inf
        """When its thread wakes by itself; while it is awake the same of its last sleep, or infinite."""
        self._dropped = math.inf
        """When the last one was due that was dropped since that sleep, because it was cancelled."""
        self._heap: list[tuple[float, int, Timer]] = []
        self._firing: dict[Reply, None] = {}
        self._fires_here: int | None = None
        """Thread that is in a callback, and looks again after it; of several the last one that has begun."""
        self._numbers = itertools.count()
        self._purge_at = _PURGE
        self._thread: threading.Thread | None = None
        self._closed = False
        self._unwatch = clock.watch(self.fire_due)

    def call_at(self, due: float, callback: Callable[[], object]) -> Timer:
        """Call ``callback()`` at ``due``, in seconds of the clock."""
        timer = Timer(callback)
        is_sooner = self._lock.look(partial(self._set, due, timer))
        if not self._clock.manual:
            if is_sooner:
                self._wake.give()
        elif due <= self._clock.now() and not self._closed and self._fires_here != get_ident():
            self._fire_apart()
        return timer

    def _fire_apart(self) -> None:
        fired = Reply()
        self._firing[fired] = None

        def fire() -> None:
            try:
                self.fire_due()
            finally:
                self._firing.pop(fired, None)
                fired.complete()

        in_background(self.name, fire)

    @property
    def firing(self) -> list[Reply]:
        """Replies of those that fire timers apart just now, which were due as they were set."""
        return list(self._firing.copy())

    def _set(self, due: float, timer: Timer) -> bool:
        """With the lock held: True where its thread has to wake for it."""
        if self._closed:
            return False
        if len(self._heap) >= self._purge_at:
            self._purge()
        heapq.heappush(self._heap, (due, next(self._numbers), timer))
        return due < self._wakes_at

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
        while (timer := self._lock.look(self._pop_due)) is not None:
            self._fires_here = get_ident()  # what is set by a callback, and is due, is found by the next look
            try:
                self._fire(timer)
            finally:
                self._fires_here = None

    def _fire(self, timer: Timer) -> None:
        callback, timer.callback = timer.callback, None
        if callback is not None:
            try:
                callback()
            except BaseException as error:
                self._failed(error)

    def _pop_due(self) -> Timer | None:
        """With the lock held: the next one that is due, taken off the heap with what was cancelled before it."""
        while first := self._heap[:1]:
            if first[0][2].callback is not None and first[0][0] > self._clock.now():
                return None
            try:
                entry = heapq.heappop(self._heap)  # perhaps one that was set in between
            except IndexError:
                return None
            if entry[2].callback is None:
                self._dropped = entry[0]
                continue
            if entry[0] <= self._clock.now():
                return entry[2]
            heapq.heappush(self._heap, entry)
        return None

    def _purge(self) -> None:
        """With the lock held: drop what was cancelled. Costs as much as has been added since the last time."""
        self._purge_at = 2 * len(self._heap)  # whoever comes in between does not purge as well
        entries, self._heap = self._heap, []
        for entry in entries:
            if entry[2].callback is not None:
                heapq.heappush(self._heap, entry)
        self._purge_at = max(_PURGE, 2 * len(self._heap))

    def _main(self) -> None:
        serves_others()
        while not self._closed:
            self.fire_due()
            # Under the lock: whoever purges has an empty heap for a moment. A look then would sleep past what is due.
            left = self._lock.look(self._first_due) - self._clock.now()
            if left > 0 and not self._closed:
                self._wake.sleep(min(left, LONGEST_S))

    def _first_due(self) -> float:
        self._wakes_at = math.inf  # first: what is set from here on, and may not be seen, ends the sleep
        first, dropped = self._heap[:1], self._dropped
        self._dropped = math.inf
        due = self._wakes_at = min(dropped, first[0][0] if first else math.inf)
        return due

    def _close(self) -> list[tuple[float, int, Timer]]:
        self._closed = True
        left, self._heap = self._heap, []
        return left

    def close(self, timeout_s: float) -> None:
        """Nothing happens any more; waits at most ``timeout_s`` for the thread."""
        self._unwatch()
        left = self._lock.look(self._close)
        self._wake.give()
        del left  # what the callbacks hold goes after the lock
        if self._thread is not None:
            join_thread(self._thread, timeout_s)
