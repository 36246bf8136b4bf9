"""A step that code on a thread has made is not made again by the next attempt."""

from __future__ import annotations

from typing import Any

from trees import Retry, StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec, start


def test_step_sync_gives_what_an_earlier_attempt_has_paid_for() -> None:
    paid: list[int] = []

    def pay(amount: int) -> int:
        paid.append(amount)
        return len(paid)

    def work(_task: str, context: Any) -> int:
        number: int = context.step_sync("pay", pay, 7, keep="subtask")
        if context.attempt == 1:
            raise OSError("the network")
        return number

    worker = WorkerSpec(id="w", execute=work, on_failure=[Retry(max_attempts=2, initial_s=0.0)])
    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]))
    with start(SupervisorSpec(id="t", tasks=tasks, children=[worker])) as tree:
        report = tree.run("go", timeout=60.0)

    assert report.results == {"a": 1}
    assert paid == [7]
