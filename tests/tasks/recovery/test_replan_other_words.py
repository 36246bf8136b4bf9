"""Replan: the same id in other words is another piece of work, and what is done may not be waited for in a circle."""

from __future__ import annotations

from typing import Any

import pytest

from actors import Done, Failed, Usage, Worker
from actors.testing import ScriptedExecutable
from tests.support.attempts import no, shop
from trees import (
    Budget,
    Plan,
    Retry,
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


@pytest.mark.parametrize("part", ["cost", "seconds"])
def test_the_budget_of_a_subtask_is_not_used_up_by_other_work_that_had_its_id(part: str) -> None:
    limit = {part: 2.0}
    used = iter([3.0, 1.5])

    def work(_: Any, context: Any) -> Done:
        amount = next(used)
        if part == "seconds":
            it.clock.advance(amount)
        return Done("done", usage=Usage(cost=amount))

    planner = Planner(one("first", budget=Budget(**limit)), one("second", budget=Budget(**limit)))
    with shop((), WorkerSpec(id="w", execute=work), planner=planner, replan=1) as it:
        it.submit()
        report = it.report()
    assert report.status is TaskStatus.SUCCEEDED
    assert report.usage.cost == 4.5
    [row] = report.graph
    assert row.usage.cost == 4.5  # the report tells all that was used under this id


def test_another_worker_in_another_plan_is_tried_again_by_its_own_ladder() -> None:
    second = ScriptedExecutable(no, "done", by="call")
    with shop(
        (),
        WorkerSpec(id="w1", execute=ScriptedExecutable(no).execute, on_failure=[]),
        WorkerSpec(id="w2", execute=second.execute, on_failure=[Retry(3, initial_s=0.0)]),
        planner=Planner(one("first", "w1"), one("second", "w2")),
        replan=1,
    ) as it:
        it.submit()
        assert it.report().status is TaskStatus.SUCCEEDED
    assert len(second.calls) == 2


@pytest.mark.parametrize("how", ["lives", "crash", "replace"])
def test_no_key_and_no_number_of_an_act_comes_back_in_other_words(how: str) -> None:
    script = ScriptedExecutable(no, no, no, "done", by="call")
    plans = Planner(one("first"), one("second"), one("third"), one("fourth"))
    with shop((), WorkerSpec(id="w", execute=script.execute, on_failure=[]), planner=plans, replan=3) as it:
        it.begin()
        it.until(SubtaskStarted, 2)
        if how != "lives":
            it.crash_orchestrator() if how == "crash" else it.replace_orchestrator()
        assert it.report().status is TaskStatus.SUCCEEDED
        acts = [event.act for event in it.events(SubtaskStarted)]
    assert len({call.idempotency_key for call in script.calls}) == len(script.calls) == 4
    assert acts == sorted(set(acts))


class Dies(Worker):
    """Crashes: whether it has done anything nobody knows."""

    def execute(self, task: Any, context: Any) -> Any:
        raise RuntimeError("dies of it")


def test_what_undoes_work_in_other_words_is_not_called_for_the_former_work_of_its_id() -> None:
    undone: list[tuple[str, Any]] = []

    def clean(task: Any, context: Any) -> None:
        undone.append((str(task), context.results["b"]))

    last = Subtask("z", worker="bad", depends_on=["b"])
    with shop(
        (),
        WorkerSpec(id="w1", actor=Dies, on_failure=[]),
        WorkerSpec(id="w2", execute=lambda task, _: f"did {task}"),
        WorkerSpec(id="clean", execute=clean),
        WorkerSpec(id="bad", execute=ScriptedExecutable(no).execute, on_failure=[]),
        planner=Planner(one("first", "w1"), [*one("second", "w2", undo="clean"), last]),
        replan=1,
    ) as it:
        it.submit()
        assert it.report().status is TaskStatus.FAILED
    assert undone == [("second", "did second")]


def test_a_plan_in_which_what_is_done_would_wait_for_what_waits_for_it_is_refused() -> None:
    """``k`` was done without ``f``, which had failed and is not required. A review of ``k`` would wait for ever."""
    first = [
        Subtask("f", instruction="fails", worker="w", required=False),
        Subtask("k", worker="w", depends_on=["f"]),
        Subtask("z", instruction="fails", worker="w"),
    ]
    circle = [Subtask("f", instruction="again", worker="w", depends_on=["k"])]
    line = [Subtask("g", instruction="again", worker="w", depends_on=["k"])]

    def work(task: Any, _: Any) -> str:
        if str(task) == "fails":
            raise Failed("no", retryable=False)
        return "done"

    planner = Planner(first, circle, line)
    with shop((), WorkerSpec(id="w", execute=work), planner=planner, replan=1) as it:
        it.submit()
        assert it.report().status is TaskStatus.SUCCEEDED
    assert "a cycle: f > k > f" in planner.told[2]


def test_a_plan_may_have_once_more_what_failed_and_was_not_required() -> None:
    first = [
        Subtask("f", instruction="fails", worker="w", required=False),
        Subtask("k", worker="w", depends_on=["f"]),
        Subtask("z", instruction="fails", worker="w"),
    ]
    planner = Planner(first, [Subtask("f", instruction="again", worker="w")])

    def work(task: Any, _: Any) -> str:
        if str(task) == "fails":
            raise Failed("no", retryable=False)
        return f"did {task.id}"

    with shop((), WorkerSpec(id="w", execute=work), planner=planner, replan=1) as it:
        it.submit()
        assert it.report().results == {"k": "did k", "f": "did f"}
    assert len(planner.told) == 2


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
