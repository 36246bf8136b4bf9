"""Pipes of an MCP server's process: what it writes too fast, does not read, or says last; and a start that is cut."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors import ChildRestarting
from actors.model.clock import unstopped
from tests.support.crew import LONG_S, Record
from tests.trees.agents.mcp_trees import call, command, eventually, is_alive, office
from trees import Plan, Subtask, Task, start
from trees.agents import MCP, mcp_process, mcp_session
from trees.agents.mcp_pipes import CHUNK, ReadingPipe, WritingPipe
from trees.agents.mcp_process import ServerProcess
from trees.agents.mcp_session import Session
from trees.agents.secret_texts import SecretTexts

SERVER = '''
import json, os, sys, threading
def say(**what):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **what}) + "\\n")
    sys.stdout.flush()
def listed():
    """Called when its tools are listed."""
def called():
    """Called when it has answered."""
{how}
hints = {"readOnlyHint": True}
for line in sys.stdin:
    asked = json.loads(line)
    method = asked.get("method")
    if method == "initialize":
        version, about = asked["params"]["protocolVersion"], {"name": "raw", "version": "1"}
        given = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        say(id=asked["id"], result=given)
    elif method == "tools/list":
        tool = {"name": "greet", "inputSchema": {"type": "object"}, "annotations": hints}
        say(id=asked["id"], result={"tools": [tool]})
        listed()
    elif method == "tools/call":
        say(id=asked["id"], result={"content": [{"type": "text", "text": "hello"}]})
        called()
'''


def raw_server(how: str) -> MCP:
    """A server of a few lines that does something wrong."""
    return MCP(command=[sys.executable, "-c", SERVER.replace("{how}", how)])


FLOODS = """
def flood():
    data = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 1000}}
    lines = (json.dumps(data) + "\\n") * 100
    while True:
        sys.stdout.write(lines)
def listed():
    threading.Thread(target=flood, daemon=True).start()
"""


def resident_mb() -> float:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at memory by /proc")
def test_a_server_that_floods_its_stdout_waits_for_the_session_and_fills_no_memory() -> None:
    with start(office(raw_server(FLOODS))) as tree:
        before = resident_mb()

        assert [call(tree, "greet") for _ in range(3)] == ["hello"] * 3
        assert resident_mb() - before < 50


def test_an_answer_that_was_written_before_the_end_counts() -> None:
    how = "def called():\n    os._exit(0)\n"
    with start(office(raw_server(how), max_restarts=100)) as tree:
        assert [call(tree, "greet") for _ in range(5)] == ["hello"] * 5


def test_a_server_that_reads_nothing_is_ended_when_too_much_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_process, "_LONGEST_LINE", 100_000)
    how = "def listed():\n    threading.Event().wait()\n"
    with start(office(raw_server(how), max_restarts=100)) as tree:
        record = Record(tree)
        for number in range(6):
            step = Subtask("a", capability="greet", inputs={"text": "x" * 90_000}, timeout_s=0.3)
            tree.submit(Task(f"g{number}", plan=Plan([step])))
        record.wait_for(ChildRestarting, path="office/files")

        assert "left more than" in str(record.of(ChildRestarting)[0].error)


def test_a_server_whose_tools_change_with_each_list_is_not_asked_all_the_time(tmp_path: Path) -> None:
    count = tmp_path / "lists"
    how = (
        "lists = []\n"
        "def listed():\n"
        "    lists.append(1)\n"
        f"    open({str(count)!r}, 'w').write(str(len(lists)))\n"
        "    say(method='notifications/tools/list_changed')\n"
    )

    def lists() -> int:
        return int(count.read_text() or 0)

    began = unstopped()
    with start(office(raw_server(how))) as tree:
        eventually(lambda: count.exists() and lists() >= 5)
        found, most = lists(), (unstopped() - began) / mcp_session._LISTS_EVERY_S

        assert found <= most + 2
        assert call(tree, "greet") == "hello"


# -- pipes -------------------------------------------------------------------------------------------------


async def turns(until: Callable[[], bool]) -> None:
    """Let the loop go round until it is so."""
    async with asyncio.timeout(20):
        while not until():  # noqa: ASYNC110 - that is what it is for
            await asyncio.sleep(0)


def test_a_pipe_that_is_paused_reads_nothing_and_one_that_is_closed_says_so_once() -> None:
    async def main() -> None:
        read, write = os.pipe()
        heard: list[bytes] = []
        pipe = ReadingPipe(asyncio.get_running_loop(), os.fdopen(read, "rb", buffering=0), heard.append)
        os.write(write, b"a")
        await turns(lambda: heard == [b"a"])
        pipe.pause()
        os.write(write, b"b")
        for _ in range(5):
            await asyncio.sleep(0)
        assert heard == [b"a"]
        pipe.resume()
        await turns(lambda: heard == [b"a", b"b"])
        os.close(write)
        await turns(lambda: pipe.is_over)
        pipe.resume()
        pipe.pause()
        pipe.close()
        assert heard == [b"a", b"b", b""]

    asyncio.run(main())


def test_what_the_process_does_not_read_yet_is_kept_in_order_and_a_closed_pipe_is_told_once() -> None:
    async def main() -> None:
        read, write = os.pipe()
        broken: list[bool] = []
        pipe = WritingPipe(asyncio.get_running_loop(), os.fdopen(write, "wb", buffering=0), lambda: broken.append(True))
        sent = b"".join(number.to_bytes(4, "big") for number in range(10 * CHUNK))
        for at in range(0, len(sent), CHUNK):
            pipe.write(sent[at : at + CHUNK])
        assert pipe.unread > 0
        found = bytearray()
        while len(found) < len(sent):
            found += await asyncio.to_thread(os.read, read, CHUNK)
        assert bytes(found) == sent
        assert pipe.unread == 0
        os.close(read)
        await turns(lambda: bool(broken))
        pipe.write(b"nobody reads this")
        pipe.close()
        assert broken == [True]

    asyncio.run(main())


# -- a start that is cut -----------------------------------------------------------------------------------


def files_open() -> int:
    """Files that this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at open files by /proc")
def test_a_start_that_is_cancelled_in_any_of_its_steps_leaves_no_process_and_no_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pids: list[int] = []
    entered = ServerProcess.__aenter__

    async def noted(self: ServerProcess) -> Any:
        streams = await entered(self)
        pids.append(self.pid)
        return streams

    monkeypatch.setattr(ServerProcess, "__aenter__", noted)

    async def cancelled_after(steps: int) -> None:
        session = Session(MCP(command=command()), lambda _: None, lambda _: None)

        async def use() -> None:
            try:
                await session.open()
            finally:
                await session.close(at_once=True)

        using = asyncio.ensure_future(use())
        for _ in range(steps):
            await asyncio.sleep(0)
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using

    async def main() -> None:
        await cancelled_after(20)
        gc.collect()
        before = files_open()
        for steps in range(1, 12):
            await cancelled_after(steps)
        async with asyncio.timeout(LONG_S):
            while files_open() > before:  # a pipe is closed in a later turn of the loop than its transport
                gc.collect()
                await asyncio.sleep(0.01)

    asyncio.run(main())
    assert pids, "some were cancelled with a process"
    eventually(lambda: not any(is_alive(pid) for pid in pids))


# -- secrets -----------------------------------------------------------------------------------------------

SECRET = "s3cr3t-abc"  # noqa: S105 - nobody's


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (f"Bearer {SECRET}", SECRET),
        (f"--token={SECRET}", f"bad token {SECRET}"),
        (f"api_key={SECRET}&x=1", f"key {SECRET!r} is unknown"),
        (f"postgres://user:{SECRET}@host/db", f"password {SECRET} is wrong"),
        (f"user:{SECRET}", SECRET),
        ("s3cr3t%2Dabc", SECRET),
        (f"{SECRET}\n123", repr(f"{SECRET}\n123")),
    ],
)
def test_a_part_of_a_secret_is_taken_out_as_well(given: str, said: str) -> None:
    told = SecretTexts([given]).removed_from(said)

    assert SECRET not in told
    assert "***" in told


def test_half_a_secret_is_not_among_the_last_words() -> None:
    process = ServerProcess(MCP(command=["server"], env={"KEY": SECRET}), lambda: None)
    for said in (b"x" * 500, SECRET.encode(), b" " + b"y" * (2000 - 5), b" the end"):
        process._complain(said)

    assert process.last_words.endswith("the end")
    assert not any(SECRET[at:] in process.last_words for at in range(len(SECRET) - 3))
