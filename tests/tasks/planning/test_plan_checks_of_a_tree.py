"""Plans that do not fit are refused whole, and so are those over budget: points 7 and 8 of the contract."""

from __future__ import annotations

from typing import Any

import pytest

from actors.testing import FakeModel, ScriptedExecutable
from tests.tasks.planning.planned import GOOD, refused, tree_of
from trees import (
    Budget,
    BudgetExceededError,
    CapabilityPlanner,
    Done,
    ModelPlanner,
    NoCapableWorkerError,
    Plan,
    PlanError,
    Planned,
    PlanRefused,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Usage,
    WorkerSpec,
    start,
)

# -- plans that do not fit -------------------------------------------------------------------------------------

WRONG = Plan(
    [
        Subtask("a", worker="nobody", depends_on=["b"]),
        Subtask("b", worker="w", depends_on=["a"]),
        Subtask("c", capability="fly", depends_on=["ghost"]),
        Subtask("d", worker="w"),
        Subtask("d", worker="w"),
    ]
)


def test_all_problems_of_a_plan_are_told_at_once_and_fed_back_each_time() -> None:
    feedbacks: list[str] = []

    def planner(task: Any, catalogue: Any, feedback: str) -> Plan:
        feedbacks.append(feedback)
        return WRONG

    caught = refused(planner)

    assert caught.attempts == len(feedbacks) == 3
    told = "\n".join(str(problem) for problem in caught.problems)
    assert len(caught.problems) == 5
    for word in ["'nobody'", "'fly'", "'ghost'", "a > b > a", "'d'"]:
        assert word in told or word.replace(" > ", " -> ") in told
    assert feedbacks == ["", told, told]


def test_a_plan_that_is_mended_is_carried_out_and_the_refusal_is_in_the_journal() -> None:
    answers = iter([WRONG, GOOD])
    with start(tree_of(lambda *_: next(answers))) as tree:
        handle = tree.submit("read it")
        report = handle.result(timeout=60)
        seen = [type(event) for event in handle.events() if isinstance(event, (PlanRefused, Planned))]

    assert report.results == {"a": "ok"}
    assert seen == [PlanRefused, Planned]


def test_max_plan_attempts_says_how_often_a_planner_is_asked() -> None:
    asked: list[str] = []
    caught = refused(lambda *args: asked.append(args[2]) or WRONG, tasks={"max_plan_attempts": 1})

    assert len(asked) == caught.attempts == 1


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (Plan([]), "no subtask"),
        (Plan([Subtask("a", worker="w"), Subtask("a", worker="w")]), "'a'"),
        (Plan([Subtask("a", worker="w", depends_on=["a"])]), "a"),
        (Plan([Subtask("a", worker="w", depends_on=["ghost"])]), "ghost"),
        (Plan([Subtask("a", worker="ww")]), "Did you mean 'w'"),
        (Plan([Subtask("a", capability="fly")]), "fly"),
        (Plan([Subtask("a", worker="orchestrator")]), "orchestrator"),
        (Plan([Subtask("a", worker="w", undo="nobody")]), "nobody"),
        (Plan([Subtask(f"s{n}", worker="w") for n in range(51)]), "51"),
    ],
    ids=["empty", "twice", "itself", "ghost", "misspelt", "capability", "orchestrator", "undo", "too many"],
)
def test_a_plan_that_does_not_fit_is_refused_and_says_why(plan: Plan, words: str) -> None:
    caught = refused(lambda *_: plan)

    assert words in str(caught)


def test_plan_errors_are_failures_of_the_task() -> None:
    assert issubclass(NoCapableWorkerError, PlanError)
    assert issubclass(PlanError, TaskFailedError)


@pytest.mark.parametrize(
    "planner", [None, CapabilityPlanner(lambda task: {"fly", "read"})], ids=["words", "capabilities"]
)
def test_a_goal_that_nobody_can_serve_is_refused_at_once_with_what_is_known(planner: Any) -> None:
    caught = refused(planner or Tasks().planner, "bake a cake", more=[WorkerSpec(id="other", execute=print)])

    assert isinstance(caught, NoCapableWorkerError)
    assert "w (read)" in str(caught) or "read" in str(caught)
    assert caught.report is not None


def test_a_users_planner_may_say_that_nobody_can_do_it() -> None:
    def planner(task: Task, catalogue: Any, feedback: str) -> Plan:
        raise NoCapableWorkerError("fly", ("read",), task=task.id or "")

    caught = refused(planner)

    assert isinstance(caught, NoCapableWorkerError)
    assert (caught.needed, caught.known) == (("fly",), ("read",))


# -- estimates and budgets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimate", [60, {"tokens": 60}, Budget(tokens=60), lambda subtask: 60])
def test_a_plan_that_is_estimated_over_budget_is_refused_before_anything_runs(estimate: Any) -> None:
    plan = StaticPlan([Subtask("a", worker="w"), Subtask("b", worker="w")])
    caught = refused(plan, Task(goal="read it", budget=Budget(tokens=100)), estimate=estimate)

    assert "120" in str(caught)
    assert "100" in str(caught)


def test_a_plan_within_its_budget_runs() -> None:
    with start(tree_of(StaticPlan([Subtask("a", worker="w")]), estimate=60)) as tree:
        report = tree.run(Task(goal="read it", budget=Budget(tokens=60)), timeout=60)

    assert report.results == {"a": "ok"}


@pytest.mark.parametrize("estimate", [lambda subtask: 1 / 0, lambda subtask: "much", lambda subtask: float("nan")])
def test_an_estimate_that_fails_is_a_problem_of_the_plan(estimate: Any) -> None:
    caught = refused(StaticPlan([Subtask("a", worker="w")]), estimate=estimate)

    assert "estimate" in str(caught)


# -- a model ---------------------------------------------------------------------------------------------------


def test_a_model_is_told_who_is_there_and_what_was_wrong_until_its_plan_fits() -> None:
    model = FakeModel(
        "that is no plan",
        {"subtasks": [{"id": "a", "worker": "nobody"}]},
        '```json\n{"subtasks": [{"id": "a", "worker": "w", "instruction": "read page 3"}]}\n```',
    )
    script = ScriptedExecutable()
    with start(tree_of(ModelPlanner(model), worker=script.execute)) as tree:
        report = tree.run("read it", timeout=60)

    assert report.results == {"a": "read page 3"}
    assert len(model.prompts) == 3
    assert "read it" in model.prompts[0]
    assert '"w"' in model.prompts[0] or "w" in model.prompts[0]
    assert model.schemas[0] is not None
    assert "subtasks" in model.schemas[0]["properties"]
    assert "nobody" in model.prompts[2]


# -- what is used up while it runs -----------------------------------------------------------------------------


def spends(tokens: int) -> Any:
    async def execute(task: Any, context: Any) -> Any:
        return Done(f"result of {task.id}", Usage(tokens=tokens))

    return execute


CHAIN = StaticPlan(
    [
        Subtask("a", "first", worker="w"),
        Subtask("b", "use a", worker="w", depends_on=["a"]),
        Subtask("c", "use b", worker="w", depends_on=["b"]),
    ]
)


def test_a_team_may_use_what_is_left_of_the_task_above_and_ends_with_it() -> None:
    team = SupervisorSpec(id="team", tasks=Tasks(planner=CHAIN), children=[WorkerSpec(id="w", execute=spends(60))])
    plan = StaticPlan([Subtask("t", worker="team"), Subtask("u", worker="team", depends_on=["t"])])
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=plan), children=[team])
    with start(spec) as tree, pytest.raises(BudgetExceededError) as caught:
        tree.run(Task(goal="read it", budget=Budget(tokens=100)), timeout=60)

    report = caught.value.report
    assert report is not None
    assert report.usage.tokens == 120
    assert (sorted(report.failed), sorted(report.skipped)) == ([], ["t", "u"])
