"""A planner, a reviewer, a synthesizer or an undo that kills its process ends in time; those that ran beside it do not.

What was stopped with its tree, what waited for a slot, and what outlived its orchestrator has lost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import trees as task_events
from actors import Failed
from tests.tasks.recovery.deadly import Deadly
from tests.tasks.resuming import records
from trees import (
    Plan,
    PlanError,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    TaskStatus,
    WorkerSpec,
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
    return sum(record.reason == "lost" for record in records(store, id_, task_events.SubtaskRequeued))


# -- the end of it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_losses", [1, 3])
@pytest.mark.parametrize("role", ROLES)
def test_a_step_that_kills_its_process_ends_after_so_many_losses(role: str, max_losses: int) -> None:
    deadly = Deadly(lambda deadly: spec_of(role, poison(deadly), max_losses=max_losses), tasks_of("poison"))

    found = (deadly.run(10) or {})["poison"]

    assert deadly.deaths == max_losses
    assert losses(deadly.store, "poison") == max_losses
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


def test_a_step_that_waits_for_its_slot_has_not_begun_and_loses_nothing() -> None:
    ids = ["poison", *(f"waits{number}" for number in range(5))]
    deadly = Deadly(lambda deadly: spec_of("plan", poison(deadly), max_steps=1, max_losses=2), tasks_of(*ids))

    assert deadly.run(10) is not None

    assert deadly.deaths == 2
    assert [losses(deadly.store, id_) for id_ in ids] == [2, 0, 0, 0, 0, 0]


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


# -- what is no loss -------------------------------------------------------------------------------------------
