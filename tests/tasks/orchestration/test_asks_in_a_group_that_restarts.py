"""An ask of a helper that was stopped first, in a group that restarts: nobody waits for it until he is killed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import actors
from actors import ChildExited, Escalated, EscalationRaised
from actors.testing import Hang
from tests.support.crew import LONG_S, Record, faulty
from tests.support.hardening import eventually
from trees import (
    Escalate,
    Plan,
    Respond,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskFailed,
    SubtaskRetrying,
    SupervisorSpec,
    Task,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)


class Helper:
    """Does what it is asked for, but for the first time: then it works until it is stopped."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.calls = 0

    def fails_of_its_stop(self, *_: object) -> str:
        self.calls += 1
        if self.calls == 1:
            self.begun.set()
            while not actors.sleep(0.05):
                pass
            raise ValueError("it was stopped")
        return "helped"

    async def is_broken_off(self, *_: object) -> str:
        self.calls += 1
        if self.calls == 1:
            self.begun.set()
            await asyncio.Event().wait()
        return "helped"


def asks(_: object, context: Any) -> Any:
    return context.ask_sync("helper", "help")


async def asks_async(_: object, context: Any) -> Any:
    return await context.ask("helper", "help")


ASKERS = pytest.mark.parametrize("asks", [asks, asks_async])


def asker(execute: Callable[..., Any]) -> WorkerSpec:
    return WorkerSpec(id="asker", execute=execute, shutdown="infinity")


def shop(*children: WorkerSpec | SupervisorSpec, strategy: Any = "one_for_all", plan: str = "asker") -> SupervisorSpec:
    tasks = Tasks(planner=StaticPlan([Subtask(plan)]), on_failure=[Retry(3, initial_s=0.0, max_s=0.0, jitter=0.0)])
    return SupervisorSpec(id="shop", strategy=strategy, tasks=tasks, children=[faulty("culprit"), *children])


def restart(tree: Tree, helper: Helper) -> None:
    """Have the group restart while the helper is at work."""
    assert helper.begun.wait(LONG_S)
    tree.ref("shop/culprit").tell("raise ValueError")


HELPERS = pytest.mark.parametrize("does", ["fails_of_its_stop", "is_broken_off"])


@pytest.mark.slow
@ASKERS
@HELPERS
@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
@pytest.mark.parametrize("words", [{}, {"pool": 2}], ids=["worker", "pool"])
def test_whoever_waits_for_a_helper_that_was_stopped_first_is_stopped_at_once_and_both_go_on(
    asks: Any, does: str, strategy: str, words: dict[str, Any], tmp_path: Path
) -> None:
    helper = Helper()
    spec = shop(asker(asks), WorkerSpec(id="helper", execute=getattr(helper, does), **words), strategy=strategy)

    with start(spec, store=f"sqlite:///{tmp_path}/s.db") as tree:
        record = Record(tree)
        handle = tree.submit(Task("go"))
        restart(tree, helper)
        report = handle.result(timeout=LONG_S)

        assert report.results == {"asker": "helped"}
        assert record.exits("shop/asker") == ["shutdown"]
        assert helper.calls == 2
        assert not record.of(SubtaskFailed)
        assert [event.subtask for event in record.of(SubtaskRetrying)] in ([], ["asker.1"])


@ASKERS
@HELPERS
def test_a_member_of_a_team_is_stopped_at_once_that_waits_for_a_helper_above(asks: Any, does: str) -> None:
    helper = Helper()
    team = SupervisorSpec(
        id="team", tasks=Tasks(planner=StaticPlan([Subtask("asker")])), children=[asker(asks)], shutdown="infinity"
    )
    spec = shop(team, WorkerSpec(id="helper", execute=getattr(helper, does)), plan="team")

    with start(spec) as tree:
        record = Record(tree)
        handle = tree.submit(Task("go"))
        restart(tree, helper)
        report = handle.result(timeout=LONG_S)

        assert report.results == {"team": {"asker": "helped"}}
        assert record.exits("shop/team/asker") == ["shutdown"]
        assert helper.calls == 2


@ASKERS
@pytest.mark.parametrize("is_team", [False, True])
@pytest.mark.parametrize("words", [{}, {"pool": 2}], ids=["worker", "pool"])
def test_so_is_whoever_waits_for_an_older_one_that_waits_for_the_helper(
    asks: Any, is_team: bool, words: dict[str, Any]
) -> None:
    """The older one is up, and could begin again and again: each time its helper is down."""
    helper = Helper()
    middle: WorkerSpec | SupervisorSpec = WorkerSpec(id="middle", execute=asks, shutdown="infinity")
    if is_team:
        plan = StaticPlan([Subtask("of_team")])
        of_team = WorkerSpec(id="of_team", execute=asks, shutdown="infinity")
        middle = SupervisorSpec(id="middle", tasks=Tasks(planner=plan), children=[of_team])

    def asks_middle(_: object, context: Any) -> Any:
        return context.ask_sync("middle", "help me")

    first = WorkerSpec(id="asker", execute=asks_middle, shutdown="infinity", **words)
    with start(shop(middle, first, WorkerSpec(id="helper", execute=helper.is_broken_off))) as tree:
        record = Record(tree)
        handle = tree.submit(Task("go"))
        restart(tree, helper)
        report = handle.result(timeout=LONG_S)

        assert report.results == {"asker": {"of_team": "helped"} if is_team else "helped"}
        assert {event.reason for event in record.of(ChildExited) if event.path.startswith("shop/asker")} == {"shutdown"}
        assert not record.of(SubtaskFailed)


def test_whoever_is_not_to_stop_has_his_answer_of_one_that_was_cut_off_with_another_one_of_its_group() -> None:
    """The asker waits for the first, that for the second, and that for the helper: the last three are the group."""
    begun, calls = Hang(deaf=True), list[str]()

    def asks_first(_: object, context: Any) -> Any:
        calls.append("asker")
        return context.ask_sync("first", "help me")

    def first(*_: object) -> Any:
        calls.append("first")
        return actors.ref("shop/second").ask("help me", timeout=None)

    def second(_: object) -> Any:
        begun.hold()
        return actors.ref("shop/helper").ask("help", timeout=None)

    spec = SupervisorSpec(
        id="shop",
        strategy="rest_for_one",
        tasks=Tasks(planner=StaticPlan([Subtask("asker")]), on_failure=[]),
        children=[
            asker(asks_first),
            faulty("culprit"),
            WorkerSpec(id="second", handle=second, shutdown="infinity"),
            WorkerSpec(id="first", execute=first, shutdown="infinity"),
            WorkerSpec(id="helper", handle=lambda _: "helped"),
        ],
    )
    with begun, start(spec) as tree:
        handle = tree.submit(Task("go"))
        begun.wait_until_entered(LONG_S)
        helper = tree.ref("shop/helper")
        tree.ref("shop/culprit").tell("raise ValueError")
        eventually(lambda: not helper.is_alive(), "the end of the helper")
        begun.release()
        report = handle.result(timeout=LONG_S)

        assert report.results == {"asker": "helped"}
        assert calls == ["asker", "first", "first"]


class Desk:
    """A team that comes to one point of what it is asked for, the first time, and no further before it is stopped."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.begun = threading.Event()

    async def come_to(self, where: str) -> None:
        if where == self.where and not self.begun.is_set():
            self.begun.set()
            await asyncio.Event().wait()

    async def plan(self, *_: object) -> Plan:
        await self.come_to("plans")
        return Plan([Subtask("member")])

    async def work(self, _: object, context: Any) -> str:
        await self.come_to("works")
        if self.where == "asks" and not context.feedback:
            raise Escalated("Who?")
        if self.where == "waits" and not self.begun.is_set():
            raise ConnectionError
        return "helped"

    async def review(self, *_: object) -> bool:
        await self.come_to("reviews")
        return True

    async def combine(self, _: object, results: dict[str, Any]) -> Any:
        await self.come_to("combines")
        return results["member"]

    def spec(self) -> SupervisorSpec:
        ladder = [Retry(initial_s=1.0, jitter=0.0), Escalate()]
        tasks = Tasks(planner=self.plan, reviewer=self.review, synthesizer=self.combine)
        member = WorkerSpec(id="member", execute=self.work, on_failure=ladder)
        return SupervisorSpec(id="helper", tasks=tasks, children=[member])


@ASKERS
@pytest.mark.parametrize("where", ["plans", "works", "reviews", "combines", "asks", "waits"])
def test_so_is_whoever_waits_for_a_team_that_was_stopped_first_whatever_it_was_doing(asks: Any, where: str) -> None:
    desk = Desk(where)

    with start(shop(asker(asks), desk.spec())) as tree:
        record = Record(tree)
        handle = tree.submit(Task("go"))
        if where == "asks":
            record.wait_for(EscalationRaised)
        elif where == "waits":
            record.wait_for(SubtaskRetrying)
            desk.begun.set()
        else:
            assert desk.begun.wait(LONG_S)
        tree.ref("shop/culprit").tell("raise ValueError")

        assert record.wait_for(ChildExited, "shop/asker")[0].reason == "shutdown"
        if where == "asks":
            handle.respond(record.of(EscalationRaised)[0].escalation, Respond("you"))
        assert handle.result(timeout=LONG_S).results == {"asker": "helped"}
        assert not record.of(SubtaskFailed)


@ASKERS
def test_whoever_waits_for_a_helper_that_is_no_part_of_the_group_has_its_answer(asks: Any) -> None:
    hang, calls = Hang(), list[str]()

    def helps(*_: object) -> str:
        calls.append("call")
        hang.hold()
        return "helped"

    spec = SupervisorSpec(
        id="shop",
        strategy="rest_for_one",
        tasks=Tasks(planner=StaticPlan([Subtask("asker")]), on_failure=[]),
        children=[WorkerSpec(id="helper", execute=helps), faulty("culprit"), asker(asks), faulty("last")],
    )
    with hang, start(spec) as tree:
        record = Record(tree)
        handle = tree.submit(Task("go"))
        hang.wait_until_entered()
        tree.ref("shop/culprit").tell("raise ValueError")
        record.wait_for(ChildExited, "shop/last")  # it is stopped before the asker
        hang.release()
        report = handle.result(timeout=LONG_S)

    assert report.results == {"asker": "helped"}
    assert calls == ["call"]
