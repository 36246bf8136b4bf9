"""An attempt whose process dies with it, again and again, has failed in the end; those that ran beside it have not."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import trees as task_events
from tests.tasks.recovery.deadly import Deadly
from tests.tasks.resuming import NotingStore, records
from trees import Escalate, Failover, Retry, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start

WAIT_S = 60.0


def spec_of(ids: list[str], ladder: list[Any], **more: Any) -> Any:
    plan = StaticPlan([Subtask(id_, worker="w", required=False) for id_ in ids])

    def spec(deadly: Deadly) -> SupervisorSpec:
        worker = WorkerSpec(id="w", execute=deadly.execute, breaker=None, pool=8)
        return SupervisorSpec(id="p", tasks=Tasks(planner=plan, on_failure=ladder, **more), children=[worker])

    return spec


@pytest.mark.parametrize(("max_losses", "tries"), [(3, 1), (1, 1), (2, 2)])
def test_after_so_many_losses_it_has_failed_and_its_ladder_goes_on(max_losses: int, tries: int) -> None:
    ladder = [Retry(max_attempts=tries, initial_s=0.0, max_s=0.0)]
    deadly = Deadly(spec_of(["poison"], ladder, max_losses=max_losses))

    report = deadly.run_one(20)

    assert deadly.deaths == max_losses * tries
    assert report.failed["poison"].startswith("AttemptLostError")
    assert {each.kind for each in records(deadly.store, "t", task_events.SubtaskFailed)} == {"lost"}


def test_a_person_is_asked_where_the_ladder_says_so() -> None:
    deadly = Deadly(spec_of(["poison"], [Failover(), Escalate()]))

    (question,) = deadly.run_one(20)

    assert deadly.deaths == 3
    assert "3 processes" in question.error


def test_two_of_them_are_found_one_after_the_other() -> None:
    ids = ["slow0", "poison0", "slow1", "poison1", "slow2"]
    deadly = Deadly(spec_of(ids, [Retry(2, initial_s=0.0, max_s=0.0)]))

    report = deadly.run_one(30)

    assert set(report.failed) >= {"poison0", "poison1"}
    assert {*report.failed, *report.results} == set(ids)  # an innocent may lose its last chance to the other culprit
    assert deadly.deaths <= 12


def test_a_process_that_is_stopped_loses_nothing() -> None:
    store, begun = NotingStore(), threading.Semaphore(0)

    async def works(task: Any, context: Any) -> str:
        begun.release()
        await context.ask("waits", "for ever")
        return "done"

    async def waits(task: Any, context: Any) -> None:
        gate: Any = __import__("asyncio").Event()
        begun.release()
        await gate.wait()

    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]), on_failure=[])
    children = [WorkerSpec(id="w", execute=works), WorkerSpec(id="waits", execute=waits)]
    for _ in range(5):
        with start(SupervisorSpec(id="p", tasks=tasks, children=children), store=store) as tree:
            handle = tree.submit(Task("go", id="t"))
            assert begun.acquire(timeout=WAIT_S)
            assert begun.acquire(timeout=WAIT_S)
            assert handle.report is None

    assert records(store, "t", task_events.SubtaskFailed) == []
    assert "nothing is known" not in str([each.reason for each in records(store, "t", task_events.SubtaskQueued)])
