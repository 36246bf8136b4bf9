"""CONTRACT, MCP servers: no process of a server outlives its worker, or the process of the tree."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from actors.testing import settle
from tests.support.command import out
from tests.support.load import beside_others
from tests.support.programs import python
from tests.trees.agents.mcp_trees import command, eventually, is_alive, office
from trees import start
from trees.agents import MCP

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes by /proc")

HOST = """
import sys, threading
sys.path.insert(0, {root!r})
from tests.trees.agents.mcp_trees import office
from trees import start
from trees.agents import MCP
with start(office(MCP(command={command!r}, cwd=None))) as tree:
    print("up", flush=True)
    threading.Event().wait()
"""
ROOT = str(Path(__file__).parents[3])


def pids_of(mark: Path) -> list[int]:
    """The server's process and its child."""
    eventually(lambda: mark.exists() and len(mark.read_text().split()) == 2)
    return [int(word) for word in mark.read_text().split()]


def gone(pids: list[int]) -> Any:
    return lambda: not any(is_alive(pid) for pid in pids)


@pytest.mark.parametrize("options", [["--plain"], ["--plain", "--stays"]], ids=["ends", "stays"])
def test_the_server_and_its_group_are_gone_when_the_tree_is_down(tmp_path: Path, options: list[str]) -> None:
    mark = tmp_path / "pids"
    with start(office(MCP(command=command(*options, "--child", str(mark))), shutdown=10.0)):
        pids = pids_of(mark)
        assert all(is_alive(pid) for pid in pids)

    assert gone(pids)()


@pytest.mark.parametrize("how", ["brutal_kill", "crash of the server", "terminate_child"])
def test_they_are_gone_however_the_worker_ends(tmp_path: Path, how: str) -> None:
    mark = tmp_path / "pids"
    shutdown: Any = "brutal_kill" if how == "brutal_kill" else 5.0
    spec = office(MCP(command=command("--plain", "--stays", "--child", str(mark))), shutdown=shutdown, max_restarts=0)
    with start(spec) as tree:
        pids = pids_of(mark)
        if how == "crash of the server":
            os.kill(pids[0], signal.SIGKILL)
        else:
            tree.terminate_child("office/files")
        eventually(gone(pids))
        settle(tree)


@pytest.mark.parametrize("option", ["", "--stays"])
def test_they_are_gone_within_a_second_when_the_process_of_the_tree_is_killed(tmp_path: Path, option: str) -> None:
    mark = tmp_path / "pids"
    options = [*([option] if option else []), "--child", str(mark)]
    text = HOST.format(root=ROOT, command=command("--plain", *options))
    with python("-c", text) as host:
        assert out(host).readline() == "up\n"
        pids = pids_of(mark)
        host.kill()
        host.wait()
        since = time.monotonic()
        eventually(gone(pids))

        assert time.monotonic() - since < beside_others(1.0)


def test_they_are_gone_when_it_is_killed_while_a_server_that_spins_starts(tmp_path: Path) -> None:
    mark = tmp_path / "pids"
    text = HOST.format(root=ROOT, command=command("--plain", "--spins", "--child", str(mark)))
    with python("-c", text) as host:
        try:
            pids = pids_of(mark)
        finally:
            host.kill()
    eventually(gone(pids))
