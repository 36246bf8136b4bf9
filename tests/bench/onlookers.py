"""Pages that are open, in a process of their own: each reads the events of a tree as fast as they come.

What a page costs its browser is no cost of the tree, so nothing is read of an event but where it ends.
"""

from __future__ import annotations

import multiprocessing
import selectors
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from urllib.parse import urlsplit

WAIT_S = 60.0
_PIECE = 1 << 18


class _Page:
    """One stream, and what has come."""

    def __init__(self, address: str, token: str) -> None:
        parts = urlsplit(address)
        self.events = self.losses = 0
        self._rest = b""
        self.socket = socket.create_connection((parts.hostname, parts.port), WAIT_S)
        head = f"GET /events HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n"
        self.socket.sendall(head.encode())
        while b"\r\n\r\n" not in self._rest:
            self._rest += self.socket.recv(_PIECE)
        if not self._rest.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(self._rest.decode())

    def read(self) -> None:
        """Count what is there."""
        whole, _, self._rest = (self._rest + self.socket.recv(_PIECE)).rpartition(b"\n\n")
        self.events += whole.count(b"event: change")
        self.losses += whole.count(b"event: lost")


class Onlookers:
    """Pages that another process has open."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def seen(self) -> tuple[int, int]:
        """Return how many events the page that has the fewest has had so far, and how often any was told of a loss."""
        self._pipe.send("seen")
        found: tuple[int, int] = self._pipe.recv()
        return found


@contextmanager
def onlookers(address: str, token: str, number: int) -> Iterator[Onlookers]:
    """Have so many pages open."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_look, args=(theirs, address, token, number), daemon=True)
    process.start()
    theirs.close()
    with closing(ours):
        if ours.recv() != "open":
            raise ConnectionError
        yield Onlookers(ours)
    process.join(WAIT_S)


def _look(pipe: Connection, address: str, token: str, number: int) -> None:
    """Read until there is nobody at the other end of the pipe any more."""
    pages = [_Page(address, token) for _ in range(number)]
    with selectors.DefaultSelector() as ready:
        for page in pages:
            ready.register(page.socket, selectors.EVENT_READ, page)
        ready.register(pipe, selectors.EVENT_READ)
        pipe.send("open")
        while True:
            for key, _ in ready.select():
                if key.data is not None:
                    key.data.read()
                    continue
                try:
                    pipe.recv()
                except EOFError:
                    return
                pipe.send((min(page.events for page in pages), sum(page.losses for page in pages)))
