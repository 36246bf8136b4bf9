"""An MCP server for tests: a program that serves on stdio or, with ``--port``, on HTTP of this machine.

What it does wrong is said by its arguments: ``--rubbish`` on stdout first, ``--slow SECONDS`` to start, ``--dies``
before it answers, ``--stays`` alive when its stdin is closed, ``--child`` starts a process of its own.
With ``--plain`` it answers without the package ``mcp``, whose import takes a second of work
(``tests.trees.agents.plain_mcp_server``).
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PIXEL = bytes.fromhex("89504e470d0a1a0a")


def server() -> Any:  # noqa: C901, PLR0915 - a list of tools
    """Make the server."""
    import asyncio  # noqa: PLC0415 - the same

    from mcp.server import mcpserver  # noqa: PLC0415 - what the arguments ask for comes before that, which takes long
    from mcp_types import CallToolResult, TextContent, ToolAnnotations  # noqa: PLC0415

    globals().update(Context=mcpserver.Context, CallToolResult=CallToolResult)  # for the annotations of the tools
    reads, again = ToolAnnotations(read_only_hint=True), ToolAnnotations(idempotent_hint=True)
    made = mcpserver.MCPServer("files")

    @made.tool(annotations=reads)
    def read_file(path: str) -> str:
        """Read a file."""
        return Path(path).read_text() if Path(path).exists() else f"content of {path}"

    @made.tool()
    def write_file(path: str, text: str) -> int:
        """Write a file."""
        with Path(path).open("a") as file:
            return file.write(text)

    @made.tool(annotations=reads)
    def pid() -> int:
        """Tell the process."""
        return os.getpid()

    @made.tool(annotations=again)
    def die_once(mark: str) -> str:
        """Die the first time."""
        if Path(mark).exists():
            return "done"
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    @made.tool()
    def die(mark: str) -> str:
        """Die each time, and count that."""
        with Path(mark).open("a") as file:
            file.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    @made.tool()
    def fail() -> CallToolResult:  # type: ignore[name-defined]
        """Say that it has failed, and the secret with it."""
        text = f"no such disk {os.environ.get('TOKEN', '')}"
        return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)

    @made.tool()
    async def hang(mark: str) -> str:
        """Hang until it is cancelled, and note both."""
        Path(mark).write_text("begun")  # noqa: ASYNC240 - a test
        try:
            await asyncio.sleep(1000.0)
        except BaseException:
            Path(mark).write_text("cancelled")  # noqa: ASYNC240
            raise
        return "never"

    @made.tool(annotations=reads)
    async def count(context: Context, secret: str = "") -> str:  # type: ignore[name-defined]  # noqa: F821
        """Count to two, and say so; then say that it goes on, and what it does."""
        for number in (1, 2):
            await context.report_progress(number, 2, f"{number} of 2 {secret}".strip())
        await context.report_progress(3)
        await context.report_progress(4, message="looks at them")
        return "counted"

    @made.tool(annotations=reads, structured_output=False)
    def picture() -> list[Any]:
        """Give a picture with a word."""
        return ["a pixel", mcpserver.Image(data=PIXEL, format="png")]

    @made.tool(annotations=reads)
    def huge(size: int) -> str:
        """Give a long text."""
        return "x" * size

    @made.tool(annotations=reads)
    def numbers() -> dict[str, int]:
        """Give numbers."""
        return {"one": 1}

    @made.tool(annotations=reads, structured_output=False)
    def nothing() -> list[Any]:
        """Give nothing."""
        return []

    @made.tool()
    async def change(context: Context) -> str:  # type: ignore[name-defined]  # noqa: F821
        """Have one tool more and one less."""

        def later() -> str:
            """Come later."""
            return "later"

        made.add_tool(later)
        made.remove_tool("numbers")
        await context.session.send_tool_list_changed()
        return "changed"

    return made


def _never_answer(*, spins: bool) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        if not spins:
            signal.pause()


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser()
    for name in ("--rubbish", "--dies", "--stays", "--deaf", "--spins", "--plain"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--child", default="")
    parser.add_argument("--deaths", default="")
    parser.add_argument("--token", default="")
    given = parser.parse_args()
    if given.rubbish:
        sys.stdout.write("Welcome!\n{}\n\n[1, 2\n" + "\N{SNOWMAN}" * 3 + "\n")
        sys.stdout.flush()
    if given.child:
        sleeps = [sys.executable, "-c", "import time; time.sleep(1000)"]
        child = subprocess.Popen(sleeps)
        Path(given.child).write_text(f"{os.getpid()} {child.pid}")
    time.sleep(given.slow)
    if given.dies:
        sys.stderr.write(f"cannot open the vault with {os.environ.get('TOKEN')}\n")
        sys.exit(7)
    if given.deaf or given.spins:
        _never_answer(spins=given.spins)
    if given.port:
        server().run("streamable-http", port=given.port)
        return
    if given.plain:
        sys.path.insert(0, str(Path(__file__).parents[3]))
        from tests.trees.agents.plain_mcp_server import serve  # noqa: PLC0415 - only then

        serve(given.deaths)
    else:
        server().run()
    if given.stays:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000.0)


if __name__ == "__main__":
    main()
