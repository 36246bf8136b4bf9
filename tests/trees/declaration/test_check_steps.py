"""What can be known at check time is a problem then (rule S18)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors import ConfigError, Problem
from trees import (
    CapabilityPlanner,
    KeywordPlanner,
    Last,
    ModelPlanner,
    ModelReviewer,
    ModelSynthesizer,
    Plan,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Tasks,
    Verdict,
    WorkerSpec,
    start,
    start_async,
)
from trees.declaration.hints import hints

HERE = __name__


def check(spec: SupervisorSpec) -> list[Problem]:
    """Every problem that a start finds; without one the tree is started, and stopped."""
    try:
        start(spec).stop()
    except ConfigError as error:
        return list(error.problems)
    return []


def work(task: Any, context: Any) -> str:
    return "ok"


async def work_async(task: Any, context: Any) -> str:
    return "ok"


def undo(task: Any, result: Any) -> None: ...


def shop(*children: Any, **tasks: Any) -> SupervisorSpec:
    workers = children or (WorkerSpec(id="w", execute=work, capabilities={"it"}), WorkerSpec(id="v", execute=work))
    return SupervisorSpec(id="shop", tasks=Tasks(**tasks), children=workers)


TREE = shop()


def told(spec: SupervisorSpec) -> list[str]:
    found = check(spec)
    assert all(problem.hint for problem in found)
    return [f"{problem.path}: {problem.what}" for problem in found]


# -- a fixed plan ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subtasks", "problems"),
    [
        ([Subtask("a", worker="w"), Subtask("b", capability="it", depends_on=["a"])], []),
        ([Subtask("w"), Subtask("v")], []),
        ([], ["shop.tasks.planner: the plan has no subtasks"]),
        (
            [Subtask("a", worker="w", depends_on=["b"]), Subtask("b", worker="w", depends_on=["a"])],
            ["shop.tasks.planner/a.depends_on: a cycle: a > b > a, each depends on the next"],
        ),
        ([Subtask("a", worker="x")], ["shop.tasks.planner/a.worker: there is no worker 'x'"]),
        ([Subtask("a", capability="x")], ["shop.tasks.planner/a.capability: no worker has capability 'x'"]),
        ([Subtask("x")], ["shop.tasks.planner/x: names neither a worker nor a capability"]),
        (
            [Subtask("a", worker="w"), Subtask("a", worker="v")],
            ["shop.tasks.planner/a.id: 2 subtasks have the id 'a'"],
        ),
        (
            [Subtask("a", worker="w", depends_on=["x"])],
            ["shop.tasks.planner/a.depends_on: there is no subtask 'x'"],
        ),
        ([Subtask("a", worker="w", undo="x")], ["shop.tasks.planner/a.undo: there is no worker 'x'"]),
        (
            [Subtask("a", worker="w", undo=f"{HERE}:undo")],
            ["shop.tasks.planner/a.undo: a str of 45 characters cannot be called with (task, result, context)"],
        ),
        (
            [Subtask(f"s{n}", worker="w") for n in range(51)],
            ["shop.tasks.planner: the plan has 51 subtasks, at most 50 are accepted"],
        ),
    ],
)
def test_a_static_plan_that_does_not_fit_the_tree_is_a_problem_of_the_declaration(
    subtasks: list[Subtask], problems: list[str]
) -> None:
    assert told(shop(planner=StaticPlan(subtasks))) == problems


def test_all_that_is_wrong_with_a_static_plan_is_told_at_once_before_anything_runs() -> None:
    plan = [Subtask("a", worker="x"), Subtask("a", worker="y", depends_on=["a"])]
    with pytest.raises(ConfigError) as caught:
        start(shop(planner=StaticPlan(plan)))

    assert len(caught.value.problems) == 4


# -- signatures --------------------------------------------------------------------------------------------------


class Planning:
    def plan(self, task: Any, catalogue: Any, feedback: str) -> Plan:
        return Plan([])


class Reviewing:
    def review(self, task: Any, results: Any) -> Verdict:
        return Verdict(passed=True)


@pytest.mark.parametrize(
    ("tasks", "problem"),
    [
        ({"planner": lambda task, catalogue: []}, "planner: it cannot be called with (task, catalogue, feedback)"),
        ({"planner": lambda: [1]}, "planner: it cannot be called with (task, catalogue, feedback)"),
        ({"planner": Planning}, "planner: it cannot be called with (task, catalogue, feedback)"),
        ({"planner": KeywordPlanner}, "planner: it cannot be called with (task, catalogue, feedback)"),
        ({"planner": CapabilityPlanner}, "planner: it cannot be called with (task, catalogue, feedback)"),
        ({"reviewer": ModelReviewer}, "reviewer: it cannot be called with (task, plan, results)"),
        ({"synthesizer": Last}, "synthesizer: it cannot be called with (task, results)"),
        ({"planner": ModelPlanner(lambda prompt: "")}, "planner.call: it cannot be called with (prompt, schema)"),
        ({"planner": ModelPlanner("model")}, "planner.call: expected a function of (prompt, schema), got a str"),
        ({"planner": CapabilityPlanner(lambda: ["it"])}, "planner.needs: it cannot be called with (task)"),
        ({"reviewer": lambda results: True}, "reviewer: it cannot be called with (task, plan, results)"),
        ({"reviewer": Reviewing()}, "reviewer: it cannot be called with (task, plan, results)"),
        ({"synthesizer": lambda results: 1}, "synthesizer: it cannot be called with (task, results)"),
        ({"synthesizer": ModelSynthesizer(lambda: "")}, "synthesizer.call: it cannot be called with (prompt)"),
        ({"synthesizer": ModelSynthesizer(lambda a, b, c: "")}, "synthesizer.call: it cannot be called with (prompt)"),
    ],
)
def test_code_of_a_step_that_cannot_be_called_is_told_with_the_form(tasks: dict[str, Any], problem: str) -> None:
    assert told(shop(**tasks)) == [f"shop.tasks.{problem}"]


# -- execute= and its orchestrator -------------------------------------------------------------------------------


def test_an_executable_without_an_orchestrator_above_it_is_a_problem() -> None:
    (problem,) = check(SupervisorSpec(id="shop", children=[WorkerSpec(id="w", execute=work)]))

    assert (problem.path, problem.what) == ("shop/w.execute", "nobody gives it work: 'shop' has no orchestrator")
    assert "tasks=Tasks()" in problem.hint


def test_an_executable_under_a_plain_supervisor_of_a_tree_with_tasks_is_a_hint() -> None:
    below = SupervisorSpec(id="below", children=[WorkerSpec(id="w", execute=work)])
    spec = SupervisorSpec(id="shop", tasks=Tasks(), children=[below])

    assert told(spec) == []
    assert [str(hint).partition(":")[0] for hint in hints(spec)] == ["shop/below/w.execute"]


def test_an_executable_that_is_added_to_a_tree_without_tasks_is_refused() -> None:
    with start(SupervisorSpec(id="shop", children=[SupervisorSpec(id="below")])) as tree:
        for path in ("shop", "shop/below"):
            with pytest.raises(ConfigError, match="nobody gives it work"):
                tree.start_child(path, WorkerSpec(id="w", execute=work))


# -- what is started ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, "expected a SupervisorSpec, got None. The root of a tree is one: write SupervisorSpec"),
        (WorkerSpec(id="w", run=work), "w: expected a SupervisorSpec, got a WorkerSpec. Put it under one"),
        (lambda: TREE, "Call it, if it makes the root: start(make_tree())"),
        ("nonsense", "'nonsense'"),
        ("no.such:TREE", "module 'no' not found"),
        (f"{HERE}:TREEE", "Did you mean 'TREE'"),
        (f"{HERE}:work", "expected a SupervisorSpec"),
    ],
)
def test_what_is_no_root_is_refused_with_what_to_write(given: Any, text: str) -> None:
    async def begin() -> None:
        await start_async(given)

    for call in (lambda: start(given), lambda: asyncio.run(begin())):
        with pytest.raises(ConfigError) as caught:
            call()
        assert text in str(caught.value)
