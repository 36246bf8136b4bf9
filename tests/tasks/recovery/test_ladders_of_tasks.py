"""A ladder per task and per subtask: which one counts, and that it is recorded with what it belongs to (S14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.testing import AsyncScriptedExecutable, Hang, ScriptedExecutable
from trees import (
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    WorkerSpec,
    start,
)

LONG_S = 60.0


def times(count: int) -> list[Any]:
    """A ladder of so many attempts."""
    return [Retry(max_attempts=count, initial_s=0.0, jitter=0.0)]


def tree_of(execute: Any, *, plan: Any = None, worker: Any = None, team: Any = None) -> SupervisorSpec:
    planner = plan if callable(plan) else StaticPlan(plan or [Subtask("a", worker="w")])
    child = WorkerSpec(id="w", execute=execute, on_failure=worker, breaker=None)
    tasks = Tasks(planner=planner) if team is None else Tasks(planner=planner, on_failure=team)
    return SupervisorSpec(id="p", tasks=tasks, children=[child])


def failed(tree: Any, task: Task) -> TaskFailedError:
    with pytest.raises(TaskFailedError) as caught:
        tree.run(task, timeout=LONG_S)
    return caught.value


@pytest.mark.parametrize("team", [None, 2], ids=["default of the team", "ladder of the team"])
@pytest.mark.parametrize("worker", [None, 3], ids=["no ladder of the worker", "ladder of the worker"])
@pytest.mark.parametrize("task", [None, 4], ids=["no ladder of the task", "ladder of the task"])
@pytest.mark.parametrize("subtask", [None, 5], ids=["no ladder of the subtask", "ladder of the subtask"])
def test_the_ladder_is_that_of_the_subtask_or_of_the_task_or_of_the_worker_or_of_the_team(
    subtask: int | None, task: int | None, worker: int | None, team: int | None
) -> None:
    given = [None if count is None else times(count) for count in (subtask, task, worker, team)]
    script = ScriptedExecutable(OSError("no"))
    plan = [Subtask("a", worker="w", on_failure=given[0])]
    default = times(1) if given[3] is None else given[3]
    with start(tree_of(script.execute, plan=plan, worker=given[2], team=default)) as tree:
        failed(tree, Task("go", on_failure=given[1]))

    assert len(script.calls) == next((count for count in (subtask, task, worker, team) if count is not None), 1)


def test_the_ladder_of_a_task_counts_for_a_team_and_not_for_the_members_of_it() -> None:
    script = ScriptedExecutable(OSError("no"))
    member = WorkerSpec(id="m", execute=script.execute, breaker=None)
    crew = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan([Subtask("b", worker="m")]), on_failure=times(2)),
        children=[member],
        breaker=None,
    )
    planner = StaticPlan([Subtask("a", worker="team")])
    with start(SupervisorSpec(id="p", tasks=Tasks(planner=planner), children=[crew])) as tree:
        failed(tree, Task("go", on_failure=times(3)))

    assert len(script.calls) == 6


def test_a_planner_that_answers_with_json_may_give_a_ladder() -> None:
    script = ScriptedExecutable(OSError("no"))
    ladder = [{"rung": "Retry", "max_attempts": 4, "initial_s": 0, "retry_on": ["builtins:OSError"]}]
    answer = {"subtasks": [{"id": "a", "worker": "w", "on_failure": ladder}]}
    with start(tree_of(script.execute, plan=lambda *_: answer)) as tree:
        failed(tree, Task("go"))

    assert len(script.calls) == 4


def test_the_ladders_of_a_task_and_its_subtasks_survive_a_resume(tmp_path: Path) -> None:
    class Bad(Exception):  # noqa: N818 - a type that no module has: it is known by its name
        pass

    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    plan = [
        Subtask("a", worker="w", on_failure=[Retry(max_attempts=4, initial_s=0.0, give_up_on=(Bad,))]),
        Subtask("b", worker="w"),
    ]
    with Hang() as hang, start(tree_of(AsyncScriptedExecutable(hang).execute, plan=plan, team=[]), store=url) as tree:
        tree.submit(Task("go", id="t", on_failure=times(2)))
        hang.wait_until_entered()
    script = ScriptedExecutable(OSError("no"))
    with start(tree_of(script.execute, plan=plan, team=[]), store=url) as tree, pytest.raises(TaskFailedError):
        tree.task("t").result(timeout=LONG_S)

    assert sorted(call.subtask for call in script.calls) == ["a"] * 4 + ["b"] * 2

    again = ScriptedExecutable(Bad("no"))
    with start(tree_of(again.execute, plan=plan, team=[])) as tree:
        failed(tree, Task("go", on_failure=times(2)))

    assert sorted(call.subtask for call in again.calls) == ["a", "b", "b"]


# -- the record ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["os:system", "sys:modules", "builtins:SystemExit", "trees:no_such", "json:loads", ":"]
)
def test_reading_a_ladder_runs_nothing_and_looks_nothing_up(name: str) -> None:
    task = Task("go", on_failure=[{"rung": "Retry", "retry_on": [name]}])

    assert task.on_failure[0].retry_on == (name,)
