"""An MCP server of a few tools that speaks the protocol by hand: its process is up in a tenth of a second.

For tests of what happens to the process. With the package ``mcp`` it takes a second of work until it is up.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

TOOLS: dict[str, tuple[dict[str, str], Callable[..., Any]]] = {
    "numbers": ({}, lambda: {"one": 1}),
    "pid": ({}, lambda: {"result": os.getpid()}),
    "read_file": ({"path": "string"}, lambda path: {"result": f"content of {path}"}),
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
        found = TOOLS[params["name"]][1](**params.get("arguments") or {})
        content = [{"type": "text", "text": json.dumps(found)}]
        return {"result": {"content": content, "structuredContent": found, "isError": False}}
    if method == "ping":
        return {"result": {}}
    return {"error": {"code": -32601, "message": f"there is no method {method}"}}


def _described(name: str) -> dict[str, Any]:
    takes = {word: {"type": kind} for word, kind in TOOLS[name][0].items()}
    schema = {"type": "object", "properties": takes, "required": list(takes)}
    hints = {"readOnlyHint": True}
    return {"name": name, "description": f"Give {name}.", "inputSchema": schema, "annotations": hints}
