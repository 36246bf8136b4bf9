"""``regrow mcp`` as a client uses it: in a process of its own, over its standard streams or over HTTP."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.support.command import Process
from tests.support.programs import python, ran

WAIT_S = 60.0
SHOP = """
import asyncio
from trees import Last, Retry, StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec

print("said while it is imported")


async def work(task):
    print("said by a worker")
    if "hang" in str(task):
        await asyncio.sleep(600)
    return f"did {task}"


TREE = SupervisorSpec(
    id="shop",
    tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")]), synthesizer=Last(), on_failure=[Retry(1)]),
    children=[WorkerSpec(id="w", execute=work, pool=2)],
)


def main(tree):
    raise SystemExit("main is not called")
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    place = tmp_path / "shop.py"
    place.write_text(SHOP)
    return place


def command(shop: Path, *options: str) -> list[str]:
    return ["-m", "trees", "mcp", str(shop), *options]


def address(line: str) -> str:
    return re.findall(r"http://127\.0\.0\.1:\d+/mcp", line)[0]


@contextmanager
def running(shop: Path, *options: str, until: str = "up, ") -> Iterator[tuple[Process, str]]:
    """The command, once a line of its stderr has ``until``; and that line."""
    with python(*command(shop, *options), cwd=shop.parent, talks=True) as process:
        try:
            assert process.stderr is not None
            line = next((each for each in process.stderr if until in each), "")
            assert line
            yield process, line
        finally:
            process.kill()


@pytest.mark.slow
def test_a_client_over_standard_streams_drives_a_tree_whose_workers_print(shop: Path) -> None:
    words = command(shop, "--store", "memory:")
    server = StdioServerParameters(command=sys.executable, args=words, cwd=shop.parent, env=dict(os.environ))

    async def drive() -> Any:
        async with Client(server) as client:
            ran = await client.call_tool("run_task", {"goal": "sell"})
            return ran.structured_content, (await client.call_tool("dump_tree", {})).content[0]

    ran, dumped = asyncio.run(drive())

    assert ran["output"] == "did sell"
    assert dumped.text.startswith("shop ")


@pytest.mark.slow
@pytest.mark.parametrize(("end", "transport"), [("eof", "stdio"), (signal.SIGTERM, "stdio"), (signal.SIGINT, "http")])
def test_it_ends_cleanly_with_its_tree(shop: Path, end: Any, transport: str) -> None:
    options = ("--http", "0") if transport == "http" else ()
    with running(shop, "--store", "memory:", *options, until="/mcp" if options else "up, ") as (process, _):
        assert process.stdin is not None
        if end == "eof":
            process.stdin.close()
            process.stdin = None
        else:
            process.send_signal(end)
        out, err = process.communicate(timeout=WAIT_S)

    assert process.returncode == 0
    assert "shop: stopping" in (out if options else err)
    assert options or out == ""
    assert "Traceback" not in err


@pytest.mark.slow
def test_over_http_a_task_survives_the_client_that_began_it(shop: Path) -> None:
    with running(shop, "--store", "memory:", "--http", "0", until="/mcp") as (process, line):
        url = address(line)

        async def begins() -> None:
            async with Client(url) as client:
                calling = asyncio.ensure_future(client.call_tool("run_task", {"goal": "hang", "task_id": "long"}))
                while not (await client.call_tool("list_tasks", {"status": "running"})).structured_content["tasks"]:
                    pass
                calling.cancel()

        async def finds() -> Any:
            async with Client(url) as client:
                found = (await client.call_tool("get_task", {"task_id": "long"})).structured_content
                sold = (await client.call_tool("run_task", {"goal": "sell"})).structured_content
                return found, sold

        asyncio.run(begins())
        found, sold = asyncio.run(finds())
        process.terminate()
        process.communicate(timeout=WAIT_S)

    assert found["status"] == "running"
    assert sold["output"] == "did sell"
    assert process.returncode == 0


@pytest.mark.slow
def test_what_is_unfinished_goes_on_with_the_next_server_on_the_same_store(shop: Path) -> None:
    async def calls(url: str, name: str, arguments: dict[str, Any]) -> Any:
        async with Client(url) as client:
            return (await client.call_tool(name, arguments)).structured_content

    def drive(name: str, arguments: dict[str, Any]) -> Any:
        with running(shop, "--http", "0", until="/mcp") as (process, line):
            found = asyncio.run(calls(address(line), name, arguments))
            process.terminate()
            process.communicate(timeout=WAIT_S)
        assert process.returncode == 0
        return found

    drive("submit_task", {"goal": "hang", "task_id": "long"})
    found = drive("get_task", {"task_id": "long"})

    assert found["status"] == "running"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("TREE = 3", (), "TREE"),
        ("from trees import SupervisorSpec\nTREE = SupervisorSpec(id='idle')", (), "idle: has no tasks"),
        (SHOP, ("--http", "99999"), "65535"),
        (SHOP, ("--store", "odd://x"), "odd"),
    ],
)
def test_a_mistake_on_the_command_line_is_said_on_stderr(
    tmp_path: Path, text: str, options: tuple[str, ...], said: str
) -> None:
    place = tmp_path / "shop.py"
    place.write_text(text)
    done = ran(*command(place, *options), cwd=tmp_path, timeout=WAIT_S)

    assert done.returncode in {1, 2}
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_port_that_is_taken_is_said_in_a_sentence(shop: Path) -> None:
    with running(shop, "--store", "memory:", "--http", "0", until="/mcp") as (_, line):
        port = re.findall(r":(\d+)/mcp", line)[0]
        done = ran(*command(shop, "--store", "memory:", "--http", port), cwd=shop.parent, timeout=WAIT_S)

    assert done.returncode == 1
    assert f"port {port} cannot be used: address already in use" in done.stderr
