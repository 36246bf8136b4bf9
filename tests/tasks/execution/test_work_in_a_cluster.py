"""Tasks whose work is done in a cluster of Ray: attempts end as anywhere, and the loss of a node costs nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.clusters import START_S, on_ray
from tests.support.hardening import eventually
from tests.tasks.execution import process_work as there
from trees import (
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    WorkerSpec,
    start,
)

pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.slow, pytest.mark.timeout(400)]
LONG_S = 300.0


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
