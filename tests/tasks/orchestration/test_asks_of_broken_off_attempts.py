"""Whoever is broken off while it waits in an ask, and runs once more, asks again: what it had asked for stands."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from actors import ActorStoppedError, ChildExited
from actors.tasks.model.task_events import UsageTold
from actors.tasks.orchestration.messages import Begin
from actors.tasks.orchestration.orchestrator import Orchestrator
from actors.testing import ManualClock
from tests.support.crew import LONG_S, Record, faulty
from tests.support.hardening import eventually
from tests.tasks.resuming import Change, NotingStore
from trees import (
    Report,
    StaticPlan,
    Subtask,
    SubtaskFailed,
    SubtaskPreempted,
    SupervisorSpec,
    Task,
    TaskResumed,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

SYNC = pytest.mark.parametrize("is_sync", [False, True], ids=["async", "sync"])


class Desk:
    """A team that pays, and then looks for something until it may go on; it counts what it does."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.looking, self.may_find = threading.Event(), threading.Event()

    def pay(self, _: Any, context: Any) -> str:
        context.use(tokens=10)
        self.counts["pay"] += 1
        return "paid"

    def refund(self, *_: Any) -> None:
        self.counts["refund"] += 1

    async def look(self, _: Any, context: Any) -> str:
        self.counts["look"] += 1
        context.use(tokens=1)
        self.looking.set()
        await asyncio.to_thread(self.may_find.wait, LONG_S)
        return "found"

    def spec(self, **words: Any) -> SupervisorSpec:
        plan = [Subtask("pay", worker="pay"), Subtask("look", worker="look", depends_on=["pay"])]
        pays = WorkerSpec(id="pay", execute=self.pay, undo=self.refund)
        looks = WorkerSpec(id="look", execute=self.look)
        return SupervisorSpec(id="desk", tasks=Tasks(planner=StaticPlan(plan)), children=[pays, looks], **words)


async def asks(_: Any, context: Any) -> Any:
    return await context.ask("desk", "one thing")


def asks_sync(_: Any, context: Any) -> Any:
    return context.ask_sync("desk", "one thing")


FOUND = {"pay": "paid", "look": "found"}


def asker(*, is_sync: bool = False, is_member: bool = False, **words: Any) -> WorkerSpec | SupervisorSpec:
    worker = WorkerSpec(id="asker", execute=asks_sync if is_sync else asks, **words)
    if not is_member:
        return worker
    return SupervisorSpec(id="asker", tasks=Tasks(planner=StaticPlan([Subtask("asker")])), children=[worker])


def shop(*children: WorkerSpec | SupervisorSpec, strategy: Any = "one_for_all", **tasks: Any) -> SupervisorSpec:
    tasks.setdefault("planner", StaticPlan([Subtask("asker")]))
    return SupervisorSpec(id="shop", strategy=strategy, tasks=Tasks(on_failure=[], **tasks), children=children)


def restart_group(tree: Tree, record: Record, path: str = "shop/asker") -> None:
    exits = len(record.exits(path))
    tree.ref("shop/culprit").tell("raise ValueError")
    record.wait_for(ChildExited, path, exits + 1)


@pytest.mark.slow
@SYNC
@pytest.mark.parametrize("is_member", [False, True], ids=["worker", "member"])
@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
@pytest.mark.parametrize("order", ["culprit asker desk", "culprit desk asker", "desk culprit asker"])
@pytest.mark.parametrize("shutdown", [5.0, "brutal_kill"])
def test_a_group_that_restarts_does_nothing_twice_that_was_asked_of_a_team(
    order: str, strategy: str, shutdown: Any, tmp_path: Path, *, is_member: bool, is_sync: bool
) -> None:
    """Whether the end of the ask is heard first, or that of the attempt: a kill ends the attempt before its code."""
    desk = Desk()
    known = {
        "culprit": faulty("culprit"),
        "asker": asker(is_sync=is_sync, is_member=is_member, shutdown=shutdown),
        "desk": desk.spec(),
    }
    spec = shop(*(known[each] for each in order.split()), strategy=strategy)

    with start(spec, store=f"sqlite:///{tmp_path}/s.db") as tree:
        record = Record(tree)
        handle = tree.submit(Task("go"))
        assert desk.looking.wait(LONG_S)
        if is_sync and order != "culprit asker desk" and shutdown != "brutal_kill":
            tree.ref("shop/culprit").tell("raise ValueError")  # its order to stop lets it wait for its answer
        else:
            restart_group(tree, record, "shop/asker/asker" if is_member else "shop/asker")
        desk.may_find.set()
        report = handle.result(timeout=LONG_S)

    expected = {"asker": FOUND} if is_member else FOUND
    assert report.results == {"asker": expected}
    assert (desk.counts["pay"], desk.counts["refund"]) == (1, 0)
    assert report.usage.tokens == 10 + desk.counts["look"]
    assert not record._delivered(SubtaskFailed, None)


@SYNC
def test_what_runs_of_it_in_a_team_that_is_no_part_of_the_group_goes_on(*, is_sync: bool) -> None:
    desk = Desk()

    asking = asker(is_sync=is_sync, shutdown="brutal_kill")
    with start(shop(desk.spec(), faulty("culprit"), asking, strategy="rest_for_one")) as tree:
        record = Record(tree)
        handle = tree.submit(Task("go"))
        assert desk.looking.wait(LONG_S)
        restart_group(tree, record)
        desk.may_find.set()
        report = handle.result(timeout=LONG_S)

    assert report.results == {"asker": FOUND}
    assert desk.counts == {"pay": 1, "look": 1}


def asked_again_at_6_of_10(tree: Tree, desk: Desk, clock: ManualClock) -> Report:
    """Have an asker broken off at 6 of its 10 seconds, which asks again, and the desk find it at 12."""
    record = Record(tree)
    handle = tree.submit(Task("go", id="t"))
    assert desk.looking.wait(LONG_S)
    clock.advance(6)
    restart_group(tree, record)
    eventually(lambda: any(each.deadline is not None for each in record.of(TaskResumed)), "its new time")
    clock.advance(6)
    desk.may_find.set()
    return handle.result(timeout=LONG_S)


def test_time_does_not_pass_for_it_and_whoever_asks_again_has_a_time_of_its_own() -> None:
    """Neither the time of the first ask nor that of the team's part of it ends what is asked for again."""
    desk, clock = Desk(), ManualClock()
    spec = shop(desk.spec(), faulty("culprit"), asker(timeout_s=10.0), strategy="rest_for_one")
    with start(spec, clock=clock) as tree:
        report = asked_again_at_6_of_10(tree, desk, clock)

    assert report.results == {"asker": FOUND}
    assert desk.counts == {"pay": 1, "look": 1}


def changes_while_looking(spec: SupervisorSpec, desk: Desk) -> list[Change]:
    """The changes of a process that ended while the desk was looking; its clock begins at 0."""
    store = NotingStore()
    with start(spec, store=store, clock=ManualClock()) as tree:
        tree.submit(Task("go", id="t"))
        assert desk.looking.wait(LONG_S)
        changes = store.changes_when(UsageTold, "t@asker.1:1.1", "look")
        desk.may_find.set()
    return changes


def test_whoever_asks_again_in_a_new_process_has_a_time_of_its_own_too() -> None:
    """The time that the team's part had is over by then."""
    desk, clock = Desk(), ManualClock()
    spec = shop(desk.spec(), asker(timeout_s=10.0))
    changes = changes_while_looking(spec, desk)
    clock.advance(20)

    with start(spec, store=NotingStore(changes), clock=clock) as tree:
        report = tree.task("t").result(timeout=LONG_S)

    assert report.results == {"asker": FOUND}
    assert (desk.counts["pay"], desk.counts["refund"]) == (1, 0)


def test_whoever_asks_again_before_the_team_has_taken_up_its_journals_has_a_time_of_its_own_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other order: the part is asked for once more before its team looks at it, which is no beginning of it."""
    desk, clock = Desk(), ManualClock()
    spec = shop(desk.spec(), asker(timeout_s=10.0))
    changes = changes_while_looking(spec, desk)
    clock.advance(20)
    begin = Orchestrator._HANDLERS[Begin]

    def late(to: Orchestrator, message: Begin) -> None:
        given = [each for each in to.core.runtime.attempts.copy().values() if each.spec.part and each.was_given]
        if to.core.path == "shop/desk" and not given:
            to.core.port.post(message)
        else:
            begin(to, message)

    monkeypatch.setitem(Orchestrator._HANDLERS, Begin, late)
    monkeypatch.setattr(Orchestrator, "_on_begin", late)
    with start(spec, store=NotingStore(changes), clock=clock) as tree:
        report = tree.task("t").result(timeout=LONG_S)

    assert report.results == {"asker": FOUND}
    assert (desk.counts["pay"], desk.counts["refund"]) == (1, 0)


def test_whoever_does_without_it_after_all_has_it_undone() -> None:
    """It was told that its team is stopped first, and goes on with something else."""
    desk = Desk()

    def does_without(_: Any, context: Any) -> str:  # sync: an async one may be cancelled before it can say so
        try:
            context.ask_sync("desk", "one thing")
        except ActorStoppedError:
            desk.may_find.set()
            return "something else"
        raise AssertionError

    children = [faulty("culprit"), WorkerSpec(id="asker", execute=does_without), desk.spec()]
    with start(shop(*children, strategy="rest_for_one")) as tree:
        record = Record(tree)
        handle = tree.submit(Task("go"))
        assert desk.looking.wait(LONG_S)
        restart_group(tree, record)
        report = handle.result(timeout=LONG_S)

    assert report.results == {"asker": "something else"}
    assert report.skipped == {"asker.1": "nobody waits for it"}
    assert (desk.counts["pay"], desk.counts["refund"]) == (1, 1)
    assert report.usage.tokens == 10 + desk.counts["look"]


def test_what_gives_way_with_its_asker_is_not_done_twice() -> None:
    """A team gives way, with a member that waits for another team."""
    desk = Desk()
    plans = {"slow": "team", "urgent": "urgent"}
    team = SupervisorSpec(id="team", tasks=Tasks(planner=StaticPlan([Subtask("asker")])), children=[asker()])
    urgent = WorkerSpec(id="urgent", execute=lambda *_: desk.may_find.set())
    spec = shop(team, urgent, desk.spec(), planner=lambda task, *_: [Subtask(plans[task.goal])], max_parallel=1)

    with start(spec) as tree:
        record = Record(tree)
        handle = tree.submit(Task("slow", priority=5))
        assert desk.looking.wait(LONG_S)
        tree.run(Task("urgent", priority=1), timeout=LONG_S)
        report = handle.result(timeout=LONG_S)

    assert report.results == {"team": {"asker": FOUND}}
    assert (desk.counts["pay"], desk.counts["refund"]) == (1, 0)
    assert record._delivered(SubtaskPreempted, None)
    assert report.usage.tokens == 10 + desk.counts["look"]


def test_what_cannot_be_interrupted_is_done_before_its_team_gives_way_and_not_once_more() -> None:
    """Its asker gives way at once. It has an undo, so it is not cut in half."""
    desk = Desk()
    plans = {"slow": "team", "urgent": "urgent"}

    async def pay(_: Any, context: Any) -> str:
        found = await desk.look(_, context)
        desk.counts["pay"] += 1
        return found

    pays = WorkerSpec(id="desk", execute=pay, undo=desk.refund)
    members = [asker(), pays]
    team = SupervisorSpec(id="team", tasks=Tasks(planner=StaticPlan([Subtask("asker")])), children=members)
    urgent = WorkerSpec(id="urgent", execute=lambda *_: "urgent")
    spec = shop(team, urgent, planner=lambda task, *_: [Subtask(plans[task.goal])], max_parallel=1)

    with start(spec) as tree:
        record = Record(tree)
        handle = tree.submit(Task("slow", priority=5))
        assert desk.looking.wait(LONG_S)
        urgent_one = tree.submit(Task("urgent", priority=1))
        assert record.wait_for(SubtaskPreempted)[0].subtask == "asker"
        desk.may_find.set()
        urgent_one.result(timeout=LONG_S)
        report = handle.result(timeout=LONG_S)

    assert report.results == {"team": {"asker": "found"}}
    assert desk.counts == {"look": 1, "pay": 1}
