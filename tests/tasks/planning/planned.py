"""A tree of one worker and any planner, and what becomes of a goal none of whose plans is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from actors.testing import ScriptedExecutable
from trees import Plan, PlanError, Subtask, SupervisorSpec, Task, Tasks, TaskStatus, WorkerSpec, start

GOOD = Plan([Subtask("a", worker="w")])


def tree_of(
    planner: Any,
    *,
    worker: Any = None,
    tasks: dict[str, Any] | None = None,
    more: Sequence[WorkerSpec] = (),
    **fields: Any,
) -> SupervisorSpec:
    """A tree of one worker ``w`` with capability ``read``, and of others."""
    execute = worker or (lambda task, context: "ok")
    child = WorkerSpec(id="w", execute=execute, capabilities={"read"}, **fields)
    return SupervisorSpec(id="p", tasks=Tasks(planner=planner, **(tasks or {})), children=[child, *more])


def refused(planner: Any, goal: str | Task = "read it", **options: Any) -> PlanError:
    """The error of a task none of whose plans was accepted; nothing of it has run, and the tree goes on."""
    script = ScriptedExecutable("ran")
    with start(tree_of(planner, worker=script.execute, **options)) as tree:
        with pytest.raises(PlanError) as caught:
            tree.run(goal, timeout=60)
        handle = tree.task(caught.value.task)
        alive = tree.child("p/orchestrator").incarnation

        assert caught.value.report is not None
        assert caught.value.report.status is TaskStatus.FAILED
        assert caught.value.report.results == {}
        assert caught.value.report.graph == ()
        assert handle.status is TaskStatus.FAILED
        assert script.calls == []
        assert alive == 1
    return caught.value
