"""How an answer arrives at a task that awaits it, on any event loop.

A future of asyncio's costs two turns of the loop for each answer from another thread (one for ``call_soon_threadsafe``,
one for the task that it wakes), a write into the pipe of the loop, and a timer. Here an answer costs a share of them:

* ``Arrival`` is what a task waits for: it has what asyncio asks of a future, and no more. Its task goes on in the very
  turn in which the loop hears of the answer.
* ``Landing`` is where the answers for one loop come down: the first one calls the loop, those that come until it has
  looked only join the queue. The loop has one timer for all who wait, for the earliest time. Times are sorted lazily:
  a wait is noted, and only one that is not over when ``SWEEP`` of them have come, or the timer goes off, is sorted in.
  Each call of the loop gets an empty context of its own. So it keeps nothing of its caller, and a task that runs the
  loop once more (``nest_asyncio``) can be answered, too.

An arrival is a callback of its reply. Whoever brings the outcome calls it, from any thread, a finalizer or a signal
handler; so there is no lock, and each step is one operation of C::

    bring   appends to ``_arrived``; calls the loop, unless ``_called`` names the present turn; then notes the turn
    land    (the loop) begins a new turn, then takes off ``_arrived`` what is there, and lets its tasks go on

A bring that finds its turn noted was noted for a look that is still to come: ``land`` first begins a new turn. All the
rest is done on the thread of the loop: the task begins to wait, goes on (``land``), is cancelled, or its time is up;
whoever is first takes ``_go_on``, so a task is never woken twice.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Generator
from heapq import heapify, heappop, heappush
from itertools import count
from threading import get_ident, local
from typing import Any, Final

from actors.concurrency.thread_state import in_turn
from actors.model.clock import monotonic

SWEEP = 128
"""Waits with a time before those that are over are swept out: most are, so few are ever sorted in."""


class Landing:
    """Where answers for one event loop come down. Made, and looked for, on the loop's own thread."""

    __slots__ = (
        "_armed",
        "_arrived",
        "_called",
        "_new",
        "_numbers",
        "_purge_at",
        "_thread",
        "_times",
        "_turn",
        "first",
        "loop",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.first: Callable[[], object] | None = None
        """Act that comes, once, before any task goes on; whoever gives the loop up sets it, on any thread."""
        self._thread = get_ident()
        self._arrived: deque[Arrival] = deque()
        self._turn = 0
        """How often the loop has looked at ``_arrived``."""
        self._called = -1
        """The turn for which it was last called: written after that was done."""
        self._new: list[tuple[float, Arrival]] = []
        """When whose time is up, not sorted in yet: fewer than ``SWEEP``."""
        self._times: list[tuple[float, int, Arrival]] = []
        """When whose time is up, of the others: a heap."""
        self._numbers = count()
        self._purge_at = SWEEP
        self._armed: tuple[float, asyncio.TimerHandle] | None = None

    def bring(self, arrival: Arrival) -> None:
        """Have its task go on, on the loop."""
        self._arrived.append(arrival)
        turn = self._turn
        if self._called == turn:
            return
        loop = self.loop
        try:
            if get_ident() == self._thread and in_turn(loop):
                # It is awake: no need to write into its pipe.
                loop.call_soon(self._land, context=contextvars.Context())
            else:
                loop.call_soon_threadsafe(self._land, context=contextvars.Context())
        except RuntimeError:
            # The loop was closed: nobody waits there any more. The outcome stays for whoever asks again.
            return
        self._called = turn

    def _land(self) -> None:
        self._turn += 1  # first: what is appended from now on calls again
        try:
            self.land()
        finally:
            self._call_again()  # a task may have ended the loop with a SystemExit

    def land(self) -> None:
        """Let the tasks go on whose answers are there."""
        arrived = self._arrived
        for _ in range(len(arrived)):
            if self.first is not None:  # perhaps since the one before has gone on, and blocked the loop
                first, self.first = self.first, None
                first()
            arrived.popleft().go_on()

    def expect(self) -> None:
        """On the loop: until ``leave`` nobody need call it, because who calls this looks with ``land``."""
        self._called = self._turn

    def leave(self) -> None:
        """On the loop: from now on who brings calls it again."""
        self._turn += 1
        if self._arrived:
            self._call_again()

    def _call_again(self) -> None:
        if self._arrived and self._called != self._turn:
            self.loop.call_soon(self._land, context=contextvars.Context())
            self._called = self._turn

    # -- times ---------------------------------------------------------------------------------------------

    def expire_at(self, when: float, arrival: Arrival) -> None:
        """Have its task go on at this time, of the machine's clock, where it still waits."""
        new, armed = self._new, self._armed
        new.append((when, arrival))
        if armed is None or when < armed[0]:
            self._arm(when)
        if len(new) >= SWEEP:
            self._sort_in()

    def _sort_in(self) -> None:
        """Sort in those that still wait; now and then forget the sorted ones that do not, one step for each."""
        new, self._new = self._new, []
        for when, arrival in new:
            if arrival.waits:
                heappush(self._times, (when, next(self._numbers), arrival))
        if len(self._times) >= self._purge_at:
            self._times = [entry for entry in self._times if entry[2].waits]
            heapify(self._times)
            self._purge_at = max(SWEEP, 2 * len(self._times))

    def _arm(self, when: float) -> None:
        if self._armed is not None:
            self._armed[1].cancel()
        delay = max(0.0, when - monotonic())
        self._armed = (when, self.loop.call_later(delay, self._expire, when, context=contextvars.Context()))

    def _expire(self, armed_for: float) -> None:
        self._armed = None
        self._sort_in()
        times, now = self._times, max(armed_for, monotonic())
        while times and (times[0][0] <= now or not times[0][2].waits):
            self._arrived.append(heappop(times)[2])
        if times:
            self._arm(times[0][0])
        self._land()


class _Here(local):
    landing: Landing | None = None
    """Value for the loop which ran last on this thread."""


_HERE: Final = _Here()


def landing_of(loop: asyncio.AbstractEventLoop) -> Landing:
    """Return the one of the loop which runs on this thread."""
    landing = _HERE.landing
    if landing is None or landing.loop is not loop:
        landing = _HERE.landing = Landing(loop)
    return landing


class Arrival(asyncio.Future[None]):
    """One task's wait for one answer: a future that only this task waits for, and the callback of the reply."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(loop=loop)  # by name it may be another class by now: nest_asyncio replaces asyncio.Future
        landing = _HERE.landing
        self._landing = landing if landing is not None and landing.loop is loop else landing_of(loop)
        self._go_on: Callable[[Any], object] | None = None
        self._in: contextvars.Context | None = None
        self.waits = True
        """False once the wait is over."""

    def __call__(self) -> None:
        """Have the task go on, because there is an outcome. On any thread."""
        self._landing.bring(self)

    def until(self, when: float | None) -> Generator[Any, None, None]:
        """Wait until it is called, or until this time of the machine's clock. For ``yield from``, in a task."""
        if when is not None:
            self._landing.expire_at(when, self)
        try:
            yield from self
        finally:
            self.waits = False
            self._go_on = None

    def go_on(self) -> None:
        """Let the task go on, where it still waits. On the loop, between two tasks."""
        resume, context = self._go_on, self._in
        if resume is not None and context is not None:
            self._go_on = self._in = None
            self.set_result(None)  # a future has callbacks called in the next turn; the task is none of them
            context.run(resume, self)

    # -- what a task does with a future --------------------------------------------------------------------

    def add_done_callback(self, fn: Callable[[Any], object], /, *, context: contextvars.Context | None = None) -> None:
        """How its task goes on. Called by the task, as soon as it has yielded this."""
        if self._in is None and context is not None and not self.done():
            self._go_on, self._in = fn, context
        else:
            super().add_done_callback(fn, context=context)

    def cancel(self, msg: Any | None = None) -> bool:
        """Have the task go on with a CancelledError, in the next turn; False where it is about to go on."""
        if not super().cancel(msg):
            return False
        resume, context = self._go_on, self._in
        if resume is not None:
            self._go_on = self._in = None
            self._landing.loop.call_soon(resume, self, context=context)
        return True
