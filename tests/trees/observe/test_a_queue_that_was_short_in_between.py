"""An alert on a long queue fires for one that was long without a break."""

from __future__ import annotations

import queue
import threading
from typing import Any

from actors.testing import ManualClock, settle
from trees import Alert, AlertNotice, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, TaskStatus, WorkerSpec, start
from trees.observe import alerts


def test_queue_over_counts_from_the_last_time_that_the_queue_was_short() -> None:
    clock, told, looked = ManualClock(), queue.SimpleQueue[AlertNotice](), threading.Semaphore(0)
    gates = {name: threading.Event() for name in ("first", "second")}

    def wait(_: Any, context: Any) -> str:
        assert gates[context.inputs["gate"]].wait(60.0)
        return "done"

    def look(_: object) -> bool:
        looked.release()
        return False

    def next_look() -> None:
        while looked.acquire(blocking=False):
            pass
        for _ in range(2):  # the first may have begun before
            assert looked.acquire(timeout=60.0)

    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]), max_parallel=1)
    watch = [Alert("queue", alerts.queue_over(1, 10.0), told.put), Alert("looks", look, print)]
    spec = SupervisorSpec(id="t", tasks=tasks, children=[WorkerSpec(id="w", execute=wait)])
    with start(spec, clock=clock, alerts=watch) as tree:
        for gate in ("first", "second"):
            handles = [tree.submit(Task("go", inputs={"gate": gate})) for _ in range(4)]
            next_look()
            clock.advance(6.0)
            next_look()
            assert told.empty()
            if gate == "first":
                gates["first"].set()
                for handle in handles:
                    assert handle.result(60.0).status is TaskStatus.SUCCEEDED
                settle(tree)
                next_look()
        clock.advance(6.0)
        assert told.get(timeout=60.0).name == "queue"
        gates["second"].set()
        for handle in handles:
            handle.result(60.0)
