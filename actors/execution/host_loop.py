"""The event loop of a tree's host: async workers run on it, beside the host's own code.

For clients, locks and queues that belong to that loop: ``start_async(TREE, loop="host")``. Orchestrators and everything
else of the tree stay where they are, on its own loop and threads. How incarnations are run says
``actors.execution.loop_scheduler``; this says what is different where the loop belongs to somebody else:

============================ ========================================================================================
what the host does           what becomes of it
============================ ========================================================================================
blocks it                    is reported (``LoopBlocked``), once for each time; the workers go on when it does
waits for the tree on it     is refused with a ``BlockingAskError``, as in a worker: nothing could answer meanwhile
stops it, and goes on later  as blocked; stops and starts have their limits all the while
closes it                    the tree cannot go on: its workers there end at once, it fails with a
                             ``HostLoopClosedError``, and whoever waits for it hears that
============================ ========================================================================================

That the loop is closed is found by whoever next wants something of it: a message, an order, or the watchdog while a
worker is busy (``_is_gone``). Nothing is ended on that thread, which may be in the middle of anything: a thread of its
own does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any

from actors.concurrency.disposal import let_go
from actors.concurrency.thread_state import hosts_workers, in_background
from actors.execution.loop_scheduler import LoopScheduler
from actors.model.errors import HostLoopClosedError

if TYPE_CHECKING:
    from actors.execution.crash_boundary import WorkerIncarnation


class HostLoop(LoopScheduler):
    """The event loop that runs where this is made. It is neither started nor stopped here."""

    def __init__(
        self,
        root_path: str,
        *,
        blocked: Callable[[str | None, float, str], None],
        lost: Callable[[HostLoopClosedError], None],
    ) -> None:
        super().__init__(f"{root_path}-host-loop", blocked)
        self._root_path = root_path
        self._lost = lost
        self._loop = self._host = asyncio.get_running_loop()
        self._ident = get_ident()
        hosts_workers(self)

    def open(self) -> None:
        """Begin to watch it.

        Raises:
            RuntimeError: the machine gives no more threads.
        """
        self._watchdog.start()

    @property
    def is_open(self) -> bool:
        """True as long as workers may run there."""
        return not self._closed and not self._host.is_closed()

    @property
    def runs_here(self) -> bool:
        """True in code that this loop runs."""
        try:
            return asyncio.get_running_loop() is self._host
        except RuntimeError:
            return False

    @property
    def has_work(self) -> bool:
        """True while a worker is busy there, or waits for its turn."""
        return bool(self._tasks or self._ready)

    def schedule(self, incarnation: WorkerIncarnation) -> None:
        """Run the incarnation as a task of the host's loop soon."""
        if self._closed:
            return
        self._ready.append(incarnation)
        if self._host.is_closed():
            self._is_gone()
            return
        if not self._busy.is_set():
            self._busy.set()  # the host may hold the loop up just now
        self._wake_up()

    def cancel(self, incarnation: WorkerIncarnation) -> None:
        """Cancel what the incarnation is awaiting; end it where the loop is closed."""
        if self._host.is_closed():
            self.schedule(incarnation)
        else:
            super().cancel(incarnation)

    def let_go(self, things: list[Any]) -> None:
        """Let go of what an incarnation leaves, on the loop; here and now once that is closed."""
        if self._host.is_closed():
            let_go(things)
        else:
            super().let_go(things)

    def _name_of(self, task: asyncio.Task[Any] | None) -> None:
        """Say nothing of the host's own tasks: they are no children of the tree."""

    def _is_gone(self) -> None:
        if not self._closed:
            in_background(f"{self.name}-closed", self._end_all)

    def _end_all(self) -> None:
        """End every incarnation that is on the loop, or waits for it; and the tree, which cannot go on."""
        error = HostLoopClosedError(self._root_path)
        self._lost(error)
        while (incarnation := self._next_incarnation()) is not None:
            incarnation.thread_refused(error)

    def _next_incarnation(self) -> WorkerIncarnation | None:
        """Take an incarnation that is on the loop or waits for it. Several threads may do so while others schedule."""
        try:
            return self._ready.pop() if self._ready else self._tasks.popitem()[1]
        except LookupError:  # there is none, or another thread was faster, which has them all ended
            return None

    def close(self, timeout_s: float) -> None:
        """Let go of the loop, because the tree has ended; it goes on without it."""
        self._closed = True
        self._watchdog.close(timeout_s)
