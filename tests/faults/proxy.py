"""A wire between a store and its server that can be cut, or fall silent, at the worst moment.

One lock guards the list of sockets and whether new ones are refused. Sockets are shut down when a wire is cut, and
closed at the end, when no thread uses them: so no thread reads from a number that meanwhile belongs to another file.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit, urlunsplit

_BYTES = 65536


class Proxy:
    """Forwards what comes to a port of its own to a server, until it is cut or falls silent."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._server = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{self._listener.getsockname()[1]}"))
        """URL of the server, by way of this proxy."""
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._refuses = False
        self._flows = threading.Event()
        self._flows.set()
        self._cut_after = b""
        self.was_cut = threading.Event()
        self.messages = 0
        """From the client, as they came in; only one thread counts where there is one client."""
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def _start(self, target: Callable[..., None], *sockets: socket.socket) -> None:
        thread = threading.Thread(target=target, args=sockets, name=f"proxy {self._listener.getsockname()[1]}")
        self._threads.append(thread)
        thread.start()

    def cut_after(self, words: bytes) -> None:
        """Forward the next message that holds these words, and never its answer: the client's side is closed then.

        The server's side stays open, as after a fault of the network: the server does not notice.
        """
        self._cut_after = words

    def cut(self) -> None:
        """End every connection, and refuse new ones."""
        with self._lock:
            self._refuses = True
            self._end_all()

    def silence(self) -> None:
        """Accept whatever comes, also new connections, and pass on nothing."""
        self._flows.clear()

    def restore(self) -> None:
        """Forward again. Connections that fell silent are ended: who waited for one hears that."""
        with self._lock:
            self._refuses = False
            if not self._flows.is_set():
                self._end_all()
        self._flows.set()

    def close(self) -> None:
        """Cut everything, and wait for its threads."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()  # nobody is accepted any more
        self._listener.close()
        self.cut()
        self._flows.set()
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()

    def _end_all(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # it was closed
            server = None if self._refuses else self._reached()
            with self._lock:
                if self._refuses or server is None:
                    client.close()
                    if server is not None:
                        server.close()
                    continue
                self._sockets += [client, server]
            self._start(self._forward, client, server)
            self._start(self._answer, server, client)

    def _reached(self) -> socket.socket | None:
        try:
            return socket.create_connection(self._server)
        except OSError:
            return None  # the server is down, and its client hears that as it would without a proxy

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(_BYTES):
                self.messages += 1
                self._flows.wait()
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
            while data := server.recv(_BYTES):
                self._flows.wait()
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxied(url: str) -> Iterator[Proxy]:
    """Yield a proxy for the server of this URL."""
    proxy = Proxy(url)
    try:
        yield proxy
    finally:
        proxy.close()
