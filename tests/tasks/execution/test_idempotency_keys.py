"""The idempotency key is the same where the act is the same: over the tries of a team, and of an attempt that asks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.attempts import AT_ONCE
from trees import (
    Check,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    TaskStatus,
    Verdict,
    WorkerSpec,
    start,
)

WAIT_S = 60.0


class Shop:
    """A team of two: one pays, one ships, and shipping fails at first."""

    def __init__(self, *, fails: int = 1, how: str = "fails", undo: bool = False) -> None:
        self.paid: list[str] = []
        self.shipped: list[str] = []
        self.refunded: list[str] = []
        self.fails, self.how = fails, how
        self._undo = undo

    def pay(self, task: Any, context: Any) -> str:
        self.paid.append(context.idempotency_key)
        return "paid"

    def refund(self, task: Any, result: Any, context: Any) -> None:
        self.refunded.append(context.idempotency_key)

    async def ship(self, task: Any, context: Any) -> str:
        self.shipped.append(context.idempotency_key)
        if len(self.shipped) <= self.fails:
            if self.how == "takes too long":
                await context.ask("never", "wait")
            raise OSError("first time fails")
        return "shipped"

    async def never(self, task: Any, context: Any) -> None:
        raise OSError("nobody is there")

    def spec(self, **more: Any) -> SupervisorSpec:
        plan = StaticPlan([Subtask("pay", worker="pay"), Subtask("ship", worker="ship", depends_on=["pay"])])
        undo = {"undo": self.refund} if self._undo else {}
        team = SupervisorSpec(
            id="shop",
            tasks=Tasks(planner=plan, on_failure=[Retry(max_attempts=1)], **more),
            on_failure=[AT_ONCE],
            breaker=None,
            children=[
                WorkerSpec(id="pay", execute=self.pay, breaker=None, **undo),
                WorkerSpec(id="ship", execute=self.ship, breaker=None),
                WorkerSpec(id="never", execute=self.never, breaker=None),
            ],
        )
        return SupervisorSpec(
            id="p", tasks=Tasks(planner=StaticPlan([Subtask("order", worker="shop")])), children=[team]
        )


@pytest.mark.parametrize("how", ["fails", "takes too long"])
@pytest.mark.parametrize("fails", [1, 2])
def test_what_a_member_has_done_is_not_done_again_when_the_ladder_above_tries_its_team_again(
    how: str, fails: int
) -> None:
    shop = Shop(fails=fails, how=how)
    with start(shop.spec()) as tree:
        report = tree.run(Task("go", id="t"), timeout=WAIT_S)

    assert report.results == {"order": {"pay": "paid", "ship": "shipped"}}
    assert shop.paid == ["t@order/pay:1"]
    assert shop.shipped == ["t@order/ship:1"] * (fails + 1)


def test_what_was_undone_meanwhile_is_done_again_under_a_new_key() -> None:
    shop = Shop(undo=True)
    with start(shop.spec()) as tree:
        report = tree.run(Task("go", id="t"), timeout=WAIT_S)

    assert report.status is TaskStatus.SUCCEEDED
    assert shop.paid == ["t@order/pay:1", "t@order/pay:2"]
    assert shop.refunded == ["t@order/pay/@undo:1"]


class Agent:
    """Asks for a payment, and fails after it a few times."""

    def __init__(self, *, fails: int = 1, pay_fails: int = 0) -> None:
        self.keys: list[str] = []
        self.fails, self.pay_fails = fails, pay_fails

    def pay(self, task: Any, context: Any) -> str:
        self.keys.append(context.idempotency_key)
        if len(self.keys) <= self.pay_fails:
            raise OSError("the bank is closed")
        return f"paid {task}"

    async def agent(self, task: Any, context: Any) -> list[str]:
        said = [await context.ask("pay", "7 for tea"), await context.ask("pay", "8 for cake")]
        said.append(await context.ask("pay", "7 for tea"))
        if context.attempt <= self.fails:
            raise OSError("flaky afterwards")
        return said

    def spec(self, **more: Any) -> SupervisorSpec:
        settings: dict[str, Any] = {"planner": StaticPlan([Subtask("a", worker="agent")]), "on_failure": [AT_ONCE]}
        return SupervisorSpec(
            id="p",
            tasks=Tasks(**{**settings, **more}),
            children=[
                WorkerSpec(id="agent", execute=self.agent, breaker=None),
                WorkerSpec(id="pay", execute=self.pay, breaker=None, on_failure=[]),
            ],
        )


@pytest.mark.parametrize("fails", [0, 1, 2])
def test_an_attempt_that_is_tried_again_gets_the_recorded_results_of_what_it_had_asked_for(fails: int) -> None:
    agent = Agent(fails=fails)
    with start(agent.spec()) as tree:
        report = tree.run(Task("go", id="t"), timeout=WAIT_S)

    assert report.results["a"] == ["paid 7 for tea", "paid 8 for cake", "paid 7 for tea"]
    assert agent.keys == ["t@a/@1:1", "t@a/@2:1", "t@a/@3:1"]


def test_a_revision_asks_for_something_new() -> None:
    agent, said = Agent(fails=0), []

    def review(*_: Any) -> Verdict:
        said.append(1)
        return Verdict(len(said) > 1, [] if len(said) > 1 else [Check("a", passed=False, feedback="more sugar")])

    with start(agent.spec(reviewer=review)) as tree:
        tree.run(Task("go", id="t"), timeout=WAIT_S)

    assert agent.keys == [f"t@a/@{number}:1" for number in range(1, 7)]
