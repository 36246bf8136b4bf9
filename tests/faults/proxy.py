"""A way to a server that can be cut, for one process alone."""

from __future__ import annotations

import contextlib
import socket
import threading

_BYTES = 65536


class Proxy:
    """Passes on what comes to a port of its own, until it is cut or falls silent."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._lock = threading.Lock()
        """Guards the three below."""
        self._open: set[socket.socket] = set()
        self._cut = False
        self._silent = False
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # it was closed
            with self._lock:
                refused = self._cut
            if refused:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._target))
            with self._lock:
                self._open |= {client, server}
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(_BYTES):
                self._goes_on.wait()
                other.sendall(data)
        self._end({one, other})

    def _end(self, sockets: set[socket.socket]) -> None:
        with self._lock:
            self._open -= sockets
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def cut(self) -> None:
        """End every connection, and refuse new ones."""
        with self._lock:
            self._cut = True
            ended = set(self._open)
        self._end(ended)

    def silence(self) -> None:
        """Take what comes, also new connections, and pass on nothing."""
        self._goes_on.clear()

    def restore(self) -> None:
        """As before. What fell silent is ended: who waited for it hears that."""
        with self._lock:
            self._cut = False
            ended = set() if self._goes_on.is_set() else set(self._open)
        self._end(ended)
        self._goes_on.set()

    def close(self) -> None:
        """Leave nothing of it."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._goes_on.set()
