"""What has succeeded by the time that a tree is down is in its journal, whatever overtook the news of it."""

from __future__ import annotations

import threading
from typing import Any

from actors.tasks.model.task_events import SubtaskSucceeded, TaskFinished
from actors.testing import Hang
from tests.support.hardening import eventually
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start
from trees.store import MemoryStore

LONG_S = 60.0


def test_the_order_to_stop_overtakes_the_news_of_a_result_and_the_result_is_recorded() -> None:
    store, hang, done = MemoryStore(), Hang(deaf=True), threading.Event()

    def execute(task: Any, context: Any) -> str:
        hang.hold()
        done.set()
        return "done"

    spec = SupervisorSpec(
        id="p",
        tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])),
        children=[WorkerSpec(id="w", execute=execute)],
    )
    tree = start(spec, store=store)
    tree.submit(Task("go", id="t"))
    hang.wait_until_entered()
    orchestrator = tree._system.children["p/orchestrator"].incarnation
    assert orchestrator is not None
    # The loop is held up: so the news of the result and then the order to stop come to an orchestrator that is busy.
    go_on = threading.Event()
    tree._system.loop.call(lambda: go_on.wait(LONG_S))
    stopping = threading.Thread(target=tree.stop)
    stopping.start()
    hang.release()
    assert done.wait(LONG_S)
    eventually(lambda: orchestrator.order is not None)
    go_on.set()
    stopping.join(LONG_S)

    assert [type(each) for each in store.read("t")][-2:] == [SubtaskSucceeded, TaskFinished]
