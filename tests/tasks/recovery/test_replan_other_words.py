"""Replan: the same id in other words is another piece of work, and what is done may not be waited for in a circle."""

from __future__ import annotations

from typing import Any

import pytest

from actors import Done, Failed, Usage
from actors.testing import ScriptedExecutable
from tests.support.attempts import no, shop
from trees import (
    Budget,
    Plan,
    Subtask,
    SubtaskStarted,
    TaskStatus,
    WorkerSpec,
)


class Planner:
    """One plan after the other, and what it was told."""

    def __init__(self, *plans: list[Subtask]) -> None:
        self.plans = plans
        self.told: list[Any] = []

    def __call__(self, _: Any, __: Any, feedback: str = "") -> Plan:
        self.told.append(feedback)
        return Plan(self.plans[min(len(self.told), len(self.plans)) - 1])


def one(words: str, worker: str = "w", **fields: Any) -> list[Subtask]:
    """A plan of the one subtask ``b``."""
    return [Subtask("b", instruction=words, worker=worker, **fields)]


@pytest.mark.parametrize(("words", "expected"), [("first", "made for first"), ("second", "made for second")])
def test_a_step_of_the_subtask_is_given_back_to_the_same_words_only(words: str, expected: str) -> None:
    tries: list[str] = []

    def work(task: Any, context: Any) -> str:
        made: str = context.step_sync("make", lambda: f"made for {task}", keep="subtask")
        tries.append(made)
        if len(tries) == 1:
            raise Failed("no", retryable=False)
        return made

    with shop((), WorkerSpec(id="w", execute=work), planner=Planner(one("first"), one(words)), replan=1) as it:
        it.submit()
        assert it.report().results == {"b": expected}


@pytest.mark.parametrize("how", ["lives", "crash", "replace"])
def test_no_key_and_no_number_of_an_act_comes_back_in_other_words(how: str) -> None:
    script = ScriptedExecutable(no, no, no, "done", by="call")
    plans = Planner(one("first"), one("second"), one("third"), one("fourth"))
    with shop((), WorkerSpec(id="w", execute=script.execute, on_failure=[]), planner=plans, replan=3) as it:
        it.begin()
        it.until(SubtaskStarted, 4)  # each beside one of the planner
        if how != "lives":
            it.crash_orchestrator() if how == "crash" else it.replace_orchestrator()
        assert it.report().status is TaskStatus.SUCCEEDED
        acts = [event.act for event in it.events(SubtaskStarted) if event.role == "work"]
    assert len({call.idempotency_key for call in script.calls}) == len(script.calls) == 4
    assert acts == sorted(set(acts))


@pytest.mark.parametrize("who", ["worker", "planner"])
def test_nobody_plans_again_once_the_budget_of_the_task_is_used_up(who: str) -> None:
    calls: list[str] = []

    def work(_: Any, context: Any) -> None:
        context.use(cost=5.0 if who == "worker" else 0.0)
        raise Failed("no", retryable=False)

    def plan(_: Any, __: Any, feedback: str = "") -> Any:
        calls.append(feedback)
        if not feedback:
            return Plan(one("first"))
        return Done(Plan([]), usage=Usage(cost=5.0))  # refused: it has no subtasks

    with shop((), WorkerSpec(id="w", execute=work), planner=plan, replan=1) as it:
        it.submit(budget=Budget(cost=2.0))
        report = it.report()
    assert "cost 5 of 2" in str(report.error)
    assert len(calls) == (1 if who == "worker" else 2)
