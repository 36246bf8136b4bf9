"""What a host sees of what happens inside the teams of a task: their events are among those of the task, in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from typing import Any

import pytest

import trees as task_events
from actors import Escalated, Failed
from actors.testing import ManualClock
from tests.support.attempts import AT_ONCE, LONG_S
from tests.tasks.orchestrators import kill_orchestrator
from tests.tasks.resuming import NotingStore
from trees import (
    Escalate,
    Respond,
    StaticPlan,
    Subtask,
    SubtaskProgressed,
    SubtaskStarted,
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
    """All of each journal, in its order; a part stands between the record that begins it and the one that ends it."""
    records = kept(seen)
    for id_, journal in store.journals.items():
        assert [event for event in records if event.task == id_] == journal, id_
    assert len(records) == sum(map(len, store.journals.values()))
    assert seen[-1] == store.journals[root][-1]
    assert isinstance(seen[-1], TaskFinished)
    for at, event in enumerate(records):
        if isinstance(event, SubtaskStarted) and event.part:
            of = [number for number, each in enumerate(records) if each.task == event.part and number > at]
            over = next(
                number
                for number, each in enumerate(records)
                if number > at and each.task == event.task and getattr(each, "subtask", "") == event.subtask
            )
            assert of, event
            assert of[0] < over
            assert any(isinstance(records[number], TaskFinished) for number in of if number < over)


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

    assert live == after == store.journals["t"]


def test_a_part_can_be_followed_by_itself() -> None:
    store = NotingStore()
    with start(house(), store=store) as tree:
        tree.run(Task("go", id="t"), timeout=LONG_S)
        part = next(id_ for id_ in store.journals if id_.startswith("t@left"))
        seen = list(tree.task(part).events())

    assert {event.path for event in seen} == {"p/one"}
    assert seen[-1] == store.journals[part][-1]


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


def test_at_one_moment_a_part_stands_between_what_begins_it_and_what_ends_it() -> None:
    """A clock that stands still: time says nothing of the order."""
    calls: list[int] = []

    def fails_first(task: Any, context: Any) -> str:
        calls.append(1)
        if len(calls) == 1:
            raise Failed("not yet")
        return "done"

    store = NotingStore()
    spec = team(
        "p",
        [Subtask("left", worker="one"), Subtask("right", worker="two")],
        team("one", [Subtask("a", worker="w")], worker("w", fails_first)),
        team("two", [Subtask("c", worker="w")], worker("w")),
        on_failure=[AT_ONCE],
    )
    with start(spec, store=store, clock=ManualClock()) as tree:
        handle = tree.submit(Task("go", id="t"))
        assert handle.result(LONG_S).results["left"] == {"a": "done"}
        seen = list(handle.events())

    assert len({event.at for event in seen}) == 1
    assert any(isinstance(event, task_events.TaskReopened) for event in seen)
    require_in_order(seen, store)


def test_what_a_team_undoes_is_told_before_the_task_has_ended() -> None:
    store = NotingStore()
    done = team("one", [Subtask("a", worker="w")], worker("w", undo=lambda task, result, context: None))
    plan = [Subtask("left", worker="one"), Subtask("fails", worker="f", depends_on=["left"])]

    def fails(task: Any, context: Any) -> None:
        raise Failed("no", retryable=False)

    with start(team("p", plan, done, worker("f", fails)), store=store) as tree:
        handle = tree.submit(Task("go", id="t"))
        live = list(handle.events())

    require_in_order(live, store)
    undone = [event.path for event in live if isinstance(event, task_events.Compensated)]
    assert undone == ["p/one", "p"]


@pytest.mark.parametrize("path", ["p", "p/one"])
def test_events_of_teams_are_complete_and_each_comes_once_while_an_orchestrator_is_replaced(path: str) -> None:
    begun, gate, store = threading.Event(), threading.Event(), NotingStore()

    def waits(task: Any, context: Any) -> str:
        begun.set()
        assert gate.wait(LONG_S)
        return "done"

    with start(house(waits), store=store) as tree:
        handle = tree.submit(Task("go", id="t"))
        seen: list[TaskEvent] = []
        for event in handle.events():
            seen.append(event)
            if isinstance(event, SubtaskStarted) and event.subtask == "a":
                assert begun.wait(LONG_S)
                kill_orchestrator(tree, path)
                gate.set()

    require_in_order(seen, store)


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

    expected = {id_: journal[before.get(id_, 0) :] for id_, journal in store.journals.items()}
    assert {id_: [event for event in kept(new) if event.task == id_] for id_ in expected} == expected
    assert expected["t@left:1.1"]


@pytest.mark.parametrize("is_finished", [True, False], ids=["finished", "its end is the last record"])
@pytest.mark.parametrize("deep", [True, False])
def test_nothing_is_new_of_a_task_whose_end_an_earlier_process_has_recorded(*, is_finished: bool, deep: bool) -> None:
    store = NotingStore()
    with start(house(), store=store) as tree:
        tree.run(Task("go", id="t"), timeout=LONG_S)
    end = max(number for number, change in enumerate(store.changes) if change.stream == "t" and change.what == "append")
    store = NotingStore(store.changes if is_finished else store.changes[: end + 1])
    seen: list[TaskEvent] = []
    with start(house(), store=store) as tree:
        handle = tree.task("t")
        reader = threading.Thread(target=lambda: seen.extend(handle.events(new=True, deep=deep)), daemon=True)
        reader.start()
        reader.join(LONG_S)

        assert not reader.is_alive()
        assert seen == []
        assert isinstance(list(handle.events(deep=deep))[-1], TaskFinished)


class BusyStore(NotingStore):
    """A store in which things go on while the reader of the task's journal is on its way to the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: list[Any] = []
        """Done after the next look at that journal that comes from the test's own thread."""

    def read(self, stream: str, start: int = 0) -> Any:
        found = super().read(stream, start)
        if stream == "t" and threading.current_thread() is threading.main_thread() and self.meanwhile:
            self.meanwhile.pop()()
        return found


def test_journals_that_grow_while_they_are_read_one_after_the_other_are_told_in_order() -> None:
    store, first, second, begun = BusyStore(), threading.Event(), threading.Event(), threading.Semaphore(0)

    def waits_for(gate: threading.Event) -> Any:
        return lambda task, context: (begun.release(), gate.wait(LONG_S))

    def go_on() -> None:
        first.set()
        store.changes_when(task_events.SubtaskSucceeded, "t", "quick")
        second.set()
        store.changes_when(TaskFinished, "t@slow:1.1")

    slow = team("slow", [Subtask("c", worker="w")], worker("w", waits_for(second)))
    plan = [Subtask("quick", worker="quick"), Subtask("slow", worker="slow")]
    with start(team("p", plan, worker("quick", waits_for(first)), slow), store=store) as tree:
        handle = tree.submit(Task("go", id="t"))
        for _ in plan:
            assert begun.acquire(timeout=LONG_S)
        store.meanwhile.append(go_on)
        seen = list(handle.events())

    assert not store.meanwhile
    require_in_order(seen, store)
    assert [event.at for event in kept(seen)] == sorted(event.at for event in kept(seen))
