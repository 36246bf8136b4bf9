"""A task ends by its deadline, or by its budget: gracefully, with what is done."""

from typing import Any

import pytest

from actors.testing import Hang, ScriptedExecutable, Slow
from tests.support.attempts import LONG_S, shop
from tests.tasks.scripted import CHAIN, ONE, loop, sync
from trees import (
    Budget,
    BudgetExceededError,
    Done,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskFailed,
    SubtaskStarted,
    SubtaskSucceeded,
    SupervisorSpec,
    TaskEnding,
    Tasks,
    Usage,
    WorkerSpec,
)

# -- its deadline ------------------------------------------------------------------------------------------------


# -- its budget --------------------------------------------------------------------------------------------------


def test_a_task_over_its_budget_ends_with_what_is_done_and_lets_finish_what_runs() -> None:
    held = Hang()
    plan = [*CHAIN[:2], Subtask("slow", worker="slow")]
    _slow, spec = loop("slow", held)
    after, b = sync("b")
    with shop(plan, sync("a", Done("done", Usage(tokens=11)))[1], b, spec) as it:
        it.begin(budget=Budget(tokens=10))
        held.wait_until_entered()
        it.until(SubtaskSucceeded)
        it.pass_()
        held.release()
        with pytest.raises(BudgetExceededError, match="tokens 11 of 10") as caught:
            it.handle.result(timeout=LONG_S)
    report = caught.value.report
    assert report is not None

    assert report.results == {"x": "done", "slow": "sell"}
    assert list(report.skipped) == ["y"]
    assert report.usage.tokens == 11
    assert after.calls == []


def test_what_failed_attempts_use_up_counts_too() -> None:
    def spend(task: Subtask, context: Any) -> None:
        context.use(tokens=6)
        raise ValueError("no")

    with shop(
        ONE, WorkerSpec(id="a", execute=spend), on_failure=[Retry(max_attempts=9, initial_s=0.0, max_s=0.0)]
    ) as it:
        it.submit(budget=Budget(tokens=10))
        with pytest.raises(BudgetExceededError, match="tokens 12 of 10"):
            it.handle.result(timeout=LONG_S)

        assert len(it.events(SubtaskStarted)) == 2


def test_seconds_of_running_count_for_the_budget() -> None:
    script = ScriptedExecutable(Slow(20.0))
    with shop(CHAIN[:2], WorkerSpec(id="a", execute=script.execute), sync("b")[1]) as it:
        it.begin(budget=Budget(seconds=10))
        script.wait_for_calls(1)
        it.clock.advance(20.0)
        with pytest.raises(BudgetExceededError, match="seconds 20 of 10") as caught:
            it.handle.result(timeout=LONG_S)

    assert caught.value.report is not None
    assert caught.value.report.usage.seconds == 20.0


@pytest.mark.parametrize("how", ["lives", "crash", "replace"])
def test_what_may_finish_over_the_budget_ends_when_the_time_of_its_task_is_up(how: str) -> None:
    script, slow = loop("slow", Hang())
    with shop(
        [Subtask("slow", worker="slow"), *CHAIN[:2]],
        slow,
        sync("a", Done("done", Usage(tokens=11)))[1],
        sync("b")[1],
        max_parallel=2,
    ) as it:
        it.begin(budget=Budget(tokens=10), deadline_s=60)
        script.wait_for_calls(1)
        it.until(TaskEnding)
        it.pass_()
        if how != "lives":
            it.crash_orchestrator(settled=False) if how == "crash" else it.replace_orchestrator(settled=False)
        it.pass_(60.0)
        with pytest.raises(BudgetExceededError):
            it.handle.result(timeout=LONG_S)
    assert [call.ended for call in script.calls] == ["CancelledError"]


def test_a_subtask_over_its_own_budget_has_failed_and_is_not_tried_again() -> None:
    plan = [Subtask("x", worker="a", budget=Budget(tokens=5))]
    script, a = sync("a", Done("done", Usage(tokens=6)))
    with shop(plan, a) as it:
        it.submit()
        report = it.report()
        [failed] = it.events(SubtaskFailed)

    assert "tokens 6 of 5" in report.failed["x"]
    assert (failed.kind, len(script.calls)) == ("invalid", 1)
    assert report.usage.tokens == 6


def test_nor_does_the_ladder_of_its_team_try_it_again() -> None:
    calls: list[int] = []

    def work(_task: object, context: Any) -> None:
        calls.append(context.attempt)
        context.use(tokens=4)
        raise ValueError("no")

    member = Subtask("x", worker="a", budget=Budget(tokens=5))
    settings = Tasks(planner=StaticPlan([member]), on_failure=[Retry(max_attempts=1)])
    team = SupervisorSpec(id="team", tasks=settings, children=[WorkerSpec(id="a", execute=work)])
    again = [Retry(max_attempts=5, initial_s=0.0, max_s=0.0, jitter=0.0)]
    with shop([Subtask("t", worker="team")], team, on_failure=again) as it:
        it.submit()
        report = it.report()

    assert "tokens 8 of 5" in report.failed["t"]
    assert calls == [1, 2]
