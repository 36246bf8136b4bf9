"""How an event loop runs incarnations: one thread's worth of async workers, all that are given to this loop.

An incarnation that has something to do becomes one task, which ends when there is nothing left to do: an
idle async worker costs no task. One that has hooks or a lifespan has one task for its whole life, which rests meanwhile
(``actors.execution.residence``). While a handler awaits, other incarnations run. Waking many incarnations costs one
wake-up of the loop.

The task makes its first step at once (``begin``), and what that sets off among the incarnations of this loop happens in
the same turn (``_run_ready``): an answer goes to the task that awaits it, a message to the incarnation that is to
handle it. So an ask between two of them needs no turn of the loop, which costs as much as their handlers. After
``TURN_S`` everything else has its turn: timers, what was read, other callbacks.

There is no lock that a ``schedule`` waits for: it may come from a finalizer that the garbage collector runs anywhere.
It appends to ``_ready``, has the loop call ``_run_ready``, and only then notes for which turn that was done; the loop
begins a turn before it looks, for the last time. So an incarnation that was appended is either found in this turn, or
called for in the next.

Which loop it is says a subclass: the tree's own (``actors.execution.loop``) or its host's
(``actors.execution.host_loop``).
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from threading import get_ident
from typing import TYPE_CHECKING, Any

from actors.concurrency.arrival import Arrival, landing_of
from actors.concurrency.disposal import Disposal, let_go
from actors.concurrency.thread_state import HERE, in_turn, stack_of
from actors.execution.loop_watchdog import Watchdog
from actors.messaging.envelope import CURRENT
from actors.model.clock import monotonic

if TYPE_CHECKING:
    from actors.execution.crash_boundary import WorkerIncarnation
    from actors.execution.incarnation import Incarnation
    from actors.execution.residence import Residence
    from actors.messaging.envelope import Envelope

TURN_S = 0.0005
"""How long incarnations may set off each other before other callbacks of the loop, and its reads, get their turn."""
SLICE_S = 0.01
"""How long the messages of one incarnation that wait for nothing, or the first steps of many, may take before that: a
backlog of short work is no block of the loop. What has begun by then is handled to its end, and one message more."""


class LoopScheduler:
    """Runs incarnations on one event loop."""

    def __init__(
        self, name: str, blocked: Callable[[str | None, float, str], None], stall_s: float | None = None
    ) -> None:
        self.name = name
        self._blocked = blocked
        self._ready: deque[WorkerIncarnation] = deque()
        """Incarnations that wait for their turn, each until its turn has come: whoever ends them all finds it here."""
        self._turn = 0
        """How often the loop has looked at ``_ready``."""
        self._called = -1
        """The turn for which it was last called."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ident: int | None = None
        """The thread that runs the loop."""
        self._tasks: dict[asyncio.Task[bool], WorkerIncarnation] = {}
        """Tasks at work, and whose they are: the loop itself holds tasks only weakly."""
        self._disposal = Disposal(lambda disposal: self.call(disposal.run))
        self._watchdog = Watchdog(self, stall_s)
        self._busy = self._watchdog.busy
        self._closed = False
        self.is_given_up = False
        """True once it is left to itself: nothing is begun there any more, and all that ran on it is over soon."""

    @property
    def is_here(self) -> bool:
        """True on the loop's own thread."""
        return self._ident == get_ident()

    @property
    def has_work(self) -> bool:
        """True while a task of an incarnation is at work."""
        return bool(self._tasks)

    # -- scheduling ----------------------------------------------------------------------------------------

    def schedule(self, incarnation: WorkerIncarnation) -> None:
        """Run the incarnation as a task of the loop soon: append it to ``_ready``, then have the loop look."""
        raise NotImplementedError

    def _wake_up(self) -> None:
        loop, turn = self._loop, self._turn
        if loop is None or self._called == turn:
            return
        if self._ident == get_ident() and in_turn(loop):
            loop.call_soon(self._run_ready)  # it is awake: no need to write into the pipe that wakes it
        else:
            self._call_on(loop, self._run_ready)
        self._called = turn

    def cancel(self, incarnation: WorkerIncarnation) -> None:
        """Cancel what the incarnation is awaiting; without effect when it has no task."""
        self.call(lambda: incarnation.task.cancel() if incarnation.task is not None else None)

    def call(self, function: Callable[[], object]) -> None:
        """Call a function on the loop's thread; without effect once the loop is closed."""
        loop = None if self._closed else self._loop
        if loop is not None:
            self._call_on(loop, function)

    def _call_on(self, loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
        try:
            loop.call_soon_threadsafe(function)
        except RuntimeError:
            self._is_gone()

    def _is_gone(self) -> None:
        """The loop is closed: what waits for it will not be run."""

    def _run_ready(self) -> None:
        landing, end = landing_of(asyncio.get_running_loop()), monotonic() + TURN_S
        self._called = self._turn  # what is appended from now on is found here
        landing.expect()
        HERE.in_turn = True
        try:
            while self._ready and not self.is_given_up:
                self._run_some()
                landing.land()
                if self._ready and monotonic() > end:
                    break
        finally:
            self._turn += 1  # from now on it calls again
            if self._ready and not self.is_given_up:
                self._wake_up()
            landing.leave()
            HERE.in_turn = False

    def _run_some(self) -> None:
        """Run those that are ready now; after ``SLICE_S`` the others have to wait for a turn of the loop."""
        end = monotonic() + SLICE_S
        for _ in range(len(self._ready)):
            if self.is_given_up:
                return
            self._run(self._ready.popleft())
            if monotonic() > end:
                return

    def _run(self, incarnation: WorkerIncarnation) -> None:
        """Run an incarnation; whatever goes wrong with it is its own end, and no other's."""
        try:
            if incarnation.recipe.never_waits:
                if incarnation.run():
                    self.schedule(incarnation)
            else:
                work = incarnation.begin_run()
                if work is not None:
                    self._go_on(incarnation, work)
        except BaseException as error:
            incarnation.fail_internally(error)

    def _go_on(self, incarnation: WorkerIncarnation, work: Iterator[Envelope]) -> None:
        """Run an incarnation that is held: as one task, until it has nothing to do."""
        residence = incarnation.residence
        if residence is not None and residence.gate is not None:
            self._wake_resident(incarnation, residence, residence.gate, work)
            return
        context = incarnation.context_for_run()
        steps = incarnation.drive(work) if residence is None else incarnation.reside(work)
        task, step = begin(steps, incarnation.mailbox.path, context)
        incarnation.task = task
        self.goes_on(incarnation)
        context.run(step)
        if not task.done():
            task.add_done_callback(lambda task: self._done(incarnation, task))
        elif self._is_through(incarnation, task) and incarnation.next_work() is not None:
            incarnation.mailbox.release(incarnation)  # after the others
            self.schedule(incarnation)

    def _wake_resident(
        self, incarnation: WorkerIncarnation, residence: Residence, gate: Arrival, work: Iterator[Envelope]
    ) -> None:
        """Wake the resting task of an incarnation. If it was cancelled meanwhile, the work stays in the mailbox."""
        residence.work = work
        self.goes_on(incarnation)
        gate.go_on()

    def goes_on(self, incarnation: WorkerIncarnation) -> None:
        """Note that the task of an incarnation works, so that it is watched; also where a cancel has ended its rest."""
        if incarnation.task is not None:
            self._tasks[incarnation.task] = incarnation
        if not self._busy.is_set():
            self._busy.set()

    def rests(self, incarnation: WorkerIncarnation) -> None:
        """In the task of an incarnation, which is about to wait for work: it is called again where there is some."""
        if incarnation.task is not None:
            self._tasks.pop(incarnation.task, None)
        if incarnation.next_work() is not None:
            incarnation.mailbox.release(incarnation)  # after the others
            self.schedule(incarnation)

    def _done(self, incarnation: WorkerIncarnation, task: asyncio.Task[bool]) -> None:
        if self._is_through(incarnation, task):
            try:
                work = incarnation.next_work()
                if work is not None:
                    self._go_on(incarnation, work)
            except BaseException as error:
                incarnation.fail_internally(error)

    def _is_through(self, incarnation: WorkerIncarnation, task: asyncio.Task[bool]) -> bool:
        """Note that the task of an incarnation has ended; True where that is still held and is to look for more."""
        self._tasks.pop(task, None)
        if incarnation.task is task:
            incarnation.task = None
        if task.cancelled():
            # Cancelled between two handlers: the order that came with the cancel is still to be obeyed.
            incarnation.mailbox.release(incarnation)
            self.schedule(incarnation)
            return False
        if (error := task.exception()) is not None:
            incarnation.fail_internally(error)
            return False
        return task.result()

    def let_go(self, things: list[Any]) -> None:
        """Let go of what an incarnation on this loop leaves, between two tasks; at once where the loop is closed."""
        if not self._closed and self._loop is not None:
            self._disposal.put(things)
        else:
            let_go(things)

    # -- the watchdog --------------------------------------------------------------------------------------

    def report_blocked(self, blocked_s: float) -> None:
        """Say which handler holds up the loop, and where it stands."""
        loop = self._loop
        if loop is not None:
            task: asyncio.Task[Any] | None = asyncio.current_task(loop)
            incarnation = None if task is None else self.owner_of(task)
            path = incarnation.mailbox.path if incarnation is not None else self._name_of(task)
            self._blocked(path, blocked_s, stack_of(self._ident or 0))

    def give_up(self, blocked_s: float) -> None:
        """Do nothing: a loop that is not the tree's own is its owner's to mend."""

    def owner_of(self, task: asyncio.Task[Any]) -> Incarnation | None:
        """Return the incarnation whose code a task runs, also one that this code has made or left behind."""
        found = self._tasks.get(task)
        if found is not None or not hasattr(task, "get_context"):  # from Python 3.12 on
            return found
        current: Any = task.get_context().get(CURRENT)
        owner = None if current is None else current.incarnation
        return owner if getattr(owner, "place", None) is self else None

    def _name_of(self, task: asyncio.Task[Any] | None) -> str | None:
        """Name of a task whose worker cannot be told."""
        return task.get_name() if task is not None else None


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
