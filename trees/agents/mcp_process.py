"""The process of an MCP server: spoken to by its pipes, and gone with its worker.

No orphan is left: it leads a group that the guardian of this host knows (``actors.dispatch.groups.guarded_process``),
as the processes of commands do. The group is killed when the server has ended, when its worker ends, and when this
process dies, whatever of. All of this class runs on the event loop of the worker; the reader's thread tells it of the
end.

Its start awaits nothing, so nothing can be cancelled in the middle of it. Its end::

    ready --> its stdin or stdout is closed ---(a moment: it may be about to end)---+
       |                                                                            v
       +----> the process has ended --> what it has written is read, and handed on --> ended: the session is told

A server that writes faster than the session reads waits for it; one that reads nothing is ended when too much waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp.client.stdio import get_default_environment

from actors.dispatch.groups.guarded_process import GuardedProcess
from actors.model.clock import monotonic
from actors.model.errors import StartError
from trees.agents.mcp_messages import message_of
from trees.agents.mcp_pipes import ReadingPipe, WritingPipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.shared.message import SessionMessage

    from trees.agents.mcp import MCP

_CLOSES_S: Final = 1.0
"""How long a server may take to end once its stdin is closed."""
_TERMINATES_S: Final = 0.5
"""How long after that a SIGTERM may take."""
_DIES_S: Final = 2.0
_LOOK_S: Final = 0.01
_MAY_END_S: Final = 0.1
"""How long after it has closed a pipe it may end, which says more."""
_DRAINS_S: Final = 0.5
"""How long after its end a pipe may stay open, because somebody else holds it."""
_LONGEST_LINE: Final = 64 * 1024 * 1024
"""Characters of one message; a server that sends more, or leaves more unread, has lost its way."""
_TAIL: Final = 2000
"""Bytes of its stderr that are kept while it starts."""
_log = logging.getLogger("regrow.mcp")


class ServerProcess:
    """One process, as a transport of the SDK's ``Client``: an async context manager that yields its two streams."""

    def __init__(self, server: MCP, ends: Callable[[], None]) -> None:
        self._command: tuple[str, ...] = server.command or ()
        self._env = {**get_default_environment(), **server.env}
        self._cwd = server.cwd
        self._secrets = server.secrets
        self._ends = ends
        self._process: GuardedProcess | None = None
        self._pipes: tuple[WritingPipe, ReadingPipe, ReadingPipe] | None = None
        self._rest = bytearray()
        self._lines: deque[bytes] = deque()
        """Lines that are to be handed on."""
        self._is_stirred = asyncio.Event()
        """Set when there are lines to hand on, or it is over."""
        self._said = bytearray()
        self._starts = True
        self._returncode: int | None = None
        self._exited = asyncio.Event()
        self._is_closing = self._is_told = False
        self._reads: Any = None
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._streams: tuple[Any, ...] = ()
        self.ended = ""
        """Reason why it is of no use any more; empty: it is."""

    @property
    def pid(self) -> int:
        """Number of the process, which is that of its group; 0: there is none."""
        return 0 if self._process is None else self._process.pid

    # -- start ---------------------------------------------------------------------------------------------

    async def __aenter__(self) -> tuple[Any, Any]:
        program, loop = self._found(), asyncio.get_running_loop()
        try:
            words = [program, *self._command[1:]]
            self._process = process = GuardedProcess(words, env=self._env, cwd=self._cwd, stdin=True)
            process.watch_from_afar(lambda code: self._tell(loop, code))
        except (OSError, ValueError, RuntimeError) as error:
            why = getattr(error, "strerror", None) or "an argument holds what none can" * isinstance(error, ValueError)
            raise StartError(self._command[0], f"its process cannot be started: {why or error}") from None
        try:
            self._pipes = self._opened(loop, process)
        except BaseException:
            process.kill()
            raise
        self._reads, read = anyio.create_memory_object_stream[Any](0)
        write, written = anyio.create_memory_object_stream[Any](0)
        self._streams = (read, write, self._reads, written)
        self._tasks = (asyncio.create_task(self._hand_on()), asyncio.create_task(self._write(written)))
        return read, write

    def _opened(
        self, loop: asyncio.AbstractEventLoop, process: GuardedProcess
    ) -> tuple[WritingPipe, ReadingPipe, ReadingPipe]:
        assert process.stdin is not None  # noqa: S101 - it was started with one
        out, err = process.outputs
        return (
            WritingPipe(loop, process.stdin, lambda: self._is_closed("stdin")),
            ReadingPipe(loop, out, self._hear),
            ReadingPipe(loop, err, self._complain),
        )

    def _found(self) -> str:
        """Return the path of the program.

        Raises:
            StartError: there is none, or no such working directory.
        """
        name = self._command[0]
        if self._cwd is not None and not os.path.isdir(self._cwd):  # noqa: PTH112 - as the process will see it
            raise StartError(name, f"its working directory {self._cwd!r} does not exist", "Mend MCP(cwd=...).")
        at = os.path.join(self._cwd or "", name) if os.sep in name else name  # noqa: PTH118 - the same
        program = shutil.which(at, path=self._env.get("PATH"))
        if program is None:
            hint = "Install the server, or write the full path of its program in MCP(command=[...])."
            raise StartError(name, f"the program {name!r} of this MCP server is not installed or not on the PATH", hint)
        return os.path.abspath(program)  # noqa: PTH100 - symbolic links stay as they are: venvs need them

    # -- what comes from it --------------------------------------------------------------------------------

    def _hear(self, data: bytes) -> None:
        """Take what it has written to stdout; nothing: that is closed."""
        if not data:
            self._is_closed("stdout")
        elif not self._is_closing:  # else it is read so that the server can end
            *lines, rest = data.split(b"\n")
            if lines:
                lines[0] = bytes(self._rest) + lines[0]
                self._rest.clear()
            self._rest += rest
            self._lines += lines
            if lines:
                self._pipe_out.pause()  # until these are handed on
                self._is_stirred.set()
            if len(self._rest) > _LONGEST_LINE:
                self._end(f"it has sent a line of more than {_LONGEST_LINE // 2**20} MB")
                self.kill()

    async def _hand_on(self) -> None:
        """Hand on the messages, as fast as the session takes them, and tell it of the end after the last one."""
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the session is gone
            while not (self.ended and not self._lines):
                await self._is_stirred.wait()
                self._is_stirred.clear()
                while self._lines:
                    message = self._message(self._lines.popleft())
                    if message is not None:
                        await self._reads.send(message)
                self._pipe_out.resume()
        self._tell_end()

    def _message(self, line: bytes) -> SessionMessage | None:
        """Read a message. What is none is rubbish, such as a greeting: it is passed over."""
        found = message_of(line)
        if found is None and line.strip():
            _log.debug("%s: passed over %d bytes on stdout that are no message", self._command[0], len(line))
        return found

    def _complain(self, data: bytes) -> None:
        """Take what it has said on stderr; nothing: that is closed."""
        if self._starts:
            self._said += data
            if len(self._said) > _TAIL:
                del self._said[:-_TAIL]
                cut = self._said.split(maxsplit=1)  # the first word is half of one, and may be half of a secret
                self._said = cut[1] if len(cut) > 1 else bytearray()
        if not data:
            self._is_over()

    def started(self) -> None:
        """Forget what it has said so far: from now on it may hold what was asked of it."""
        self._starts = False
        self._said.clear()

    @property
    def last_words(self) -> str:
        """Last line that it has said on stderr while it started."""
        lines = self._said.decode(errors="replace").strip().splitlines()
        return self._secrets.removed_from(lines[-1].strip()) if lines else ""

    # -- its end -------------------------------------------------------------------------------------------

    def _tell(self, loop: asyncio.AbstractEventLoop, code: int) -> None:
        """Tell the loop that it has ended, and its group with it; on the reader's thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is there to hear it
            loop.call_soon_threadsafe(self._has_exited, code)

    def _has_exited(self, code: int) -> None:
        self._returncode = code
        self._exited.set()
        self._is_over()
        asyncio.get_running_loop().call_later(_DRAINS_S, self._says_how)

    def _is_closed(self, pipe: str) -> None:
        """Note that it has closed its stdin or stdout; when it ends by that, its exit says more."""
        self._is_over()
        if self._returncode is None:
            asyncio.get_running_loop().call_later(_MAY_END_S, self._closed_itself, pipe)

    def _closed_itself(self, pipe: str) -> None:
        if self._returncode is None:
            self._end(f"it has closed its {pipe}")

    def _is_over(self) -> None:
        """End it, if it has ended and all that it has written is read."""
        if self._returncode is not None and self._pipes is not None and all(pipe.is_over for pipe in self._pipes[1:]):
            self._says_how()

    def _says_how(self) -> None:
        code = self._returncode or 0
        with contextlib.suppress(ValueError):
            if code < 0:
                self._end(f"its process was ended by {signal.Signals(-code).name}")
        self._end(f"its process has ended with exit code {code}")

    def _end(self, why: str) -> None:
        if not self.ended and not self._is_closing:  # else it ends because it is to
            self.ended = why
            self._is_stirred.set()
            asyncio.get_running_loop().call_later(_DRAINS_S, self._tell_end)

    def _tell_end(self) -> None:
        """Tell whoever waits for an answer, and the session."""
        if not self._is_told:
            self._is_told = True
            self._reads.close()
            self._ends()

    # -- what is sent to it --------------------------------------------------------------------------------

    async def _write(self, messages: Any) -> None:
        with contextlib.suppress(anyio.ClosedResourceError):
            async for message in messages:
                said = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                if self._pipe_in.unread > _LONGEST_LINE:
                    self._end(f"it has left more than {_LONGEST_LINE // 2**20} MB unread")
                    self.kill()
                self._pipe_in.write(f"{said}\n".encode())

    @property
    def _pipe_in(self) -> WritingPipe:
        assert self._pipes is not None  # noqa: S101 - it is started
        return self._pipes[0]

    @property
    def _pipe_out(self) -> ReadingPipe:
        assert self._pipes is not None  # noqa: S101 - it is started
        return self._pipes[1]

    def kill(self) -> None:
        """Kill it and its group now."""
        if self._process is not None:
            self._process.kill()

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None  # noqa: S101 - it is started
        try:
            for stream in self._streams:
                stream.close()
            for task in self._tasks:
                task.cancel()
            self._is_closing = True
            self._pipe_out.resume()
            self._pipe_in.close()
            await self._exits_within(_CLOSES_S)
            if not self._exited.is_set():
                self._process.signal(signal.SIGTERM)
                await self._exits_within(_TERMINATES_S)
        finally:
            await self._is_gone(self._process)

    async def _is_gone(self, process: GuardedProcess) -> None:
        """Kill what is left, and wait until the system has: it takes a moment, and does not say when."""
        try:
            process.kill()
            await self._exits_within(_DIES_S)
            until = monotonic() + _DIES_S
            while monotonic() < until and await asyncio.to_thread(process.has_others):  # noqa: ASYNC110 - no event
                await asyncio.sleep(_LOOK_S)
        finally:
            for pipe in self._pipes or ():
                pipe.close()

    async def _exits_within(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._exited.wait()
