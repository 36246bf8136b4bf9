"""Small trees that work on tasks, for the tests that look at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.testing import Hang
from tests.support.crew import LONG_S
from trees import StaticPlan, Subtask, SupervisorSpec, Task, TaskHandle, Tasks, Tree, WorkerSpec

GOAL = "find the secret of life"


def done(task: object, context: Any) -> str:
    return f"{context.goal}: {task}"


def holding(hang: Hang) -> Callable[..., Any]:
    """A worker that says how far it is, and then hangs."""

    async def hold(_: object, context: Any) -> int:
        context.progress(0.4, "reading\nthe \x1b[31mfile")
        await hang.hold_async()
        return 1

    return hold


def failing(_: object, __: object) -> None:
    raise ValueError("no \x1b[2J luck\n" + "x" * 500)


def team(*subtasks: Subtask, workers: dict[str, Any], **words: Any) -> SupervisorSpec:
    """A root with these workers, that carries out this plan."""
    words.setdefault("planner", StaticPlan(list(subtasks)))
    children = [
        given if isinstance(given, (WorkerSpec, SupervisorSpec)) else WorkerSpec(id=id_, execute=given)
        for id_, given in workers.items()
    ]
    return SupervisorSpec(id="shop", tasks=Tasks(**words), children=children)


def submitted(tree: Tree, id_: str = "t1") -> TaskHandle:
    return tree.submit(Task(goal=GOAL, id=id_))


def idle(tree: Tree) -> None:
    """Return when the root's orchestrator has heard all that it was told so far."""
    assert tree._system.children["shop/orchestrator"].mailbox.when_quiet().wait(LONG_S)
