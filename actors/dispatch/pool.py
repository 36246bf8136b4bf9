"""The elastic pool: a thread per *busy* actor, none for an idle one.

A fixed pool deadlocks as soon as blocking asks fill it; a pool that grows whenever jobs wait makes thousands of
threads in a storm, because it cannot tell a blocked thread from one that waits for the GIL. So it grows

* at once, up to ``BASE`` threads that are not blocked: a blocking ask inside a handler marks its thread
  (``actors.dispatch.blocking``) and is made up for by another;
* beyond that by a slow tick, only while jobs wait and the process uses much less CPU than the time that passes (its
  threads block in something that we do not see), or while no job at all was taken for a while.

Two lanes: ``urgent`` for supervisors, which never block, and the rest. One thread, the *reserve*, serves only the
urgent lane: so a supervisor answers even while every other thread is stuck in user code.

No job waits for a thread that is not there: a thread parks under the lock, and only when both lanes are empty; a
submit pops a parked thread under the same lock and wakes that one. A thread that runs code which cannot block
(``soon``) may keep one job for itself without waking anybody: it always looks at the lanes before it parks.

Locking: ``_lock`` guards the lanes, the parked threads and the counts. Nothing is called and no other lock taken
while it is held.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from actors.clock import cpu_s, monotonic
from actors.dispatch import HERE

if TYPE_CHECKING:
    pass


BASE = 8
"""Threads that are not blocked, up to which the pool grows at once."""
IDLE_S = 5.0
"""A thread that had nothing to do for this long ends."""
TICK_S = 0.01
STALLED_TICKS = 10
"""So many ticks without one job taken: grow, however busy the processor looks."""
STUCK_S = 0.1
"""How long the end of the pool waits for a thread that is still in user code."""
NEAR_CAP = 0.8
"""Share of ``max_threads`` at which the pool says that its cap is near."""


class Job(Protocol):
    """Anything the pool can run."""

    @property
    def urgent(self) -> bool:
        """True for what never blocks and must not wait for what does: supervisors."""

    def run(self) -> bool:
        """Do some of the work; True when there is more to do and the job is to be queued again."""


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
        self._lock = threading.Lock()
        self._urgent: deque[Job] = deque()
        self._jobs: deque[Job] = deque()
        self._threads: set[PoolThread] = set()
        self._parked: list[PoolThread] = []
        self._reserve: PoolThread | None = None
        self._reserve_parked = False
        self._blocked = 0
        self._taken = 0
        self._near = False
        self._refusal: RuntimeError | None = None
        """Why the last new thread could not be started, until that has been reported."""
        self._closed = False
        self._ticker: threading.Thread | None = None
        self._tick = threading.Event()
        self._closing = threading.Event()
        self._numbers = itertools.count()

    # -- submitting ----------------------------------------------------------------------------------------

    def schedule(self, life: Job) -> None:
        """Run the life soon."""
        self.submit(life)

    def cancel(self, life: Job) -> None:
        """A thread cannot be cancelled: its supervisor abandons it."""

    def submit(self, job: Job) -> None:
        """Run ``job.run()`` soon. Never blocks, may start a thread."""
        here = HERE.blocking
        with self._lock:
            (self._urgent if job.urgent else self._jobs).append(job)
            if isinstance(here, PoolThread) and here.pool is self and here.may_keep(job):
                here.promised = True
                return
            thread = self._find_thread(urgent=job.urgent)
        if thread is not None:
            thread.wake()
        elif not job.urgent and not self._tick.is_set():
            self._tick.set()
        if self._refusal is not None:
            self._report_refusal()

    def open(self) -> None:
        """Start the reserve, so that supervisors have a thread also when the machine gives no more.

        Raises:
            RuntimeError: it gives not even this one.
        """
        reserve = PoolThread(self, f"{self.name}-reserve", reserve=True)
        reserve.start()
        self._reserve = reserve

    def _find_thread(self, *, urgent: bool) -> PoolThread | None:
        """With the lock held: a thread for one more job, or None where the job must wait for one to get free."""
        if self._parked:
            return self._unpark()
        unblocked = len(self._threads) - self._blocked
        if unblocked < BASE and len(self._threads) < self.max_threads:
            thread = self._new_thread()
            if thread is not None:
                return thread
        if self._reserve_parked and (urgent or not self._threads):
            self._reserve_parked = False
            return self._reserve
        if self._ticker is None and not self._closed:
            ticker = threading.Thread(target=self._grow_slowly, name=f"{self.name}-tick", daemon=True)
            self._ticker = ticker if self._starts(ticker) else None
        return None

    def _park(self, thread: PoolThread) -> None:
        thread.parked = True
        self._parked.append(thread)

    def _unpark(self) -> PoolThread:
        thread = self._parked.pop()
        thread.parked = False
        return thread

    def _new_thread(self) -> PoolThread | None:
        thread = PoolThread(self, f"{self.name}-{next(self._numbers)}", reserve=False)
        self._threads.add(thread)
        if self._starts(thread):
            return thread
        self._threads.discard(thread)
        return None

    def _starts(self, thread: threading.Thread) -> bool:
        """With the lock held: start a thread. Where the machine gives no more, those that are there serve all."""
        try:
            thread.start()
        except RuntimeError as error:
            self._refusal = error
            return False
        return True

    def _report_refusal(self) -> None:
        """Without the lock: say that the machine gave no thread; saying it may itself submit a job."""
        if self._refusal is not None:
            with self._lock:
                refusal, self._refusal = self._refusal, None
            if refusal is not None:
                self._failed(refusal)

    # -- growing -------------------------------------------------------------------------------------------

    def _grow_slowly(self) -> None:
        stalled, step = 0, 1
        cpu, wall, taken = cpu_s(), monotonic(), self._taken
        while not self._closed:
            self._tick.wait()
            self._closing.wait(TICK_S)
            if not self._jobs:
                self._tick.clear()
                if self._jobs:
                    self._tick.set()
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
            with self._lock:
                if len(self._threads) >= self.max_threads:
                    break
                thread = self._unpark() if self._parked else self._new_thread()
            if thread is not None:
                thread.wake()
        self._report_cap()

    def _report_cap(self) -> None:
        near = len(self._threads) >= NEAR_CAP * self.max_threads
        if near and not self._near:
            self._near_cap(len(self._threads), self.max_threads)
        self._near = near
        self._report_refusal()

    def block(self) -> None:
        """The calling pool thread is about to wait: another takes its place if there is work."""
        with self._lock:
            self._blocked += 1
            waiting = self._jobs or self._urgent
            thread = self._find_thread(urgent=bool(self._urgent)) if waiting else None
        if thread is not None:
            thread.wake()
        self._report_cap()

    def unblock(self) -> None:
        """The calling pool thread goes on."""
        with self._lock:
            self._blocked -= 1

    # -- what the threads do -------------------------------------------------------------------------------

    def next_job(self, thread: PoolThread) -> Job | None:
        """A job for this thread; None when there is none and the thread is now parked."""
        with self._lock:
            thread.promised = False
            if thread.parked:  # woken for nothing: it must not stand among the parked while it works, or twice
                self._parked.remove(thread)
                thread.parked = False
            if self._urgent:
                return self._urgent.popleft()
            if self._jobs and (not thread.reserve or not self._threads):
                self._taken += 1
                return self._jobs.popleft()
            if thread.reserve:
                self._reserve_parked = True
                return None
            self._park(thread)
            return None

    def again(self, job: Job) -> None:
        """The job has more to do: behind those that wait."""
        with self._lock:
            (self._urgent if job.urgent else self._jobs).append(job)
            thread = self._unpark() if self._parked and len(self._jobs) + len(self._urgent) > 1 else None
        if thread is not None:
            thread.wake()

    def retire(self, thread: PoolThread) -> bool:
        """The thread had nothing to do for long; True when it may end."""
        with self._lock:
            if thread.reserve:
                if not self._closed or self._urgent:
                    return False
            elif thread.parked:
                self._parked.remove(thread)
            elif not self._closed or self._urgent or self._jobs:
                return False  # it has just been picked for a job
            self._threads.discard(thread)
            return True

    def run_job(self, job: Job) -> None:
        """Run it; an exception here is a bug of this library, not of a worker."""
        try:
            if job.run():
                self.again(job)
        except BaseException as error:
            self._failed(error)

    # -- the end -------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """True once no more jobs are expected."""
        return self._closed

    @property
    def size(self) -> int:
        """Threads there are now, stuck ones too."""
        return len(self._threads) + (self._reserve is not None)

    def close(self, timeout_s: float) -> None:
        """End the threads; waits at most ``timeout_s`` for those that are not stuck in user code."""
        with self._lock:
            self._closed = True
            threads = [*self._threads]
            if self._reserve is not None:
                threads.append(self._reserve)
            while self._parked:
                self._unpark()
        self._closing.set()
        self._tick.set()
        for thread in threads:
            thread.wake()
        end = monotonic() + timeout_s
        # Those in user code come last: one may be stuck there for good, and the others must not wait for it.
        for thread in sorted(threads, key=lambda thread: thread.in_user_code):
            if thread is not threading.current_thread():
                patience = min(timeout_s, STUCK_S) if thread.in_user_code else end - monotonic()
                thread.join(max(0.0, patience))
        if self._ticker is not None:
            self._ticker.join(max(0.0, end - monotonic()))


class PoolThread(threading.Thread):
    """One thread of the pool; as a context manager, the mark around a wait of its own."""

    def __init__(self, pool: Pool, name: str, *, reserve: bool) -> None:
        super().__init__(name=name, daemon=True)
        self.pool = pool
        self.reserve = reserve
        self.soon = False
        """True while it runs code that cannot block, so that it will look for a job soon. Its own thread only."""
        self.promised = False
        """True when it has kept a job for itself. Guarded by the pool's lock."""
        self.parked = False
        """True while it stands among the parked. Guarded by the pool's lock."""
        self.in_user_code = False
        self._depth = 0
        self._gate = threading.Lock()  # a semaphore would be 10 us slower: it is made of Python code
        self._gate.acquire()

    def may_keep(self, job: Job) -> bool:
        """With the pool's lock held: True when this thread will look for a job soon and has none in mind yet."""
        return self.soon and not self.promised and (job.urgent or not self.reserve)

    def wake(self) -> None:
        """Have it look for jobs (again)."""
        try:
            self._gate.release()
        except RuntimeError:
            return  # woken twice before it looked: once is enough, it takes all that waits

    def run(self) -> None:
        """Take jobs until there have been none for a while."""
        HERE.blocking = self
        HERE.soon = _Soon(self)
        pool = self.pool
        while True:
            job = pool.next_job(self)
            if job is not None:
                self.soon = job.urgent
                self.in_user_code = not job.urgent
                pool.run_job(job)
                self.soon = self.in_user_code = False
                job = None  # a parked thread must not keep the last life alive
                continue
            woken = self._gate.acquire(timeout=0 if pool.closed else IDLE_S)  # the wake of close may be used up
            if (not woken or pool.closed) and pool.retire(self):
                return

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self.pool.block()

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.pool.unblock()


class _Soon:
    """Marks what a pool thread does last in a run: it will look for a job right after."""

    def __init__(self, thread: PoolThread) -> None:
        self._thread = thread

    def __enter__(self) -> None:
        self._thread.soon = True

    def __exit__(self, *_: object) -> None:
        self._thread.soon = False
