"""Small trees of one team, and workers for it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from actors import Failed
from tests.support.asking import LONG_S, does, run
from tests.support.attempts import AT_ONCE
from trees import (
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Tasks,
    TaskSubmitted,
    Tree,
    WorkerSpec,
)

__all__ = ["AT_ONCE", "LONG_S", "Stuck", "above", "does", "fails", "nested", "run", "team"]


def fails(_: Any, __: Any) -> None:
    raise Failed("it cannot be done")


class Stuck:
    """Async; its first call waits until it is cancelled, the next ones return."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.calls = 0
        self.ended: list[str] = []
        self.remaining_s: float | None = None

    async def __call__(self, task: Any, context: Any) -> str:
        self.calls += 1
        self.remaining_s = context.remaining_s
        if self.calls > 1:
            return f"did {task} at last"
        self.begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.ended.append("cancelled")
        return ""


def team(
    *members: WorkerSpec, plan: list[Subtask] | None = None, settings: dict[str, Any] | None = None, **words: Any
) -> SupervisorSpec:
    """A team whose plan is one subtask for each member, one after the other."""
    if plan is None:
        ids = [member.id for member in members]
        plan = [Subtask(id_, worker=id_, depends_on=ids[at - 1 : at] if at else []) for at, id_ in enumerate(ids)]
    tasks = Tasks(planner=StaticPlan(plan), **{"on_failure": [], **(settings or {})})
    return SupervisorSpec(id="team", tasks=tasks, children=members, **words)


def above(*children: WorkerSpec | SupervisorSpec, plan: list[Subtask] | None = None, **words: Any) -> SupervisorSpec:
    """A root whose plan is one subtask for the team."""
    static = StaticPlan(plan or [Subtask("only", "the part of the team", worker="team")])
    return SupervisorSpec(id="p", tasks=Tasks(planner=static, **{"on_failure": [], **words}), children=children)


def nested(tree: Tree) -> list[TaskSubmitted]:
    """What the team was given so far, the oldest first."""
    found = [next(iter(handle.events())) for handle in tree.tasks() if ":" in handle.id]
    return [event for event in found if isinstance(event, TaskSubmitted)]
