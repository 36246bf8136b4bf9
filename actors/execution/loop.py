"""The event loop of a tree: a thread of its own on which async workers run, and the orchestrators of tasks.

How it runs them says ``actors.execution.loop_scheduler``. The thread is started by one caller at a time
(``_starting``), and nobody waits for that: who comes meanwhile leaves its incarnation in ``_ready``, for the one who is
there.

A loop that somebody blocks for too long is given up, once and for good: a ``Loop`` is one loop, one thread, and all
that is known of them. The tree goes on with another one (``actors.runtime.loop_renewal``); an incarnation belongs to
the loop of its birth. So a late loop finds nothing but its own lists, and whoever is late in calling it calls in vain.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from actors.concurrency.arrival import landing_of
from actors.concurrency.thread_state import InterpreterEndsError, join_thread, never_waits, start_thread
from actors.concurrency.wakeup import Turnstile
from actors.execution.daemon_executor import DaemonExecutor
from actors.execution.loop_scheduler import LoopScheduler
from actors.messaging.envelope import CURRENT
from actors.model.weak_tables import WeakKeys

if TYPE_CHECKING:
    from actors.concurrency.arrival import Landing
    from actors.concurrency.disposal import Disposal
    from actors.execution.crash_boundary import WorkerIncarnation
    from actors.execution.incarnation import Incarnation

MOST_GIVEN_UP: Final = 256
"""Threads of ``asyncio.to_thread`` whose calls hang, and are waited for by nobody. Further ones keep others waiting."""


class Loop(LoopScheduler):
    """An event loop on a daemon thread, started when the first incarnation needs it."""

    def __init__(
        self,
        name: str,
        *,
        blocked: Callable[[str | None, float, str], None],
        failed: Callable[[BaseException], None],
        stall_s: float | None = None,
        given_up: Callable[[Loop, Incarnation | None, float], None] | None = None,
        remains: Disposal | None = None,
    ) -> None:
        """Make it; nothing runs yet.

        Args:
            name: of its thread.
            blocked: hears who holds it up.
            failed: hears of bugs.
            stall_s: seconds without a turn after which it is given up. None: never.
            given_up: hears of that, with the incarnation that blocks it, if that can be told, and for how long.
            remains: lets go of what its incarnations leave once it was given up.
        """
        super().__init__(name, blocked, stall_s)
        self._failed = failed
        self._given_up = given_up
        self._remains = remains
        self._landing: Landing | None = None
        self._cancelled: set[asyncio.Task[Any]] = set()
        """Tasks that were cancelled because the loop ends."""
        self._paths: WeakKeys[asyncio.Task[Any], str] = WeakKeys()
        """Paths of the workers whose code has made a task, where that does not tell its context."""
        self._starting = Turnstile()
        self._thread: threading.Thread | None = None
        self._threads: DaemonExecutor | None = None

    def schedule(self, incarnation: WorkerIncarnation) -> None:
        """Run the incarnation as a task of the loop soon."""
        if self._closed:
            return
        self._ready.append(incarnation)
        if self._loop is None:
            self._starting.enter(self._start)
        if self._turn != self._called:  # else it was called for this turn, and looks again before that is over
            self._wake_up()

    @property
    def has_hanging_calls(self) -> bool:
        """True while a call of ``asyncio.to_thread`` runs for which nobody waits any longer."""
        return self._threads is not None and self._threads.has_hanging_calls

    # -- given up ------------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """True while a task of an incarnation is at work, or one waits for its turn."""
        return bool(self._tasks or self._ready)

    def give_up(self, blocked_s: float) -> None:
        """Leave it to itself, on its watchdog's thread: it runs nothing more, and ends when it wakes."""
        if self._closed or self._given_up is None:
            return
        culprit = self._culprit()
        self.is_given_up = self._closed = True
        loop = self._loop
        if loop is not None:
            self._end_when_it_wakes(loop)
        self._given_up(self, culprit, blocked_s)

    def _end_when_it_wakes(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the loop cancel all of its tasks before anything else that is ready to run there, and end.

        Its line is a deque, which asyncio shows to nobody: one step of C puts this at the head, whatever the loop does
        just now. A loop that has none comes to it in its turn. A task whose answer has come is not in the line, but
        goes on in the very turn that the loop is in; so whoever lets it go on (``Landing``) does this before.
        """
        line, landing = getattr(loop, "_ready", None), self._landing
        if landing is not None:
            landing.first = partial(self._cancel_all, loop)
        if type(line) is deque:
            line.appendleft(asyncio.Handle(self._cancel_all, (loop,), loop))
        self._call_on(loop, loop.stop)

    def _culprit(self) -> Incarnation | None:
        """Return the incarnation whose code the blocked thread runs, also in a task that it has left behind."""
        loop = self._loop
        task: Any = None if loop is None else asyncio.current_task(loop)
        return None if task is None else self.owner_of(task)

    def residents(self) -> list[WorkerIncarnation]:
        """Return the incarnations that are at work on it, or wait for their turn, once it was given up."""
        return list(dict.fromkeys([*self._tasks.copy().values(), *self._ready.copy()]))

    def let_go(self, things: list[Any]) -> None:
        """Let go of what an incarnation on this loop leaves; elsewhere where the loop was given up."""
        if self.is_given_up and self._remains is not None:
            self._remains.put(things)
        else:
            super().let_go(things)

    # -- the thread ----------------------------------------------------------------------------------------

    def open(self) -> None:
        """Start the thread now: others may want it to call something before there is an incarnation to run."""
        self._starting.enter(self._opens)

    def _opens(self) -> bool:
        if self._loop is None:
            self._start_thread()
        return False

    def _start(self) -> bool:
        """Inside the turnstile: start the thread, and have it look; False: no need to look again."""
        if self._loop is None and self._ready:
            self._start_thread()
        self._wake_up()
        return self._loop is None and bool(self._ready)

    def _make_task(self, loop: asyncio.AbstractEventLoop, work: Any, **given: Any) -> asyncio.Task[Any]:
        """Make a task, as the loop does by itself, and note whose code makes it."""
        task = asyncio.Task(work, loop=loop, **given)
        current = CURRENT.get()
        if current is not None:
            self._paths.put(task, current.incarnation.mailbox.path)
        return task

    def _name_of(self, task: asyncio.Task[Any] | None) -> str | None:
        """Path of the worker whose code has made a task, where only that can be told; else its name."""
        path = None if task is None else self._paths.get(task)
        return super()._name_of(task) if path is None else path

    def _start_thread(self) -> None:
        loop = asyncio.new_event_loop()
        if sys.version_info < (3, 12):  # from then on a task tells its context
            loop.set_task_factory(self._make_task)
        thread = threading.Thread(target=self._main, args=(loop,), name=self.name, daemon=True)
        self._loop, self._thread = loop, thread
        try:
            start_thread(thread)
        except RuntimeError as error:
            self._loop = None
            loop.close()
            while self._ready:
                self._ready.popleft().thread_refused(error)
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
        self._landing = landing_of(loop)
        asyncio.set_event_loop(loop)
        self._threads = DaemonExecutor(f"{self.name}-to-thread", most_given_up=MOST_GIVEN_UP)
        loop.set_default_executor(self._threads)
        never_waits()
        try:
            self._run_until_closed(loop)
        finally:
            self._cancel_all(loop)
            loop.run_until_complete(_settle())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def _cancel_all(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel all tasks of the loop, each once: what they do at their end is not to be cut short."""
        for task in asyncio.all_tasks(loop) - self._cancelled:
            self._cancelled.add(task)
            task.cancel()

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
