"""Health of a tree: alive, ready, and what is wrong."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from actors import Reply, RestartLimitError, Worker
from actors.testing import ManualClock, settle
from tests.support.asking import LONG_S
from trees import (
    HA,
    Backoff,
    Health,
    HealthProblem,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)
from trees.store import SqlStore


def fine(message: Any) -> Any:
    if message == "die":
        raise ValueError(message)
    return message


def of(tree: Tree) -> tuple[bool, bool, list[str]]:
    found = tree.health()
    return found.ok, found.ready, [str(each) for each in found.problems]


def test_a_tree_whose_children_run_is_ok_and_ready() -> None:
    pool = WorkerSpec(id="pool", handle=fine, pool=3)
    inner = SupervisorSpec(id="inner", children=[WorkerSpec(id="w", handle=fine)])
    with start(SupervisorSpec(id="p", children=[pool, inner])) as tree:
        assert tree.health() == Health(ok=True, ready=True, problems=())


def test_a_child_that_was_terminated_by_hand_is_as_it_should_be() -> None:
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="w", handle=fine)])) as tree:
        tree.terminate_child("p/w")
        assert of(tree) == (True, True, [])


def test_a_child_in_its_backoff_makes_a_tree_not_ready_and_names_it() -> None:
    clock = ManualClock()
    worker = WorkerSpec(id="w", handle=fine, backoff=Backoff(initial_s=20.0))
    with start(SupervisorSpec(id="p", children=[worker]), clock=clock) as tree:
        tree.ref("p/w").tell("die")
        settle(tree)
        assert of(tree) == (True, False, ["p/w: is restarting"])
        clock.advance(100.0)
        settle(tree)
        assert of(tree) == (True, True, [])


class Blocks:
    """A call to a supervisor that takes as long as the test wants."""

    def __init__(self) -> None:
        self.begun, self.gate = threading.Event(), threading.Event()

    def carry_out(self, _: Any, reply: Reply) -> None:
        self.begun.set()
        self.gate.wait(LONG_S)
        reply.complete()


def test_a_supervisor_that_does_not_answer_is_a_problem_and_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trees.host.tree_health.WITHIN_S", 0.05)
    blocks = Blocks()
    inner = SupervisorSpec(id="inner", children=[WorkerSpec(id="w", handle=fine)])
    with start(SupervisorSpec(id="p", children=[inner])) as tree:
        box: Any = tree._system.boxes["p/inner"]
        box.post(blocks, Reply())
        assert blocks.begun.wait(LONG_S)
        try:
            found = tree.health()
        finally:
            blocks.gate.set()
        assert (found.ok, found.ready) == (False, False)
        assert HealthProblem("p/inner", "did not answer within 0.05 s") in found.problems
        settle(tree)
        monkeypatch.setattr("trees.host.tree_health.WITHIN_S", LONG_S)
        assert of(tree) == (True, True, [])


def test_a_tree_that_is_down_says_so_and_why() -> None:
    tree = start(SupervisorSpec(id="p", children=[WorkerSpec(id="w", handle=fine)]))
    tree.stop()
    assert of(tree) == (False, False, ["p: is down"])

    tree = start(SupervisorSpec(id="p", max_restarts=0, children=[WorkerSpec(id="w", handle=fine)]))
    tree.ref("p/w").tell("die")
    with pytest.raises(RestartLimitError):
        tree.wait(LONG_S)
    ok, ready, (problem,) = of(tree)
    assert (ok, ready) == (False, False)
    assert problem.startswith("p: is down: ")


def test_a_tree_that_is_being_stopped_is_alive_and_gets_no_more_work() -> None:
    """A stop may take as long as its workers have for it, and what they are given meanwhile is lost."""
    begun, gate = threading.Event(), threading.Event()

    class Lingers(Worker):
        def on_stop(self) -> None:
            begun.set()
            gate.wait(LONG_S)

    tree = start(SupervisorSpec(id="p", children=[WorkerSpec(id="w", actor=Lingers, shutdown=LONG_S)]))
    stops = threading.Thread(target=tree.stop)
    stops.start()
    try:
        assert begun.wait(LONG_S)
        assert of(tree) == (True, False, ["p: is being stopped"])
    finally:
        gate.set()
        stops.join()
    assert of(tree) == (False, False, ["p: is down"])


def test_a_tree_that_gives_up_is_alive_and_gets_no_more_work() -> None:
    begun, gate = threading.Event(), threading.Event()

    class Lingers(Worker):
        def on_stop(self) -> None:
            begun.set()
            gate.wait(LONG_S)

    lingers = WorkerSpec(id="l", actor=Lingers, shutdown=LONG_S)
    tree = start(SupervisorSpec(id="p", max_restarts=0, children=[lingers, WorkerSpec(id="w", handle=fine)]))
    tree.ref("p/w").tell("die")
    try:
        assert begun.wait(LONG_S)
        ok, ready, problems = of(tree)
    finally:
        gate.set()
    with pytest.raises(RestartLimitError):
        tree.wait(LONG_S)
    tree.stop()
    assert (ok, ready) == (True, False)
    assert "p: is being stopped" in problems


def test_a_standby_is_ok_and_not_ready(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    spec = SupervisorSpec(
        id="p",
        tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])),
        children=[WorkerSpec(id="w", execute=lambda *_: "done")],
    )
    with start(spec, store=url, ha=HA(name="one")) as leader, start(spec, store=url, ha=HA(name="two")) as standby:
        assert of(leader) == (True, True, [])
        assert of(standby) == (True, False, ["p: standby: one leads"])


def test_a_store_that_writes_nothing_makes_a_tree_not_ready_and_the_dump_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = SupervisorSpec(
        id="p",
        tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])),
        children=[WorkerSpec(id="w", execute=lambda *_: "done")],
    )
    with start(spec, store=f"sqlite:///{tmp_path / 'tasks.db'}") as tree:
        assert of(tree) == (True, True, [])
        assert tree.snapshot().store_paused_s is None
        monkeypatch.setattr(SqlStore, "paused_s", 12.34)
        assert of(tree) == (True, False, ["p: its store has written nothing for 12.3 s"])
        assert tree.dump().splitlines()[-1] == "store paused"
        assert "store paused for 12.3 s" in tree.dump(verbose=True).splitlines()
