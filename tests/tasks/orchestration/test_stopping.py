"""What the order to stop overtakes: the news of a result, and the news that all is being stopped."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from actors.tasks.model.task_events import SubtaskSucceeded, TaskFinished
from actors.testing import Hang
from tests.support.crew import faulty
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


def test_a_planner_is_ended_with_its_team_where_the_order_to_stop_overtakes_that_news() -> None:
    """The team is up again, and its planner is called again: the one before would have been waited for."""
    begun, ended = threading.Event(), threading.Event()

    async def plan(*_: Any) -> list[Subtask]:
        if not begun.is_set():
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
        return [Subtask("a", worker="w")]

    team = SupervisorSpec(
        id="team", tasks=Tasks(planner=plan), children=[WorkerSpec(id="w", execute=lambda *_: "done")]
    )
    tasks = Tasks(planner=StaticPlan([Subtask("team")]))
    spec = SupervisorSpec(id="p", strategy="one_for_all", tasks=tasks, children=[faulty("culprit"), team])
    with start(spec) as tree:
        handle = tree.submit(Task("go"))
        assert begun.wait(LONG_S)
        orchestrator = tree._system.children["p/team/orchestrator"].incarnation
        assert orchestrator is not None
        go_on = threading.Event()
        tree._system.loop.call(lambda: go_on.wait(LONG_S))
        tree.ref("p/culprit").tell("raise ValueError")
        eventually(lambda: orchestrator.order is not None)
        go_on.set()
        assert ended.wait(LONG_S)
        assert handle.result(timeout=LONG_S).results == {"team": {"a": "done"}}
