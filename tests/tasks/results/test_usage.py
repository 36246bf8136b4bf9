"""Usage is counted for every attempt however it ended, and for the steps of a task; budgets hold over all of them."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import trees as task_events
from actors import Escalated, Failed, Later, Rejected, Worker
from tests.support.attempts import AT_ONCE, LONG_S, run, shop
from tests.tasks.resuming import NotingStore
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


def test_what_a_cancelled_attempt_has_used_up_counts() -> None:
    gate = Gate(_hangs)
    with start(one_worker(gate)) as tree:
        handle = tree.submit("go")
        assert gate.entered.wait(LONG_S)
        handle.cancel()
        report = end_of(handle)

    assert (report.usage.tokens, report.graph[0].usage.tokens) == (7, 7)


def one_worker(gate: Gate, **tasks: Any) -> SupervisorSpec:
    tasks.setdefault("planner", StaticPlan(ONE))
    return SupervisorSpec(id="p", tasks=Tasks(**tasks), children=[WorkerSpec(id="w", execute=gate.execute)])


def test_what_an_attempt_that_gave_way_has_used_up_counts() -> None:
    gate = Gate(_hangs)
    with start(one_worker(gate, max_parallel=1)) as tree:
        slow = tree.submit(Task("slow", priority=5))
        assert gate.entered.wait(LONG_S)
        urgent = tree.run(Task("urgent", priority=1), timeout=LONG_S)
        report = end_of(slow)

    assert (urgent.usage.tokens, report.usage.tokens) == (7, 14)


def test_what_an_attempt_that_was_put_back_has_used_up_counts() -> None:
    """Its worker is terminated, and another one has it."""
    gate = Gate(_hangs)
    workers = [WorkerSpec(id=id_, execute=gate.execute, capabilities={"do"}) for id_ in ("w", "v")]
    tasks = Tasks(planner=StaticPlan([Subtask("x", capability="do")]))
    with start(SupervisorSpec(id="p", tasks=tasks, children=workers)) as tree:
        handle = tree.submit("go")
        assert gate.entered.wait(LONG_S)
        tree.terminate_child("p/w")
        report = end_of(handle)

    assert report.usage.tokens == 14


@pytest.mark.parametrize("recorded", [True, False], ids=["told and recorded", "nothing told"])
def test_what_was_told_before_the_process_died_counts(*, recorded: bool) -> None:
    """The journal of a process that is gone: all that was recorded while its attempt ran."""
    store, gate = NotingStore(), Gate(_hangs)
    with start(one_worker(gate), store=store) as tree:
        handle = tree.submit(Task("go", id="t"))
        told = (event for event in handle.events() if isinstance(event, task_events.UsageTold))
        assert next(told).usage == Usage(tokens=7)
        cut = store.changes_when(task_events.UsageTold, "t")
    cut = cut if recorded else cut[:-1]
    with start(one_worker(Gate(_is_done)), store=NotingStore(cut)) as tree:
        report = end_of(tree.task("t"))

    assert report.usage.tokens == (14 if recorded else 7)


def test_an_attempt_knows_what_was_recorded_under_its_key() -> None:
    """That of earlier attempts, and of one before a crash of the process; not that of what was sent back."""
    store, seen = NotingStore(), []

    async def execute(_: Subtask, context: Any) -> str:
        seen.append((context.revision, context.attempt, context.used_before.tokens))
        context.use(tokens=7)
        if len(seen) == 2:
            await _hangs(context)
        if len(seen) in {1, 4}:
            raise ValueError("once more")
        return "done"

    no = Verdict(passed=False, checks=[Check(subtask="x", passed=False, feedback="better")])
    verdicts = iter([no, Verdict(passed=True)])
    tasks = Tasks(planner=StaticPlan(ONE), reviewer=lambda *_: next(verdicts), max_iterations=2)
    spec = SupervisorSpec(id="p", tasks=tasks, children=[WorkerSpec(id="w", execute=execute, on_failure=[AT_ONCE])])
    with start(spec, store=store) as tree:
        events = iter(tree.submit(Task("go", id="t")).events())
        attempts = (event.attempt for event in events if isinstance(event, task_events.SubtaskStarted))
        assert (next(attempts), next(attempts)) == (1, 2)
        assert any(isinstance(event, task_events.UsageTold) for event in events)
        cut = list(store.changes)
    with start(spec, store=NotingStore(cut)) as tree:
        end_of(tree.task("t"))

    assert seen == [(0, 1, 0), (0, 2, 7), (0, 2, 14), (1, 1, 0), (1, 2, 7)]


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


def test_a_result_for_which_all_attempts_together_used_too_much_is_a_failure() -> None:
    gate = Gate(_raises(ValueError("no")))
    plan = [Subtask("x", worker="w", budget=Budget(tokens=10))]
    report = ended(one_worker(gate, planner=StaticPlan(plan), on_failure=[AT_ONCE]))

    assert "tokens 14 of 10" in report.failed["x"]
    assert report.usage.tokens == 14


@pytest.mark.parametrize(
    "words",
    [{}, {"reviewer": _done(PASSED)}, {"synthesizer": _done("text")}],
    ids=["subtask", "reviewer", "synthesizer"],
)
def test_what_the_last_one_has_used_too_much_is_told_in_the_report(words: dict[str, Any]) -> None:
    report = ended(one_worker(Gate(_is_done), **words), budget=Budget(tokens=6))

    assert report.error is None
    assert any(each.startswith("budget exceeded: tokens ") for each in report.notes)


def test_a_budget_that_was_held_is_no_note() -> None:
    assert ended(one_worker(Gate(_is_done)), budget=Budget(tokens=7)).notes == ()


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


def test_what_a_team_that_is_cancelled_has_used_up_counts() -> None:
    gate = Gate(_hangs)
    members = [WorkerSpec(id="w", execute=gate.execute)]
    team = SupervisorSpec(id="team", tasks=Tasks(planner=StaticPlan(ONE)), children=members)
    plan = StaticPlan([Subtask("part", worker="team")])
    with start(SupervisorSpec(id="p", tasks=Tasks(planner=plan), children=[team])) as tree:
        handle = tree.submit("go")
        assert gate.entered.wait(LONG_S)
        handle.cancel()
        report = end_of(handle)

    assert report.usage.tokens == 7


class Crashes(Worker):
    """Dies in the middle of its first attempt."""

    tries = 0

    async def execute(self, task: Any, context: Any) -> str:
        context.use(tokens=7)
        Crashes.tries += 1
        if Crashes.tries == 1:
            raise RuntimeError("a bug")
        return "done"


def test_what_a_worker_that_crashed_had_used_up_counts() -> None:
    Crashes.tries = 0

    assert run(ONE, WorkerSpec(id="w", actor=Crashes)).usage.tokens == 14
