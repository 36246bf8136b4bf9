"""Bad input, as a table: each has a clear outcome in the report, nothing is lost, nothing is run twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from actors.validation.introspection import is_async
from tests.tasks.outcomes import TWO, assert_alive, ended, raises, result_of, said_of
from trees import (
    KeywordPlanner,
    NoCapableWorkerError,
    Plan,
    PlanError,
    Retry,
    Subtask,
    SupervisorSpec,
    Task,
    TaskError,
    TaskFailedError,
    Tasks,
    TaskStatus,
    Verdict,
    WorkerSpec,
    start,
)

DONE = {"a": "result of a", "b": "result of b"}


# -- what goes wrong -------------------------------------------------------------------------------------------


def exits(*_: Any) -> Any:
    raise SystemExit(3)


async def raises_async(*_: Any) -> Any:
    raise ValueError("broken")


async def exits_async(*_: Any) -> Any:
    raise SystemExit(3)


async def hangs(*_: Any) -> Any:
    await asyncio.Event().wait()


def rubbish(*_: Any) -> Any:
    return {"what": object()}


async def rubbish_async(*_: Any) -> Any:
    return [1, 2, object()]


def plan_of(*subtasks: Subtask) -> Callable[..., Plan]:
    return lambda *_: Plan(list(subtasks))


class Typed(BaseModel):
    pages: int


@dataclass
class Row:
    """One thing that goes wrong, and what becomes of the task."""

    name: str
    words: str
    """Found in what the report says went wrong."""
    error: type[TaskError] | None
    """What ``result`` raises; None: nothing."""
    tasks: dict[str, Any] = field(default_factory=dict)
    execute: Any = result_of
    worker: dict[str, Any] = field(default_factory=dict)
    goal: str | Task = "do it"
    results: dict[str, Any] = field(default_factory=dict)
    calls: int = 0

    def __str__(self) -> str:
        return self.name


QUICK = {"step_timeout_s": 2.0, "max_plan_attempts": 1}
NOT_AGAIN = {"step_retry": Retry(max_attempts=1), "on_step_failure": "best_effort"}
"""A step is called once, and one that fails loses nothing."""
ROWS = [
    Row(
        "nobody can serve the goal",
        "no worker can do",
        NoCapableWorkerError,
        {"planner": KeywordPlanner()},
        goal="bake",
    ),
    Row("a cycle", "a", PlanError, {"planner": plan_of(Subtask("a", worker="w", depends_on=["a"]))}),
    Row("an unknown worker", "there is no worker 'x'", PlanError, {"planner": plan_of(Subtask("a", worker="x"))}),
    Row("an unknown capability", "capability 'x'", PlanError, {"planner": plan_of(Subtask("a", capability="x"))}),
    Row(
        "two ids alike",
        "'a'",
        PlanError,
        {"planner": plan_of(Subtask("a", worker="w"), Subtask("a", worker="w"))},
    ),
    Row(
        "a dependency on nothing",
        "ghost",
        PlanError,
        {"planner": plan_of(Subtask("a", worker="w", depends_on=["ghost"]))},
    ),
    Row("no subtasks", "subtask", PlanError, {"planner": plan_of()}),
    Row("a planner that raises", "ValueError: broken", PlanError, {"planner": raises}),
    Row("an async planner that raises", "ValueError: broken", PlanError, {"planner": raises_async}),
    Row("a planner that exits", "SystemExit", PlanError, {"planner": exits}),
    Row("an async planner that exits", "SystemExit", PlanError, {"planner": exits_async}),
    Row("a planner that hangs", "longer than 2 s", PlanError, {"planner": hangs, **QUICK}),
    Row("a planner that returns rubbish", "plan", PlanError, {"planner": rubbish}),
    Row("an async planner that returns rubbish", "plan", PlanError, {"planner": rubbish_async}),
    Row("a reviewer that raises", "ValueError: broken", None, {"reviewer": raises}, results=DONE, calls=2),
    Row("an async reviewer that raises", "ValueError: broken", None, {"reviewer": raises_async}, results=DONE, calls=2),
    Row("a reviewer that exits", "SystemExit", None, {"reviewer": exits}, results=DONE, calls=2),
    Row("an async reviewer that exits", "SystemExit", None, {"reviewer": exits_async}, results=DONE, calls=2),
    Row("a reviewer that hangs", "longer than 2 s", None, {"reviewer": hangs, **QUICK}, results=DONE, calls=2),
    Row("a reviewer that returns rubbish", "reviewer", None, {"reviewer": rubbish}, results=DONE, calls=2),
    Row("a synthesizer that raises", "ValueError: broken", None, {"synthesizer": raises}, results=DONE, calls=2),
    Row("a synthesizer that exits", "SystemExit", None, {"synthesizer": exits_async}, results=DONE, calls=2),
    Row("a synthesizer that hangs", "longer than 2 s", None, {"synthesizer": hangs, **QUICK}, results=DONE, calls=2),
    Row("a synthesizer that returns rubbish", "synthesizer", None, {"synthesizer": rubbish}, results=DONE, calls=2),
    Row("a worker that raises", "ValueError: broken", TaskFailedError, execute=raises, calls=1),
    Row("a worker that exits", "SystemExit", TaskFailedError, execute=exits, calls=1),
    Row("an async worker that exits", "SystemExit", TaskFailedError, execute=exits_async, calls=1),
    Row("a worker that hangs", "ran longer than", TaskFailedError, execute=hangs, worker={"timeout_s": 0.05}, calls=1),
    Row(
        "a worker that is silent",
        "sign of life",
        TaskFailedError,
        execute=hangs,
        worker={"idle_timeout_s": 0.05},
        calls=1,
    ),
    Row(
        "the wrong type", "pages", TaskFailedError, execute=lambda *_: {"pages": "x"}, worker={"output": Typed}, calls=1
    ),
    Row("a result that cannot be stored", "cannot be stored", TaskFailedError, execute=rubbish, calls=1),
    Row("an async one that cannot be stored", "cannot be stored", TaskFailedError, execute=rubbish_async, calls=1),
]


class Scene:
    """A tree for one row, in which a goal of ``again`` always works."""

    def __init__(self, row: Row) -> None:
        self.calls: list[tuple[str, int, str]] = []
        planner, reviewer, synthesizer = (row.tasks.get(name) for name in ("planner", "reviewer", "synthesizer"))
        rest = {name: value for name, value in row.tasks.items() if name not in {"planner", "reviewer", "synthesizer"}}
        good = Plan([Subtask("h", worker="healthy")])
        tasks = Tasks(
            planner=sparing(getattr(planner or TWO, "plan", planner), good),
            reviewer=None if reviewer is None else sparing(reviewer, Verdict(passed=True)),
            synthesizer=None if synthesizer is None else sparing(synthesizer, "combined"),
            on_failure=[],
            **{**NOT_AGAIN, **rest},
        )
        self.spec = SupervisorSpec(
            id="p",
            tasks=tasks,
            children=[
                WorkerSpec(id="w", execute=self._counted(row.execute), **row.worker),
                WorkerSpec(id="healthy", execute=lambda task, context: "well"),
            ],
        )

    def _counted(self, execute: Any) -> Any:
        def count(task: Any, context: Any) -> None:
            self.calls.append((task.id, context.attempt, context.idempotency_key))

        def call(task: Any, context: Any) -> Any:
            count(task, context)
            return execute(task, context)

        async def call_async(task: Any, context: Any) -> Any:
            count(task, context)
            return await execute(task, context)

        return call_async if is_async(execute) else call


def sparing(code: Any, good: Any) -> Any:
    """The same code, but for tasks with the goal ``again``."""

    def call(task: Task, *args: Any) -> Any:
        return good if task.goal == "again" else code(task, *args)

    async def call_async(task: Task, *args: Any) -> Any:
        return good if task.goal == "again" else await code(task, *args)

    return call_async if is_async(code) else call


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_whatever_is_wrong_has_a_clear_outcome_and_the_tree_goes_on(row: Row) -> None:
    scene = Scene(row)
    with start(scene.spec) as tree:
        handle = tree.submit(row.goal)
        report, raised = ended(handle)
        assert_alive(tree)

    assert raised is row.error
    assert report.status is (TaskStatus.SUCCEEDED if row.error is None else TaskStatus.FAILED)
    assert row.words in said_of(report)
    assert report.results == row.results
    assert report.best_effort is (row.error is None)
    assert len(scene.calls) == row.calls
    assert len(set(scene.calls)) == len(scene.calls)
