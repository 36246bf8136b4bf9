"""Trees with an MCP server, for the tests of them."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.ports import free_port
from tests.support.programs import python
from trees import Plan, Retry, Subtask, SupervisorSpec, Task, TaskFailedError, Tasks, Tree, WorkerSpec
from trees.agents import MCP

SERVER = str(Path(__file__).with_name("mcp_server.py"))
WAIT_S = 60.0
AT_ONCE = [Retry(max_attempts=100, initial_s=0.0, max_s=0.0, jitter=0.0)]


def command(*options: str) -> list[str]:
    """The server's program with these options."""
    return [sys.executable, SERVER, *options]


def office(execute: Any, *others: WorkerSpec, tasks: Tasks | None = None, **fields: Any) -> SupervisorSpec:
    """A tree with a server ``files``."""
    limits = {name: fields.pop(name) for name in ("max_restarts", "period_s") if name in fields}
    files = WorkerSpec(id="files", execute=execute, **fields)
    return SupervisorSpec(id="office", tasks=tasks or Tasks(), children=[files, *others], **limits)


def call(tree: Tree, tool: str, *, by: str = "capability", **inputs: Any) -> Any:
    """The result of a tool."""
    step = (
        Subtask("a", capability=tool, inputs=inputs)
        if by == "capability"
        else Subtask("a", worker="files", tool=tool, inputs=inputs)
    )
    return tree.run(Task("g", plan=Plan([step])), timeout=WAIT_S).results["a"]


def failure(tree: Tree, tool: str, **inputs: Any) -> str:
    """The text of the failure of a tool."""
    try:
        found = call(tree, tool, **inputs)
    except TaskFailedError as error:
        return str(error)
    raise AssertionError(f"it gave {found!r}")


def row(tree: Tree) -> Any:
    """The server's row of the registry."""
    return next(each for each in tree.registry() if each.id == "files")


def eventually(condition: Any, seconds: float = 60.0) -> None:
    """Wait until it is so."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """True while a process is there, and no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@contextlib.contextmanager
def http_server(port: int | None = None) -> Iterator[str]:
    """A server on HTTP; its address."""
    number = port or free_port()
    with python(SERVER, "--port", number) as process:
        try:
            eventually(lambda: listens(number), 60.0)
            yield f"http://127.0.0.1:{number}/mcp"
        finally:
            process.kill()


def listens(port: int) -> bool:
    """True where somebody listens."""
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def of_kind(kind: str, stack: contextlib.ExitStack, *, plain: bool = False) -> Any:
    """A server of a kind, as ``execute=`` takes it; ``plain``: a program of it need not use the package ``mcp``."""
    if kind == "command":
        return MCP(command=command(*(["--plain"] if plain else [])))
    if kind == "url":
        return MCP(url=stack.enter_context(http_server()))
    from tests.trees.agents.mcp_server import server  # noqa: PLC0415 - loaded where there is one

    return MCP(server())
