"""A tree of one agent, for tests of what an attempt of it does; and errors as providers raise them."""

from __future__ import annotations

from typing import Any

from trees import Report, Retry, StaticPlan, Subtask, SupervisorSpec, Task, TaskFailedError, Tasks, WorkerSpec, start

QUICK = Retry(max_attempts=3, initial_s=0.0, max_s=0.0, jitter=0.0)
"""Three attempts, without a pause."""


def tree_of(agent: Any, instruction: str = "Say hello", **worker: Any) -> SupervisorSpec:
    """A tree of one worker ``w``, which does this."""
    worker.setdefault("on_failure", [QUICK])
    planner = StaticPlan([Subtask("w", instruction=instruction)])
    children = [WorkerSpec(id="w", execute=agent, **worker)]
    return SupervisorSpec(id="office", tasks=Tasks(planner=planner), children=children)


def report_of(agent: Any, instruction: str = "Say hello", **worker: Any) -> Report:
    """Report of a task that it does, whether it succeeds or not."""
    with start(tree_of(agent, instruction, **worker)) as tree:
        handle = tree.submit(Task("Be polite"))
        try:
            return handle.result(60)
        except TaskFailedError:
            report = handle.report
            assert report is not None
            return report


def result_of(agent: Any, instruction: str = "Say hello", **worker: Any) -> Any:
    """What it gives; it is to succeed."""
    report = report_of(agent, instruction, **worker)
    assert not report.failed, report.failed
    return report.results["w"]
