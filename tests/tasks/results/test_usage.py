"""Usage is counted for every attempt however it ended, and for the steps of a task; budgets hold over all of them."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from actors import Escalated, Failed, Later, Rejected
from tests.support.attempts import AT_ONCE, LONG_S, run, shop
from trees import (
    Budget,
    BudgetExceededError,
    Check,
    Done,
    Failover,
    ModelPlanner,
    ModelSynthesizer,
    Plan,
    Report,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskError,
    Tasks,
    Tree,
    Usage,
    Verdict,
    WorkerSpec,
    start,
)

ONE = [Subtask("x", worker="w")]
Does = Callable[[Any], Awaitable[Any]]


class Gate:
    """A worker that uses up 7 tokens, says that it is there, and then ends as it is told to."""

    def __init__(self, first: Does, later: Does | None = None) -> None:
        self.entered = threading.Event()
        self._do = [first]
        self._later = later or _is_done

    async def execute(self, task: Subtask, context: Any) -> Any:
        context.use(tokens=7)
        self.entered.set()
        return await (self._do.pop() if self._do else self._later)(context)


async def _is_done(_: Any) -> str:
    return "done"


async def _hangs(_: Any) -> None:
    await asyncio.Event().wait()


def _raises(error: BaseException) -> Does:
    async def code(_: Any) -> None:
        raise error

    return code


async def _is_no_result(_: Any) -> object:
    return {1: object()}


async def _asks_nobody(context: Any) -> Any:
    return await context.ask("nobody", "do it")


ENDS: dict[str, tuple[Does, dict[str, Any], int]] = {
    "returned": (_is_done, {}, 1),
    "an exception": (_raises(ValueError("no")), {}, 2),
    "Failed": (_raises(Failed("no")), {}, 2),
    "never again": (_raises(Failed("no", retryable=False)), {}, 1),
    "SystemExit": (_raises(SystemExit(3)), {}, 2),
    "Rejected": (_raises(Rejected()), {}, 1),
    "Later": (_raises(Later(0.0)), {}, 2),
    "Escalated": (_raises(Escalated("may I?")), {}, 2),
    "no result": (_is_no_result, {}, 2),
    "an ask that failed": (_asks_nobody, {}, 2),
    "timeout": (_hangs, {"timeout_s": 0.3}, 2),
    "idle": (_hangs, {"idle_timeout_s": 0.3}, 2),
}
"""How the first attempt ends, words of its worker, and how many attempts there are: the ladder is one retry."""


@pytest.mark.parametrize(("first", "words", "attempts"), ENDS.values(), ids=ENDS)
def test_what_is_used_up_counts_however_the_attempt_ends(first: Does, words: dict[str, Any], attempts: int) -> None:
    once_more = [Retry(max_attempts=2, initial_s=0.0, max_s=0.0)]
    worker = WorkerSpec(id="w", execute=Gate(first).execute, on_failure=once_more, **words)
    report = ended(SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan(ONE)), children=[worker]))

    assert report.usage.tokens == report.graph[0].usage.tokens == 7 * attempts


def ended(spec: SupervisorSpec, store: Any = None, **words: Any) -> Report:
    with start(spec, store=store) as tree:
        return report_of(tree, **words)


def report_of(tree: Tree, **words: Any) -> Report:
    handle = tree.submit(Task("go", **words))
    return end_of(handle)


def end_of(handle: Any) -> Report:
    try:
        report: Report = handle.result(timeout=LONG_S)
    except TaskError as error:
        report = handle.report or error.report
    return report


def one_worker(gate: Gate, **tasks: Any) -> SupervisorSpec:
    tasks.setdefault("planner", StaticPlan(ONE))
    return SupervisorSpec(id="p", tasks=Tasks(**tasks), children=[WorkerSpec(id="w", execute=gate.execute)])


def test_what_an_attempt_that_runs_has_used_up_ends_its_task_when_the_next_one_ends() -> None:
    """Nothing new begins; what runs may finish."""
    gate, after = Gate(_hangs), Gate(_is_done)
    plan = [Subtask("long", worker="w"), Subtask("a", worker="a"), Subtask("b", worker="b", depends_on=["a"])]
    workers = [
        WorkerSpec(id="w", execute=gate.execute, timeout_s=1.0),
        WorkerSpec(id="a", execute=lambda task, context: "a" if gate.entered.wait(LONG_S) else None),
        WorkerSpec(id="b", execute=after.execute),
    ]
    with start(SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan(plan), on_failure=[]), children=workers)) as tree:
        report = report_of(tree, budget=Budget(tokens=6))

    assert (list(report.results), list(report.failed), list(report.skipped)) == (["a"], ["long"], ["b"])
    assert (type(report.error), report.usage.tokens) == (BudgetExceededError, 7)
    assert not after.entered.is_set()


def test_usage_told_by_several_threads_at_once_is_all_counted() -> None:
    def execute(task: Any, context: Any) -> str:
        def tell() -> None:
            for _ in range(300):
                context.use(tokens=1)

        threads = [threading.Thread(target=tell) for _ in range(4)]
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for each in threads:
                each.start()
            for each in threads:
                each.join()
        finally:
            sys.setswitchinterval(before)
        return "done"

    assert run(ONE, WorkerSpec(id="w", execute=execute)).usage.tokens == 1200


# -- the steps of a task -----------------------------------------------------------------------------------------


PLAN = {"subtasks": [{"id": "x", "worker": "w"}]}
PASSED = Verdict(passed=True, checks=[Check("x", passed=True)])
USED = Usage(tokens=500, cost=0.5)


def _done(value: Any) -> Callable[..., Any]:
    def code(*_: Any) -> Any:
        return Done(value, usage=USED)

    return code


def _async(value: Any) -> Callable[..., Any]:
    async def code(*_: Any) -> Any:
        return Done(value, usage=USED)

    return code


STEPS: dict[str, dict[str, Any]] = {
    "model planner": {"planner": ModelPlanner(_done(PLAN))},
    "async model planner": {"planner": ModelPlanner(_async(PLAN))},
    "planner": {"planner": _done(Plan(ONE))},
    "async planner": {"planner": _async(PLAN)},
    "reviewer": {"reviewer": _done(PASSED)},
    "async reviewer": {"reviewer": _async(PASSED)},
    "model synthesizer": {"synthesizer": ModelSynthesizer(_done("text"))},
    "synthesizer": {"synthesizer": _done("text")},
    "async synthesizer": {"synthesizer": _async("text")},
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_what_a_step_uses_up_counts(step: dict[str, Any]) -> None:
    report = ended(one_worker(Gate(_is_done), **step))

    assert (report.usage.tokens, report.usage.cost) == (507, 0.5)


def test_what_a_planner_has_used_up_for_plans_that_were_refused_counts_and_ends_the_task() -> None:
    calls = list[int]()

    def planner(*_: Any) -> Any:
        calls.append(1)
        return Done([Subtask("x", worker="nobody-there")], usage=USED)

    report = ended(one_worker(Gate(_is_done), planner=planner, max_plan_attempts=5), budget=Budget(tokens=900))

    assert isinstance(report.error, BudgetExceededError)
    assert (len(calls), report.usage.tokens) == (2, 1000)


def test_a_plan_that_has_used_up_the_budget_begins_nothing() -> None:
    gate = Gate(_is_done)
    report = ended(one_worker(gate, planner=_done(Plan(ONE))), budget=Budget(tokens=100))

    assert isinstance(report.error, BudgetExceededError)
    assert not gate.entered.is_set()


# -- budgets -----------------------------------------------------------------------------------------------------


def spends(context: Any) -> None:
    context.use(tokens=6)
    raise ValueError("no")


@pytest.mark.parametrize("ladder", [[AT_ONCE], [Failover()], [AT_ONCE, Failover()]], ids=["retry", "failover", "both"])
def test_a_budget_of_a_subtask_holds_over_its_attempts_whoever_has_them(ladder: list[Any]) -> None:
    plan = [Subtask("x", capability="do", budget=Budget(tokens=5))]
    both = [
        WorkerSpec(id=id_, execute=lambda task, context: spends(context), capabilities={"do"}) for id_ in ("w", "v")
    ]
    with shop(plan, *both, on_failure=ladder) as it:
        it.submit()
        report = it.report()

    assert report.failed["x"] == "ValueError: no; its budget is used up: tokens 6 of 5"
    assert report.usage.tokens == 6


# -- teams and undos ---------------------------------------------------------------------------------------------


def test_what_an_undo_uses_up_counts_once_also_within_a_team() -> None:
    def undo(task: Any, result: Any, context: Any) -> None:
        context.use(tokens=100)

    def fails(task: Any, context: Any) -> None:
        context.use(tokens=10)
        raise Failed("no", retryable=False)

    member = WorkerSpec(id="w", execute=Gate(_is_done).execute, undo=undo)
    team = SupervisorSpec(id="team", tasks=Tasks(planner=StaticPlan(ONE)), children=[member])
    plan = StaticPlan([Subtask("part", worker="team"), Subtask("end", worker="fails", depends_on=["part"])])
    children = [team, WorkerSpec(id="fails", execute=fails)]
    report = ended(SupervisorSpec(id="p", tasks=Tasks(planner=plan), children=children))

    assert report.compensated == ["part"]
    assert report.usage.tokens == 7 + 10 + 100


def test_a_team_whose_last_member_used_up_the_budget_is_done_all_the_same() -> None:
    find = WorkerSpec(id="find", execute=lambda _: Done("found", Usage(tokens=120)))
    team = SupervisorSpec(id="team", tasks=Tasks(planner=StaticPlan([Subtask("find")])), children=[find])
    spec = SupervisorSpec(id="shop", tasks=Tasks(planner=StaticPlan([Subtask("team")])), children=[team])
    with start(spec) as tree:
        report = tree.run(Task("go", budget=Budget(tokens=100)), timeout=LONG_S)
    assert report.results == {"team": {"find": "found"}}
    assert report.notes == ("budget exceeded: tokens 120 of 100",)
