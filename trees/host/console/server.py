"""The side of the tree: a unix socket that listens, and a thread for each of its callers.

So the console answers while everything else of the tree is stuck, and a caller that is slow, or asks for something
slow, holds up no other. A caller has ``PATIENCE_S`` to say its request and to take the answer. A subscriber that is
slow holds up nobody either: the bus of the tree keeps its events, and drops the oldest. When the tree ends all
connections end.

Nobody but the owner gets at the socket: it lies in a folder of mode 0700 (``folder``).
"""

from __future__ import annotations

import itertools
import os
import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from actors.concurrency.thread_state import after_fork, blocking, start_thread
from actors.model.errors import ActorsError
from trees.host.console.protocol import LONGEST_ID, ConsoleError, folder, line_of, read_request, sweep
from trees.observe.source import VERSION, Shape, Source, SourceError

PATIENCE_S: Final = 2.0
"""How long a caller may take to say, or to take, something."""
LOOK_S: Final = 1.0
"""How long no caller is taken if the process has too many files open."""

_numbers = itertools.count()


class Console(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """An open console: the socket is there from the start, answers come once ``serve`` was called."""

    daemon_threads = True
    request_queue_size = 128
    source: Source | None = None
    """What is looked at; None: nobody is answered yet."""
    show: Callable[..., str]
    """Makes a dump."""

    def __init__(self, root: str) -> None:
        place = folder()
        sweep(place)
        self.path = place / f"{os.getpid()}-{root[:LONGEST_ID]}-{next(_numbers)}.sock"
        self._root = root
        self._callers: set[socket.socket] = set()
        self._closed = threading.Event()
        try:
            super().__init__(str(self.path), _Caller)
        except OSError as error:
            hint = "Point XDG_RUNTIME_DIR to a folder of your own with a short path."
            raise ConsoleError(str(self.path), f"cannot be opened ({error.strerror or error})", hint) from error
        after_fork(self)

    def serve(self, show: Callable[..., str], source: Source) -> None:
        """Answer from now on, until closed.

        Args:
            show: makes a dump (``Tree.dump``); the text of what it raises is an answer as well.
            source: is asked for everything else, and closed with the console.
        """
        self.show, self.source = show, source
        start_thread(threading.Thread(target=self.serve_forever, name=f"{self._root}-console", daemon=True))

    def close(self) -> None:
        """Let go of the socket, its file and the callers. May be called again."""
        self._closed.set()
        _shut_down(self.socket)  # so that the server looks at once whether it is to end
        if self.source is not None:
            self.shutdown()
            self.source.close()
        self.server_close()
        for caller in tuple(self._callers):
            _shut_down(caller)
        self.path.unlink(missing_ok=True)

    def forked(self) -> None:
        """In the child of a fork: its copies of the sockets must not keep a dead parent's console open."""
        self.server_close()
        for caller in self._callers:
            caller.close()
        self.close = lambda: None  # type: ignore[method-assign]  # the file is the parent's

    def get_request(self) -> tuple[socket.socket, Any]:
        """Take a caller."""
        try:
            caller, address = super().get_request()
        except OSError:
            self._closed.wait(LOOK_S)
            raise
        self._callers.add(caller)
        return caller, address

    def close_request(self, request: Any) -> None:
        """Let go of a caller."""
        self._callers.discard(request)
        super().close_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Do nothing: a caller that goes away, or is too slow, is its own problem."""


class _Caller(socketserver.StreamRequestHandler):
    """One caller, on its thread."""

    server: Console

    def handle(self) -> None:
        """Read the request, and answer it."""
        self.connection.settimeout(PATIENCE_S)
        if line := self.rfile.readline():
            self.wfile.write(self._answer(line))

    def _answer(self, line: bytes) -> bytes:
        """Carry out a request; return the line of the answer."""
        source = self.server.source
        assert source is not None  # noqa: S101 - nobody is taken before
        try:
            do, given = read_request(line)
            if do == "subscribe":
                return self._follow(source)
            if do == "dump":
                return line_of(answer={"version": VERSION, "dump": self.server.show(**given)})
            return line_of(answer=getattr(source, do)(**given))
        except ActorsError as error:
            return line_of(error=str(error), status=error.status if isinstance(error, SourceError) else 409)
        except Exception as error:  # noqa: BLE001 - the console outlives whatever a look at the tree meets
            # Only our own errors are quoted: the text of any other one may hold a payload.
            what = f"the console failed with {type(error).__name__}"
            return line_of(error=f"{what}. Use the regrow of the same version, or report it.", status=503)

    def _follow(self, source: Source) -> bytes:
        """Tell of events until the caller goes or the console is closed."""
        writing = threading.Lock()

        def tell(event: Shape) -> None:
            with blocking(), writing, suppress(OSError):  # a caller that has gone is let go of by its own thread
                self.wfile.write(line_of(event=event))

        self.connection.settimeout(None)
        with writing:  # the answer comes before the first event
            unsubscribe = source.subscribe(tell)
            self.wfile.write(line_of(answer={"version": VERSION, "subscribed": True}))
        try:
            self.rfile.read()
        finally:
            unsubscribe()
        return b""


def _shut_down(opened: socket.socket) -> None:
    with suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)
