"""The prompt of a planner: inputs with their types, schemas of results, costs, and that results are handed on."""

from typing import Any

import pytest

from actors.tasks.model.task import Budget, Task
from actors.tasks.planning.planner_prompt import planner_prompt
from actors.tasks.planning.planners import KeywordPlanner
from actors.tasks.planning.replanning import replan_feedback
from tests.tasks.planning.test_planners import CODE, SEARCH, row
from trees import NoCapableWorkerError, SupervisorSpec, Tasks, WorkerSpec, start


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("/src", '"it": "/src"  (text of 4 characters)'),
        (2, '"it": 2  (number)'),
        (2.5, '"it": 2.5  (number)'),
        (True, '"it": true  (boolean)'),
        (None, '"it": null  (null)'),
        (["a", "b"], '"it": ["a", "b"]  (list of 2 texts)'),
        (["a", 1], '"it": ["a", 1]  (list of 2 items)'),
        ([], '"it": []  (list of 0 items)'),
        ({"a": 1}, '"it": {"a": 1}  (object of 1 fields)'),
    ],
)
def test_inputs_are_shown_with_their_names_and_types(value: Any, line: str) -> None:
    assert line in planner_prompt(Task("g", {"it": value}), (SEARCH,))


@pytest.mark.parametrize("value", ["x" * 10_000_000, ["x" * 1000] * 1000, {"a": "x" * 100_000}])
def test_a_large_input_is_shown_by_its_beginning(value: Any) -> None:
    prompt = planner_prompt(Task("g", {"it": value}), (SEARCH,))

    assert len(prompt) < 5_000
    assert " ...  (" in prompt


@pytest.mark.parametrize("slots", [(), ("s1", "s2")], ids=["any plan", "slots"])
def test_the_prompt_says_that_results_of_dependencies_are_handed_on(slots: tuple[str, ...]) -> None:
    assert "A subtask is handed the results of the" in planner_prompt(Task("g"), (SEARCH,), slots=slots)


def test_capabilities_schemas_of_results_and_costs_are_shown() -> None:
    rows = (
        row("a", "find", output_schema={"title": "Findings"}, input_schema={"title": "Question"}, estimate=700),
        row("b", estimate=Budget(tokens=5, cost=0.25, seconds=3.0)),
        row("c", estimate=lambda _: 8),
    )
    prompt = planner_prompt(Task("g"), rows)

    for said in ('"find"', "Findings", "Question", '"estimated_tokens": 700', '"estimated_cost": 0.25'):
        assert said in prompt
    assert '"estimated_seconds": 3.0' in prompt
    assert prompt.count("estimated_tokens") == 2


def test_after_a_failure_the_prompt_has_what_is_done_and_slots_go_on_behind_it() -> None:
    feedback = replan_feedback({"s1": "x"}, {"s2": "no"}, {})

    assert "Done, and kept: s1" in planner_prompt(Task("g"), (SEARCH,), feedback, ("s3",))


def test_a_goal_that_matches_nobody_is_told_with_what_each_is_matched_on_and_three_things_that_help() -> None:
    with pytest.raises(NoCapableWorkerError) as caught:
        KeywordPlanner().plan(Task("zzz qqq"), (SEARCH, CODE, row("plain")))
    said = str(caught.value)

    assert "search: 'Searches the documentation'" in said
    assert "code (implement)" in said
    assert "plain, without a description" in said
    assert all(word in said for word in ("description=", "capabilities=", "use another planner"))


def test_a_tree_with_a_single_worker_plans_that_worker() -> None:
    only = WorkerSpec(id="only", execute=lambda task, context: str(task))
    with start(SupervisorSpec(id="p", tasks=Tasks(), children=[only])) as tree:
        assert tree.run("zzz qqq", timeout=60).results == {"only": "zzz qqq"}
