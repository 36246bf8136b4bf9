"""The event loop of a tree: a thread of its own on which async workers run, and the orchestrators of tasks.

How it runs them says ``actors.execution.loop_scheduler``. The thread is started by one caller at a time
(``_starting``), and nobody waits for that: who comes meanwhile leaves its life in ``_ready``, for the one who is there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING

from actors.concurrency.thread_state import HERE, InterpreterEndsError, join_thread, start_thread
from actors.concurrency.wakeup import Turnstile
from actors.execution.daemon_executor import DaemonExecutor
from actors.execution.loop_scheduler import LoopScheduler

if TYPE_CHECKING:
    from actors.execution.crash_boundary import WorkerIncarnation


class Loop(LoopScheduler):
    """An event loop on a daemon thread, started when the first incarnation needs it."""

    def __init__(
        self,
        name: str,
        *,
        blocked: Callable[[str | None, float, str], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        super().__init__(name, blocked)
        self._failed = failed
        self._starting = Turnstile()
        self._thread: threading.Thread | None = None

    def schedule(self, incarnation: WorkerIncarnation) -> None:
        """Run the incarnation as a task of the loop soon."""
        if self._closed:
            return
        self._ready.append(incarnation)
        if self._loop is None:
            self._starting.enter(self._start)
        if self._turn != self._called:  # else it was called for this turn, and looks again before that is over
            self._wake_up()

    # -- the thread ----------------------------------------------------------------------------------------

    def _start(self) -> bool:
        """Inside the turnstile: start the thread, and have it look; False: no need to look again."""
        if self._loop is None and self._ready:
            self._start_thread()
        self._wake_up()
        return self._loop is None and bool(self._ready)

    def _start_thread(self) -> None:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._main, args=(loop,), name=self.name, daemon=True)
        self._loop, self._thread = loop, thread
        try:
            start_thread(thread)
        except RuntimeError as error:
            self._loop = None
            loop.close()
            for incarnation in self._take_ready():
                incarnation.thread_refused(error)
            return
        finally:
            if thread.ident is None:
                self._loop = self._thread = None
        try:
            self._watchdog.start()
        except InterpreterEndsError:
            return
        except RuntimeError as error:
            self._failed(error)  # nobody watches the loop, but it runs

    def _main(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ident = get_ident()
        asyncio.set_event_loop(loop)
        loop.set_default_executor(DaemonExecutor(f"{self.name}-to-thread"))
        HERE.never_blocks = HERE.is_tree_loop = True
        try:
            self._run_until_closed(loop)
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(_settle())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def _run_until_closed(self, loop: asyncio.AbstractEventLoop) -> None:
        """Go on after a ``SystemExit`` of a user's own task or callback: it leaves the loop, and would end it."""
        while not self._closed:
            try:
                loop.run_forever()
            except BaseException as error:
                self._failed(error)

    def close(self, timeout_s: float) -> None:
        """End the loop; tasks that user code left on it are cancelled. Waits at most ``timeout_s``."""
        self._closed = True
        loop = self._loop
        if loop is not None and self._thread is not None:
            self._call_on(loop, loop.stop)
            join_thread(self._thread, timeout_s)
        self._watchdog.close(timeout_s)


async def _settle() -> None:
    """Let cancelled tasks end; one that ignores its cancellation is left behind."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=0.5)
