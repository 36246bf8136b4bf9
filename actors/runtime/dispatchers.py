"""Places where the workers of one tree run: the pool, its event loop or that of its host, pinned threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.execution.host_loop import HostLoop
from actors.execution.loop import Loop
from actors.execution.pinned_thread import Threads
from actors.model.spec import DispatcherKind, WorkerRecipe

if TYPE_CHECKING:
    from actors.execution.incarnation_ports import Dispatcher
    from actors.execution.pool import Pool
    from actors.model.errors import HostLoopClosedError
    from actors.runtime.dispatch_reports import DispatchReports


class Dispatchers:
    """Finds the place of each worker."""

    def __init__(
        self,
        name: str,
        pool: Pool,
        loop: Loop,
        reports: DispatchReports,
        lost: Callable[[HostLoopClosedError], None] | None,
    ) -> None:
        """Make them.

        Args:
            name: of the tree.
            pool: runs what may block.
            loop: the tree's own; orchestrators always run there.
            reports: what goes wrong in a place.
            lost: the loop of the host, on which async workers are to run, was closed. None: they run on the tree's own.
        """
        self._own = loop
        self._is_closed = False
        self._host: HostLoop | None = None
        if lost is not None:
            self._host = HostLoop(name, blocked=reports.host_loop_blocked, lost=lost)
        self._processes = Loop(f"{name}-processes", blocked=reports.loop_blocked, failed=reports.internal_error)
        """Runs the halves of workers in processes that are here: no code of a user, so nothing holds it up."""
        self._places: dict[DispatcherKind, Dispatcher] = {
            DispatcherKind.POOL: pool,
            DispatcherKind.LOOP: loop if self._host is None else self._host,
            DispatcherKind.THREAD: Threads(failed=reports.internal_error),
        }

    def place_of(self, recipe: WorkerRecipe) -> Dispatcher:
        """Return the place of a worker."""
        if recipe.process is not None:
            return self._processes
        return self._own if recipe.never_waits else self._places[recipe.where]

    def renew(self, loop: Loop) -> None:
        """Have what is made from now on run on another loop of the tree's own.

        *The tree ends meanwhile*: this notes the loop and then looks if all is closed; who closes says so and then
        looks for the loop. So one of the two closes it, or both.
        """
        if self._host is None:
            self._places[DispatcherKind.LOOP] = loop
        self._own = loop
        if self._is_closed:
            loop.close(0.0)

    def open(self) -> None:
        """Open what is not opened by the first worker.

        Raises:
            RuntimeError: the machine gives no more threads.
        """
        if self._host is not None:
            self._host.open()

    def close(self, timeout_s: float) -> None:
        """Close the loops, because nothing of the tree runs any more; waits at most ``timeout_s`` for each."""
        self._is_closed = True
        if self._host is not None:
            self._host.close(timeout_s)
        self._processes.close(timeout_s)
        self._own.close(timeout_s)
