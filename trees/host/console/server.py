"""The side of the tree: a socket that listens, and its callers, on an event loop in a thread of its own.

What a caller asks for is done on a thread of its own. So the console answers while everything else of the tree is
stuck, and a caller that is slow, or asks for something slow, holds up no other. A caller has ``PATIENCE_S`` to say its
request and to take the answer. When the tree ends, a caller that has not asked yet is let go, a call goes on to its
answer, and a subscription ends with a last line; after ``LEAVE_S`` all connections are closed.

The socket has mode 0600, in a folder of mode 0700 (``place``); on Linux the kernel says in addition who is calling.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import os
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from pydantic import BaseModel

from actors.concurrency.thread_state import after_fork, in_background, join_thread, start_thread
from actors.messaging.reply import Reply
from actors.model.errors import ActorsError, UnknownPathError
from trees.host.console.place import LONGEST_ID, ConsoleError, folder, sweep
from trees.host.console.protocol import LONGEST_REQUEST, TOO_LONG, ConsoleRequest, read_request, reply_line
from trees.observe.source import VERSION, Shape, Source, SourceError

CALLERS: Final = 32
"""Callers at a time; one more is told so, and let go."""
CLOSE_S: Final = 5.0
"""How long ``Console.close`` waits."""
LEAVE_S: Final = 2.0
"""How long callers have to leave when the console is closed."""
PATIENCE_S: Final = 2.0
"""How long a caller may take to say, or to take, something."""
BACKLOG: Final = 4096
"""Events that wait for one caller before its oldest are lost."""
BACKLOG_BYTES: Final = 4 * 1024 * 1024
"""Bytes of them, likewise."""
ENDED: Final = "the tree has ended."

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
        self._stop = asyncio.Event()
        self._callers: dict[asyncio.Task[None], _Caller] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        unheard = self.path.with_suffix(".new")  # another process sweeps away a *.sock that does not listen yet
        self._listener = socket.socket(socket.AF_UNIX)
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
        atexit.register(self._unlink)
        after_fork(self)

    def serve(self, show: Callable[[ConsoleRequest], str], source: Source) -> None:
        """Answer from now on, until closed.

        Args:
            show: makes a dump; the text of what it raises is an answer as well.
            source: is asked for everything else, and closed with the console.
        """
        loop = self._loop = asyncio.new_event_loop()

        def run() -> None:
            try:
                loop.run_until_complete(self._serve(show, source))
            finally:
                source.close()
                loop.close()

        thread = threading.Thread(target=run, name=f"{self._root}-console", daemon=True)
        try:
            start_thread(thread)
        except RuntimeError as error:
            loop.close()
            source.close()
            self.close()
            what = "the machine gives no thread for it"
            raise ConsoleError(str(self.path), what, "Leave out console=True.") from error
        self._thread = thread

    def close(self) -> None:
        """Let go of the socket, its file, callers and threads; returns when they are gone. May be called again."""
        self._unlink()
        thread, loop = self._thread, self._loop
        if thread is None or loop is None:
            self._listener.close()
            return
        with suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(self._stop.set)
        join_thread(thread, CLOSE_S)

    async def _serve(self, show: Callable[[ConsoleRequest], str], source: Source) -> None:
        async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            caller, task = _Caller(reader, writer, self._root, show, source), asyncio.current_task()
            if len(self._callers) >= CALLERS or task is None:
                await caller.leave(refusal(SourceError(503, f"{CALLERS} others look at this tree already.")))
                return
            self._callers[task] = caller
            try:
                await caller.run()
            finally:
                del self._callers[task]

        server = await asyncio.start_unix_server(hear, sock=self._listener, limit=LONGEST_REQUEST)
        await self._stop.wait()
        server.close()
        for caller in self._callers.values():
            caller.end()
        for wait_s in (LEAVE_S, PATIENCE_S):
            if tasks := list(self._callers):
                _, late = await asyncio.wait(tasks, timeout=wait_s)
                for task in late:
                    task.cancel()

    def _unlink(self) -> None:
        atexit.unregister(self._unlink)
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def forked(self) -> None:
        """In the child of a fork: its copies of the sockets must not keep a dead parent's console open."""
        self._thread = None
        atexit.unregister(self._unlink)
        self._listener.close()
        for caller in tuple(self._callers.values()):
            caller.forked()


class _Caller:
    """One caller of a console, on its event loop."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        root: str,
        show: Callable[[ConsoleRequest], str],
        source: Source,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._root = root
        self._show = show
        self._source = source
        self._events: _Events | None = None
        self._is_over = False

    async def run(self) -> None:
        """Read the request and answer it. A caller that goes away, or is too slow, is its own problem."""
        try:
            with suppress(OSError, TimeoutError):
                who = owner(self._writer.get_extra_info("socket"))
                if who is not None:
                    await self._serve(who)
        finally:
            self._writer.transport.abort()

    async def _serve(self, who: str) -> None:
        try:
            line = await asyncio.wait_for(self._reader.readline(), PATIENCE_S)
        except ValueError:  # the line is longer than the reader's limit
            await self._refuse_too_long()
            return
        if not line:
            return
        try:
            do, given = read_request(line)
            if do == "subscribe":
                events = self._events = _Events()
                unsubscribe = self._source.subscribe(events.put)
            else:
                said = await self._elsewhere(lambda: reply_line(answer=self._do(do, given, who)))
        except Exception as error:  # noqa: BLE001 - the console outlives whatever a look at the tree meets
            await self.leave(refusal(error))
            return
        if self._events is None:
            await self.leave(said)
            return
        try:
            await self._follow(self._events)
        finally:
            unsubscribe()

    def _do(self, do: str, given: BaseModel, by: str) -> Shape:
        if isinstance(given, ConsoleRequest):
            return {"version": VERSION, "dump": self._show(given)}
        wanted: dict[str, Any] = given.model_dump()
        if "by" in wanted:
            wanted["by"] = f"{by}: {wanted['by']}" if wanted["by"] else by
        answer: Shape = getattr(self._source, do)(**wanted)
        return answer

    async def _elsewhere(self, act: Callable[[], bytes]) -> bytes:
        """Return what a function returns, from a thread of its own: the console never waits for a call."""
        done = Reply()

        def run() -> None:
            try:
                done.complete(act())
            except BaseException as error:  # noqa: BLE001 - it is raised to the caller of this function
                done.fail(error)

        in_background(f"{self._root}-console-caller", run)
        said: bytes = await done
        return said

    async def _follow(self, events: _Events) -> None:
        """Write events until the caller goes or the tree ends."""
        self._writer.write(reply_line(answer={"version": VERSION, "subscribed": True}))
        gone = asyncio.ensure_future(self._reader.read())
        gone.add_done_callback(lambda _: events.news.set())
        try:
            while not gone.done():
                await events.news.wait()
                is_over = self._is_over  # first: all that was told before it is written
                self._writer.write(events.take())
                if is_over:
                    await self.leave(reply_line(ended=ENDED))
                    return
                await self._writer.drain()
        finally:
            gone.cancel()

    async def leave(self, said: bytes) -> None:
        """Say the last thing to the caller, and close the connection."""
        self._writer.write(said)
        self._writer.close()
        with suppress(OSError, TimeoutError):
            await asyncio.wait_for(self._writer.wait_closed(), PATIENCE_S)

    async def _refuse_too_long(self) -> None:
        """Refuse the request, and take the rest of it: a caller that still writes does not read the answer yet."""
        self._writer.write(refusal(SourceError(400, TOO_LONG)))
        self._writer.write_eof()

        async def drain() -> None:
            while await self._reader.read(LONGEST_REQUEST):
                pass

        await asyncio.wait_for(drain(), PATIENCE_S)

    def end(self) -> None:
        """Let the caller go as soon as it has its answer."""
        self._is_over = True
        if self._events is not None:
            self._events.news.set()
        else:
            self._reader.feed_eof()  # it need not say anything more

    def forked(self) -> None:
        """In the child of a fork: let go of the copy."""
        with suppress(OSError):
            os.close(self._writer.get_extra_info("socket").fileno())


class _Events:
    """Events on their way to one caller. The bus calls ``put`` on its thread; the oldest go if there is no room."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._lost = 0

    def put(self, event: Shape) -> None:
        """Queue an event. Never waits."""
        line = reply_line(event=event)
        with self._lock:
            while self._lines and (len(self._lines) >= BACKLOG or self._bytes + len(line) > BACKLOG_BYTES):
                self._bytes -= len(self._lines.popleft())
                self._lost += 1
            self._lines.append(line)
            self._bytes += len(line)
            is_first = len(self._lines) == 1
        if is_first:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self.news.set)

    def take(self) -> bytes:
        """Return the lines that wait, as bytes; what was lost before them is a line, too."""
        self.news.clear()
        with self._lock:
            lost = reply_line(lost=self._lost) if self._lost else b""
            taken = lost + b"".join(self._lines)
            self._lines.clear()
            self._bytes = self._lost = 0
        return taken


def refusal(error: Exception) -> bytes:
    """Return the line of an error. Only our own errors are quoted: the text of any other one may hold a payload."""
    if isinstance(error, SourceError):
        return reply_line(error=error.text, status=error.status)
    if isinstance(error, ActorsError):
        return reply_line(error=str(error), status=404 if isinstance(error, UnknownPathError) else 409)
    return reply_line(error=f"the console failed with {type(error).__name__}. Please report it.", status=503)


def owner(caller: Any) -> str | None:
    """Return the user and the process that call; None if the kernel says that the user is not that of this process."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return f"console uid {os.geteuid()}"  # the folder and the file let nobody else in
    pid, uid, _ = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    return f"console uid {uid} pid {pid}" if uid == os.geteuid() else None
