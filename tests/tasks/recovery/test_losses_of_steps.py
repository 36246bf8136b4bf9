"""A planner, a reviewer, a synthesizer or an undo that kills its process ends in time; those that ran beside it do not.

What was stopped with its tree, what waited for a slot, and what outlived its orchestrator has lost nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import trees as task_events
from actors import Failed
from tests.support.attempts import LONG_S
from tests.tasks.orchestrators import kill_orchestrator
from tests.tasks.recovery.deadly import Deadly
from tests.tasks.resuming import NotingStore, records
from trees import (
    Approve,
    Plan,
    PlanError,
    Retry,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    TaskStatus,
    WorkerSpec,
    start,
)

ROLES = ["plan", "review", "combine", "undo", "undo by a worker"]
Code = Callable[..., Any]


def fails(task: Any, context: Any) -> None:
    raise Failed("no", retryable=False)


def spec_of(role: str, step: Code, *, undo: Code | None = None, **more: Any) -> SupervisorSpec:
    """A tree in which one step of every task is this code; it is called with the task's id."""
    is_undo = role.startswith("undo")

    def planner(task: Any, *_: Any) -> Plan:
        done = Subtask("x", worker="w", undo="undoer" if role == "undo by a worker" else None)
        plan = Plan([done, *([Subtask("fails", worker="fails", depends_on=["x"])] if is_undo else [])])
        return plan if role != "plan" else step(task.id) or plan

    steps: dict[str, Any] = {"planner": planner, "on_step_failure": "best_effort"}
    if role == "review":
        steps["reviewer"] = lambda task, *_: step(task.id) or True
    if role == "combine":
        steps["synthesizer"] = lambda task, *_: step(task.id) or "combined"
    own = {"undo": lambda _task, _result, context: step(context.goal)} if role == "undo" else {}
    return SupervisorSpec(
        id="p",
        tasks=Tasks(**{"on_failure": [], **steps, **more}),
        children=[
            WorkerSpec(id="w", execute=lambda task, context: "done", pool=4, **own),
            WorkerSpec(id="fails", execute=fails, breaker=None),
            WorkerSpec(id="undoer", execute=lambda _, context: step(context.goal), breaker=None, pool=4, shutdown=0.05),
        ],
    )


def tasks_of(*ids: str) -> list[Task]:
    return [Task(id_, id=id_) for id_ in ids]


def poison(deadly: Deadly) -> Code:
    def step(id_: str) -> None:
        deadly.begun.append(id_)
        if id_.startswith("poison"):
            deadly.dies()
        elif id_.startswith("slow"):
            deadly.takes_long()

    return step


def losses(store: Any, id_: str) -> int:
    return sum(
        record.reason == "nothing is known of its attempt" for record in records(store, id_, task_events.StepPutBack)
    )


# -- the end of it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_losses", [1, 3])
@pytest.mark.parametrize("role", ROLES)
def test_a_step_that_kills_its_process_ends_after_so_many_losses(role: str, max_losses: int) -> None:
    deadly = Deadly(lambda deadly: spec_of(role, poison(deadly), max_losses=max_losses), tasks_of("poison"))

    found = (deadly.run(10) or {})["poison"]

    assert deadly.deaths == max_losses
    assert losses(deadly.store, "poison") == max_losses - 1
    said = f"{max_losses} processes"
    if role == "plan":
        assert isinstance(found.error, PlanError)
        assert said in str(found.error)
    elif role.startswith("undo"):
        (question,) = found
        assert said in question.error
        assert question.undoing
    else:
        assert found.status is TaskStatus.SUCCEEDED
        assert found.best_effort
        assert found.results == {"x": "done"}
        assert said in str(records(deadly.store, "poison", task_events.Reviewed, task_events.Synthesized)[-1].error)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["first", "middle", "last"])
@pytest.mark.parametrize("max_steps", [1, 3, 10])
@pytest.mark.parametrize("role", ["plan", "undo"])
def test_steps_that_ran_beside_it_get_through_whatever_their_order(role: str, max_steps: int, order: str) -> None:
    ids = [f"slow{number}" for number in range(4)]
    ids.insert({"first": 0, "middle": 2, "last": 4}[order], "poison")
    deadly = Deadly(lambda deadly: spec_of(role, poison(deadly), max_steps=max_steps), tasks_of(*ids))

    found = deadly.run(30) or {}

    if role == "plan":
        assert {id_ for id_, report in found.items() if report.status is not TaskStatus.SUCCEEDED} == {"poison"}
    else:
        assert {id_ for id_, report in found.items() if isinstance(report, list)} == {"poison"}
        assert all(found[id_].compensated == ["x"] for id_ in ids if id_ != "poison")


@pytest.mark.parametrize("culprit", ["step", "subtask"])
def test_a_step_and_a_subtask_that_ran_together_do_not_lose_their_last_chance_together(culprit: str) -> None:
    planner_of = {"step": "poison", "subtask": "slow"}
    worker_of = {"step": "slow", "subtask": "poison"}

    def spec(deadly: Deadly) -> SupervisorSpec:
        def planner(task: Any, *_: Any) -> Plan:
            if task.id == "planned":
                poison(deadly)(planner_of[culprit])
            return Plan([Subtask(worker_of[culprit] if task.id == "works" else "quick", worker="w")])

        worker = WorkerSpec(id="w", execute=deadly.execute, breaker=None)
        return SupervisorSpec(id="p", tasks=Tasks(planner=planner, on_failure=[]), children=[worker])

    deadly = Deadly(spec, tasks_of("works", "planned"))

    found = deadly.run(30) or {}

    status = {id_: report.status is TaskStatus.SUCCEEDED for id_, report in found.items()}
    assert status == {"works": culprit == "step", "planned": culprit == "subtask"}


def test_a_step_that_waits_for_its_slot_has_not_begun_and_loses_nothing() -> None:
    ids = ["poison", *(f"waits{number}" for number in range(5))]
    deadly = Deadly(lambda deadly: spec_of("plan", poison(deadly), max_steps=1, max_losses=2), tasks_of(*ids))

    assert deadly.run(10) is not None

    assert deadly.deaths == 2
    assert [losses(deadly.store, id_) for id_ in ids] == [1, 0, 0, 0, 0, 0]


def test_a_failure_of_its_own_ends_the_row_of_losses() -> None:
    calls: list[str] = []

    def spec(deadly: Deadly) -> SupervisorSpec:
        def step(_: str) -> None:
            calls.append("call")
            if len(calls) == 3:
                raise Failed("no plan today")
            if len(calls) < 6:
                deadly.dies()

        return spec_of("plan", step)

    deadly = Deadly(spec, tasks_of("t"))

    found = (deadly.run(10) or {})["t"]

    assert found.status is TaskStatus.SUCCEEDED
    assert (deadly.deaths, len(calls)) == (4, 6)


def test_an_undo_that_a_person_lets_run_again_has_all_its_chances() -> None:
    deadly = Deadly(lambda deadly: spec_of("undo", poison(deadly)), tasks_of("poison"))
    (question,) = (deadly.run(10) or {})["poison"]
    store = NotingStore(deadly.store.changes)
    with start(spec_of("undo", lambda _: None), store=store) as tree:
        tree.respond(question.id, Approve())
        done = tree.task("poison")
        with pytest.raises(TaskFailedError):
            done.result(LONG_S)

    assert done.report is not None
    assert done.report.compensated == ["x"]
    assert [record.attempt for record in records(store, "poison", task_events.Compensating)] == [1, 1, 1, 2]


def test_one_on_its_last_chance_that_waits_for_a_slot_does_not_hold_up_the_others_that_are() -> None:
    steps, subtask = {"slow": Waiting(), "suspect": Waiting(), "other": Waiting()}, Waiting()
    steps["other"].gate.set()

    def planner(task: Any, *_: Any) -> Plan:
        steps[task.id](task.id)
        return Plan([Subtask("x", worker="w" if task.id == "other" else "any")])

    workers = [WorkerSpec(id="w", execute=lambda *_: subtask("")), WorkerSpec(id="any", execute=lambda *_: "done")]
    tasks = Tasks(planner=planner, max_steps=1, max_losses=2, on_failure=[])
    spec = SupervisorSpec(id="p", tasks=tasks, children=workers)
    waiting, died = NotingStore(), NotingStore()
    with start(spec, store=waiting) as tree:
        tree.submit(Task("slow", id="slow"))
        steps["slow"].gate.set()
    steps["slow"].gate.clear()
    with start(spec, store=died) as tree:
        tree.submit(Task("other", id="other"))
        assert subtask.begun.acquire(timeout=LONG_S)
        tree.submit(Task("suspect", id="suspect"))
        assert steps["suspect"].begun.acquire(timeout=LONG_S)
        changes = list(died.changes)
        subtask.gate.set()
        steps["suspect"].gate.set()
    store = NotingStore([waiting.changes[0], *changes])
    with start(spec, store=store) as tree:
        assert tree.task("other").result(LONG_S).status is TaskStatus.SUCCEEDED
        assert not records(store, "suspect", task_events.StepStarted)[1:]
        steps["slow"].gate.set()
        for id_ in ("slow", "suspect"):
            assert tree.task(id_).result(LONG_S).status is TaskStatus.SUCCEEDED


# -- what is no loss -------------------------------------------------------------------------------------------


class Waiting:
    """A step that waits for its gate, sync or not."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun = threading.Semaphore(0)

    def __call__(self, _: str) -> None:
        self.begun.release()
        self.gate.wait(LONG_S)

    async def on_loop(self, *_: Any) -> Any:
        self.begun.release()
        while not self.gate.is_set():  # noqa: ASYNC110 - it is set by a thread
            await asyncio.sleep(0.005)
        return Plan([Subtask("x", worker="w")])


def test_a_step_that_waits_for_its_slot_is_begun_once_after_its_orchestrator_has_died() -> None:
    step, store = Waiting(), NotingStore()
    with start(spec_of("plan", step, max_losses=1, max_steps=1), store=store) as tree:
        handles = [tree.submit(task) for task in tasks_of("a", "b", "c")]
        assert step.begun.acquire(timeout=LONG_S)
        for _ in range(2):
            kill_orchestrator(tree)
        step.gate.set()
        reports = [handle.result(LONG_S) for handle in handles]

    assert [report.status for report in reports] == [TaskStatus.SUCCEEDED] * 3
    assert [len(records(store, id_, task_events.StepStarted)) for id_ in "abc"] == [1, 1, 1]


def test_a_planner_that_is_retried_writes_down_each_of_its_calls() -> None:
    store, calls = NotingStore(), []

    def step(id_: str) -> None:
        calls.append(id_)
        if len(calls) < 3:
            raise Failed("not yet")

    with start(spec_of("plan", step, on_failure=[Retry()]), store=store) as tree:
        tree.run(Task("t", id="t"), timeout=LONG_S)

    assert [record.number for record in records(store, "t", task_events.StepStarted)] == [1, 2, 3]


def test_a_part_that_waits_for_the_task_above_keeps_its_losses_when_the_tree_is_stopped() -> None:
    """A process has died while its planner ran; the next one is stopped before the task above wants the part again."""
    step, urgent = Waiting(), threading.Semaphore(0)

    async def is_urgent(*_: Any) -> None:
        urgent.release()
        await asyncio.get_running_loop().create_future()

    def planned_above(task: Any, *_: Any) -> Plan:
        return Plan([Subtask("x", worker="urgent" if task.id == "urgent" else "team")])

    def planned(task: Any, *_: Any) -> Plan:
        step(task.id)
        return Plan([Subtask("x", worker="w")])

    done = WorkerSpec(id="w", execute=lambda task, context: "done")
    team = SupervisorSpec(id="team", tasks=Tasks(planner=planned), children=[done])
    above = Tasks(planner=planned_above, max_parallel=1)
    spec = SupervisorSpec(id="p", tasks=above, children=[team, WorkerSpec(id="urgent", execute=is_urgent)])
    store = NotingStore()
    with start(spec, store=store) as tree:
        tree.submit(Task("low", id="low", priority=5))
        assert step.begun.acquire(timeout=LONG_S)
        tree.submit(Task("urgent", id="urgent", priority=0))
        assert urgent.acquire(timeout=LONG_S)
        died = list(store.changes)
        step.gate.set()
    store = NotingStore(died)
    with start(spec, store=store):
        assert urgent.acquire(timeout=LONG_S)

    assert records(store, "low@x:1.1", task_events.StepStarted)
    assert records(store, "low@x:1.1", task_events.StepPutBack) == []
