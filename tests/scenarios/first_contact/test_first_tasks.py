"""A new user's first task, typed from nothing: each wrong turn ends in a text that says what to type.

The wrong turns here are those about planners and declarations.
"""

from __future__ import annotations

from typing import Any

import pytest

from actors import ConfigError
from trees import (
    KeywordPlanner,
    NoCapableWorkerError,
    PlanError,
    Subtask,
    SupervisorSpec,
    Tasks,
    WorkerSpec,
    start,
)


def echo(task: Any, context: Any) -> str:
    return f"did: {task}"


def app(*workers: WorkerSpec, **tasks: Any) -> SupervisorSpec:
    return SupervisorSpec(id="app", tasks=Tasks(**tasks), children=workers)


ENGLISH = (
    WorkerSpec(id="searcher", execute=echo, description="Searches the web"),
    WorkerSpec(id="writer", execute=echo, description="Writes articles"),
)


# -- one worker and any goal -------------------------------------------------------------------------------------


@pytest.mark.parametrize("goal", ["hello", "Bake a cake", "What is the capital of France?", "2 + 2", "???"])
def test_one_worker_gets_every_goal_as_it_is_and_nothing_is_doubted(goal: str) -> None:
    with start(app(WorkerSpec(id="helper", execute=echo))) as tree:
        report = tree.run(goal, timeout=60)

    assert report.results == {"helper": f"did: {goal}"}
    assert report.notes == ()


def test_one_worker_of_two_of_which_the_other_is_down_does_not_get_every_goal() -> None:
    with start(app(*ENGLISH)) as tree:
        tree.terminate_child("app/writer")
        with pytest.raises(NoCapableWorkerError):
            tree.run("Bake a cake", timeout=60)


def test_a_team_of_one_does_whatever_it_is_given() -> None:
    team = SupervisorSpec(id="kitchen", tasks=Tasks(), description="Bakes", children=[WorkerSpec(id="w", execute=echo)])
    with start(SupervisorSpec(id="app", tasks=Tasks(), children=[team, *ENGLISH])) as tree:
        assert tree.run("Bake a cake", timeout=60).results == {"kitchen": {"w": "did: Bake a cake"}}


def test_several_workers_and_a_goal_that_means_none_of_them_say_what_to_type() -> None:
    with start(app(*ENGLISH)) as tree, pytest.raises(NoCapableWorkerError) as caught:
        tree.run("Bake a cake", timeout=60)

    text = str(caught.value)
    for word in (
        "searcher: 'Searches the web'",
        "writer: 'Writes articles'",
        "description=",
        "capabilities=",
        "Tasks(planner=KeywordPlanner(default='...'))",
        "ModelPlanner(call)",
    ):
        assert word in text


# -- a goal in another language ----------------------------------------------------------------------------------


@pytest.mark.parametrize("goal", ["Backe einen Kuchen", "Haz un pastel", "ケーキを焼く", "Испеки торт", "اخبز كعكة"])
def test_a_goal_in_another_language_says_that_words_and_language_have_to_be_the_same(goal: str) -> None:
    with start(app(*ENGLISH)) as tree, pytest.raises(NoCapableWorkerError) as caught:
        tree.run(goal, timeout=60)

    assert "in the words and the language of your goals" in str(caught.value)


def test_a_goal_in_another_language_is_planned_where_the_descriptions_are_in_it() -> None:
    workers = [
        WorkerSpec(id="a", execute=echo, description="Backt Kuchen"),
        WorkerSpec(id="b", execute=echo, description="Schreibt Briefe"),
    ]
    with start(app(*workers)) as tree:
        assert list(tree.run("Bitte Kuchen fürs Fest", timeout=60).results) == ["a"]


def test_a_goal_in_another_language_goes_to_the_default_where_there_is_one() -> None:
    with start(app(*ENGLISH, planner=KeywordPlanner(default="writer"))) as tree:
        assert list(tree.run("Backe einen Kuchen", timeout=60).results) == ["writer"]


# -- a function with the wrong parameters ------------------------------------------------------------------------


def nothing() -> None: ...


def three(task: Any, context: Any, more: Any) -> None: ...


def accident(query: str, limit: int) -> None: ...


@pytest.mark.parametrize(
    ("execute", "says"),
    [
        (nothing, "nothing can be called neither with (task, context) nor with (instruction). It takes ()."),
        (three, "It takes (task, context, more)."),
        (accident, "Call it 'context' (or annotate it as Context): accident(task, context)"),
        (echo("x", None), "or give the object itself"),
        ("echo", "Write 'package.module:attribute', or give the object itself."),
    ],
)
def test_a_function_with_the_wrong_parameters_says_what_it_should_take(execute: Any, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        start(app(WorkerSpec(id="w", execute=execute)))

    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("tasks", "says"),
    [
        ({"planner": lambda task: []}, "Write def plan(task, catalogue, feedback) -> Plan([...])."),
        ({"reviewer": lambda results: True}, "Write def review(task, plan, results) -> Verdict(...)."),
        ({"synthesizer": lambda results: ""}, "Write def combine(task, results) -> output."),
    ],
)
def test_so_does_a_planner_a_reviewer_and_a_synthesizer(tasks: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        start(app(*ENGLISH, **tasks))

    assert says in str(caught.value)


# -- a planner that returns None ---------------------------------------------------------------------------------


def forgets(task: Any, catalogue: Any, feedback: str) -> None:
    [Subtask("writer")]


async def forgets_async(task: Any, catalogue: Any, feedback: str) -> None: ...


@pytest.mark.parametrize("planner", [forgets, forgets_async])
def test_a_planner_that_returns_none_says_what_to_return(planner: Any) -> None:
    with start(app(*ENGLISH, planner=planner, max_plan_attempts=1)) as tree, pytest.raises(PlanError) as caught:
        tree.run("write it", timeout=60)

    assert "plan: expected a list of subtasks, got None. Return a Plan, a list of Subtask" in str(caught.value)
    assert "Plan([Subtask('first', 'what is to be done', worker='the id of a worker')])" in str(caught.value)


# -- a declaration that is none ----------------------------------------------------------------------------------


def test_a_worker_without_a_tree_says_what_to_put_around_it() -> None:
    with pytest.raises(ConfigError, match=r"start\(SupervisorSpec\(id='app', children=\[WorkerSpec\(...\)\]\)\)"):
        start(WorkerSpec(id="helper", run=print))  # type: ignore[arg-type]


def test_a_goal_for_a_tree_without_tasks_says_what_to_add() -> None:
    with pytest.raises(ConfigError, match=r"SupervisorSpec\(id='app', tasks=Tasks\(\), ...\)"):
        start(SupervisorSpec(id="app", children=[WorkerSpec(id="helper", execute=echo)]))
