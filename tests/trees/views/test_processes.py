"""``WorkerSnapshot.process``: what is shown of the process that a worker is, or that works for it."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.trees.agents.mcp_trees import command, eventually
from trees import SupervisorSpec, Tasks, Tree, WorkerSpec, start
from trees.agents import MCP
from trees.views.snapshot import ProcessSnapshot, SupervisorSnapshot, TreeSnapshot, WorkerSnapshot

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]
WORKERS: dict[str, dict[str, Any]] = {
    "a command": {"command": SLEEPS},
    "a worker in a process": {"handle": int, "dispatch": "process"},
    "an MCP server": {"execute": MCP(command=command("--plain"))},
}
has_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system shows no process by /proc")


def process_in(tree: Tree) -> ProcessSnapshot | None:
    root = tree.snapshot().top
    assert isinstance(root, SupervisorSnapshot)
    worker = next(each for each in root.children if each.id == "m")
    assert isinstance(worker, WorkerSnapshot)
    return worker.process


def is_counted(process: ProcessSnapshot | None) -> bool:
    """True when the kernel has added up the pages of a process: it does that some time after its program began."""
    return process is not None and (process.memory_bytes or 0) > 100_000


@has_proc
@pytest.mark.parametrize("kind", WORKERS)
def test_its_number_memory_and_cpu_seconds_stand_in_the_snapshot_and_the_verbose_dump(kind: str) -> None:
    with start(SupervisorSpec(id="p", tasks=Tasks(), children=[WorkerSpec(id="m", **WORKERS[kind])])) as tree:
        pid = tree.child("p/m").pid
        eventually(lambda: is_counted(process_in(tree)))
        seen = process_in(tree)
        plain, verbose = tree.dump(), tree.dump(verbose=True)
        kept = TreeSnapshot.model_validate_json(tree.snapshot().model_dump_json())

    assert seen is not None
    assert seen.pid == pid
    assert is_counted(seen)
    assert seen.cpu_s is not None
    assert re.search(rf"pid {pid}   memory \d+ MB   cpu \d+\.\d s", verbose)
    assert "pid" not in plain
    assert isinstance(kept.top, SupervisorSnapshot)


@pytest.mark.parametrize("kind", WORKERS)
def test_the_next_incarnation_shows_its_own_process_and_a_worker_that_is_down_none(kind: str) -> None:
    with start(SupervisorSpec(id="p", tasks=Tasks(), children=[WorkerSpec(id="m", **WORKERS[kind])])) as tree:
        first = tree.child("p/m").pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        eventually(lambda: tree.child("p/m").pid not in {None, first})
        tree.terminate_child("p/m")

        assert tree.child("p/m").pid is None
        assert process_in(tree) is None


@pytest.mark.parametrize("dispatch", ["auto", "process"])
def test_the_message_in_progress_has_the_type_that_its_sender_gave_it_wherever_it_is_handled(
    dispatch: str, tmp_path: Path
) -> None:
    until = tmp_path / "until"
    os.mkfifo(until)  # opened by its reader only together with its writer
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="m", handle=Path.read_text, dispatch=dispatch)])) as tree:
        tree.ref("p/m").tell(until)
        eventually(lambda: "handles " in tree.dump(verbose=True))
        shown = tree.dump(verbose=True)
        until.open("w").close()

    assert f"handles {type(until).__name__} for" in shown


def test_a_worker_without_a_process_shows_none() -> None:
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="m", handle=int)])) as tree:
        assert tree.child("p/m").pid is None
        assert process_in(tree) is None
        assert "pid" not in tree.dump(verbose=True)
