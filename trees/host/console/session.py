"""One caller of a console: who it is, what it asks for, and what it is answered.

A caller has a thread of its own, so that one that is slow, or asks for something that takes its time, holds up nobody.
States: *reading* its line, *calling* the tree, *writing* the answer, or *streaming* events. ``end`` may come from
another thread in any of them: a caller who has not asked yet hears that the tree has ended, a call goes on to its
answer (the tree answers each, also when it ends), a stream says that it has ended. ``abort`` ends all of them at once.

``_lock`` guards which stream there is, and whether the end has come; a caller is shut down under it, which never waits.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from pydantic import BaseModel

from actors.model.clock import monotonic
from actors.model.errors import ActorsError, UnknownPathError
from trees.host.console.protocol import LONGEST_REQUEST, ConsoleRequest, read_request, reply_line
from trees.host.console.stream import EventStream
from trees.observe.source import VERSION, Shape, Source, SourceError

PATIENCE_S = 2.0
"""How long a caller may take to say, or to take, something."""
ENDED: Final = "the tree has ended."
_READ: Final = 65_536


class ShownTree:
    """Whatever a console can show: the dump of its tree, and the tree as a ``Source``.

    The source is there before the first caller: it notes why children have crashed, and most callers come after that.
    """

    def __init__(self, show: Callable[[ConsoleRequest], str], source: Source | None) -> None:
        self._show = show
        self._source = source

    def do(self, do: str, given: BaseModel, by: str) -> Shape:
        """Answer a request.

        Raises:
            SourceError: it cannot be done.
        """
        if isinstance(given, ConsoleRequest):
            return {"version": VERSION, "dump": self._show(given)}
        wanted: dict[str, Any] = given.model_dump()
        if "by" in wanted:
            wanted["by"] = f"{by}: {wanted['by']}" if wanted["by"] else by
        answer: Shape = getattr(self.source, do)(**wanted)
        return answer

    @property
    def source(self) -> Source:
        """The tree, as those who look at it from outside know it."""
        source = self._source
        if source is None:
            raise SourceError(409, "this console shows dumps only.")
        return source

    def close(self) -> None:
        """Let go of the source; it is called once."""
        source, self._source = self._source, None
        if source is not None:
            source.close()


class Session:
    """One caller."""

    def __init__(self, caller: socket.socket, shown: ShownTree) -> None:
        self._caller = caller
        self._shown = shown
        self._lock = threading.Lock()
        self._stream: EventStream | None = None
        self._over = False
        self.thread: threading.Thread | None = None

    def run(self) -> None:
        """Hear the caller and answer. One that goes away, or is too slow, is its own problem."""
        with self._caller, suppress(OSError):
            self._caller.settimeout(PATIENCE_S)
            who = owner(self._caller)
            line = self._line() if who is not None else b""
            if who is not None and line:
                self._serve(line, who)

    def end(self) -> None:
        """Let the caller go as soon as it has its answer."""
        with self._lock:
            self._over = True
            if self._stream is not None:
                self._stream.end(ENDED)
            else:
                with suppress(OSError):
                    self._caller.shutdown(socket.SHUT_RD)  # it need not say anything more

    def abort(self) -> None:
        """Let the caller go now."""
        with suppress(OSError):
            self._caller.shutdown(socket.SHUT_RDWR)

    def refuse(self, error: SourceError) -> None:
        """Say why the caller is not heard, as far as it takes that at once, and let it go."""
        with self._caller, suppress(OSError):
            self._caller.settimeout(0.0)
            self._caller.send(reply_line(error=error.text, status=error.status))

    def forked(self) -> None:
        """In the child of a fork: let go of the copy."""
        self._caller.close()

    def _serve(self, line: bytes, who: str) -> None:
        try:
            do, given = read_request(line)
            follows = do == "subscribe"
            said = b"" if follows else reply_line(answer=self._shown.do(do, given, who))
        except Exception as error:  # noqa: BLE001 - the console outlives whatever a look at the tree meets
            follows, said = False, refusal(error)
        if follows:
            self._follow()
            return
        self._caller.settimeout(PATIENCE_S)
        self._caller.sendall(said)
        if len(line) > LONGEST_REQUEST:
            self._drain()

    def _follow(self) -> None:
        """Tell the caller what happens, until it goes or the tree ends."""
        stream = EventStream(self._caller)
        with self._lock:
            self._stream = stream
            if self._over:
                stream.end(ENDED)
        try:
            unsubscribe = self._shown.source.subscribe(stream.put)
        except Exception as error:  # noqa: BLE001 - likewise
            stream.close()
            self._caller.sendall(refusal(error))
            return
        try:
            self._caller.sendall(reply_line(answer={"version": VERSION, "subscribed": True}))
            stream.run()
        finally:
            unsubscribe()
            stream.close()

    def _line(self) -> bytes:
        """The request; a little more than allowed where it is too long, and nothing where there is none in time."""
        parts, until = b"", monotonic() + PATIENCE_S
        while not parts.endswith(b"\n") and len(parts) <= LONGEST_REQUEST:
            self._caller.settimeout(max(0.001, until - monotonic()))
            part = self._caller.recv(_READ)
            if not part:
                break
            parts += part
        return parts

    def _drain(self) -> None:
        """Take the rest of what was too long: a caller that still writes would not come to read the answer."""
        self._caller.shutdown(socket.SHUT_WR)
        until = monotonic() + PATIENCE_S
        while monotonic() < until and self._caller.recv(_READ):
            self._caller.settimeout(max(0.001, until - monotonic()))


def refusal(error: Exception) -> bytes:
    """Line that says what went wrong. Only our own errors are quoted: the text of any other one may hold a payload."""
    if isinstance(error, SourceError):
        return reply_line(error=error.text, status=error.status)
    if isinstance(error, ActorsError):
        return reply_line(error=str(error), status=404 if isinstance(error, UnknownPathError) else 409)
    return reply_line(error=f"the console failed with {type(error).__name__}. Please report it.", status=503)


def owner(caller: socket.socket) -> str | None:
    """Return who calls, where it is the user that this process runs as; None: somebody else, as the kernel tells."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return f"console uid {os.geteuid()}"  # the folder and the file let nobody else in
    pid, uid, _ = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    return f"console uid {uid} pid {pid}" if uid == os.geteuid() else None
