"""One thread of the pool: takes jobs until there have been none for a while."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from actors.concurrency.thread_state import HERE, serves_others
from actors.concurrency.wakeup import Wakeup

if TYPE_CHECKING:
    from actors.execution.pool import Pool


class PoolThread(threading.Thread):
    """One thread of the pool; as a context manager, the mark around a wait of its own."""

    def __init__(self, pool: Pool, name: str, *, reserve: bool) -> None:
        super().__init__(name=name, daemon=True)
        self.pool = pool
        self.reserve = reserve
        self.soon = False
        """True while it runs code that cannot block, so that it will look for a job soon: it may keep one that it
        submits for itself, instead of calling another thread. Its own thread only."""
        self.promised = False
        """True when it has kept a job for itself. Its own thread only."""
        self.parked = False
        """True while it stands on the pool's list of parked threads. Its own thread only."""
        self.in_user_code = False
        self.wakeup = Wakeup()
        self._depth = 0

    def run(self) -> None:
        """Take jobs until there have been none for a while."""
        HERE.blocking = self
        HERE.soon = _Soon(self)
        serves_others()  # a job says by itself where code of users runs
        pool = self.pool
        if not self.reserve:
            pool.came(self)
        while True:
            job = pool.next_job(self)
            if job is not None:
                self.soon = job.urgent
                self.in_user_code = not job.urgent
                try:
                    if job.run():
                        pool.again(job)
                except BaseException as error:
                    pool.job_failed(error)
                self.soon = self.in_user_code = False
                job = None  # a parked thread must not keep the last incarnation alive
                continue
            woken = self.wakeup.sleep(pool.patience_s)
            if (not woken or pool.closed) and pool.retire(self):
                return

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self.pool.block(self)

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.pool.unblock(self)


class _Soon:
    """Marks what a pool thread does last in a run: it will look for a job right after."""

    def __init__(self, thread: PoolThread) -> None:
        self._thread = thread

    def __enter__(self) -> None:
        self._thread.soon = True

    def __exit__(self, *_: object) -> None:
        self._thread.soon = False
