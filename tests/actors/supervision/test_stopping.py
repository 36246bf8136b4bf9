"""SEMANTICS.md 15 and 16: how children are stopped."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import actors
from actors import (
    ChildAbandoned,
    ChildStopAbnormal,
    StartError,
    TreeDownError,
    Worker,
)
from actors.testing import Hang, ManualClock, settle
from tests.support.crew import LONG_S, Record, crash, faulty, hooks, incarnations, meanwhile, running, shop, states
from trees import SupervisorSpec, WorkerSpec

BOTH = pytest.mark.parametrize("dispatch", ["pool", "loop", "thread"])
PATIENT_S = 3 * LONG_S
"""A limit of a stop that no test waits for: what comes earlier did not come because of it."""
THREADS = pytest.mark.parametrize("dispatch", ["pool", "thread"])


# -- 15 ----------------------------------------------------------------------------------------------------


@BOTH
def test_a_tree_stops_strictly_in_reverse_start_order(dispatch: str) -> None:
    diary: list[str] = []
    team = SupervisorSpec(id="team", children=[faulty(id_, diary=diary, dispatch=dispatch) for id_ in "xy"])
    with running(shop(faulty("a", diary=diary, dispatch=dispatch), team, faulty("b", diary=diary, dispatch=dispatch))):
        diary.clear()

    assert hooks(diary) == ["on_stop b", "on_stop team/y", "on_stop team/x", "on_stop a"]


@BOTH
def test_one_child_is_stopped_at_a_time(dispatch: str) -> None:
    diary: list[str] = []
    hang = Hang()
    with running(shop(faulty("a", diary=diary), faulty("b", on_stop=hang, diary=diary, dispatch=dispatch))) as tree:
        diary.clear()
        with meanwhile(tree.stop):
            hang.wait_until_entered()
            during = hooks(diary)
            hang.release()

    assert during == ["on_stop b"]
    assert hooks(diary) == ["on_stop b", "on_stop a"]


@BOTH
def test_parallel_stop_stops_all_children_at_once(dispatch: str) -> None:
    hang = Hang()
    children = [faulty(id_, on_stop=hang, dispatch=dispatch, shutdown=PATIENT_S) for id_ in "abc"]
    with running(shop(*children, parallel_stop=True)) as tree, meanwhile(tree.stop) as stopping, hang:
        for _ in "abc":
            hang.wait_until_entered()
        hang.release()

        assert stopping.result(LONG_S)


@BOTH
def test_the_members_of_a_pool_are_stopped_at_once_and_its_siblings_one_by_one(dispatch: str) -> None:
    diary: list[str] = []
    hang = Hang()
    spec = shop(faulty("a", diary=diary), faulty("crew", pool=3, on_stop=hang, dispatch=dispatch, shutdown=PATIENT_S))
    with running(spec) as tree, meanwhile(tree.stop), hang:
        for _ in range(3):
            hang.wait_until_entered()
        during = hooks(diary)

    assert during == ["on_start a"]
    assert hooks(diary) == ["on_start a", "on_stop a"]


@THREADS
def test_each_child_has_its_own_limit(dispatch: str) -> None:
    hang = Hang(deaf=True)
    children = [faulty(id_, on_stop=hang, dispatch=dispatch, shutdown=60.0) for id_ in "abc"]
    clock = ManualClock()
    with running(shop(*children), clock=clock) as tree:
        record = Record(tree)
        with meanwhile(tree.stop):
            for count in range(1, 4):
                hang.wait_until_entered()
                while len(record.of(ChildAbandoned)) < count:  # its limit may not have begun yet
                    clock.advance(1.0)  # far less than the limit of the next one, which may begin meanwhile
        hang.release()

    assert [event.path for event in record.of(ChildAbandoned)] == ["shop/c", "shop/b", "shop/a"]


# -- 16 ----------------------------------------------------------------------------------------------------


def test_an_async_handler_is_cancelled_at_the_limit_and_may_clean_up() -> None:
    entered, cleaned = threading.Event(), threading.Event()
    seen: list[str] = []

    class Slow(Worker):
        async def on_receive(self, message: Any) -> None:
            entered.set()
            try:
                await actors.Reply()
            except asyncio.CancelledError:
                seen.append("cancelled")
                cleaned.set()
                raise

        async def on_stop(self) -> None:
            seen.append("on_stop")

    with running(shop(WorkerSpec(id="a", actor=Slow, shutdown=0.05))) as tree:
        record = Record(tree)
        tree.ref("shop/a").tell("wait")
        assert entered.wait(LONG_S)
        tree.terminate_child("shop/a")
        settle(tree)

        assert cleaned.is_set()
        assert seen == ["cancelled"]
        assert record.exits("shop/a") == ["killed"]
        assert record.of(ChildAbandoned) == []


@THREADS
def test_a_thread_that_does_not_end_in_time_is_abandoned_without_on_stop(dispatch: str) -> None:
    diary: list[str] = []
    hang = Hang(deaf=True)
    with running(shop(faulty("a", diary=diary, dispatch=dispatch, shutdown=0.05))) as tree:
        record = Record(tree)
        tree.ref("shop/a").tell(hang)
        hang.wait_until_entered()
        tree.terminate_child("shop/a")
        settle(tree)
        hang.release()

        assert record.exits("shop/a") == ["killed"]
        assert [event.abandoned for event in record.of(ChildAbandoned)] == [1]
        assert hooks(diary) == ["on_start a"]


@BOTH
def test_brutal_kill_runs_no_on_stop_and_is_expected(dispatch: str) -> None:
    diary: list[str] = []
    hang = Hang(deaf=dispatch != "loop")
    with running(shop(faulty("a", diary=diary, dispatch=dispatch, shutdown="brutal_kill"))) as tree:
        record = Record(tree)
        tree.ref("shop/a").tell(hang)
        hang.wait_until_entered()
        tree.terminate_child("shop/a")
        settle(tree)
        hang.release()

        assert record.exits("shop/a") == ["killed"]
        assert record.of(ChildStopAbnormal) == []
        assert hooks(diary) == ["on_start a"]


@BOTH
def test_shutdown_zero_is_legal(dispatch: str) -> None:
    hang = Hang(deaf=dispatch != "loop")
    with running(shop(faulty("a", dispatch=dispatch, shutdown=0))) as tree:
        record = Record(tree)
        tree.ref("shop/a").tell(hang)
        hang.wait_until_entered()
        tree.terminate_child("shop/a")
        settle(tree)
        hang.release()

        assert record.exits("shop/a") == ["killed"]
        assert [event.reason for event in record.of(ChildStopAbnormal)] == ["killed"]


def test_a_supervisor_may_take_as_long_as_its_children_need() -> None:
    hang = Hang()
    team = SupervisorSpec(id="team", children=[faulty("x", on_stop=hang, shutdown="infinity")])
    clock = ManualClock()
    with running(shop(team), clock=clock) as tree:
        record = Record(tree)
        with meanwhile(tree.stop) as stopping:
            hang.wait_until_entered()
            clock.advance(1e6)
            hang.release()
            in_order = stopping.result(LONG_S)

    assert in_order
    assert record.exits("shop/team/x") == ["shutdown"]


def test_a_supervisor_with_a_limit_kills_what_is_left_when_it_is_over() -> None:
    hang = Hang(deaf=True)
    team = SupervisorSpec(id="team", shutdown=0.05, children=[faulty("x", on_stop=hang, shutdown="infinity")])
    with running(shop(team)) as tree:
        record = Record(tree)
        tree.terminate_child("shop/team")
        settle(tree)
        hang.release()

        assert record.exits("shop/team/x") == ["killed"]
        assert record.exits("shop/team") == ["killed"]


@BOTH
def test_brutal_kill_of_a_supervisor_kills_its_children_too(dispatch: str) -> None:
    diary: list[str] = []
    children = [faulty(id_, diary=diary, dispatch=dispatch) for id_ in "xy"]
    with running(shop(SupervisorSpec(id="team", shutdown="brutal_kill", children=children))) as tree:
        record = Record(tree)
        diary.clear()
        tree.terminate_child("shop/team")
        settle(tree)

        assert hooks(diary) == []
        assert [record.exits(f"shop/team/{id_}") for id_ in "xy"] == [["killed"], ["killed"]]
        assert record.of(ChildStopAbnormal) == []  # that was the order


def test_a_child_that_a_brutally_killed_supervisor_had_to_kill_before_is_reported() -> None:
    hang = Hang(deaf=True)
    team = SupervisorSpec(id="team", shutdown="brutal_kill", children=[faulty("x", shutdown=0.1)])
    with running(shop(team)) as tree, hang:
        record = Record(tree)
        tree.ref("shop/team/x").tell(hang)
        hang.wait_until_entered()
        tree.terminate_child("shop/team/x")
        tree.terminate_child("shop/team")
        settle(tree)

        assert [event.path for event in record.of(ChildStopAbnormal)] == ["shop/team/x"]


class Overlapping(Worker):
    """Counts how many of its incarnations are inside at once."""

    inside = 0
    most = 0

    def __init__(self, hang: Hang) -> None:
        self.hang = hang

    def on_start(self) -> None:
        cls = type(self)
        cls.inside += 1
        cls.most = max(cls.most, cls.inside)

    def on_receive(self, message: Any) -> None:
        self.hang.hold()

    def on_stop(self) -> None:
        type(self).inside -= 1


class AsyncOverlapping(Worker):
    """The same; it cleans up when it is cancelled, and that takes a moment."""

    inside = 0
    most = 0

    def __init__(self, hang: Hang) -> None:
        self.hang = hang

    async def on_start(self) -> None:
        cls = type(self)
        cls.inside += 1
        cls.most = max(cls.most, cls.inside)

    async def on_receive(self, message: Any) -> None:
        try:
            await self.hang.hold_async()
        finally:
            await asyncio.sleep(0.05)
            type(self).inside -= 1


@pytest.mark.parametrize("actor", [Overlapping, AsyncOverlapping])
def test_a_new_incarnation_never_overlaps_the_old_one(actor: Any) -> None:
    actor.inside = actor.most = 0
    hang = Hang()
    b = WorkerSpec(id="b", actor=actor, args=(hang,), shutdown=5.0 if actor is Overlapping else 0.02)
    with running(shop(faulty("a"), b, strategy="one_for_all", max_restarts=10)) as tree:
        for _ in range(3):
            tree.ref("shop/b").tell("hang")
            hang.wait_until_entered()
            crash(tree, "shop/a")

        assert incarnations(tree)["b"] == 4
        assert actor.most == 1


@BOTH
def test_a_stop_that_finds_a_start_under_way_ends_it_and_whoever_waited_gets_a_start_error(dispatch: str) -> None:
    hang = Hang()
    a = faulty("a", on_start=hang, dispatch=dispatch, shutdown=0.1)
    with running(shop()) as tree, meanwhile(tree.start_child, "shop", a) as starting:
        hang.wait_until_entered()
        tree.terminate_child("shop/a")

        with pytest.raises(StartError):
            starting.result(LONG_S)
        assert states(tree) == {}


@BOTH
def test_a_stop_of_the_tree_ends_a_start_under_way_too(dispatch: str) -> None:
    hang = Hang()
    a = faulty("a", on_start=hang, dispatch=dispatch, shutdown=0.1)
    with running(shop()) as tree, meanwhile(tree.start_child, "shop", a) as starting:
        hang.wait_until_entered()
        tree.stop()

        with pytest.raises((StartError, TreeDownError)):
            starting.result(LONG_S)
