"""``python -m tests.scenarios.urgent``: an urgent task interrupts one that has time."""

from __future__ import annotations

import asyncio
import threading

from actors import Context, Event
from trees import StaticPlan, Subtask, SubtaskEvent, SupervisorSpec, Task, Tasks, WorkerSpec, start

PATIENCE_S = 60.0


def main() -> None:
    began, urgent_ran = threading.Event(), asyncio.Event()

    async def work(task: Subtask, context: Context) -> str:
        began.set()
        if context.inputs["urgent"]:
            urgent_ran.set()
        await urgent_ran.wait()  # the one that has time would wait for ever, were it not interrupted
        return f"done in attempt {context.attempt}"

    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan([Subtask("work")]), max_parallel=1),
        children=[WorkerSpec(id="work", execute=work, pool=2)],
    )
    happened: list[Event] = []
    with start(team) as tree:
        tree.subscribe(happened.append)
        patient = tree.submit(Task("tidy up", inputs={"urgent": False}, priority=5, id="patient"))
        began.wait(PATIENCE_S)
        urgent = tree.submit(Task("put out the fire", inputs={"urgent": True}, priority=0, id="urgent"))
        reports = [handle.result(PATIENCE_S) for handle in (urgent, patient)]

    for event in happened:
        if isinstance(event, SubtaskEvent):
            print(f"{event.task}: {type(event).__name__.removeprefix('Subtask').lower()}")
    for report in reports:
        print(f"{report.task_id}: {report.results['work']}")


if __name__ == "__main__":
    main()
