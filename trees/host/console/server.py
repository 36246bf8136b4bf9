"""The side of the tree: a socket that listens, and a thread for each of its callers.

So the console answers while everything else of the tree is stuck, and a caller that is slow, or asks for something
slow, holds up no other. A caller has ``PATIENCE_S`` to say its request and to take the answer. When the tree ends, a
caller that has not asked yet is let go, a call goes on to its answer, and a subscription ends with a last line; after
``LEAVE_S`` all connections are closed.

The socket has mode 0600, in a folder of mode 0700 (``place``); on Linux the kernel says in addition who is calling.
"""

from __future__ import annotations

import inspect
import itertools
import os
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from actors.concurrency.thread_state import after_fork, join_thread, start_thread
from actors.model.clock import monotonic
from actors.model.errors import ActorsError
from trees.host.console.protocol import ACTS, LONGEST_ID, SAME, ConsoleError, folder, line_of, read_request, sweep
from trees.observe.source import VERSION, Shape, Source, SourceError

CALLERS: Final = 32
"""Callers at a time; one more is told so, and let go."""
CLOSE_S: Final = 5.0
"""How long ``Console.close`` waits."""
LEAVE_S: Final = 2.0
"""How long callers have to leave when the console is closed."""
PATIENCE_S: Final = 2.0
"""How long a caller may take to say, or to take, something."""
LOOK_S: Final = 1.0
"""How often it is looked whether a subscriber to whom nothing is told has gone."""
BACKLOG_BYTES: Final = 1024 * 1024
"""Bytes of events that wait for one caller before its oldest are lost."""

_numbers = itertools.count()


class Console:
    """An open console: the socket is there from the start, answers come once ``serve`` was called."""

    def __init__(self, root: str) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise ConsoleError(root, "a console needs unix sockets, which this system lacks", "Leave out console=True.")
        place = folder()
        sweep(place)
        self.path = place / f"{os.getpid()}-{root[:LONGEST_ID]}-{next(_numbers)}.sock"
        self._root = root
        self._closed = threading.Event()
        self._news = threading.Condition()
        """Told when an event came for a subscriber, or the console is closed."""
        self._callers: dict[socket.socket, threading.Thread] = {}
        self._thread: threading.Thread | None = None
        unheard = self.path.with_suffix(".new")  # another process sweeps away a *.sock that does not listen yet
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(LOOK_S)  # ``close`` cannot wake ``accept`` where somebody has removed the file
        try:
            self._listener.bind(str(unheard))
            unheard.chmod(0o600)
            self._listener.listen()
            unheard.rename(self.path)
        except OSError as error:
            self._listener.close()
            with suppress(OSError):
                unheard.unlink(missing_ok=True)
            hint = "Point XDG_RUNTIME_DIR to a folder of your own with a short path."
            raise ConsoleError(str(self.path), f"cannot be opened ({error.strerror or error})", hint) from error
        after_fork(self)

    def serve(self, show: Callable[..., str], source: Source) -> None:
        """Answer from now on, until closed.

        Args:
            show: makes a dump (``Tree.dump``); the text of what it raises is an answer as well.
            source: is asked for everything else, and closed with the console.
        """
        self._show, self._source = show, source
        thread = threading.Thread(target=self._accept, name=f"{self._root}-console", daemon=True)
        start_thread(thread)
        self._thread = thread

    def close(self) -> None:
        """Let go of the socket, its file, callers and threads; returns when they are gone. May be called again."""
        self._closed.set()
        with self._news:
            self._news.notify_all()
        if self._thread is not None:
            with suppress(OSError), socket.socket(socket.AF_UNIX) as caller:
                caller.settimeout(0)
                caller.connect(str(self.path))  # so that ``accept`` returns
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
        if self._thread is None:
            self._listener.close()
        else:
            join_thread(self._thread, CLOSE_S)

    def forked(self) -> None:
        """In the child of a fork: its copies of the sockets must not keep a dead parent's console open."""
        self._thread = None
        for each in (self._listener, *self._callers):
            each.close()

    def _accept(self) -> None:
        """Take callers, until closed; then let them go."""
        while not self._closed.is_set():
            try:
                caller, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:  # the process has too many files open
                self._closed.wait(LOOK_S)
                continue
            name = f"{self._root}-console-caller"
            thread = threading.Thread(target=self._serve, args=(caller,), name=name, daemon=True)
            self._callers[caller] = thread
            try:
                start_thread(thread)
            except RuntimeError:  # the machine gives no thread for it
                del self._callers[caller]
                caller.close()
        self._listener.close()
        end, left = monotonic() + LEAVE_S, self._callers.copy()
        for caller in left:
            _shut_down(caller, socket.SHUT_RD)  # it need not say anything more
        for caller, thread in left.items():
            join_thread(thread, end - monotonic())
            _shut_down(caller, socket.SHUT_RDWR)
        self._source.close()

    # -- one caller, on its thread -------------------------------------------------------------------------

    def _serve(self, caller: socket.socket) -> None:
        """Read the request and answer it. A caller that goes away, or is too slow, is its own problem."""
        try:
            with suppress(OSError), caller:
                caller.settimeout(PATIENCE_S)
                who = owner(caller)
                if who is None:
                    return
                with caller.makefile("rb") as lines:
                    line = lines.readline()
                if line:
                    caller.sendall(self._answer(caller, line, who))
        finally:
            self._callers.pop(caller, None)

    def _answer(self, caller: socket.socket, line: bytes, who: str) -> bytes:
        """Carry out a request; return the last line of the answer."""
        try:
            do, given = read_request(line)
            if do == "subscribe":
                return self._follow(caller)
            return line_of(answer=self._do(do, given, who))
        except ActorsError as error:
            return line_of(error=str(error), status=error.status if isinstance(error, SourceError) else 409)
        except Exception as error:  # noqa: BLE001 - the console outlives whatever a look at the tree meets
            # Only our own errors are quoted: the text of any other one may hold a payload.
            return line_of(error=f"the console failed with {type(error).__name__}. Please report it.", status=503)

    def _do(self, do: str, given: Shape, who: str) -> Shape:
        if len(self._callers) > CALLERS:
            raise SourceError(503, f"{CALLERS} others look at this tree already.")
        act: Callable[..., Shape] = self._dump if do == "dump" else getattr(self._source, do)
        if do in ACTS:
            given["by"] = f"{who}: {given['by']}" if given.get("by") else who
        try:
            inspect.signature(act).bind(**given)
        except TypeError as error:
            raise SourceError(400, f"{do}: {error}. {SAME}") from None
        return act(**given)

    def _dump(self, **given: Any) -> Shape:
        return {"version": VERSION, "dump": self._show(**given)}

    def _follow(self, caller: socket.socket) -> bytes:
        """Write events until the caller goes or the tree ends; return the last line."""
        events = _Events(self._news)
        unsubscribe = self._source.subscribe(events.put)
        try:
            caller.sendall(line_of(answer={"version": VERSION, "subscribed": True}))
            caller.settimeout(None)
            while True:
                with self._news:
                    self._news.wait_for(lambda: events.lines or self._closed.is_set(), LOOK_S)
                    is_closed, said = self._closed.is_set(), events.take()
                if is_closed or (not said and _has_gone(caller)):
                    return said + line_of(ended="the tree has ended.")
                caller.sendall(said)
        finally:
            unsubscribe()


class _Events:
    """Events on their way to one caller. The bus calls ``put`` on its thread; the oldest go if there is no room."""

    def __init__(self, news: threading.Condition) -> None:
        self.lines: deque[bytes] = deque()
        self._news = news
        self._bytes = 0
        self._lost = 0

    def put(self, event: Shape) -> None:
        """Queue an event. Never waits."""
        line = line_of(event=event)
        with self._news:
            self.lines.append(line)
            self._bytes += len(line)
            while self._bytes > BACKLOG_BYTES and len(self.lines) > 1:
                self._bytes -= len(self.lines.popleft())
                self._lost += 1
            self._news.notify_all()

    def take(self) -> bytes:
        """With the condition held: return the lines that wait; what was lost before them is a line, too."""
        taken = (line_of(lost=self._lost) if self._lost else b"") + b"".join(self.lines)
        self.lines.clear()
        self._bytes = self._lost = 0
        return taken


def _has_gone(caller: socket.socket) -> bool:
    try:
        return not caller.recv(1, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


def _shut_down(opened: socket.socket, how: int) -> None:
    with suppress(OSError):
        opened.shutdown(how)


def owner(caller: socket.socket) -> str | None:
    """Return the user and the process that call; None if the kernel says that the user is not that of this process."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return f"console uid {os.geteuid()}"  # the folder and the file let nobody else in
    pid, uid, _ = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    return f"console uid {uid} pid {pid}" if uid == os.geteuid() else None
