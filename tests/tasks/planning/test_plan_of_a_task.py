"""``Task(plan=...)``: a task may bring its own plan; then no planner is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors import Context
from actors.tasks.journal.codec import decode, encode
from actors.tasks.model.task_events import PlanRefused, TaskSubmitted
from trees import Plan, PlanError, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start

PLAN = Plan([Subtask("first", worker="w"), Subtask("then", capability="c", depends_on=["first"])])


def say(task: Subtask, context: Context) -> str:
    return f"{task} after {sorted(context.results)}"


def refuse(task: Task, catalogue: object, feedback: str) -> Plan:
    raise AssertionError("the planner was asked")


def crew(**settings: Any) -> SupervisorSpec:
    return SupervisorSpec(
        id="crew", tasks=Tasks(**settings), children=[WorkerSpec(id="w", execute=say, capabilities={"c"})]
    )


@pytest.mark.parametrize("stored", [True, False])
def test_a_task_with_a_plan_of_its_own_asks_no_planner(stored: bool, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'tasks.db'}" if stored else None
    with start(crew(planner=refuse), store=store) as tree:
        report = tree.run(Task("go", plan=PLAN))

    assert report.results == {"first": "go after []", "then": "go after ['first']"}


def test_a_plan_of_its_own_is_checked_like_any_other() -> None:
    with start(crew()) as tree, pytest.raises(PlanError, match="there is no worker 'x'"):
        tree.run(Task("go", plan=Plan([Subtask("first", worker="x")])))


@pytest.mark.parametrize("size", [1, 2000], ids=["small", "large"])
@pytest.mark.parametrize("owner", ["task", "planner"])
def test_a_plan_that_is_fixed_is_refused_once_and_not_asked_for_again(owner: str, size: int) -> None:
    plan = Plan([Subtask(f"s{n}", worker="w") for n in range(size)])
    settings = {"planner": StaticPlan(plan.subtasks)} if owner == "planner" else {}
    with start(crew(max_subtasks=5000, **settings)) as tree:
        tree.terminate_child("crew/w")
        tree.delete_child("crew/w")
        handle = tree.submit(Task("go", plan=plan if owner == "task" else None))
        refused = [event for event in handle.events() if isinstance(event, PlanRefused)]

    assert [(event.number, event.is_last) for event in refused] == [(1, True)]


def test_a_task_with_a_plan_is_read_back_as_it_was_written() -> None:
    event = TaskSubmitted("crew", "t", 1.0, Task("go", plan=PLAN), None)

    assert decode(*encode(event)) == event
