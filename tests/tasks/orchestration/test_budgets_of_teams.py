"""A subtask that a team does has a budget of its own, and the task one for all: the smaller one is the team's."""

from __future__ import annotations

from typing import Any

import pytest

from trees import Budget, StaticPlan, Subtask, SupervisorSpec, Task, TaskFailedError, Tasks, WorkerSpec, start


@pytest.mark.parametrize(("of_subtask", "of_task"), [(50, 1000), (1000, 50)])
def test_a_team_begins_nothing_more_once_the_smaller_budget_is_used_up(of_subtask: int, of_task: int) -> None:
    called: list[str] = []

    def use(task: Any, context: Any) -> str:
        called.append(str(task))
        context.use(tokens=60)
        return "done"

    inside = StaticPlan([Subtask("one", worker="w"), Subtask("two", worker="w", depends_on=["one"])])
    team = SupervisorSpec(
        id="team", tasks=Tasks(planner=inside), children=[WorkerSpec(id="w", execute=use)], on_failure=[]
    )
    plan = StaticPlan([Subtask("all", worker="team", budget=Budget(tokens=of_subtask))])
    with (
        start(SupervisorSpec(id="t", tasks=Tasks(planner=plan), children=[team])) as tree,
        pytest.raises(TaskFailedError),
    ):
        tree.run(Task("go", budget=Budget(tokens=of_task)), timeout=60.0)

    assert len(called) == 1
