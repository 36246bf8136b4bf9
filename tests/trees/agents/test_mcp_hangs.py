"""An MCP server that never says which tools it has holds up no stop: what waits for it is cut."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from actors import ChildExited, Event
from tests.trees.agents.mcp_trees import eventually, is_alive
from trees import SupervisorSpec, Tasks, Tree, WorkerSpec, start
from trees.agents import MCP, mcp_session

LIMIT_S = 30.0
"""What a stop that waits for the server would take; no test waits so long."""
SERVER = """
import json, os, pathlib, sys
marks, answers = pathlib.Path(sys.argv[1]), int(sys.argv[2])
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result, method = {}, message["method"]
    if method == "initialize":
        about = {"name": "files", "version": "1"}
        can = {"tools": {"listChanged": True}}
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": can, "serverInfo": about}
    elif method == "tools/list":
        if not answers:
            marks.write_text(str(os.getpid()))
            continue
        answers -= 1
        result = {"tools": [{"name": "one", "description": "One.", "inputSchema": {"type": "object"}}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    if method == "tools/list":
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)
"""


class Scene:
    """A server that answers so many lists, and how its worker ended."""

    def __init__(self, place: Path) -> None:
        self.mark, self.program = place / "hangs", place / "server.py"
        self.program.write_text(SERVER)
        self.reasons: list[str] = []

    def worker(self, answers: int) -> WorkerSpec:
        server = MCP(command=[sys.executable, str(self.program), str(self.mark), str(answers)])
        return WorkerSpec(id="files", execute=server, shutdown=LIMIT_S)

    def hangs(self) -> int:
        """Wait until a list hangs; the server's process."""
        eventually(lambda: self.mark.exists() and self.mark.read_text())
        return int(self.mark.read_text())

    def hear(self, event: Event) -> None:
        if isinstance(event, ChildExited) and event.path == "office/files":
            self.reasons.append(str(event.reason))


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(mcp_session, "_GRACE_S", 2 * LIMIT_S)  # a close that waits for the server is killed before that
    return Scene(tmp_path)


def stop_tree(tree: Tree) -> None:
    tree.stop()


def terminate(tree: Tree) -> None:
    tree.terminate_child("office/files")


@pytest.mark.parametrize("stop", [stop_tree, terminate])
def test_a_stop_cuts_a_list_of_tools_that_does_not_come(scene: Scene, stop: Callable[[Tree], None]) -> None:
    with start(SupervisorSpec(id="office", tasks=Tasks(), children=[scene.worker(1)])) as tree:
        tree.subscribe(scene.hear)
        pid = scene.hangs()
        assert is_alive(pid)
        stop(tree)

        assert not is_alive(pid)
        eventually(lambda: scene.reasons)
    assert scene.reasons == ["shutdown"]


def test_a_server_that_ends_while_its_list_hangs_has_crashed_and_is_started_again(scene: Scene) -> None:
    with start(SupervisorSpec(id="office", tasks=Tasks(), children=[scene.worker(1)])) as tree:
        tree.subscribe(scene.hear)
        pid = scene.hangs()
        scene.mark.unlink()
        os.kill(pid, signal.SIGKILL)

        assert scene.hangs() != pid
        assert scene.reasons == ["crashed"]
