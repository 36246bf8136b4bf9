"""The watchdog of an event loop: asks it for a sign of life while it has work, and says when none comes.

It is a thread. It reports the first time that each sign stays out, with the stack in which the loop's thread stands. A
loop of the tree's own that has given none for ``stall_s`` is given up (``actors.runtime.loop_renewal``); any other goes
on when whoever holds it up lets go of it. Time counts while the host runs: a wait that took much longer than it should
(SIGSTOP, a debugger, a suspended machine) has the whole ``stall_s`` begin anew.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from actors.concurrency.thread_state import join_thread, start_thread
from actors.concurrency.wakeup import Flag
from actors.messaging.reply import Reply
from actors.model.clock import monotonic

if TYPE_CHECKING:
    from actors.execution.loop_scheduler import LoopScheduler

BLOCK_S = 0.25
"""How long a handler may hold up the loop before it is reported."""

STOPPED_S = 4 * BLOCK_S
"""A wait for a sign that took so long shows that the host has not run meanwhile."""


class Watchdog:
    """Watches one loop, from its first work to its end."""

    def __init__(self, loop: LoopScheduler, stall_s: float | None = None) -> None:
        self._loop = loop
        self._stall_s = stall_s
        self.busy = Flag()
        """Set by the loop when there is work; cleared here when there is none."""
        self._closing = Flag()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch.

        Raises:
            RuntimeError: the machine gives no more threads.
        """
        thread = threading.Thread(target=self._watch, name=f"{self._loop.name}-watchdog", daemon=True)
        start_thread(thread)
        self._thread = thread

    def close(self, timeout_s: float) -> None:
        """End it, because the loop ends; waits at most ``timeout_s``."""
        self._closing.set()
        self.busy.set()
        if self._thread is not None:
            join_thread(self._thread, timeout_s)

    def _watch(self) -> None:
        while True:
            self.busy.wait(self._stall_s)  # what a worker has left behind may block the loop while none is at work
            if self._closing.is_set():
                return
            sign, asked = Reply(), monotonic()
            self._loop.call(sign.complete)
            if sign.wait(BLOCK_S):
                self._closing.wait(BLOCK_S / 2)
                self._rest()
                continue
            if self._closing.is_set():
                return
            self._loop.report_blocked(monotonic() - asked)
            if self._outlasts(sign, asked):
                self._loop.give_up(monotonic() - asked)
                return

    def _outlasts(self, sign: Reply, asked: float) -> bool:
        """Wait for the sign; True where it stays out for ``stall_s``."""
        ran_since = looked = asked
        while not sign.wait(BLOCK_S) and not self._closing.is_set():
            now = monotonic()
            if now - looked > STOPPED_S:
                ran_since = now
            looked = now
            if self._stall_s is not None and now - ran_since >= self._stall_s:
                return not sign.done
            self._loop.call(int)  # a loop that has ended meanwhile says so here
        return False

    def _rest(self) -> None:
        """Nothing to watch: wait until there is. Looked at here, so that a task that comes and goes costs nothing."""
        if not self._loop.has_work:
            self.busy.clear()
            if self._has_news():
                self.busy.set()  # that came in between

    def _has_news(self) -> bool:
        return self._loop.has_work or self._closing.is_set()
