"""``regrow mcp``: a tree behind an MCP server, in the foreground.

The tree is run as ``regrow run`` runs it (``trees.command.run``); in place of the ``main`` of its module, which is not
called, the server listens. Its end, for whatever reason, is the end of the tree: the input has ended, SIGTERM, Ctrl-C,
or the root has given up.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from actors.model.errors import ConfigError
from actors.runtime.handle import system_of
from trees.agents import packages
from trees.command.resume import has_tasks
from trees.command.target import Program
from trees.host.tree import Tree

if TYPE_CHECKING:
    from trees.agents.serving import Wire

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class NotServedError(Exception):
    """Raised where there is nothing that could be served, or nothing to serve it with."""


def claim_wire(port: int | None) -> Wire | None:
    """Take the standard streams for the protocol, before any code of a user is loaded; None: over HTTP it needs none.

    Raises:
        NotServedError: the packages of the extra are not there.
    """
    try:
        packages.require(*packages.MCP)
    except ConfigError as error:
        raise NotServedError(str(error)) from None
    if port is not None:
        return None
    from trees.agents.serving import Wire  # noqa: PLC0415 - it needs the packages of the extra

    return Wire()


def serving(program: Program, wire: Wire | None, port: int, say: Callable[[str], None]) -> Program:
    """Make a program of which ``main`` is the server.

    Raises:
        NotServedError: the tree takes no tasks.
    """
    if not has_tasks(program.spec):
        raise NotServedError(f"{program.spec.id}: has no tasks (no tasks= anywhere), so there is nothing to serve")
    return replace(program, main=lambda tree: _serve(tree, wire, port, say), resume=None)


async def _serve(tree: Tree, wire: Wire | None, port: int, say: Callable[[str], None]) -> None:
    from trees.agents.serving import serve_http, serve_stdio  # noqa: PLC0415 - as above
    from trees.agents.tree_server import server_of  # noqa: PLC0415 - as above

    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def end(*_: Any) -> None:
        with suppress(RuntimeError):  # the tree ends after its server: the loop is closed
            loop.call_soon_threadsafe(stop.set)

    before = [signal.signal(each, end) for each in SIGNALS]
    system_of(tree).ended.when_done(end)
    try:
        if wire is not None:
            await serve_stdio(server_of(tree), wire, stop)
            return
        try:
            await serve_http(server_of(tree), port, stop, lambda url: say(f"{tree.spec.id}: {url}"))
        except OSError as error:
            raise SystemExit(_taken(tree, port, error, say)) from None
    finally:
        for each, handler in zip(SIGNALS, before, strict=True):
            signal.signal(each, handler)


def _taken(tree: Tree, port: int, error: OSError, say: Callable[[str], None]) -> int:
    say(f"{tree.spec.id}: port {port} cannot be used: {(error.strerror or str(error)).lower()}. Give another one.")
    return 1
