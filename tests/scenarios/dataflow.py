"""``python -m tests.scenarios.dataflow``: the dependent of a fast subtask does not wait for an unrelated slow one."""

from __future__ import annotations

import threading

from actors import Context, Event
from trees import StaticPlan, Subtask, SubtaskSucceeded, SupervisorSpec, Tasks, WorkerSpec, start

PATIENCE_S = 60.0
PLAN = [Subtask("fast"), Subtask("slow"), Subtask("after_fast", depends_on=["fast"])]


def main() -> None:
    dependent_ended = threading.Event()

    def fast(task: Subtask, context: Context) -> str:
        return "here already"

    def slow(task: Subtask, context: Context) -> str:
        return "waited for it" if dependent_ended.wait(PATIENCE_S) else "it never came"

    def after_fast(task: Subtask, context: Context) -> str:
        return f"fast is {context.results['fast']}"

    def hear(event: Event) -> None:
        if isinstance(event, SubtaskSucceeded) and event.subtask == "after_fast":
            dependent_ended.set()

    workers = [WorkerSpec(id=code.__name__, execute=code) for code in (fast, slow, after_fast)]
    with start(SupervisorSpec(id="team", tasks=Tasks(planner=StaticPlan(PLAN)), children=workers)) as tree:
        tree.subscribe(hear)
        handle = tree.submit("whatever takes long must hold up nobody else")
        report = handle.result(PATIENCE_S)
        done = [event.subtask for event in handle.events() if isinstance(event, SubtaskSucceeded)]

    print("done in this order:", ", ".join(done))
    for name, result in report.results.items():
        print(f"{name}: {result}")


if __name__ == "__main__":
    main()
