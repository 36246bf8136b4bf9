"""A planner may return names of workers, and an order; what it returns that is no plan is named (slim.md 4.5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tasks.planning.planned import refused
from trees import ConfigError, ModelPlanner, Plan, StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec, start


def crew(planner: Any) -> SupervisorSpec:
    children = [WorkerSpec(id=id_, execute=lambda task, context: f"{task.id}: {task}") for id_ in ("a", "b")]
    return SupervisorSpec(id="p", tasks=Tasks(planner=planner), children=children)


def planned(returned: Any) -> dict[str, list[str]]:
    """Run a goal whose planner returns this; the subtasks with what they depend on."""
    with start(crew(lambda task, catalogue, feedback: returned)) as tree:
        report = tree.run("do it", timeout=60)
    assert all(str(result).endswith(": do it") for result in report.results.values())
    return {node.id: list(node.depends_on) for node in report.graph}


SIDE_BY_SIDE: dict[str, list[str]] = {"a": [], "b": [], "a-2": []}
IN_LINE = {"a": [], "b": ["a"], "a-2": ["b"]}


@pytest.mark.parametrize(
    ("returned", "graph"),
    [
        (["a", "b", "a"], SIDE_BY_SIDE),
        (("a", "b", "a"), SIDE_BY_SIDE),
        ({"executors": ["a", "b", "a"]}, SIDE_BY_SIDE),
        ({"executors": ["a", "b", "a"], "parallel": True}, SIDE_BY_SIDE),
        ({"executors": ["a", "b", "a"], "parallel": False}, IN_LINE),
        (json.dumps({"executors": ["a", "b", "a"], "parallel": False}), IN_LINE),
        (json.dumps(["a", "b", "a"]), SIDE_BY_SIDE),
        (["a", Subtask("later", worker="b", depends_on=["a"])], {"a": [], "later": ["a"]}),
        (["a", {"id": "later", "worker": "b", "depends_on": ["a"]}], {"a": [], "later": ["a"]}),
    ],
    ids=str,
)
def test_names_of_workers_are_a_plan_and_each_of_them_gets_the_goal(returned: Any, graph: dict[str, list[str]]) -> None:
    assert planned(returned) == graph


def test_a_fixed_plan_and_a_model_may_say_it_in_the_same_forms() -> None:
    said = {"executors": ["a", "b"], "parallel": False}
    for planner in (StaticPlan(said), StaticPlan(["a", "b"]), StaticPlan(Plan([Subtask("a"), Subtask("b")]))):
        with start(crew(planner)) as tree:
            assert tree.run("do it", timeout=60).results == {"a": "a: do it", "b": "b: do it"}
    with start(crew(ModelPlanner(lambda prompt, schema: f"```json\n{json.dumps(said)}\n```"))) as tree:
        assert tree.run("do it", timeout=60).results == {"a": "a: do it", "b": "b: do it"}


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (["w", "nobody"], "there is no worker 'nobody'"),
        (["w", 7], "subtasks[1]: expected a subtask or the name of a worker, got an int"),
        (["w", "no id"], "'no id'"),
        ({"executors": ["w", 7]}, "executors[1]: expected a subtask or the name of a worker"),
        ({"executors": "w"}, "expected a list of executors, got 'w'"),
        ({"executors": ["w"], "parallel": "no"}, "plan.parallel: expected true or false, got 'no'"),
        ({"executors": ["w"], "order": 1}, "a plan has no 'order'"),
        ({"subtasks": [], "steps": []}, "a plan has no 'steps'"),
        ({"workers": ["w"]}, "a plan has no 'workers'"),
        ("first w, then x", "no JSON (line 1, column 1): 'first w, then x'"),
        ("7", "expected a list of subtasks, got 7"),
        (7, "expected a list of subtasks, got 7"),
    ],
    ids=str,
)
def test_the_error_of_a_wrong_plan_names_what_was_not_understood(returned: Any, words: str) -> None:
    assert words in str(refused(lambda *_: returned))


def test_a_fixed_plan_that_is_none_is_refused_where_it_is_written() -> None:
    with pytest.raises(ConfigError, match="expected a list of subtasks, got 7"):
        StaticPlan(7)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="a plan has no 'steps'"):
        StaticPlan({"steps": []})
