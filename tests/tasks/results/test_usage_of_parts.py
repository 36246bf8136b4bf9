"""Usage of what teams do is counted once by whoever has the whole, in whatever order a part and its attempts end."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

from actors.testing import ManualClock
from tests.support.crew import LONG_S, Record
from tests.support.hardening import eventually
from tests.tasks.resuming import NotingStore
from trees import (
    Report,
    StaticPlan,
    Subtask,
    SubtaskFailedError,
    SubtaskPreempted,
    SupervisorSpec,
    Task,
    TaskError,
    TaskHandle,
    Tasks,
    UsageTold,
    WorkerSpec,
    start,
)


class Desk:
    """A team of two that uses up 10 tokens and 1, and 100 to undo that. The second one works until it may end."""

    def __init__(self) -> None:
        self.looking, self.may_find, self.refunded = threading.Event(), threading.Event(), threading.Event()
        self.begun = 0
        self.fails_when_interrupted = False

    def pay(self, _: Any, context: Any) -> str:
        context.use(tokens=10)
        return "paid"

    def refund(self, _: Any, __: Any, context: Any) -> None:
        context.use(tokens=100)
        self.refunded.set()

    async def look(self, _: Any, context: Any) -> str:
        context.use(tokens=1)
        self.begun += 1
        self.looking.set()
        try:
            await asyncio.to_thread(self.may_find.wait, LONG_S)
        except asyncio.CancelledError:
            if self.fails_when_interrupted:
                raise ValueError("what it had begun has failed") from None
            raise
        return "found"

    def spec(self, **words: Any) -> SupervisorSpec:
        plan = [Subtask("pay", worker="pay"), Subtask("look", worker="look", depends_on=["pay"])]
        pays = WorkerSpec(id="pay", execute=self.pay, undo=self.refund)
        looks = WorkerSpec(id="look", execute=self.look)
        tasks = Tasks(planner=StaticPlan(plan), on_failure=[])
        return SupervisorSpec(id="desk", tasks=tasks, children=[pays, looks], **words)


class Shop:
    """One slot, for which something urgent competes with what is slow. The urgent one works until it may end."""

    def __init__(self, desk: Desk, *children: WorkerSpec, slow: str = "desk", **words: Any) -> None:
        self.busy, self.may_end = threading.Event(), threading.Event()
        self.plans = {"slow": [Subtask(slow)], "urgent": [Subtask("urgent")]}
        tasks = Tasks(planner=self.plan, on_failure=[], max_parallel=1)
        urgent = WorkerSpec(id="urgent", execute=self.urgent)
        self.spec = SupervisorSpec(id="shop", tasks=tasks, children=[desk.spec(**words), urgent, *children])

    def plan(self, task: Task, *_: object) -> list[Subtask]:
        return self.plans[task.goal]

    def urgent(self, *_: object) -> None:
        self.busy.set()
        self.may_end.wait(LONG_S)


def report_of(handle: TaskHandle) -> Report:
    with suppress(TaskError):
        handle.result(timeout=LONG_S)
    assert handle.report is not None
    return handle.report


@pytest.mark.parametrize("how", ["goes on", "is cancelled", "is out of time"])
@pytest.mark.parametrize("fails", [False, True], ids=["gives way", "fails meanwhile"])
def test_what_a_team_had_used_up_when_it_gave_way_counts_once_whatever_becomes_of_it(how: str, *, fails: bool) -> None:
    desk, clock = Desk(), ManualClock()
    desk.fails_when_interrupted = fails
    shop = Shop(desk)

    with start(shop.spec, clock=clock) as tree:
        record = Record(tree)
        slow = tree.submit(Task("slow", priority=5, deadline_s=30.0))
        assert desk.looking.wait(LONG_S)
        tree.submit(Task("urgent", priority=1))
        assert record.wait_for(SubtaskPreempted, "shop")
        assert shop.busy.wait(LONG_S)
        if how == "goes on":
            desk.may_find.set()
        elif how == "is cancelled":
            slow.cancel()
        else:
            clock.advance(31)
        if how != "goes on":
            report = report_of(slow)
        shop.may_end.set()
        if how == "goes on":
            report = report_of(slow)
        desk.may_find.set()

    undone = 100 if fails or how != "goes on" else 0
    assert report.usage.tokens == 10 + desk.begun + undone
    assert report.usage_by_role["workers"].tokens == report.usage.tokens


def test_a_team_that_is_gone_has_told_what_it_had_used_up() -> None:
    """Its subtask goes to another worker."""
    desk = Desk()
    desk_spec = desk.spec(backup="other")
    other = WorkerSpec(id="other", execute=lambda _, context: context.use(tokens=1000))
    tasks = Tasks(planner=StaticPlan([Subtask("desk", worker="desk")]))
    with start(SupervisorSpec(id="shop", tasks=tasks, children=[desk_spec, other])) as tree:
        handle = tree.submit(Task("go"))
        assert desk.looking.wait(LONG_S)
        tree.terminate_child("shop/desk")
        report = report_of(handle)
        desk.may_find.set()

    assert report.usage.tokens == 1011


@pytest.mark.parametrize("how", ["fails", "goes on without it"])
def test_what_was_asked_for_counts_that_gave_way_when_its_asker_had_enough(how: str) -> None:
    desk, clock = Desk(), ManualClock()

    async def asks(_: Any, context: Any) -> str:
        try:
            await context.ask("desk", "one thing", timeout=10.0)
        except SubtaskFailedError:
            if how == "fails":
                raise
            await asyncio.to_thread(desk.refunded.wait, LONG_S)
            await asyncio.to_thread(eventually, lambda: not tree.tasks(status="running")[1:], "the end of the part")
            return "something else"
        raise AssertionError

    shop = Shop(desk, WorkerSpec(id="asker", execute=asks), slow="asker")
    with start(shop.spec, clock=clock) as tree:
        record = Record(tree)
        slow = tree.submit(Task("slow", priority=5))
        assert desk.looking.wait(LONG_S)
        tree.submit(Task("urgent", priority=1))
        assert record.wait_for(SubtaskPreempted, "shop")
        assert shop.busy.wait(LONG_S)
        clock.advance(11)
        shop.may_end.set()
        report = report_of(slow)
        desk.may_find.set()

    assert report.usage.tokens == 10 + desk.begun + 100


def test_what_a_team_had_used_up_counts_where_the_next_process_has_no_such_team() -> None:
    """Its subtask goes to another worker. Nobody is there who could say what the part has used up."""
    desk, store = Desk(), NotingStore()
    tasks = Tasks(planner=StaticPlan([Subtask("x", capability="able")]), on_failure=[])
    team = desk.spec(capabilities={"able"})
    with start(SupervisorSpec(id="shop", tasks=tasks, children=[team]), store=store) as tree:
        tree.submit(Task("go", id="t"))
        assert desk.looking.wait(LONG_S)
        changes = store.changes_when(UsageTold, "t@x:1.1", "look")
        desk.may_find.set()
    other = WorkerSpec(id="other", execute=lambda _, context: context.use(tokens=1000), capabilities={"able"})

    with start(SupervisorSpec(id="shop", tasks=tasks, children=[other]), store=NotingStore(changes)) as tree:
        report = report_of(tree.task("t"))

    assert report.usage.tokens == 1011
