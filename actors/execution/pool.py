"""The elastic pool: a thread per *busy* actor, none for an idle one.

A fixed pool deadlocks as soon as blocking asks fill it; a pool that grows whenever jobs wait makes thousands of
threads in a storm, because it cannot tell a blocked thread from one that waits for the GIL. So it grows

* at once, up to ``BASE`` threads that are not blocked: a blocking ask inside a handler marks its thread
  (``actors.concurrency.thread_state.blocking``) and is made up for by another;
* beyond that by a slow tick, only while jobs wait and the process uses much less CPU than the time that passes (its
  threads block in something that we do not see), or while no job at all was taken for a while.

Two lanes: ``urgent`` for supervisors, which never block, and the rest. One thread, the *reserve*, serves only the
urgent lane: so a supervisor answers even while every other thread is stuck in user code.

There is no lock. A submit may come from a finalizer that the garbage collector runs in the middle of any of these
functions, or from a signal handler that interrupts one; so each step is one atomic operation of a deque, dict or set,
and is repeated by the next caller where an exception has cut one short.

========== =========================================================================================================
who        does, in this order
========== =========================================================================================================
submit     appends the job; then calls (``_call``): wakes the thread that parked last, unless it was woken already and
           has not looked yet; where none is parked, lets one start
thread     wakes; takes itself off ``_parked``; looks at the lanes; has it taken a job and there are more, it calls
thread     finds nothing; puts itself on ``_parked``; looks once more; sleeps
========== =========================================================================================================

So a job never waits for a thread that is not there: either the thread's second look comes after the append and finds
the job, or the submit finds the thread parked. And one woken thread at a time is enough: it passes the call on. An ask
between two workers costs two switches of threads: neither the submit nor the wait that follows it wakes a second one.

A thread that runs code which cannot block (``soon``) may keep one job for itself without calling anybody: it always
looks at the lanes before it parks. Threads are started by one caller at a time (``_starting``), and nobody waits for
that: who comes meanwhile leaves its job to the one who is there.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable

from actors.concurrency.thread_state import HERE, InterpreterEndsError, Job, join_thread, serves_others, start_thread
from actors.concurrency.wakeup import Flag, Turnstile, Wakeup
from actors.execution.pool_thread import PoolThread
from actors.model.clock import cpu_s, monotonic

BASE = 8
"""Threads that are not blocked, up to which the pool grows at once."""
IDLE_S = 5.0
"""A thread that had nothing to do for this long ends."""
TICK_S = 0.01
STALLED_TICKS = 10
"""Ticks without one job taken after which the pool grows, however busy the processor looks."""
STUCK_S = 0.1
"""How long the end of the pool waits for a thread that is still in user code."""
NEAR_CAP = 0.8
"""Share of ``max_threads`` at which the pool says that its cap is near."""


class Pool:
    """Runs jobs on daemon threads of its own."""

    def __init__(
        self,
        name: str,
        max_threads: int,
        *,
        near_cap: Callable[[int, int], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.name = name
        self.max_threads = max_threads
        self._near_cap = near_cap
        self._failed = failed
        self._urgent: deque[Job] = deque()
        self._jobs: deque[Job] = deque()
        self._threads: set[PoolThread] = set()
        self._parked: deque[PoolThread] = deque()
        """Threads that sleep, or were woken and have not looked yet; the one that parked last stands last. A deque: the
        last key of a dict takes two steps, and CPython reads freed memory where the dict changes between them."""
        self._fresh: set[PoolThread] = set()
        """Threads that were started and have not looked yet."""
        self._blocked: set[PoolThread] = set()
        self._starting = Turnstile()
        self._reserve: PoolThread | None = None
        self._taken = 0
        self._near = False
        self._near_at = NEAR_CAP * max_threads
        self._refusal: RuntimeError | None = None
        """Why the last new thread could not be started, until that has been reported."""
        self._reports = False
        """True while that is being reported."""
        self._closed = False
        self._ticker: threading.Thread | None = None
        self._tick = Wakeup()
        self._closing = Flag()
        self._numbers = itertools.count()

    # -- submitting ----------------------------------------------------------------------------------------

    def cancel(self, incarnation: Job) -> None:
        """A thread cannot be cancelled: its supervisor abandons it."""

    def submit(self, job: Job) -> None:
        """Run ``job.run()`` soon. Never blocks, may start a thread."""
        urgent = job.urgent
        (self._urgent if urgent else self._jobs).append(job)
        here = HERE.blocking
        if (
            isinstance(here, PoolThread)
            and here.soon
            and not here.promised
            and here.pool is self
            and (urgent or not here.reserve)
        ):
            here.promised = True
            return
        self._call()

    schedule = submit
    """Name by which an incarnation calls it."""

    def open(self) -> None:
        """Start the reserve, so that supervisors have a thread also when the machine gives no more.

        Raises:
            RuntimeError: it gives not even this one.
        """
        reserve = PoolThread(self, f"{self.name}-reserve", reserve=True)
        start_thread(reserve)
        self._reserve = reserve

    def _call(self) -> None:
        """Something waits: see to it that one thread looks, and no more than one."""
        try:
            thread: PoolThread | None = self._parked[-1]
        except IndexError:
            thread = None
        if thread is not None:
            thread.wakeup.give()
        elif not self._fresh:
            if self._may_grow() or self._ticker is None:
                self._starting.enter(self._grows_at_once)
            reserve = self._reserve
            if reserve is not None and (self._urgent or not self._threads):
                reserve.wakeup.give()
            if self._jobs:
                self._tick.give()
        if self._refusal is not None:
            self._report_refusal()

    def _grows_at_once(self) -> bool:
        """Inside the turnstile: start a thread where there are too few; True to look again."""
        if self._fresh or not (self._jobs or self._urgent):
            return False
        if self._may_grow() and self._new_thread():
            return True
        if self._ticker is None and not self._closed:
            self._start_ticker()
        return False

    def _may_grow(self) -> bool:
        threads = len(self._threads)
        return not self._parked and threads - len(self._blocked) < BASE and threads < self.max_threads

    def _new_thread(self) -> bool:
        thread = PoolThread(self, f"{self.name}-{next(self._numbers)}", reserve=False)
        try:
            self._threads.add(thread)
            self._fresh.add(thread)
            return self._starts(thread)
        finally:
            if thread.ident is None:  # refused, or cut short: should it run all the same, it comes back by itself
                self._fresh.discard(thread)
                self._threads.discard(thread)

    def _start_ticker(self) -> None:
        ticker = threading.Thread(target=self._grow_slowly, name=f"{self.name}-tick", daemon=True)
        if self._starts(ticker):
            self._ticker = ticker

    def _starts(self, thread: threading.Thread) -> bool:
        """Start a thread. Where the machine gives no more, those that are there serve all."""
        try:
            start_thread(thread)
        except InterpreterEndsError:
            return False  # nothing that anybody has to be told of
        except RuntimeError as error:
            self._refusal = error
            return False
        return True

    def _report_refusal(self) -> None:
        """Say that the machine gave no thread. Saying it submits a job, which may be refused a thread as well: once."""
        refusal = self._refusal
        if refusal is None or self._reports:
            return
        self._reports = True
        try:
            self._failed(refusal)
        finally:
            self._refusal, self._reports = None, False

    # -- growing -------------------------------------------------------------------------------------------

    def _grow_slowly(self) -> None:
        serves_others()
        stalled, step = 0, 1
        cpu, wall, taken = cpu_s(), monotonic(), self._taken
        while not self._closed:
            if not self._jobs:
                self._tick.sleep()  # a job that came before this has given a wake-up, or gives one
            self._closing.wait(TICK_S)
            if not self._jobs:
                continue
            now_cpu, now_wall = cpu_s(), monotonic()
            idle_cpu = (now_cpu - cpu) < 0.5 * (now_wall - wall)
            cpu, wall = now_cpu, now_wall
            stalled = stalled + 1 if taken == self._taken else 0
            taken = self._taken
            if idle_cpu:
                self._grow(min(len(self._jobs), BASE))
            elif stalled >= STALLED_TICKS:
                self._grow(min(len(self._jobs), step))
                stalled, step = 0, min(step * 2, BASE)
            else:
                step = 1

    def _grow(self, count: int) -> None:
        for _ in range(count):
            if self._parked:
                self._call()
                break
            if len(self._threads) >= self.max_threads:
                break
            if not self._new_thread():
                break
        self._report_cap()

    def _report_cap(self) -> None:
        near = len(self._threads) >= self._near_at
        if near and not self._near:
            self._near_cap(len(self._threads), self.max_threads)
        self._near = near
        if self._refusal is not None:
            self._report_refusal()

    def came(self, thread: PoolThread) -> None:
        """A thread begins: it counts, also where its start was cut short by an exception."""
        self._threads.add(thread)

    def block(self, thread: PoolThread) -> None:
        """The calling pool thread is about to wait: another takes its place if there is work."""
        self._blocked.add(thread)
        if self._jobs or self._urgent:
            self._call()
        if self._refusal is not None or self._near is not (len(self._threads) >= self._near_at):
            self._report_cap()

    def unblock(self, thread: PoolThread) -> None:
        """The calling pool thread goes on."""
        self._blocked.discard(thread)

    # -- what the threads do -------------------------------------------------------------------------------

    def next_job(self, thread: PoolThread) -> Job | None:  # noqa: C901 - the hot path, in one piece
        """A job for this thread; None when there is none and the thread is now parked."""
        urgent, jobs = self._urgent, self._jobs
        thread.promised = False
        while True:
            if thread.parked:
                thread.parked = False
                self._parked.remove(thread)
            if self._fresh:
                self._fresh.discard(thread)
            job: Job | None = None
            try:
                if urgent:
                    job = urgent.popleft()
                elif jobs and (not thread.reserve or not self._threads):
                    self._taken += 1
                    job = jobs.popleft()
            except IndexError:
                continue  # another was faster
            if job is not None:
                if urgent or jobs:
                    self._call()
                return job
            if thread.reserve:
                return None  # it is called by itself, and remembers that
            thread.parked = True
            self._parked.append(thread)
            if not urgent and not jobs:
                return None

    def _unpark(self, thread: PoolThread) -> None:
        if thread.parked:
            thread.parked = False
            self._parked.remove(thread)

    def again(self, job: Job) -> None:
        """The job has more to do: behind those that wait."""
        (self._urgent if job.urgent else self._jobs).append(job)
        if len(self._jobs) + len(self._urgent) > 1:
            self._call()

    def retire(self, thread: PoolThread) -> bool:
        """The thread had nothing to do for long; True when it may end."""
        if thread.reserve:
            return self._closed and not self._urgent
        self._unpark(thread)
        if self._urgent or self._jobs:
            return False
        self._threads.discard(thread)
        if self._urgent or self._jobs:  # came in between, and still counted on this thread
            self._call()
        return True

    def job_failed(self, error: BaseException) -> None:
        """An exception has left a job: a bug of this library, not of a worker."""
        self._failed(error)

    # -- the end -------------------------------------------------------------------------------------------

    @property
    def ticker(self) -> threading.Thread | None:
        """Thread that has it grow while all others are held up; None: that was never needed."""
        return self._ticker

    @property
    def closed(self) -> bool:
        """True once no more jobs are expected."""
        return self._closed

    @property
    def patience_s(self) -> float:
        """How long a thread waits for a job; not at all once it is closed: the wake-up of that may be used up."""
        return 0 if self._closed else IDLE_S

    @property
    def size(self) -> int:
        """Threads there are now, stuck ones too."""
        return len(self._threads) + (self._reserve is not None)

    def close(self, timeout_s: float) -> None:
        """End the threads; waits at most ``timeout_s`` for those that are not stuck in user code."""
        self._closed = True
        threads = list(self._threads.copy())
        if self._reserve is not None:
            threads.append(self._reserve)
        self._closing.set()
        self._tick.give()
        for thread in threads:
            thread.wakeup.give()
        end = monotonic() + timeout_s
        # Those in user code come last: one may be stuck there for good, and the others must not wait for it.
        for thread in sorted(threads, key=lambda thread: thread.in_user_code):
            join_thread(thread, min(timeout_s, STUCK_S) if thread.in_user_code else end - monotonic())
        if self._ticker is not None:
            join_thread(self._ticker, end - monotonic())
