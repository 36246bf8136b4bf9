"""An MCP server of a few tools that speaks the protocol by hand: its process is up in a tenth of a second.

For tests of what happens to the process. With the package ``mcp`` it takes a second of work until it is up. Its tools
do what those of the same name in ``tests.trees.agents.mcp_server`` do.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


class _Failure(Exception):  # noqa: N818 - of a tool, not of this program
    """Text of a tool that has failed."""


def _die(mark: str, *, once: bool = False) -> dict[str, Any]:
    """Die, and note it; once: do so the first time only."""
    if once and Path(mark).exists():
        return {"result": "done"}
    with Path(mark).open("a") as file:
        file.write("x")
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it lives")


def _fail() -> dict[str, Any]:
    raise _Failure(f"no such disk {os.environ.get('TOKEN', '')}")


READS, AGAIN = {"readOnlyHint": True}, {"idempotentHint": True}
TOOLS: dict[str, tuple[dict[str, bool], dict[str, str], Callable[..., dict[str, Any]]]] = {
    "numbers": (READS, {}, lambda: {"one": 1}),
    "pid": (READS, {}, lambda: {"result": os.getpid()}),
    "read_file": (READS, {"path": "string"}, lambda path: {"result": f"content of {path}"}),
    "die_once": (AGAIN, {"mark": "string"}, functools.partial(_die, once=True)),
    "die": ({}, {"mark": "string"}, _die),
    "fail": ({}, {}, _fail),
}


DEATHS = 50


def serve(deaths: str = "") -> None:
    """Answer each line of stdin, until there is none.

    With a file of ``deaths``, which has a letter for each, the process kills itself until there are fifty: in its
    first, second or third call, or when it has said which tools there are.
    """
    moments = _moments(Path(deaths)) if deaths else iter(())
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            if message["method"] == "tools/call":
                next(moments, None)
            answer = {"jsonrpc": "2.0", "id": message["id"]} | _answer(message["method"], message.get("params") or {})
            print(json.dumps(answer), flush=True)
            if message["method"] == "tools/list":
                next(moments, None)


def _moments(deaths: Path) -> Iterator[None]:
    """Go on from one moment to the next; at that of this process's death, die."""
    number = deaths.stat().st_size
    for moment in itertools.count():
        if moment == (number + 1) % 4 and number < DEATHS:
            with deaths.open("a") as file:
                file.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        yield


def _answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        about = {"name": "files", "version": "1"}
        said = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
        return {"result": said}
    if method == "tools/list":
        return {"result": {"tools": [_described(name) for name in TOOLS]}}
    if method == "tools/call":
        try:
            found = TOOLS[params["name"]][2](**params.get("arguments") or {})
        except _Failure as failed:
            return {"result": {"content": [{"type": "text", "text": str(failed)}], "isError": True}}
        content = [{"type": "text", "text": json.dumps(found)}]
        return {"result": {"content": content, "structuredContent": found, "isError": False}}
    if method == "ping":
        return {"result": {}}
    return {"error": {"code": -32601, "message": f"there is no method {method}"}}


def _described(name: str) -> dict[str, Any]:
    hints, inputs, _ = TOOLS[name]
    takes = {word: {"type": kind} for word, kind in inputs.items()}
    schema = {"type": "object", "properties": takes, "required": list(takes)}
    return {"name": name, "description": f"Give {name}.", "inputSchema": schema, "annotations": hints}
