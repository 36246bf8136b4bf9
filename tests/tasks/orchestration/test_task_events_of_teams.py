"""What a host sees of what happens inside the teams of a task: their events are among those of the task, in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from typing import Any

import trees as task_events
from actors import Escalated
from tests.support.attempts import LONG_S
from tests.tasks.resuming import NotingStore
from trees import (
    Escalate,
    Respond,
    StaticPlan,
    Subtask,
    SubtaskProgressed,
    SupervisorSpec,
    Task,
    TaskEvent,
    TaskFinished,
    Tasks,
    WorkerSpec,
    start,
)


def team(id_: str, plan: list[Subtask], *children: Any, **more: Any) -> SupervisorSpec:
    return SupervisorSpec(
        id=id_, tasks=Tasks(**{"planner": StaticPlan(plan), "on_failure": [], **more}), children=children
    )


def worker(id_: str, code: Any = None, **more: Any) -> WorkerSpec:
    return WorkerSpec(id=id_, execute=code or (lambda task, context: context.progress(0.5, id_)), breaker=None, **more)


def house(inner: Any = None, **more: Any) -> SupervisorSpec:
    """Two teams at once."""
    plan = [Subtask("a", worker="inner"), Subtask("b", worker="w", depends_on=["a"])]
    one = team("one", plan, worker("inner", inner), worker("w"), **more)
    two = team("two", [Subtask("c", worker="w")], worker("w"))
    return team("p", [Subtask("left", worker="one"), Subtask("right", worker="two")], one, two)


def kept(seen: Iterable[TaskEvent]) -> list[TaskEvent]:
    return [event for event in seen if not isinstance(event, SubtaskProgressed)]


def require_in_order(seen: list[TaskEvent], store: NotingStore, root: str = "t") -> None:
    """All of the journal, in its order."""
    assert kept(seen) == store.journals[root]
    assert isinstance(seen[-1], TaskFinished)


def test_what_happens_inside_teams_comes_with_the_events_in_order_up_to_the_end_of_the_task() -> None:
    store, gate = NotingStore(), threading.Event()

    def waits(task: Any, context: Any) -> None:
        assert gate.wait(LONG_S)
        context.progress(0.5, "inner")

    with start(house(waits), store=store) as tree:
        handle, live = tree.submit(Task("go", id="t")), list[TaskEvent]()
        for event in handle.events():
            live.append(event)
            gate.set()  # what is not kept is told from here on

        async def read() -> list[TaskEvent]:
            return [event async for event in handle.events()]

        again, asynchronous = list(handle.events()), asyncio.run(read())

    require_in_order(live, store)
    assert "inner" in {event.text for event in live if isinstance(event, SubtaskProgressed)}
    assert {event.path for event in live} == {"p", "p/one", "p/two"}
    require_in_order(again, store)  # two that have nothing to do with each other may have been told the other way round
    assert again == asynchronous


def test_without_depth_there_is_nothing_of_the_teams() -> None:
    store = NotingStore()
    with start(house(), store=store) as tree:
        handle = tree.submit(Task("go", id="t"))
        live = list(handle.events(deep=False))
        after = list(handle.events(deep=False))

    assert live == after == [event for event in store.journals["t"] if event.path == "p"]


def test_a_question_inside_a_team_is_heard_and_answered_by_the_events_of_the_task() -> None:
    def asks(task: Any, context: Any) -> str:
        if not context.feedback:
            raise Escalated("which one?")
        return str(context.feedback)

    with start(house(asks, on_failure=[Escalate()])) as tree:
        handle = tree.submit(Task("go", id="t"))
        for event in handle.events():
            if isinstance(event, task_events.EscalationRaised):
                handle.respond(event.escalation, Respond("this one"))

        assert handle.report is not None
        assert handle.report.results["left"]["a"] == "this one"


def test_only_what_is_new_is_told_of_teams_that_an_earlier_process_had_begun() -> None:
    store, begun = NotingStore(), threading.Event()

    async def hangs(task: Any, context: Any) -> str:
        if not begun.is_set():
            begun.set()
            await asyncio.get_running_loop().create_future()
        return "done"

    with start(house(hangs), store=store) as tree:
        tree.submit(Task("go", id="t"))
        assert begun.wait(LONG_S)
    store = NotingStore(store.changes)
    before = {id_: len(journal) for id_, journal in store.journals.items()}
    with start(house(hangs), store=store) as tree:
        new = list(tree.task("t").events(new=True))

    assert kept(new) == store.journals["t"][before["t"] :]
