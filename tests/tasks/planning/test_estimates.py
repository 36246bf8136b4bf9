"""What a plan will probably use up, and whether that is more than there is."""

import contextlib
import math

import pytest

from actors.tasks.model.executable import ExecutableInfo
from actors.tasks.model.task import Budget, Plan, Subtask, Usage
from actors.tasks.planning.estimates import EstimateError, EstimateTotal, estimate_of
from actors.tasks.planning.plan_validation import Candidates
from tests.tasks.planning.test_plan_checks import A, boom, check, wrong
from tests.tasks.planning.test_planners import row


def total_estimate(plan: Plan, rows: tuple[ExecutableInfo, ...]) -> Budget:
    """All that is estimated, added up as the check of a plan does."""
    index, total = Candidates(rows), EstimateTotal()
    for subtask in map(index.resolved, plan.subtasks):
        with contextlib.suppress(EstimateError):
            total.add(estimate_of(subtask, index.estimate_source(subtask)))
    return total.budget()


@pytest.mark.parametrize(
    ("said", "estimate"),
    [
        (None, None),
        (500, Budget(500)),
        (10.2, Budget(11)),
        (Budget(cost=0.5), Budget(cost=0.5)),
        (Usage(3, 0.5, 2.0), Budget(3, 0.5, 2.0)),
        ({"tokens": 3, "seconds": 2, "cost": None}, Budget(3, seconds=2)),
        (lambda subtask: len(subtask.instruction), Budget(1)),
        (lambda subtask: {"cost": 1}, Budget(cost=1)),
        (lambda subtask: None, None),
    ],
)
def test_an_estimate_may_be_a_number_a_budget_a_dict_or_a_callable(said: object, estimate: Budget | None) -> None:
    assert estimate_of(A, row("search", estimate=said)) == estimate


def test_what_a_subtask_says_goes_before_what_its_worker_says() -> None:
    assert estimate_of(Subtask("a", estimate=Budget(1)), row("search", estimate=boom)) == Budget(1)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (boom, "raised RuntimeError"),
        ("much", "expected a number of tokens, got a str"),
        (True, "expected a number of tokens, got a bool"),
        (-1, "-1 tokens, which is out of range"),
        (math.nan, "nan tokens, which is out of range"),
        (math.inf, "inf tokens, which is out of range"),
        (10**400, "tokens, which is out of range"),
        ({"euros": 1}, "has 'euros'; its units are 'tokens', 'cost' and 'seconds'"),
        ({"cost": 1e12}, "out of range"),
        (lambda: 1, "raised TypeError"),
        (lambda subtask: "x", "expected a number of tokens, got a str"),
    ],
)
def test_an_estimate_that_is_none_is_a_problem_and_shows_nothing_of_the_subtask(said: object, text: str) -> None:
    rows = (row("search", estimate=said),)

    with pytest.raises(EstimateError, match=text):
        estimate_of(Subtask("a", "secret"), rows[0])
    [problem] = check(Subtask("a", "secret", "search"), rows=rows)[0]

    assert problem.path == "task 7f3a/a.estimate"
    assert text in problem.what
    assert "secret" not in str(problem)


def test_the_sum_of_all_estimates_is_held_against_the_budget_unit_by_unit() -> None:
    rows = (row("search", estimate=600), row("code", estimate=Budget(cost=2.5)))
    plan = [Subtask("a", "x", "search"), Subtask("b", "x", "search"), Subtask("c", "x", "code")]

    said = wrong(*plan, rows=rows, budget=Budget(tokens=1_000, cost=2))

    assert [line.split(". ")[0] for line in said] == [
        "task 7f3a.budget: all subtasks together: estimated tokens 1200, budget 1000",
        "task 7f3a.budget: all subtasks together: estimated cost 2.5, budget 2",
    ]


def test_a_budget_that_is_just_enough_is_enough() -> None:
    assert wrong(A, rows=(row("search", estimate=600),), budget=Budget(600, 0, 0)) == []


def test_the_estimate_of_a_capability_is_that_of_the_first_who_is_available() -> None:
    rows = (
        row("a", "x", estimate=1, breaker="open"),
        row("b", "x"),
        row("c", "x", estimate=3),
        row("d", "x", estimate=4),
    )

    assert total_estimate(Plan([Subtask("s", capability="x")]), rows) == Budget(3)


def test_the_total_leaves_a_unit_open_that_nobody_estimates_and_skips_what_fails() -> None:
    rows = (row("search", estimate=5), row("code", estimate=boom))

    assert total_estimate(Plan([Subtask("search"), Subtask("code"), Subtask("ghost")]), rows) == Budget(5)
    assert total_estimate(Plan([]), rows) == Budget()


def test_a_total_may_be_more_than_one_estimate_may_be() -> None:
    plan = Plan([Subtask(f"s{n}", estimate=Budget(seconds=1e9)) for n in range(3)])

    assert total_estimate(plan, ()).seconds == 3e9
