"""The side of the tree: a socket that listens, and its callers.

One thread lets callers in; each of them has a thread of its own (``session``), ``CALLERS`` at a time. So the console
answers while everything else of the tree is stuck, and whatever a caller does, or does not do, hurts nobody else.

The socket has mode 0600, in a folder of mode 0700 (``place``); on Linux the kernel says in addition who is calling.

``_lock`` guards who is here and whether it is closed; nothing else is locked or waited for under it.
"""

from __future__ import annotations

import atexit
import itertools
import os
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from actors.concurrency.thread_state import after_fork, join_thread, start_thread
from actors.model.clock import monotonic
from trees.host.console.place import LONGEST_ID, ConsoleError, folder, sweep
from trees.host.console.protocol import ConsoleRequest
from trees.host.console.session import Session, ShownTree
from trees.observe.source import Source, SourceError

CALLERS: Final = 32
"""Callers at a time; one more is told so, and let go."""
CLOSE_S: Final = 5.0
"""How long a close may take; callers are let go of after less."""
LEAVE_S: Final = 2.0
"""How long those have who are here when it is closed."""
FULL_S: Final = 0.2
"""How long nobody is let in once the process had no descriptor for a caller."""

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
        self._lock = threading.Lock()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._sessions: set[Session] = set()
        self._ends: list[socket.socket] = []
        unheard = self.path.with_suffix(".new")  # another process sweeps away a *.sock that does not listen yet
        try:
            self._ends += socket.socketpair()
            self._ends.append(socket.socket(socket.AF_UNIX))
            self._bell, self._button, self._listener = self._ends
            self._listener.bind(str(unheard))
            unheard.chmod(0o600)
            self._listener.listen()
            unheard.rename(self.path)
        except OSError as error:
            self._let_go()
            with suppress(OSError):
                unheard.unlink(missing_ok=True)
            hint = "Point XDG_RUNTIME_DIR to a folder of your own with a short path."
            raise ConsoleError(str(self.path), f"cannot be opened ({error.strerror or error})", hint) from error
        atexit.register(self._unlink)
        after_fork(self)

    def serve(self, show: Callable[[ConsoleRequest], str], source: Source | None = None) -> None:
        """Answer from now on, until closed.

        Args:
            show: makes a dump; the text of what it raises is an answer as well.
            source: is asked for everything else, and closed with the console. None: dumps only.
        """
        shown = ShownTree(show, source)
        name = f"{self._root}-console"
        thread = self._thread = threading.Thread(target=self._serve, args=(shown,), name=name, daemon=True)
        try:
            start_thread(thread)
        except RuntimeError as error:
            self._thread = None
            shown.close()
            self.close()
            raise ConsoleError(
                str(self.path), "the machine gives no thread for it", "Leave out console=True."
            ) from error

    def close(self) -> None:
        """Let go of the socket, its file, callers and threads; returns when they are gone. May be called again."""
        with self._lock:
            first, self._closed = not self._closed, True
        if first:
            self._unlink()
            with suppress(OSError):
                self._button.send(b".")
        thread = self._thread
        if thread is None:
            self._let_go()
        else:
            join_thread(thread, CLOSE_S)

    def _serve(self, shown: ShownTree) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._bell, selectors.EVENT_READ)
            while not self._closed:
                selector.select()
                if not self._closed:
                    try:
                        caller, _ = self._listener.accept()
                    except OSError:  # as long as there is no descriptor for a caller it stays ready: do not spin
                        selector.unregister(self._listener)
                        selector.select(FULL_S)
                        selector.register(self._listener, selectors.EVENT_READ)
                    else:
                        self._let_in(caller, shown)
        self._let_out()
        shown.close()
        self._let_go()

    def _let_in(self, caller: socket.socket, shown: ShownTree) -> None:
        session = Session(caller, shown)
        with self._lock:
            is_room = len(self._sessions) < CALLERS
            if is_room:
                self._sessions.add(session)
        if not is_room:
            session.refuse(SourceError(503, f"{CALLERS} others look at this tree already."))
            return
        name = f"{self._root}-console-caller"
        session.thread = threading.Thread(target=self._hear, args=(session,), name=name, daemon=True)
        try:
            start_thread(session.thread)
        except RuntimeError:
            self._gone(session)
            session.refuse(SourceError(503, "the machine gives no thread for a look at this tree."))

    def _hear(self, session: Session) -> None:
        try:
            session.run()
        finally:
            self._gone(session)

    def _gone(self, session: Session) -> None:
        with self._lock:
            self._sessions.discard(session)

    def _let_out(self) -> None:
        """Have all callers leave: in order, as long as there is time."""
        with self._lock:
            here = list(self._sessions)
        for session in here:
            session.end()
        until = monotonic() + LEAVE_S
        for session in here:
            if session.thread is not None:
                join_thread(session.thread, until - monotonic())
        for session in here:
            session.abort()

    def _unlink(self) -> None:
        atexit.unregister(self._unlink)
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _let_go(self) -> None:
        for end in self._ends:
            end.close()

    def forked(self) -> None:
        """In the child of a fork: its copy of the socket must not keep a dead parent's console open."""
        self._closed, self._thread = True, None
        self._lock = threading.Lock()
        atexit.unregister(self._unlink)
        self._let_go()
        for session in tuple(self._sessions):
            session.forked()
