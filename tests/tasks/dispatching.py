"""Supervisors with tasks, small plans, and a way to know what an orchestrator has heard, for the tests of dispatch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from trees import (
    Plan,
    Planned,
    Report,
    Subtask,
    SubtaskEvent,
    SubtaskStarted,
    SupervisorSpec,
    Task,
    TaskFailedError,
    TaskFinished,
    Tasks,
    Tree,
    WorkerSpec,
)

LONG_S = 60.0


def by_goal(plans: dict[str, list[Subtask]]) -> Callable[..., Plan]:
    """A planner that has one plan for each goal."""

    def plan(task: Task, _catalogue: object, _feedback: str) -> Plan:
        return Plan(subtasks=plans[task.goal])

    return plan


def shop(
    *children: WorkerSpec | SupervisorSpec,
    plans: dict[str, list[Subtask]],
    on_failure: Iterable[Any] = (),
    words: dict[str, Any] | None = None,
    **tasks: Any,
) -> SupervisorSpec:
    """A root of this name; its goals are the keys of ``plans``."""
    settings = Tasks(**{"planner": by_goal(plans), "on_failure": list(on_failure), **tasks})
    return SupervisorSpec(id="shop", tasks=settings, children=children, **(words or {}))


def one(id: str, worker: str | None = None, **fields: Any) -> Subtask:
    """A subtask for the worker of the same name, unless another one, or a capability, is said."""
    if worker is None and "capability" not in fields:
        worker = id
    return Subtask(id=id, worker=worker, **fields)


def single(
    script: Any, plan: list[Subtask] | None = None, *, on_failure: Iterable[Any] = (), **words: Any
) -> SupervisorSpec:
    """A root with the worker ``w``, for one goal ``go``."""
    tasks = {name: words.pop(name) for name in ("max_parallel", "max_abandoned", "planner") if name in words}
    worker = WorkerSpec(id="w", execute=script, **words)
    return shop(worker, plans={"go": plan or [one("w")]}, on_failure=on_failure, **tasks)


def failure(handle: Any) -> Report:
    """The report of a task that has failed."""
    with pytest.raises(TaskFailedError) as caught:
        handle.result(timeout=LONG_S)
    assert caught.value.report is not None
    return caught.value.report


def heard(tree: Tree, path: str = "shop") -> None:
    """Return when the orchestrator has handled all that was told to it, and what it cancelled has ended."""
    for _ in range(3):
        assert tree._system.children[f"{path}/orchestrator"].mailbox.when_quiet().wait(LONG_S)


def submitted(tree: Tree, goal: str, **fields: Any) -> Any:
    """Submit a task, and wait until the orchestrator has planned it and started what it can."""
    handle = tree.submit(Task(goal=goal, **fields))
    next(event for event in handle.events() if isinstance(event, Planned | TaskFinished))
    heard(tree)
    return handle


def starts(handle: Any) -> list[str]:
    """The subtasks of a task that has ended, in the order of their starts."""
    return [event.subtask for event in handle.events() if isinstance(event, SubtaskStarted)]


def kinds(handle: Any, subtask: str) -> list[str]:
    """What happened to one subtask of a task that has ended."""
    return [
        type(event).__name__
        for event in handle.events()
        if isinstance(event, SubtaskEvent) and event.subtask == subtask
    ]
