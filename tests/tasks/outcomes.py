"""How a task ended, whatever it was: its report, what is raised, and whether the tree goes on."""

from __future__ import annotations

from typing import Any

from trees import (
    Report,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    TaskError,
    TaskHandle,
    Tasks,
    TaskStatus,
    Tree,
    WorkerSpec,
)

TWO = StaticPlan([Subtask("a", worker="w"), Subtask("b", worker="w", depends_on=["a"])])
"""The plan where nothing is wrong with plans."""


def result_of(task: Subtask, context: Any) -> str:
    return f"result of {task.id}"


def raises(*_: Any) -> Any:
    raise ValueError("broken")


def one_worker(execute: Any, **fields: Any) -> SupervisorSpec:
    plan = StaticPlan([Subtask("a", worker="w")])
    children = [WorkerSpec(id="w", execute=execute, **fields)]
    return SupervisorSpec(id="p", tasks=Tasks(planner=plan, on_failure=[]), children=children)


def reported(error: TaskError) -> Report:
    assert error.report is not None
    return error.report


def ended(handle: TaskHandle) -> tuple[Report, type[TaskError] | None]:
    """The report of a task, and what is raised to whoever waits for it."""
    try:
        return handle.result(timeout=60), None
    except TaskError as error:
        return reported(error), type(error)


def said_of(report: Report) -> str:
    """All that a report says of what went wrong."""
    parts = [str(report.error), *report.failed.values(), *report.skipped.values(), *report.notes]
    return "\n".join(parts)


def assert_alive(tree: Tree, incarnation: int = 1) -> None:
    """The tree goes on: its orchestrator is the same, and a task that nothing is wrong with is done."""
    assert tree.run("again", timeout=60).status is TaskStatus.SUCCEEDED
    assert tree.child("p/orchestrator").incarnation == incarnation
