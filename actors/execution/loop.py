"""The event loop of a tree: one thread on which async handlers run, all of them.

An incarnation (``life``) that has something to do becomes one task, which ends when there is nothing left to do: an
idle async worker costs no task. While a handler awaits, other lives run. Waking many lives costs one wake-up of the
loop.

The task makes its first step at once (``begin``), and what that sets off among the lives of this loop happens in the
same turn (``_run_ready``): an answer goes to the task that awaits it, a message to the life that is to handle it. So an
ask between two of them needs no turn of the loop, which costs as much as their handlers. After ``TURN_S`` everything
else has its turn: timers, what was read, other callbacks.

A watchdog thread asks the loop for a sign of life while it has work; a handler that holds the loop up longer than
``BLOCK_S`` is reported with the stack it stands in.

There is no lock that a ``schedule`` waits for: it may come from a finalizer that the garbage collector runs anywhere.
It appends to ``_ready``, has the loop call ``_run_ready``, and only then notes for which turn that was done; the loop
begins a turn before it looks, for the last time. So a life that was appended is either found in this turn, or called
for in the next.
The thread is started by one caller at a time (``_starting``), and nobody waits for that: who comes meanwhile leaves its
life in ``_ready``, for the one who is there.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from threading import get_ident
from typing import TYPE_CHECKING, Any

from actors.concurrency.arrival import landing_of
from actors.concurrency.disposal import Disposal, let_go
from actors.concurrency.thread_state import HERE, in_turn, stack_of, start_thread
from actors.concurrency.wakeup import Turnstile
from actors.execution.daemon_executor import DaemonExecutor
from actors.messaging.reply import Reply
from actors.model.clock import monotonic

if TYPE_CHECKING:
    from actors.execution.crash_boundary import WorkerIncarnation

BLOCK_S = 0.25
"""How long a handler may hold up the loop before it is reported."""
TURN_S = 0.0005
"""How long incarnations may set off each other before other callbacks of the loop, and its reads, get their turn."""


class Loop:
    """An event loop on a daemon thread, started when the first incarnation needs it."""

    def __init__(
        self,
        name: str,
        *,
        blocked: Callable[[str | None, float, str], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.name = name
        self._blocked = blocked
        self._failed = failed
        self._starting = Turnstile()
        self._ready: list[WorkerIncarnation] = []
        self._turn = 0
        """How often the loop has looked at ``_ready``."""
        self._called = -1
        """The turn for which it was last called."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ident: int | None = None
        self._watchdog: threading.Thread | None = None
        self._busy = threading.Event()
        self._closing = threading.Event()
        self._tasks: set[asyncio.Task[bool]] = set()
        self._disposal = Disposal(lambda disposal: self.call(disposal.run))
        self._closed = False

    @property
    def is_here(self) -> bool:
        """True on the loop's own thread."""
        return self._ident == get_ident()

    # -- scheduling ----------------------------------------------------------------------------------------

    def schedule(self, life: WorkerIncarnation) -> None:
        """Run the incarnation as a task of the loop soon."""
        if self._closed:
            return
        self._ready.append(life)
        if self._loop is None:
            self._starting.enter(self._start)
        self._wake_up()

    def _wake_up(self) -> None:
        loop, turn = self._loop, self._turn
        if loop is None or self._called == turn:
            return
        if self._ident == get_ident() and in_turn(loop):
            loop.call_soon(self._run_ready)  # it is awake: no need to write into the pipe that wakes it
        else:
            self._call_on(loop, self._run_ready)
        self._called = turn

    def cancel(self, life: WorkerIncarnation) -> None:
        """Cancel what the incarnation is awaiting; without effect when it is not running."""
        self.call(lambda: life.task.cancel() if life.task is not None else None)

    def call(self, function: Callable[[], object]) -> None:
        """Call a function on the loop's thread; without effect once the loop is closed."""
        loop = None if self._closed else self._loop
        if loop is not None:
            self._call_on(loop, function)

    @staticmethod
    def _call_on(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
        try:
            loop.call_soon_threadsafe(function)
        except RuntimeError:
            # It was closed just now, with the tree: there is nothing left that this could set off.
            return

    def _run_ready(self) -> None:
        landing, end = landing_of(asyncio.get_running_loop()), monotonic() + TURN_S
        self._called = self._turn  # what is appended from now on is found here
        landing.expect()
        HERE.in_turn = True
        try:
            while self._ready:
                for life in self._take_ready():
                    self._run(life)
                landing.land()
                if self._ready and monotonic() > end:
                    break
        finally:
            self._turn += 1  # from now on it calls again
            if self._ready:
                self._wake_up()
            landing.leave()
            HERE.in_turn = False

    def _take_ready(self) -> list[WorkerIncarnation]:
        ready = self._ready.copy()
        del self._ready[: len(ready)]
        return ready

    def _run(self, life: WorkerIncarnation) -> None:
        """Run a life; whatever goes wrong with it is its own end, and no other's."""
        try:
            if life.recipe.never_waits:
                if life.run():
                    self.schedule(life)
            elif life.mailbox.hold(life):
                self._go_on(life)
        except BaseException as error:
            life.fail_internally(error)

    def _go_on(self, life: WorkerIncarnation) -> None:
        """Run a life that is held: as one task, until it has nothing to do."""
        work = life.next_work()
        if work is None:
            return
        context = life.context_for_run()
        task, step = begin(life.drive(work), life.mailbox.path, context)
        life.task = task
        self._tasks.add(task)  # the loop itself holds tasks only weakly
        if not self._busy.is_set():
            self._busy.set()
        context.run(step)
        if not task.done():
            task.add_done_callback(lambda task: self._done(life, task))
        elif self._is_through(life, task) and life.next_work() is not None:
            life.mailbox.release(life)  # after the others
            self.schedule(life)

    def _done(self, life: WorkerIncarnation, task: asyncio.Task[bool]) -> None:
        if self._is_through(life, task):
            try:
                self._go_on(life)
            except BaseException as error:
                life.fail_internally(error)

    def _is_through(self, life: WorkerIncarnation, task: asyncio.Task[bool]) -> bool:
        """Note that the task of a life has ended; True where the life is held still and is to look for more."""
        self._tasks.discard(task)
        if life.task is task:
            life.task = None
        if task.cancelled():
            # Cancelled between two handlers: the order that came with the cancel is still to be obeyed.
            life.mailbox.release(life)
            self.schedule(life)
            return False
        if (error := task.exception()) is not None:
            life.fail_internally(error)
            return False
        return task.result()

    def let_go(self, things: list[Any]) -> None:
        """Let go of what a life on this loop leaves, between two tasks; here and now once the loop is closed."""
        if not self._closed and self._loop is not None:
            self._disposal.put(things)
        else:
            let_go(things)

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
            for life in self._take_ready():
                life.thread_refused(error)
            return
        finally:
            if thread.ident is None:
                self._loop = self._thread = None
        watchdog = threading.Thread(target=self._watch, name=f"{self.name}-watchdog", daemon=True)
        try:
            start_thread(watchdog)
        except RuntimeError as error:
            self._failed(error)  # nobody watches the loop, but it runs
        else:
            self._watchdog = watchdog

    def _main(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ident = get_ident()
        asyncio.set_event_loop(loop)
        loop.set_default_executor(DaemonExecutor(f"{self.name}-to-thread"))
        HERE.never_blocks = True
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
        self._closing.set()
        self._busy.set()
        if loop is None or self._thread is None:
            return
        self._call_on(loop, loop.stop)
        if not self.is_here:
            self._thread.join(timeout_s)
        if self._watchdog is not None:
            self._watchdog.join(timeout_s)

    # -- the watchdog --------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """While there is work, ask for a sign of life; report the first time each one stays out."""
        while True:
            self._busy.wait()
            if self._closed:
                return
            sign = Reply()
            asked = monotonic()
            self.call(sign.complete)
            if sign.wait(BLOCK_S):
                self._closing.wait(BLOCK_S / 2)
                self._rest()
                continue
            if self._closed:
                return
            self._report(monotonic() - asked)
            while not sign.wait(BLOCK_S) and not self._closed:
                pass

    def _rest(self) -> None:
        """Nothing to watch: wait until there is. Looked at here, so that a task that comes and goes costs nothing."""
        if not self._tasks:
            self._busy.clear()
            if self._tasks or self._closed:
                self._busy.set()  # that came in between

    def _report(self, blocked_s: float) -> None:
        thread, loop = self._thread, self._loop
        if thread is None or loop is None:
            return
        task = asyncio.current_task(loop)
        self._blocked(task.get_name() if task is not None else None, blocked_s, stack_of(thread.ident or 0))


def begin(
    coroutine: Coroutine[Any, Any, bool], name: str, context: contextvars.Context
) -> tuple[asyncio.Task[bool], Callable[[], object]]:
    """Make a task, and what makes its first step: the caller runs that in the context, and not the loop a turn later.

    A task has its loop call its first step soon. That call is caught here; nobody else has this context.
    """
    loop: Any = asyncio.get_running_loop()
    call_soon = loop.call_soon
    steps: list[Callable[..., object]] = []

    def catch(callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None) -> Any:
        if context is not own or args:
            return call_soon(callback, *args, context=context)  # of a finalizer that runs just now
        return steps.append(callback)

    own = context
    loop.call_soon = catch
    try:
        task = asyncio.Task(coroutine, loop=loop, name=name, context=context)
    finally:
        del loop.call_soon
    return task, steps[0] if steps else _nothing


def _nothing() -> None:
    """A loop that is none of asyncio's may make the first step itself."""


async def _settle() -> None:
    """Let cancelled tasks end; one that ignores its cancellation is left behind."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=0.5)
