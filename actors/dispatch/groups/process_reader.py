"""One thread that reads what all commands of this host write, and sees them end: a selector, not a thread each.

It runs while there is a process to watch, and a second longer. Others give it something to do by ``call``, which never
waits. What it calls is code of ours that never blocks; code of users runs on the pool of its tree.

``_lock`` guards the thread, and whether it is about to go: who calls finds one that will look, or starts another.
"""

from __future__ import annotations

import heapq
import itertools
import os
import selectors
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from actors.concurrency.thread_state import serves_others, start_thread
from actors.dispatch.groups.process_group import GROUPS, GuardianError
from actors.model.clock import monotonic
from actors.model.log_lines import Line, place_of, write
from actors.model.raised import frames_of

LINGER_S: Final = 1.0
"""How long it stays, and the guardian with it, when there is nothing to watch any more."""


class ProcessReader:
    """Watches descriptors and times, on one thread."""

    _follows_forks = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._calls: deque[Callable[[], object]] = deque()
        self._wakes: int | None = None
        """Pipe that wakes the thread."""
        self._times: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._selector: Any = None
        self._watched = 0

    @property
    def thread(self) -> threading.Thread | None:
        """Thread of it, while there is one: the host's, and no tree's."""
        return self._thread

    # -- from any thread -----------------------------------------------------------------------------------

    def call(self, act: Callable[[], object]) -> None:
        """Have something done on the thread of the reader, soon.

        Raises:
            RuntimeError: the machine gives no more threads.
        """
        with self._lock:
            self._calls.append(act)
            if self._thread is None:
                try:
                    self._begin()
                except BaseException:
                    self._calls.pop()
                    raise
            elif self._wakes is not None:
                with suppress(BlockingIOError):  # it is awake then
                    os.write(self._wakes, b".")

    def _begin(self) -> None:
        if not self._follows_forks:
            self._follows_forks = True
            os.register_at_fork(after_in_child=self.__init__)  # type: ignore[misc]
        heard, self._wakes = os.pipe()
        os.set_blocking(heard, False)
        os.set_blocking(self._wakes, False)
        self._selector, self._watched, self._times = selectors.DefaultSelector(), 0, []
        self._selector.register(heard, selectors.EVENT_READ, lambda: _empty(heard))
        self._thread = threading.Thread(target=self._run, args=(heard, self._wakes), name="commands", daemon=True)
        try:
            start_thread(self._thread)
        except RuntimeError:
            self._thread = None
            self._close(heard, self._wakes)
            raise

    # -- on its thread -------------------------------------------------------------------------------------

    def watch(self, fd: int, act: Callable[[], object]) -> None:
        """Call ``act()`` whenever there is something to read."""
        self._selector.register(fd, selectors.EVENT_READ, act)
        self._watched += 1

    def forget(self, fd: int) -> None:
        """Watch it no longer. The caller closes it."""
        self._selector.unregister(fd)
        self._watched -= 1

    def hold(self) -> None:
        """Stay, and see to the guardian: there is a process that others read."""
        self._watched += 1

    def release(self) -> None:
        """Take a ``hold`` back."""
        self._watched -= 1

    def later(self, delay_s: float, act: Callable[[], object]) -> None:
        """Call ``act()`` once, after so many seconds."""
        heapq.heappush(self._times, (monotonic() + delay_s, next(self._numbers), act))

    def _run(self, heard: int, wakes: int) -> None:
        serves_others()
        guardian, selector = _GuardianWatch(self), self._selector
        idle_since: float | None = None
        while True:
            while self._calls:
                _guarded(self._calls.popleft())
            now = monotonic()
            while self._times and self._times[0][0] <= now:
                _guarded(heapq.heappop(self._times)[2])
            is_idle = not self._times and self._watched == guardian.watched
            idle_since = (idle_since or now) if is_idle else None
            if not is_idle:
                guardian.look()
            elif idle_since is not None and now - idle_since >= LINGER_S and self._is_over(guardian):
                break
            for key, _ in selector.select(self._patience(now, idle_since)):
                # One before it may have closed this one; its number may be anybody's by now.
                if selector.get_map().get(key.fd) is key:
                    _guarded(key.data)
        selector.close()
        self._close(heard, wakes)
        GROUPS.dismiss()

    def _patience(self, now: float, idle_since: float | None) -> float | None:
        if self._calls:
            return 0.0
        if idle_since is not None:
            return max(0.0, idle_since + LINGER_S - now)
        return max(0.0, self._times[0][0] - monotonic()) if self._times else None

    def _is_over(self, guardian: _GuardianWatch) -> bool:
        with self._lock:
            if self._calls:
                return False
            self._thread = self._wakes = None
            guardian.drop()  # here, because the next thread has a selector of its own
        return True

    def _close(self, heard: int, wakes: int) -> None:
        os.close(heard)
        os.close(wakes)


class _GuardianWatch:
    """Sees to it that there is a guardian while there are processes."""

    def __init__(self, reader: ProcessReader) -> None:
        self._reader = reader
        self._alive: int | None = None

    @property
    def watched(self) -> int:
        """Descriptors of its own among those that are watched."""
        return int(self._alive is not None)

    def look(self) -> None:
        """Watch the present guardian."""
        if self._alive is None:
            self._alive = GROUPS.alive()
            if self._alive is not None:
                self._reader.watch(self._alive, self._has_ended)

    def _has_ended(self) -> None:
        self.drop()
        try:
            GROUPS.mended()
        except (OSError, GuardianError) as error:  # the start of the next process tries again
            text = f"commands and processes of workers outlive this program if it is killed now: {error}"
            write("WARNING", lambda: Line(text, place_of(None, "processes")))

    def drop(self) -> None:
        """Watch it no longer."""
        if self._alive is not None:
            self._reader.forget(self._alive)
            os.close(self._alive)
            self._alive = None


def _guarded(act: Callable[[], object]) -> None:
    """Do something of one command. What it raises is a bug of ours, and none of the others' business: it is told."""
    try:
        act()
    except Exception as error:  # noqa: BLE001 - see above; there is no tree to report it to
        where = threading.current_thread()
        threading.excepthook(threading.ExceptHookArgs((type(error), error, frames_of(error), where)))


def _empty(fd: int) -> None:
    with suppress(BlockingIOError):
        while os.read(fd, 4096):
            pass


READER: Final = ProcessReader()
"""The reader of this host."""


def see_to_guardian() -> None:
    """Have a guardian, before a process is started that is not to outlive this host.

    There is also a reader from now on, which lets it go when there is nothing to guard: also where the process is never
    started.

    Raises:
        GuardianError: the guardian cannot be started.
        RuntimeError: the machine gives no more threads.
    """
    GROUPS.mended()
    READER.call(_stay)


def _stay() -> None:
    """Do nothing: a reader that was called stays ``LINGER_S`` longer, and then it lets the guardian go."""
