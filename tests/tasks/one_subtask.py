"""A tree of one worker that is given one subtask, and what becomes of its task."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from trees import Report, StaticPlan, Subtask, SupervisorSpec, TaskFailedError, Tasks, WorkerSpec, start


class Found(BaseModel):
    """A typed result."""

    title: str
    pages: int


def one(execute: Any, **fields: Any) -> SupervisorSpec:
    """A tree of one worker ``w`` that is given one subtask ``a``."""
    plan = StaticPlan([Subtask("a", "count the pages", worker="w")])
    on_failure = fields.pop("on_failure", [])
    worker = WorkerSpec(id="w", execute=execute, **fields)
    return SupervisorSpec(id="p", tasks=Tasks(planner=plan, on_failure=on_failure), children=[worker])


def report_of(spec: SupervisorSpec) -> Report:
    """What becomes of a task, whether it succeeds or fails."""
    with start(spec) as tree:
        try:
            return tree.run("read it", timeout=60)
        except TaskFailedError as error:
            return error.report or pytest.fail("no report")
