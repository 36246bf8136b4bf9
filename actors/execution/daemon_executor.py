"""Threads for ``asyncio.to_thread``, of async workers and of the page, which keep no interpreter from ending.

The loop's own default is a ``ThreadPoolExecutor``. The interpreter waits for the threads of each of those before it
ends, also where the worker that had called ``to_thread`` was abandoned long ago, or a call of the page waits for a
child that never starts. So the loop of a tree, and that of its page, get an executor with daemon threads. asyncio takes
nothing but a subclass of ``ThreadPoolExecutor``, so this is one; of what it inherits it uses the size only.

A call that hangs has its thread for ever. Where nobody waits for it any longer, because the attempt or the worker that
did was ended, the thread is given up: it does not count, another one takes its place, and it ends with its call. So
calls that hang keep nobody else's from running. Only so many are given up at a time; those beyond that count.

Locking: ``_guard`` guards the number of threads, of those that wait for work, and of those that were given up, and
whether a call has one, or is over. A job is put before a thread
is looked for, and a thread counts itself as waiting before it takes one, so no job stays behind. A thread that has
taken a job still counts as waiting for a moment; so when it does no longer it looks whether the others are enough for
what waits now: a job that came in that moment must not wait for the one that was taken, which may never end.

The lock is re-entrant, and nothing of users runs while it is held but a finalizer that the garbage collector runs
there: it may put a job as well.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from actors.concurrency.thread_state import start_thread

P = ParamSpec("P")
T = TypeVar("T")

IDLE_S = 5.0
"""A thread that had nothing to do for this long ends."""


class DaemonExecutor(ThreadPoolExecutor):
    """A ``ThreadPoolExecutor`` whose threads are daemons."""

    def __init__(self, name: str, idle_s: float = IDLE_S, most: int | None = None, most_given_up: int = 0) -> None:
        """Make it; no thread runs yet.

        Args:
            name: of its threads, before their numbers.
            idle_s: seconds after which a thread that had nothing to do ends.
            most: threads at a time. None: as many as a ``ThreadPoolExecutor`` would have.
            most_given_up: threads beside these whose calls nobody waits for any longer.
        """
        super().__init__(most, thread_name_prefix=name)
        self._name = name
        self._idle_s = idle_s
        self._most = self._max_workers
        self._most_given_up = most_given_up
        self._guard = threading.RLock()
        self._count = 0
        self._waiting = 0
        self._given_up = 0
        self._over = False
        self._numbers = itertools.count()
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call the function on a thread.

        Raises:
            RuntimeError: the loop is closed, or the machine gives not even one thread.
        """
        future: _CallFuture[T] = _CallFuture(self._give_up)
        call = future.call = _Call(future, lambda: fn(*args, **kwargs))
        with self._guard:
            if self._over:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._calls.put(call)
            grow = self._counts_one_more()
        if grow:
            self._start()
        return future

    def _counts_one_more(self) -> bool:
        """With the lock held: True where more jobs wait than threads; then one more counts, and is to be started."""
        grow = self._calls.qsize() > self._waiting and self._count < self._most
        self._count += grow
        return grow

    def _give_up(self, call: _Call) -> None:
        """Give up the thread that has a call which nobody waits for any longer, unless it ends just now.

        Two orders: where the call ends first, its thread goes on as before; else it ends once the call does.
        """
        with self._guard:
            if not call.has_thread or call.is_given_up or self._given_up >= self._most_given_up:
                return
            call.is_given_up = True
            self._given_up += 1
            self._count -= 1
            grow = not self._over and self._counts_one_more()
        if grow:
            self._start()

    @property
    def has_hanging_calls(self) -> bool:
        """True while a call runs for which nobody waits any longer."""
        return self._given_up > 0

    def _start(self) -> None:
        thread = threading.Thread(target=self._main, name=f"{self._name}-{next(self._numbers)}", daemon=True)
        try:
            start_thread(thread)
        except RuntimeError:
            with self._guard:
                self._count -= 1
                alone = self._count == 0
            if alone:
                raise

    def _main(self) -> None:
        while True:
            with self._guard:
                self._waiting += 1
            try:
                call = self._calls.get(timeout=self._idle_s)
            except queue.Empty:
                call = None
            with self._guard:
                self._waiting -= 1
                if call is None and (self._over or self._calls.empty()):
                    self._count -= 1
                    return
                grow = call is not None and not self._over and self._counts_one_more()
                if call is not None:
                    call.has_thread = True
            if grow:
                self._start()
            if call is not None:
                call.run()
                with self._guard:
                    call.has_thread = False
                    if call.is_given_up:
                        self._given_up -= 1
                        return

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take nothing more. What runs is left to itself: nobody waits for it, ever."""
        del wait, cancel_futures
        with self._guard:
            self._over = True
            for _ in range(self._count):
                self._calls.put(None)


class _Call:
    """One call, and the future of what comes of it."""

    def __init__(self, future: Future[Any], call: Callable[[], Any]) -> None:
        self._future = future
        self._call = call
        self.has_thread = self.is_given_up = False

    def run(self) -> None:
        """Call it, unless it was cancelled meanwhile."""
        if not self._future.set_running_or_notify_cancel():
            return
        try:
            result = self._call()
        except BaseException as error:
            self._future.set_exception(error)
        else:
            self._future.set_result(result)


class _CallFuture(Future[T]):
    """The future of a call: asyncio cancels it where whoever waits for it is cancelled."""

    call: _Call

    def __init__(self, gives_up: Callable[[_Call], None]) -> None:
        super().__init__()
        self._gives_up = gives_up

    def cancel(self) -> bool:
        """Cancel the call; where it runs already, nobody waits for it any longer. False: it cannot be cancelled."""
        if super().cancel():
            return True
        self._gives_up(self.call)
        return False
