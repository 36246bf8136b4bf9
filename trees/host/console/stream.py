"""The events of a tree on their way to one caller of its console.

Two threads meet here. The bus calls ``put``, which never waits: a line goes into a queue, the oldest ones go where
there is no room, and are counted. The caller's own thread is in ``run``: it writes what the socket takes, and notices
at once when the caller has gone. A bell, a pair of sockets, wakes it; it is rung once until that thread has heard it.

``_lock`` guards the queue, the count, the bell and whether all is over. Under it nothing waits, and no other lock is
taken: ringing never blocks, and a bell that is full has been rung.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections import deque
from contextlib import suppress
from typing import Final

from actors.model.clock import monotonic
from trees.host.console.protocol import reply_line
from trees.observe.source import Shape

BACKLOG: Final = 4096
"""Events that wait for one caller before its oldest are lost."""
BACKLOG_BYTES: Final = 4 * 1024 * 1024
"""Bytes of them, likewise."""
FAREWELL_S: Final = 0.5
"""How long a caller has, at the end of a tree, to take what waits for it."""
_READ: Final = 65_536


class EventStream:
    """Events for one caller, from its request to whichever end comes first."""

    def __init__(self, caller: socket.socket) -> None:
        self._caller = caller
        self._lock = threading.Lock()
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._lost = 0
        self._over = False
        self._ended = ""
        self._rung = False
        self._bell, self._button = socket.socketpair()
        self._button.settimeout(0.0)

    def put(self, event: Shape) -> None:
        """Queue an event; the oldest ones go where there is no room. Never waits."""
        line = reply_line(event=event)
        with self._lock:
            if self._over or self._ended:
                return
            while self._queue and (len(self._queue) >= BACKLOG or self._bytes + len(line) > BACKLOG_BYTES):
                self._bytes -= len(self._queue.popleft())
                self._lost += 1
            self._queue.append(line)
            self._bytes += len(line)
            self._ring()

    def end(self, why: str) -> None:
        """Tell the caller that nothing more comes, and why."""
        with self._lock:
            if not self._over:
                self._ended = self._ended or why
                self._ring()

    def run(self) -> None:
        """Write until the caller goes, or all is told; returns then."""
        self._caller.settimeout(0.0)
        with selectors.DefaultSelector() as selector, suppress(OSError):
            selector.register(self._bell, selectors.EVENT_READ)
            selector.register(self._caller, selectors.EVENT_READ)
            self._write(selector)

    def _write(self, selector: selectors.BaseSelector) -> None:
        unsent, until = b"", None
        while True:
            unsent, told = self._next(unsent)
            if not unsent and told:
                return
            if self._ended and until is None:
                until = monotonic() + FAREWELL_S
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if unsent else 0)
            selector.modify(self._caller, wanted)
            ready = {key.fileobj: what for key, what in selector.select(_left(until))}
            what = ready.get(self._caller, 0)
            if until is not None and monotonic() >= until and not what & selectors.EVENT_WRITE:
                return  # a caller that takes it as fast as it can be written gets all, however late this thread runs
            if self._bell in ready:
                self._hear()
            if what & selectors.EVENT_READ and not self._caller.recv(_READ):  # what it says meanwhile is not heard
                return
            if what & selectors.EVENT_WRITE:
                unsent = unsent[self._caller.send(unsent) :]

    def _next(self, unsent: bytes) -> tuple[bytes, bool]:
        """Bytes to be sent now, and True where nothing follows them."""
        if unsent:
            return unsent, False
        with self._lock:
            if self._lost:
                lost, self._lost = self._lost, 0
                return reply_line(lost=lost), False
            if self._queue:
                line = self._queue.popleft()
                self._bytes -= len(line)
                return line, False
            if self._ended and not self._over:
                self._over = True
                return reply_line(ended=self._ended), False
            return b"", self._over

    def _ring(self) -> None:
        if not self._rung:
            self._rung = True
            with suppress(OSError):
                self._button.send(b".")

    def _hear(self) -> None:
        with self._lock:
            self._rung = False
            self._bell.recv(_READ)

    def close(self) -> None:
        """Let go of what waits, and of the bell. May be called again."""
        with self._lock:
            self._over = True
            self._queue.clear()
            self._bell.close()
            self._button.close()


def _left(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - monotonic())
