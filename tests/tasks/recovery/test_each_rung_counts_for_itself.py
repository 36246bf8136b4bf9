"""A ladder with two Retry rungs: the attempts of the first are no attempts of the second."""

from __future__ import annotations

import pytest

from actors.testing import ScriptedExecutable
from trees import Retry, StaticPlan, Subtask, SupervisorSpec, TaskFailedError, Tasks, WorkerSpec, start


def test_a_second_retry_rung_has_all_of_its_own_attempts() -> None:
    script = ScriptedExecutable(OSError("no"))
    two, three = (Retry(max_attempts=count, initial_s=0.0, jitter=0.0) for count in (2, 3))
    worker = WorkerSpec(id="w", execute=script.execute, on_failure=[two, three], breaker=None)
    plan = StaticPlan([Subtask("a", worker="w")])
    with (
        start(SupervisorSpec(id="t", tasks=Tasks(planner=plan), children=[worker])) as tree,
        pytest.raises(TaskFailedError),
    ):
        tree.run("go", timeout=60.0)

    assert len(script.calls) == 4  # two of the first; the last of them is the first of the three of the second
