"""How a team's part has ended, as the orchestrator above sees it: a breaker, a budget, a best effort (S1, S8, S34)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors import Context, Failed, Rejected
from tests.tasks.dispatching import LONG_S, failure, one, shop
from trees import (
    Breaker,
    Budget,
    BudgetExceededError,
    Check,
    Done,
    NoCapableWorkerError,
    Plan,
    Retry,
    StaticPlan,
    SupervisorSpec,
    Task,
    Tasks,
    Usage,
    Verdict,
    WorkerSpec,
    start,
)

OPENS_AT_ONCE = Breaker(failure_threshold=1, failure_rate=0.0, cooldown_s=1000.0)
AT_ONCE = Retry(max_attempts=1)


def done(_task: object, _context: object) -> str:
    return "done"


def team_of(*children: WorkerSpec, **tasks: Any) -> SupervisorSpec:
    """A team whose breaker opens at the first failure that counts."""
    settings = Tasks(**{"on_failure": [], "step_retry": AT_ONCE, **tasks})
    return SupervisorSpec(id="team", tasks=settings, children=children, breaker=OPENS_AT_ONCE)


def above(team: SupervisorSpec, **tasks: Any) -> SupervisorSpec:
    """A root whose one subtask is for this team."""
    return shop(team, plans={"go": [one("s", team.id)]}, **tasks)


# -- its breaker -------------------------------------------------------------------------------------------------


def refuses(_task: object, _context: object) -> None:
    raise Failed("a bad document")


def is_not_its(_task: object, _context: object) -> None:
    raise Rejected("not mine")


def breaks(_task: object, _context: object) -> None:
    raise ValueError("down")


def exits(_task: object, _context: object) -> None:
    raise SystemExit(1)


async def asks(_task: object, context: Context) -> Any:
    return await context.ask("helper", "help me")


def uses(_task: object, _context: object) -> Done:
    return Done("done", usage=Usage(tokens=500))


def no_plan(*_: object) -> Plan:
    return Plan([one("x", "nobody")])


def nobody(*_: object) -> Plan:
    raise NoCapableWorkerError("sql")


def is_down(*_: object) -> Any:
    raise ValueError("down")


def content_with_nothing(_task: object, _plan: object, _results: object) -> Verdict:
    return Verdict(passed=False, checks=[Check("m", False, "no")])  # noqa: FBT003 - a field


def helper(execute: Callable[..., Any], id_: str = "helper") -> WorkerSpec:
    return WorkerSpec(id=id_, execute=execute)


def planned(*children: WorkerSpec) -> SupervisorSpec:
    """A team whose plan is one subtask for ``m``, who asks others."""
    return team_of(*children, planner=StaticPlan([one("m", "m")]))


def member(execute: Callable[..., Any] = done, **words: Any) -> WorkerSpec:
    return WorkerSpec(id="m", execute=execute, **words)


OF_THE_REQUEST = {
    "Failed": team_of(member(refuses)),
    "Failed, without a breaker": team_of(member(refuses, breaker=None)),
    "Rejected": team_of(member(is_not_its)),
    "a result of the wrong type": team_of(member(output=int)),
    "an exception that is expected": team_of(member(breaks, expected=(ValueError,))),
    "a helper that refuses": planned(member(asks), helper(refuses)),
    "a mistake in the plan": team_of(member(), planner=no_plan),
    "a fixed plan with a mistake": team_of(member(), planner=nobody),
    "a budget": team_of(member(uses), planner=StaticPlan([one("a", "m"), one("b", "m", depends_on=["a"])])),
    "a review": team_of(member(), reviewer=content_with_nothing, max_iterations=1, on_rejected="fail"),
    "a helper that breaks": planned(member(asks), helper(breaks)),
    "a planner that is down": team_of(member(), planner=is_down),
    "a reviewer that is down": team_of(member(), reviewer=is_down),
    "a synthesizer that is down": team_of(member(), synthesizer=is_down),
}
OF_THE_TEAM = {
    "an exception": team_of(member(breaks)),
    "an exception, without a breaker": team_of(member(breaks, breaker=None)),
    "a crash": team_of(member(exits, breaker=None)),
}


def breaker_after(team: SupervisorSpec) -> str | None:
    with start(above(team)) as tree:
        failure(tree.submit(Task("go", budget=Budget(tokens=400))))
        return tree.registry()[0].breaker


@pytest.mark.parametrize("how", OF_THE_REQUEST)
def test_a_team_whose_members_are_not_at_fault_is_not_a_bad_team(how: str) -> None:
    assert breaker_after(OF_THE_REQUEST[how]) == "closed"


@pytest.mark.parametrize("how", OF_THE_TEAM)
def test_a_team_that_fails_because_of_a_member_counts_for_its_breaker(how: str) -> None:
    assert breaker_after(OF_THE_TEAM[how]) == "open"


# -- a budget ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replan", [0, 1])
def test_a_budget_that_is_used_up_inside_a_team_is_what_the_task_has_failed_of(replan: int) -> None:
    chain = [one("a", "m"), one("b", "m", depends_on=["a"]), one("c", "m", depends_on=["b"])]
    team = team_of(member(uses), planner=StaticPlan(chain))

    with start(above(team, replan=replan)) as tree:
        handle = tree.submit(Task("go", budget=Budget(tokens=900)))
        with pytest.raises(BudgetExceededError, match="tokens 1000 of 900") as caught:
            handle.result(timeout=LONG_S)

    report = caught.value.report
    assert report is not None
    assert report.usage.tokens == 1000


def test_a_task_that_fails_and_has_used_up_its_budget_says_both() -> None:
    def work(_task: object, context: Any) -> None:
        context.use(tokens=500)
        raise ValueError("down")

    with start(shop(member(work), plans={"go": [one("m")]})) as tree:
        report = failure(tree.submit(Task("go", budget=Budget(tokens=400))))

    assert isinstance(report.error, BudgetExceededError)
    assert report.error.why.startswith("tokens 500 of 400")
    assert report.failed == {"m": "ValueError: down"}


# -- a best effort -----------------------------------------------------------------------------------------------
