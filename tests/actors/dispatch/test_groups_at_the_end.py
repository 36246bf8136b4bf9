"""The end of a process with others in its group: it is told when none of them runs any more, so nothing overlaps."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from actors import ChildExited
from actors.dispatch.groups import guarded_process, process_group
from actors.dispatch.groups.process_group import GONE_PAUSES, runs_still
from actors.dispatch.host import forked_handle
from actors.supervision import child_control
from tests.actors.dispatch.process_trees import Exits, running, spec_of, worker
from tests.actors.dispatch.test_process_group import runs
from tests.support.hardening import LONG_S, eventually
from trees import Command, WorkerSpec, start

BROOD = 40
PARENT = f"""
import subprocess, time
print(*[subprocess.Popen(["sleep", "600"]).pid for _ in range({BROOD})], flush=True)
time.sleep(600)
"""


class Lingering:
    """A group that takes as long to end as a test wants."""

    def __init__(self) -> None:
        self.looks = 0
        self.is_looked_at = threading.Event()
        self.is_gone = threading.Event()

    def __call__(self, group: int, look: int) -> bool:
        self.looks += 1
        if self.looks > 2:
            self.is_looked_at.set()
        return not self.is_gone.is_set()


@pytest.fixture
def lingering(monkeypatch: pytest.MonkeyPatch) -> Lingering:
    found = Lingering()
    for module in (guarded_process, forked_handle):
        monkeypatch.setattr(module, "runs_still", found, raising=False)
        monkeypatch.setattr(module, "GONE_PAUSES", (0.001,) * 100_000, raising=False)
    monkeypatch.setattr(forked_handle, "signal_group", lambda *args: process_group.signal_group(*args) or args[1] == 0)
    return found


@pytest.mark.parametrize("kind", ["command", "process"])
def test_its_end_is_told_and_the_next_begins_when_nothing_of_the_group_runs_any_more(
    kind: str, lingering: Lingering
) -> None:
    command = WorkerSpec(id="w", command=["sh", "-c", "sleep 0.2; exit 1"])
    with start(spec_of(command if kind == "command" else worker())) as tree:
        exits = Exits(tree)
        try:
            if kind == "process":
                tree.ref("p/w").tell(("exit", 1))
            assert lingering.is_looked_at.wait(LONG_S)
            assert (exits.all, tree.child("p/w").incarnation) == ([], 1)
        finally:
            lingering.is_gone.set()
        assert eventually(lambda: tree.child("p/w").incarnation) >= 1
        assert eventually(lambda: exits.all)[0].error.exit_code == 1


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the wait for a killed group last as long as a busy machine may take to end it, and nobody give it up."""
    monkeypatch.setattr(child_control, "GRACE_S", LONG_S)
    for module in (guarded_process, forked_handle):
        monkeypatch.setattr(module, "GONE_PAUSES", (*GONE_PAUSES, *[0.05] * 400))


@pytest.mark.usefixtures("patient")
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


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("shutdown", [5.0, "brutal_kill"])
def test_when_a_worker_in_a_process_was_ended_nothing_of_its_group_runs_any_more(shutdown: Any) -> None:
    with running(worker(shutdown=shutdown)) as (tree, ask):
        brood = [ask("below", timeout=LONG_S) for _ in range(8)]
        assert all(map(runs, brood))
        tree.terminate_child("p/w")
        assert not any(map(runs, brood))


def test_a_dead_process_that_nobody_reaps_holds_up_its_group_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parent may be a fork server that is stopped, or a first process that reaps nothing."""
    monkeypatch.setattr(process_group, "signal_group", lambda *_: True)
    monkeypatch.setattr(process_group, "has_others", lambda _: False)
    looks = next(look for look in range(len(GONE_PAUSES)) if not runs_still(1, look))
    assert sum(GONE_PAUSES[:looks]) < 0.1


def test_a_process_that_the_system_does_not_end_holds_up_nobody_for_ever() -> None:
    assert sum(GONE_PAUSES) < 2


def test_the_exit_of_a_command_says_what_it_said_though_its_group_lingers() -> None:
    script = "import subprocess, sys; subprocess.Popen(['sleep', '600']); print('last', flush=True); sys.exit(4)"
    exits: list[ChildExited] = []
    spec = WorkerSpec(id="m", command=[sys.executable, "-c", script], restart="temporary")
    with start(spec_of()) as tree:
        tree.subscribe(lambda event: exits.append(event) if isinstance(event, ChildExited) else None)
        tree.start_child("p", spec)
        ended = eventually(lambda: exits)[0]
        assert (ended.error.exit_code, ended.output) == (4, ("last",))
