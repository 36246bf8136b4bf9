"""Tasks whose work is done in a cluster of Ray: attempts end as anywhere, and the loss of a node costs nothing else."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from actors import ChildExited, Event, WorkerLostError
from tests.support.clusters import START_S, RayCluster, on_ray
from tests.support.hardening import eventually
from tests.tasks.execution import process_work as there
from trees import (
    Retry,
    StaticPlan,
    Subtask,
    SubtaskSucceeded,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.slow, pytest.mark.timeout(400)]
PARTS = 200
LONG_S = 300.0
POOL = 2


def tree_of(worker: WorkerSpec, plan: list[Subtask], **settings: Any) -> SupervisorSpec:
    return SupervisorSpec(id="t", tasks=Tasks(planner=StaticPlan(plan), **settings), children=[worker])


@pytest.mark.parametrize(("instruction", "found"), [("done", "done"), ("be killed once", "done in attempt 2")])
def test_work_is_done_there_and_done_again_where_its_actor_died(instruction: str, found: str) -> None:
    worker = WorkerSpec(id="w", execute=there.work, dispatch=on_ray(), start_timeout_s=START_S)
    with start(tree_of(worker, [Subtask("a", worker="w", instruction=instruction)])) as tree:
        assert tree.run(Task(goal="go"), timeout=LONG_S).results["a"] == found


def test_an_attempt_past_its_time_is_killed_and_the_worker_comes_back() -> None:
    worker = WorkerSpec(
        id="w", execute=there.work, dispatch=on_ray(), start_timeout_s=START_S, timeout_s=0.5, on_failure=[]
    )
    plan = [Subtask("a", worker="w", instruction="hang")]
    with start(tree_of(worker, plan)) as tree:
        handle = tree.submit(Task(goal="go"))
        with pytest.raises(TaskFailedError):
            handle.result(LONG_S)
        assert handle.report is not None
        assert "0.5 s" in str(handle.report.failed["a"])
        eventually(lambda: tree.child("t/w").incarnation == 2, within_s=LONG_S)
        assert "restarts 1/3" not in tree.dump(), "that says nothing of the worker, so it counts in no window"


def test_a_plan_of_two_hundred_ends_as_ever_though_a_node_is_lost_in_the_middle(
    cluster: RayCluster, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    plan = [Subtask(f"n{at}", worker="w") for at in range(PARTS)]
    place = on_ray(resources={"place": 1})
    worker = WorkerSpec(id="w", execute=there.part, dispatch=place, pool=POOL, start_timeout_s=300.0)
    spec = tree_of(
        worker, plan, max_subtasks=PARTS, max_parallel=POOL, on_failure=[Retry(initial_s=0.1, max_attempts=5)]
    )
    with contextlib.ExitStack() as nodes:
        for _ in range(2):
            nodes.enter_context(cluster.node("place", room=POOL))
        with start(spec) as tree:
            lost = _lose_a_node_when_half_is_done(tree, cluster, notes)
            report = tree.run(Task("go", inputs={"notes": str(notes)}), timeout=LONG_S)
            assert report.results == {each.id: each.id for each in plan}
            assert 1 <= len(lost) <= POOL
            eventually(lambda: tree.child("t/w").state == "running", within_s=LONG_S)
    keys = defaultdict(set)
    for line in notes.read_text().splitlines():
        part, _, key = line.split()
        keys[part].add(key)
    assert len(keys) == PARTS
    assert all(len(each) == 1 for each in keys.values()), "an attempt that was lost is tried again with the same key"


def _lose_a_node_when_half_is_done(tree: Tree, cluster: RayCluster, notes: Path) -> list[str]:
    """Have a node lost when half of the plan is done; the list will have the workers that are lost with it."""
    done, lost = 0, list[str]()

    def hear(event: Event) -> None:
        nonlocal done
        if isinstance(event, SubtaskSucceeded):
            done += 1
            if done == PARTS // 2:
                cluster.lose(cluster.by_id(notes.read_text().splitlines()[-1].split()[1]))
        elif isinstance(event, ChildExited) and isinstance(event.error, WorkerLostError):
            lost.append(event.path)

    tree.subscribe(hear)
    return lost
