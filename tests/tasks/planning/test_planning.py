"""Goals become plans, and nothing runs before a plan is right: points 6 to 8 of the contract."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from actors.testing import FakeModel, Hang, ManualClock, settle
from tests.support.ids import stable
from tests.tasks.planning.planned import GOOD, refused, tree_of
from trees import (
    CapabilityPlanner,
    ModelPlanner,
    Plan,
    Retry,
    StaticPlan,
    Subtask,
    Task,
    TaskDeadlineError,
    Tasks,
    TaskStatus,
    start,
)

# -- whatever can plan -----------------------------------------------------------------------------------------


def plans(task: Any, catalogue: Any, feedback: Any) -> Plan:
    return GOOD


async def plans_async(task: Any, catalogue: Any, feedback: Any) -> Plan:
    return GOOD


class Planning:
    def plan(self, task: Any, catalogue: Any, feedback: Any) -> Plan:
        return GOOD


class PlanningAsync:
    async def plan(self, task: Any, catalogue: Any, feedback: Any) -> Plan:
        return GOOD


class PlanningCalled:
    def __call__(self, task: Any, catalogue: Any, feedback: Any) -> Plan:
        return GOOD


class PlanningCalledAsync:
    async def __call__(self, task: Any, catalogue: Any, feedback: Any) -> Plan:
        return GOOD


@pytest.mark.parametrize(
    "planner",
    [
        plans,
        plans_async,
        lambda *_: GOOD,
        Planning(),
        PlanningAsync(),
        PlanningCalled(),
        PlanningCalledAsync(),
        Planning().plan,
        StaticPlan([Subtask("a", worker="w")]),
        CapabilityPlanner(),
        CapabilityPlanner(lambda task: {"read"}),
        ModelPlanner(FakeModel({"subtasks": [{"id": "a", "worker": "w"}]})),
        ModelPlanner(FakeModel('{"subtasks": [{"id": "a", "worker": "w"}]}')),
        Tasks().planner,
    ],
    ids=stable,
)
def test_whatever_can_plan_plans(planner: Any) -> None:
    with start(tree_of(planner)) as tree:
        report = tree.run("read it", timeout=60)

    assert list(report.results.values()) == ["ok"]
    assert report.timings["planned"] >= 0


def test_a_planner_runs_neither_in_the_supervisor_nor_on_the_thread_of_the_orchestrator() -> None:
    threads: list[str] = []

    def planner(task: Any, catalogue: Any, feedback: Any) -> Plan:
        threads.append(threading.current_thread().name)
        assert catalogue[0].id == "w"
        return GOOD

    loop: list[str] = []

    async def on_loop(task: Any, context: Any) -> str:
        loop.append(threading.current_thread().name)
        return "ok"

    with start(tree_of(planner, worker=on_loop)) as tree:
        tree.run("read it", timeout=60)

    assert threads != loop


def test_a_planner_sees_the_task_with_its_id_and_its_inputs() -> None:
    seen: list[Task] = []

    def planner(task: Any, catalogue: Any, feedback: Any) -> Plan:
        seen.append(task)
        return GOOD

    with start(tree_of(planner)) as tree:
        tree.run(Task(goal="read it", inputs={"page": 3}, id="t1"), timeout=60)
        report = tree.run("read it", timeout=60)

    assert (seen[0].id, seen[0].goal, seen[0].inputs) == ("t1", "read it", {"page": 3})
    assert seen[1].id == report.task_id


# -- planners that fail ----------------------------------------------------------------------------------------


def raising(error: BaseException) -> Callable[..., Any]:
    def planner(task: Any, catalogue: Any, feedback: Any) -> Any:
        raise error

    return planner


def raising_async(error: BaseException) -> Callable[..., Any]:
    async def planner(task: Any, catalogue: Any, feedback: Any) -> Any:
        raise error

    return planner


@pytest.mark.parametrize(("kind", "error"), [(raising, SystemExit(3)), (raising_async, ValueError("no idea"))])
def test_a_planner_that_crashes_is_asked_again_and_then_the_task_has_failed(kind: Any, error: BaseException) -> None:
    caught = refused(kind(error))

    assert caught.attempts == 3
    assert type(error).__name__ in str(caught)


@pytest.mark.parametrize(
    "rubbish",
    [None, 7, "no plan at all", b"\xff", [], {}, {"subtasks": 3}, object(), GOOD.subtasks[0], float("nan"), iter(())],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_planner_that_returns_rubbish_is_refused(rubbish: object, asynchronous: bool) -> None:
    async def planner(task: Any, catalogue: Any, feedback: Any) -> Any:
        return rubbish

    caught = refused(planner if asynchronous else lambda *_: rubbish)

    assert caught.attempts == 3
    assert caught.problems


def test_a_planner_that_fails_once_is_told_why_and_may_do_better() -> None:
    feedbacks: list[str] = []

    def planner(task: Any, catalogue: Any, feedback: str) -> Plan:
        feedbacks.append(feedback)
        if len(feedbacks) == 1:
            raise ValueError("no idea")
        return GOOD

    with start(tree_of(planner)) as tree:
        report = tree.run("read it", timeout=60)

    assert report.results == {"a": "ok"}
    assert feedbacks[0] == ""
    assert "ValueError: no idea" in feedbacks[1]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_planner_that_hangs_is_given_up_after_its_limit(asynchronous: bool) -> None:
    release = threading.Event()

    def hangs(task: Any, catalogue: Any, feedback: Any) -> Plan:
        release.wait(60)
        return GOOD

    hang = HangingPlanner()
    planner = hang.plan if asynchronous else hangs
    try:
        caught = refused(planner, tasks={"step_timeout_s": 0.05, "step_retry": Retry(max_attempts=2, initial_s=0)})
    finally:
        release.set()

    assert caught.attempts == 2
    assert "longer than 0.05 s" in str(caught)


class HangingPlanner:
    """Async, and cancelled in the end."""

    def __init__(self) -> None:
        self.model = FakeModel(Hang())
        self.began = threading.Event()
        self.ended: list[str] = []

    async def plan(self, task: Any, catalogue: Any, feedback: Any) -> Any:
        self.began.set()
        try:
            return await self.model("", None)
        except BaseException as error:
            self.ended.append(type(error).__name__)
            raise


def test_a_planner_that_hangs_is_cancelled_when_the_deadline_passes() -> None:
    clock = ManualClock()
    planner = HangingPlanner()
    with start(tree_of(planner), clock=clock) as tree:
        handle = tree.submit(Task(goal="read it", deadline_s=5))
        assert planner.began.wait(60)
        before = handle.status
        clock.advance(6)
        with pytest.raises(TaskDeadlineError) as caught:
            handle.result(timeout=60)
        settle(tree)

    assert before is TaskStatus.PLANNING
    assert caught.value.report is not None
    assert caught.value.report.status is TaskStatus.FAILED
    assert planner.ended == ["CancelledError"]


def test_other_tasks_go_on_while_a_planner_hangs() -> None:
    hang = HangingPlanner()

    async def planner(task: Any, catalogue: Any, feedback: Any) -> Any:
        return await hang.plan(task, catalogue, feedback) if task.goal == "hang" else GOOD

    with start(tree_of(planner)) as tree:
        stuck = tree.submit("hang")
        report = tree.run("read it", timeout=60)
        stuck.cancel()
        assert stuck.id != report.task_id

    assert report.results == {"a": "ok"}
