"""A new process goes on from every change that an earlier one had made to the store."""

from __future__ import annotations

import asyncio
from typing import Any

from actors import Failed
from tests.tasks.resuming import Books, Scenario, same_from_every_change
from trees import Failover, Retry, StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec

SOON = Retry(max_attempts=3, initial_s=0.002, factor=1.0, max_s=0.002, jitter=0.0)


class Plain(Scenario):
    """Ten subtasks: in line, side by side, one that is tried twice, one that fails over, one that may fail."""

    def spec(self, books: Books) -> SupervisorSpec:
        def sync(task: Any, context: Any) -> str:
            books.work(context)
            return f"{task} after {sorted(context.results)}"

        async def quick(task: Any, context: Any) -> str:
            books.work(context)
            await asyncio.sleep(0)
            return f"quick {task} after {sorted(context.results)}"

        def flaky(task: Any, context: Any) -> str:
            books.work(context)
            if context.attempt < 3:
                raise Failed("not yet", retryable=True)
            return f"flaky {task} in attempt {context.attempt}"

        def weak(task: Any, context: Any) -> str:
            books.work(context)
            raise Failed("never", retryable=False)

        def plan(task: Any, catalogue: Any, feedback: str) -> Any:
            books.note("plan", task.id)
            return StaticPlan(
                [
                    Subtask("one", "begin", worker="sync"),
                    *(Subtask(f"get{n}", f"get {n}", capability="get", depends_on=["one"]) for n in range(3)),
                    Subtask("flaky", "try", worker="flaky", depends_on=["one"]),
                    Subtask("weak", "lift", worker="weak", depends_on=["get0"]),
                    Subtask("maybe", "perhaps", worker="hopeless", required=False, depends_on=["get1"]),
                    Subtask("read", "read", worker="sync", depends_on=["get0", "get1", "maybe"]),
                    Subtask("told", "tell", worker="quick", depends_on=["read", "flaky"]),
                    Subtask("end", "close", worker="sync", depends_on=["told", "weak", "get2"]),
                ]
            ).plan(task, catalogue, feedback)

        return SupervisorSpec(
            id="p",
            tasks=Tasks(planner=plan, max_parallel=3, on_failure=[SOON, Failover()]),
            children=[
                WorkerSpec(id="sync", execute=sync),
                WorkerSpec(id="quick", execute=quick, capabilities={"get"}, pool=2),
                WorkerSpec(id="flaky", execute=flaky),
                WorkerSpec(id="weak", execute=weak, backup="quick"),
                WorkerSpec(id="hopeless", execute=weak, on_failure=[]),
            ],
        )


def test_a_plan_with_retries_and_failover_goes_on_from_every_change() -> None:
    assert same_from_every_change(Plain()) > 30
