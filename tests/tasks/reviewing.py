"""A tree of one worker that does two chains of subtasks, and a reviewer of its results."""

from __future__ import annotations

from typing import Any

from actors.testing import ScriptedExecutable
from trees import Retry, StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec

CHAIN = StaticPlan(
    [
        Subtask("a", "do a", worker="w"),
        Subtask("b", "use a", worker="w", depends_on=["a"]),
        Subtask("c", "use b", worker="w", depends_on=["b"]),
        Subtask("x", "do x", worker="w"),
        Subtask("y", "use x", worker="w", depends_on=["x"]),
    ]
)
"""Two chains: a > b > c, and x > y."""


AS_THEY_ARE: dict[str, Any] = {"step_retry": Retry(max_attempts=1), "on_step_failure": "best_effort"}
"""Settings: a step is called once, and where it fails the results are taken as they are."""
RESULTS = {"a": "do a", "b": "use a", "c": "use b", "x": "do x", "y": "use x"}


def reviewed_by(reviewer: Any, script: ScriptedExecutable | None = None, **tasks: Any) -> SupervisorSpec:
    """A tree of one worker that does ``CHAIN``, whose results a reviewer looks at."""
    execute = (script or ScriptedExecutable()).execute
    settings = Tasks(**{"planner": CHAIN, "reviewer": reviewer, **tasks})
    return SupervisorSpec(id="p", tasks=settings, children=[WorkerSpec(id="w", execute=execute, pool=5)])
