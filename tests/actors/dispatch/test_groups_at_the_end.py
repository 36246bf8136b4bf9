"""The end of a process with others in its group: it is told when none of them runs any more, so nothing overlaps."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from actors import ChildExited
from tests.actors.dispatch.process_trees import running, runs, spec_of, worker
from tests.support.hardening import LONG_S, eventually
from trees import Command, WorkerSpec, start

BROOD = 40
PARENT = f"""
import subprocess, time
print(*[subprocess.Popen(["sleep", "600"]).pid for _ in range({BROOD})], flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("shutdown", [0.1, "brutal_kill"])
def test_when_a_command_was_ended_nothing_of_its_group_runs_any_more(shutdown: Any) -> None:
    lines: list[str] = []
    command = Command([sys.executable, "-c", PARENT], ready=r"\d+ \d+", on_line=lines.append)
    with start(spec_of(WorkerSpec(id="m", command=command, shutdown=shutdown))) as tree:
        brood = [int(each) for each in eventually(lambda: lines)[0].split()]
        assert len(brood) == BROOD
        assert all(map(runs, brood))
        tree.terminate_child("p/m")
        assert not any(map(runs, brood))


@pytest.mark.parametrize("shutdown", [5.0, "brutal_kill"])
def test_when_a_worker_in_a_process_was_ended_nothing_of_its_group_runs_any_more(shutdown: Any) -> None:
    with running(worker(shutdown=shutdown)) as (tree, ask):
        brood = [ask("below", timeout=LONG_S) for _ in range(8)]
        assert all(map(runs, brood))
        tree.terminate_child("p/w")
        assert not any(map(runs, brood))


def test_the_exit_of_a_command_says_what_it_said_though_its_group_lingers() -> None:
    script = "import subprocess, sys; subprocess.Popen(['sleep', '600']); print('last', flush=True); sys.exit(4)"
    exits: list[ChildExited] = []
    spec = WorkerSpec(id="m", command=[sys.executable, "-c", script], restart="temporary")
    with start(spec_of()) as tree:
        tree.subscribe(lambda event: exits.append(event) if isinstance(event, ChildExited) else None)
        tree.start_child("p", spec)
        ended = eventually(lambda: exits)[0]
        assert (ended.error.exit_code, ended.output) == (4, ("last",))
