"""Ways in which the server of a tree listens: standard input and output, or HTTP on this machine's own address.

**Standard output belongs to the protocol.** ``claim`` takes both standard streams away before any code of a user is
loaded: the protocol gets duplicates, standard input is empty from then on, and whatever is printed goes to standard
error. The end of the input is the end of the server; so is ``stop``, which may be called at any time: nothing here
waits for a read that cannot be given up.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext, suppress
from typing import Any, Final

import anyio
import mcp_types as types
import uvicorn
from mcp.server.stdio import stdio_server

from trees.agents.mcp_messages import readable
from trees.agents.tree_server import TreeServer

HOST: Final = "127.0.0.1"
MOST_LINE: Final = 64 * 1024 * 1024
"""Longest message that a client may send, in bytes."""
MOST_CONNECTIONS: Final = 500
"""Connections over HTTP at a time. What comes on one more is answered with status 503."""
GRACE_S: Final = 1
"""Seconds for calls over HTTP that are under way when the server is to end."""


_UNREADABLE: Final = {
    "code": types.PARSE_ERROR,
    "message": "The request cannot be read: it is no message of MCP, or nested too deep.",
}


class Wire:
    """Standard input and output of this process, claimed for the protocol."""

    def __init__(self) -> None:
        self.reads, self.writes = os.dup(0), os.dup(1)
        sys.stdout.flush()
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        os.dup2(2, 1)


class _Lines:
    """Lines that come in, as the library reads them from a file.

    A request that it could not read, and would pass over, is answered here: its client waits for that.
    """

    def __init__(self, reader: asyncio.StreamReader, out: Any) -> None:
        self._reader = reader
        self._out = out

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            try:
                line = await self._reader.readline()
            except (
                ValueError,
                OSError,
            ):  # too long, or broken: nothing follows that makes sense
                return
            if not line:
                return
            text = line.decode("utf-8", "replace")
            found = readable(text.encode())
            if isinstance(found, (int, str)):
                await self._out.write(f"{json.dumps({'jsonrpc': '2.0', 'id': found, 'error': _UNREADABLE})}\n")
                await self._out.flush()
            else:
                yield text if found is None else found.decode()


class _Out:
    """Text that goes out, as the library writes it to a file."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        self._writer.write(text.encode())

    async def flush(self) -> None:
        await self._writer.drain()


async def serve_stdio(server: TreeServer, wire: Wire, stop: asyncio.Event) -> None:
    """Serve one client, until its input ends or ``stop`` is set."""
    out = await _writing(wire.writes)
    lines = await _reading(wire.reads, out)

    async def serve() -> None:
        async with stdio_server(lines, out) as (read, write):
            await server.serve(read, write)

    await _until(stop, serve)


async def serve_http(server: TreeServer, port: int, stop: asyncio.Event, say: Callable[[str], None]) -> None:
    """Serve clients at ``http://127.0.0.1:PORT/mcp``, until ``stop`` is set. Port 0: any free one.

    Raises:
        OSError: the port is taken.
    """
    config = uvicorn.Config(
        server.streamable_http_app(host=HOST),
        log_config=None,
        timeout_graceful_shutdown=GRACE_S,
        limit_concurrency=MOST_CONNECTIONS,
    )
    web = _Web(config)
    with socket.create_server((HOST, port)) as listening:
        say(f"http://{HOST}:{listening.getsockname()[1]}/mcp")
        await _until(stop, lambda: web.serve([listening]), asked=web.leave)


class _Web(uvicorn.Server):
    """The web server; signals are those of its host."""

    def capture_signals(self) -> Any:
        """Leave signals alone."""
        return nullcontext()

    def leave(self) -> None:
        """End soon."""
        self.should_exit = True


async def _until(stop: asyncio.Event, serve: Callable[[], Any], asked: Callable[[], None] | None = None) -> None:
    """Run it until it ends, or until ``stop`` is set; then ask it to end, or cancel it."""
    serving, stopping = asyncio.ensure_future(serve()), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            serving.cancel() if asked is None else asked()
        with suppress(asyncio.CancelledError):
            await serving
    finally:
        stopping.cancel()


async def _reading(fd: int, out: Any) -> Any:
    """Lines of a pipe, a socket or a terminal without a thread; of a file in one."""
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=MOST_LINE)
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", buffering=0))
    except (ValueError, PermissionError):
        return anyio.wrap_file(os.fdopen(fd, encoding="utf-8", errors="replace", closefd=False))
    return _Lines(reader, out)


async def _writing(fd: int) -> Any:
    loop = asyncio.get_running_loop()
    try:
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(loop), os.fdopen(fd, "wb", buffering=0)
        )
    except (ValueError, PermissionError):
        return anyio.wrap_file(os.fdopen(fd, "w", encoding="utf-8", closefd=False))
    return _Out(asyncio.StreamWriter(transport, protocol, None, loop))
