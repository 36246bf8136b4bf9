"""A wire between a store and its server that can be cut at the worst moment."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit, urlunsplit


class Proxy:
    """Forwards what comes to a port of its own to a server, until it is cut."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._server = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{self._listener.getsockname()[1]}"))
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._is_closed = False
        self._cut_after = b""
        self.was_cut = threading.Event()
        self.messages = 0
        """From the client, as they came in; only one thread counts where there is one client."""

    def cut_after(self, words: bytes) -> None:
        """Forward the next message that holds these words, and never its answer: the client's side is closed then.

        The server's side stays open, as after a fault of the network: the server does not notice.
        """
        self._cut_after = words

    def accept(self) -> None:
        """The thread that takes new connections."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            with self._lock:
                self._sockets += [client, server]
                if self._is_closed:
                    return
                self._start(self._forward, client, server)
                self._start(self._answer, server, client)

    def _start(self, target: Callable[..., None], *sockets: socket.socket) -> None:
        thread = threading.Thread(target=target, args=sockets)
        self._threads.append(thread)
        thread.start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                self.messages += 1
                cut = bool(self._cut_after) and self._cut_after in data
                if cut:
                    self._cut_after = b""
                    client.shutdown(socket.SHUT_RDWR)  # first: no answer passes any more
                server.sendall(data)
                if cut:
                    self.was_cut.set()
                    return
            server.shutdown(socket.SHUT_RDWR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Cut everything, and wait for its threads."""
        with self._lock:
            self._is_closed = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()


@contextmanager
def proxied(url: str) -> Iterator[Proxy]:
    """A proxy for the server of this URL."""
    proxy = Proxy(url)
    accepting = threading.Thread(target=proxy.accept)
    accepting.start()
    try:
        yield proxy
    finally:
        proxy.close()
        accepting.join()
