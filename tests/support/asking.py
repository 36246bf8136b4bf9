"""Small trees in which workers ask others for something, and workers that take their time."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from actors.testing import settle
from trees import (
    Report,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

LONG_S = 60.0


def does(task: Any, _: Any) -> str:
    return f"did {task}"


def asking(to: str, instruction: str = "the next thing", **words: Any) -> Any:
    async def execute(_: Any, context: Any) -> Any:
        return await context.ask(to, instruction, **words)

    return execute


def asking_sync(to: str, instruction: str = "the next thing", **words: Any) -> Any:
    def execute(_: Any, context: Any) -> Any:
        return context.ask_sync(to, instruction, **words)

    return execute


def shop(*children: WorkerSpec | SupervisorSpec, plan: list[Subtask] | None = None, **words: Any) -> SupervisorSpec:
    """A tree whose plan is one subtask for the first of its children."""
    words.setdefault("on_failure", [])
    static = StaticPlan(plan or [Subtask("only", "the first thing", worker=children[0].id)])
    return SupervisorSpec(id="p", tasks=Tasks(planner=static, **words), children=children)


def team(*members: WorkerSpec, **words: Any) -> SupervisorSpec:
    static = StaticPlan([Subtask("part", "a part of it", worker=members[0].id)])
    return SupervisorSpec(id="team", tasks=Tasks(planner=static, on_failure=[], **words), children=members)


def run(spec: SupervisorSpec, task: Task | str = "the goal", **options: Any) -> Report:
    with start(spec, **options) as tree:
        try:
            return tree.run(task, timeout=LONG_S)
        except TaskFailedError as error:
            if error.report is None:
                raise
            return error.report


class Stuck:
    """Async; waits until it is cancelled."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.cancelled = threading.Event()
        self.remaining_s: float | None = None

    async def __call__(self, _: Any, context: Any) -> None:
        self.remaining_s = context.remaining_s
        self.begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.cancelled.set()


def assert_nothing_left(tree: Tree) -> None:
    ground = tree._system.services["tasks"]
    assert (ground.asks, ground.attempts, ground.waiting_for) == ({}, {}, {})
    assert all(not entry.attempts for scope in ground.scopes.values() for entry in scope.workers)
    settle(tree)  # the end of an ask is told once more after that of its attempt
    assert all(scope.running == 0 for scope in ground.scopes.values())
