"""A tree of one worker and its orchestrator, for tests of what a host can do with a task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from actors.testing import AsyncScriptedExecutable, Hang
from trees import StaticPlan, Subtask, SupervisorSpec, Tasks, Tree, WorkerSpec, start

ONE = StaticPlan([Subtask("a", worker="w")])
TWO = StaticPlan([Subtask("a", worker="w"), Subtask("b", worker="w", depends_on=["a"])])


def spec_of(script: Any, planner: Any = ONE, **tasks: Any) -> SupervisorSpec:
    """A tree of one worker ``w``."""
    worker = WorkerSpec(id="w", execute=getattr(script, "execute", script))
    return SupervisorSpec(id="p", tasks=Tasks(planner=planner, **tasks), children=[worker])


@contextmanager
def held(planner: Any = ONE) -> Iterator[tuple[Tree, Hang, AsyncScriptedExecutable]]:
    """A tree whose worker hangs at its first call until it is released."""
    hang = Hang()
    script = AsyncScriptedExecutable(hang, "ok", by="call")
    with start(spec_of(script, planner)) as tree:
        try:
            yield tree, hang, script
        finally:
            hang.release()
