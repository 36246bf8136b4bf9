"""Garbage is collected in a program with a tree as in any other: where the library pauses that, it goes on after it."""

from __future__ import annotations

import gc
from pathlib import Path

from trees import StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec, start


def test_after_a_start_on_a_store_and_a_task_the_collector_is_on(tmp_path: Path) -> None:
    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]))
    spec = SupervisorSpec(id="t", tasks=tasks, children=[WorkerSpec(id="w", execute=lambda task: task)])
    assert gc.isenabled()
    with start(spec, store=f"sqlite:///{tmp_path / 'tasks.db'}") as tree:
        tree.run("go", timeout=60.0)
        assert gc.isenabled()
