"""``Tasks(max_steps=)``: of the planners, reviewers, synthesizers and undos of a burst so many run at once, no more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors import Failed
from tests.support.attempts import LONG_S
from trees import (
    Check,
    Plan,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskError,
    TaskHandle,
    Tasks,
    Verdict,
    WorkerSpec,
    start,
)

BURST = 25
ONE = [Subtask("x", worker="w")]
UNDONE = [*ONE, Subtask("fails", worker="fails", depends_on=["x"])]
PASSED = Verdict(passed=True, checks=[Check("x", passed=True)])


class Step:
    """Code that counts how many of its calls run at once, and lets none end before as many are there as may be."""

    def __init__(self, most: int, value: Any = None) -> None:
        self._most, self._value = most, value
        self._changed = threading.Condition()
        self._now = self._calls = 0
        self.peak = 0

    def sync(self, *_: Any) -> Any:
        self._enter()
        with self._changed:
            self._changed.wait_for(lambda: self._calls >= self._most, LONG_S)
        return self._leave()

    async def on_loop(self, *_: Any) -> Any:
        self._enter()
        for _turn in range(10_000):
            if self._calls >= self._most:
                break
            await asyncio.sleep(0)
        await asyncio.sleep(0.001)  # whoever would begin beside it begins now
        return self._leave()

    def _enter(self) -> None:
        with self._changed:
            self._now += 1
            self._calls += 1
            self.peak = max(self.peak, self._now)
            self._changed.notify_all()

    def _leave(self) -> Any:
        with self._changed:
            self._now -= 1
        return self._value

    @property
    def calls(self) -> int:
        return self._calls


def fails(task: Any, context: Any) -> None:
    raise Failed("no", retryable=False)


def _planner(code: Callable[..., Any]) -> SupervisorSpec:
    return _tree(planner=code)


def _reviewer(code: Callable[..., Any]) -> SupervisorSpec:
    return _tree(planner=StaticPlan(ONE), reviewer=code)


def _synthesizer(code: Callable[..., Any]) -> SupervisorSpec:
    return _tree(planner=StaticPlan(ONE), synthesizer=code)


def _undo(code: Callable[..., Any]) -> SupervisorSpec:
    return _tree(planner=StaticPlan(UNDONE), undo=code)


KINDS = {
    "planner": (_planner, Plan(ONE)),
    "reviewer": (_reviewer, PASSED),
    "synthesizer": (_synthesizer, "text"),
    "undo": (_undo, None),
}
MOST = 3


def _tree(undo: Any = None, **tasks: Any) -> SupervisorSpec:
    async def done(task: Any, context: Any) -> str:
        return "done"

    workers = [WorkerSpec(id="w", execute=done, undo=undo), WorkerSpec(id="fails", execute=fails)]
    return SupervisorSpec(id="p", tasks=Tasks(max_steps=MOST, max_parallel=100, **tasks), children=workers)


def ends(handles: list[TaskHandle]) -> Iterator[BaseException | None]:
    for handle in handles:
        try:
            handle.result(timeout=LONG_S)
        except TaskError as error:
            yield error
        else:
            yield None


@pytest.mark.parametrize("form", ["sync", "on_loop"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_burst_of_tasks_has_so_many_steps_at_once_and_not_one_more(kind: str, form: str) -> None:
    make, value = KINDS[kind]
    step = Step(MOST, value)
    with start(make(getattr(step, form))) as tree:
        found = list(ends([tree.submit(f"task {number}") for number in range(BURST)]))

    assert (step.peak, step.calls) == (MOST, BURST)
    assert all(error is not None for error in found) if kind == "undo" else found == [None] * BURST


@pytest.mark.parametrize(("form", "end"), [("sync", "timeout"), ("on_loop", "cancel")])
def test_a_step_that_is_ended_gives_its_slot_to_the_next_one(form: str, end: str) -> None:
    with hanging(form) as (planner, entered):
        tasks = Tasks(planner=planner, max_steps=1, max_plan_attempts=1, step_timeout_s=2.0 if end == "timeout" else 60)
        with start(SupervisorSpec(id="p", tasks=tasks, children=[_worker()])) as tree:
            first = tree.submit(Task("hangs"))
            assert entered.wait(LONG_S)
            second = tree.submit(Task("goes on"))
            if end == "cancel":
                first.cancel()
            assert [type(each) for each in ends([second])] == [type(None)]
            assert next(ends([first])) is not None


def test_a_step_that_waits_for_a_slot_is_not_late_and_can_be_cancelled() -> None:
    with hanging("on_loop") as (planner, entered):
        tasks = Tasks(planner=planner, max_steps=1, max_plan_attempts=1, step_timeout_s=60)
        with start(SupervisorSpec(id="p", tasks=tasks, children=[_worker()])) as tree:
            first = tree.submit(Task("hangs"))
            assert entered.wait(LONG_S)
            waits = tree.submit(Task("goes on"))
            waits.cancel()
            assert next(ends([waits])) is not None
            assert first.report is None
            first.cancel()
            assert next(ends([first])) is not None
            assert tree.run("goes on", timeout=LONG_S).results == {"x": "done"}


def _worker() -> WorkerSpec:
    return WorkerSpec(id="w", execute=lambda task, context: "done")


@contextmanager
def hanging(form: str) -> Iterator[tuple[Callable[..., Any], threading.Event]]:
    """A planner that hangs over the task ``hangs`` until the test is over."""
    entered, over = threading.Event(), threading.Event()

    def sync(task: Task, *_: Any) -> Plan:
        if task.goal == "hangs":
            entered.set()
            over.wait()
        return Plan(ONE)

    async def on_loop(task: Task, *_: Any) -> Plan:
        if task.goal == "hangs":
            entered.set()
            await asyncio.Event().wait()
        return Plan(ONE)

    try:
        yield {"sync": sync, "on_loop": on_loop}[form], entered
    finally:
        over.set()


@pytest.mark.parametrize("form", ["sync", "on_loop"])
def test_a_team_and_who_has_it_with_one_slot_each_do_not_wait_for_one_another(form: str) -> None:
    """No step holds its slot while another one works for it: a team has slots of its own."""

    def planner(worker: str) -> Callable[..., Any]:
        return getattr(Step(1, Plan([Subtask("x", worker=worker)])), form)  # type: ignore[no-any-return]

    def level(id_: str, child: WorkerSpec | SupervisorSpec) -> SupervisorSpec:
        reviewer = getattr(Step(1, PASSED), form)
        tasks = Tasks(planner=planner(child.id), reviewer=reviewer, max_steps=1, max_parallel=100)
        return SupervisorSpec(id=id_, tasks=tasks, children=[child])

    spec = level("p", level("team", _worker()))
    with start(spec) as tree:
        found = list(ends([tree.submit(f"task {number}") for number in range(10)]))

    assert found == [None] * 10
