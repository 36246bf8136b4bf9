"""The process of an MCP server: started in a group of its own, spoken to by its pipes, and gone with its worker.

No orphan is left. Beside the server, in its group, waits a shell that reads from a pipe of which only this process has
the other end. When that is closed, by us or because this process was killed, the shell kills the whole group::

    this process  --- stdin, stdout, stderr --->  server (leader of the group) and what it starts
                  --- pipe of life ------------>  shell of the same group: read; kill the group

So it holds on every POSIX system with ``/bin/sh``, also after ``kill -9``, and for a server that spins. What leaves the
group by ``setsid`` is not caught. Elsewhere (Windows) there is neither group nor shell: the server alone is killed with
its worker, and after the death of this process it ends if it heeds the end of its stdin.

An end of the process, or of its stdout, is the end of the session: the reading stream is closed, whoever waits for an
answer is told, and ``ended`` says why. All of this runs on the event loop of the worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import shutil
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

import anyio
import mcp_types
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from actors.dispatch.process_group import has_others, signal_group
from actors.model.clock import monotonic
from actors.model.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trees.agents.mcp import MCP

_SHELL: Final = "/bin/sh"
_GUARDED: Final = (
    '( ( read -r _ </dev/fd/"$1"; kill -s KILL -- "-$$" ) </dev/null >/dev/null 2>&1 & ); shift; exec "$@"'
)
"""Begin to wait for the end of the pipe of life, and become the server."""
_IS_GUARDED: Final = sys.platform != "win32" and os.path.exists(_SHELL)  # noqa: PTH110 - a constant, looked at once
_CLOSES_S: Final = 1.0
"""How long a server may take to end once its stdin is closed."""
_TERMINATES_S: Final = 0.5
"""How long after that a SIGTERM may take."""
_DIES_S: Final = 2.0
_LOOK_S: Final = 0.01
_LONGEST_LINE: Final = 64 * 1024 * 1024
"""Characters of one message; a server that sends more has lost its way."""
_TAIL: Final = 2000
"""Bytes of its stderr that are kept while it starts."""
_log = logging.getLogger("regrow.mcp")


class ServerProcess(asyncio.SubprocessProtocol):
    """One process, as a transport of the SDK's ``Client``: an async context manager that yields its two streams."""

    def __init__(self, server: MCP, ends: Callable[[], None]) -> None:
        self._command: tuple[str, ...] = server.command or ()
        self._env = {**get_default_environment(), **server.env}
        self._cwd = server.cwd
        self._secrets = server.secrets
        self._ends = ends
        self._transport: Any = None
        self._pid = 0
        self._life: int | None = None
        self._rest = bytearray()
        self._said = bytearray()
        self._starts = True
        self._exited = asyncio.Event()
        self._reads: Any = None
        self._writer: asyncio.Task[None] | None = None
        self._streams: tuple[Any, ...] = ()
        self.ended = ""
        """Reason why it is of no use any more; empty: it is."""

    # -- start ---------------------------------------------------------------------------------------------

    async def __aenter__(self) -> tuple[Any, Any]:
        program = self._found()
        read_end, self._life = os.pipe()
        words = [_SHELL, "-c", _GUARDED, "sh", str(read_end), program, *self._command[1:]]
        given: dict[str, Any] = {"start_new_session": True, "pass_fds": (read_end,)}
        if not _IS_GUARDED:
            words, given = [program, *self._command[1:]], {}
        reads, self._streams = self._make_streams()
        try:
            loop = asyncio.get_running_loop()
            await loop.subprocess_exec(lambda: self, *words, cwd=self._cwd, env=self._env, **given)
        except OSError as error:
            self._close_life()
            raise StartError(self._command[0], f"its process cannot be started: {error.strerror}") from None
        finally:
            os.close(read_end)
        self._writer = asyncio.create_task(self._write(reads))
        return self._streams[0], self._streams[1]

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

    def _make_streams(self) -> tuple[Any, tuple[Any, ...]]:
        self._reads, read = anyio.create_memory_object_stream[Any](math.inf)
        write, written = anyio.create_memory_object_stream[Any](0)
        return written, (read, write, self._reads, written)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of the process: it may be over before whoever has started it is told so."""
        self._transport = transport
        self._pid = self._transport.get_pid()

    # -- what comes from it --------------------------------------------------------------------------------

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take what it has written: lines of messages, and whatever it says on stderr."""
        if fd != 1:
            self._complain(data)
            return
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._rest) + lines[0]
            self._rest.clear()
        self._rest += rest
        for line in lines:
            self._take(line)
        if len(self._rest) > _LONGEST_LINE:
            self._end(f"it has sent a line of more than {_LONGEST_LINE // 2**20} MB")
            self.kill()

    def _take(self, line: bytes) -> None:
        """Hand on a message. What is none is rubbish, such as a greeting: it is passed over."""
        try:
            message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            if line.strip():
                _log.debug("%s: passed over %d bytes on stdout that are no message", self._command[0], len(line))
            return
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the session is gone
            self._reads.send_nowait(SessionMessage(message))

    def _complain(self, data: bytes) -> None:
        if self._starts:
            self._said += data
            del self._said[:-_TAIL]

    def started(self) -> None:
        """Forget what it has said so far: from now on it may hold what was asked of it."""
        self._starts = False
        self._said.clear()

    @property
    def last_words(self) -> str:
        """Last line that it has said on stderr while it started."""
        lines = self._said.decode(errors="replace").strip().splitlines()
        return self._secrets.removed_from(lines[-1].strip()) if lines else ""

    # -- end -----------------------------------------------------------------------------------------------

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - as asyncio calls it
        """Note that it has closed its stdin or stdout; when it ends by that, ``process_exited`` says more."""
        if fd in {0, 1} and not self._exited.is_set():
            asyncio.get_running_loop().call_later(0.1, self._end, f"it has closed its {('stdin', 'stdout')[fd]}")

    def process_exited(self) -> None:
        """Note that it has ended."""
        code = self._transport.get_returncode()
        self._exited.set()
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                self._end(f"its process was ended by {signal.Signals(-code).name}")
        self._end(f"its process has ended with exit code {code}")

    def _end(self, why: str) -> None:
        if not self.ended:
            self.ended = why
            self._reads.close()
            self._ends()

    async def _write(self, messages: Any) -> None:
        with contextlib.suppress(anyio.ClosedResourceError):
            async for message in messages:
                pipe = self._transport.get_pipe_transport(0)
                if pipe is not None and not self.ended:
                    said = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    pipe.write(f"{said}\n".encode())

    def kill(self) -> None:
        """Kill it and its group now."""
        # The shell is of the group as long as it reads: its number is no other group's, also if the server has ended.
        if self._pid and self._life is not None:
            self._signal(signal.SIGKILL)
        self._close_life()

    def _signal(self, number: signal.Signals) -> None:
        if _IS_GUARDED:
            signal_group(self._pid, number)
        elif not self._exited.is_set():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                self._transport.kill()

    def _close_life(self) -> None:
        life, self._life = self._life, None
        if life is not None:
            os.close(life)

    async def __aexit__(self, *_: object) -> None:
        try:
            for stream in self._streams:
                stream.close()
            if self._writer is not None:
                self._writer.cancel()
            pipe = self._transport.get_pipe_transport(0)
            if pipe is not None and self._life is not None:
                pipe.close()
                await self._exits_within(_CLOSES_S)
            if not self._exited.is_set() and self._life is not None:
                self._signal(signal.SIGTERM)
                await self._exits_within(_TERMINATES_S)
        finally:
            self.kill()
            await self._exits_within(_DIES_S)
            await self._others_go_within(_DIES_S)
            self._transport.close()

    async def _exits_within(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._exited.wait()

    async def _others_go_within(self, seconds: float) -> None:
        """Wait for the rest of the group, which was killed: the system takes a moment, and says of nobody when."""
        until = monotonic() + seconds
        while _IS_GUARDED and monotonic() < until and await asyncio.to_thread(has_others, self._pid):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)
