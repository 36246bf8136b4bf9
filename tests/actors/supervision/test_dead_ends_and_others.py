"""Who hears of an ask that cannot be answered in time, and who is to stop: each of them, and nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import actors
from actors import (
    ActorsError,
    ActorStoppedError,
    ChildRestarting,
    ChildStopAbnormal,
    Reply,
    SupervisorGaveUp,
    TreeDownError,
    Worker,
)
from actors.execution.incarnation import Exited
from actors.messaging.supervisor_mailbox import SupervisorMailbox
from actors.supervision.child_control import ChildControl
from actors.testing import Hang, settle
from tests.support.crew import LONG_S, Record, faulty, incarnations, running, shop
from tests.support.hardening import eventually, stop_at
from trees import Backoff, Mailbox, SupervisorSpec, Tree, WorkerSpec

ECHO = WorkerSpec(id="y", handle=lambda message: message)


def asks(path: str, came: list[Any], gate: Callable[[], object] = int) -> Callable[[Any], Any]:
    """A handler that asks with no limit of time, and notes what came."""

    def handle(message: Any) -> Any:
        gate()
        try:
            came.append(actors.ref(path).ask(message, timeout=None))
        except ActorsError as error:
            came.append(error)
            raise

    return handle


@contextmanager
def meanwhile(act: Callable[[], object]) -> Iterator[None]:
    thread = threading.Thread(target=act)
    thread.start()
    yield
    thread.join(LONG_S)
    assert not thread.is_alive()


def test_a_body_that_has_asked_one_of_the_group_is_restarted_like_any_other() -> None:
    """The body asks x, x asks y: x and y are restarted. The body is in no group, so it has to go on."""
    lives, came = list[int](), list[Any]()
    with Hang(deaf=True) as gate:

        def body() -> None:
            lives.append(1)
            if len(lives) == 1:
                actors.ref("shop/desk/x").ask("hello", timeout=None)
            while not actors.sleep(LONG_S):
                pass

        children = [WorkerSpec(id="x", handle=asks("shop/desk/y", came, gate.hold)), ECHO, faulty("bad")]
        desk = SupervisorSpec(id="desk", strategy="one_for_all", children=children)
        with running(shop(desk, WorkerSpec(id="body", run=body))) as tree:
            record = Record(tree)
            gate.wait_until_entered()
            tree.ref("shop/desk/bad").tell("raise ValueError")
            eventually(lambda: tree.child("shop/desk/y").state != "running", "the end of y")
            gate.release()
            record.wait_for(ChildRestarting, "shop/body")
            eventually(lambda: len(lives) == 2, "the next life of the body")

            assert isinstance(came[0], ActorStoppedError)
            assert came[0].stop_first == ("shop/desk/x",)
            assert record.exits("shop/body") == ["crashed"]


async def asks_two_at_once() -> None:
    while True:
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(actors.ref("shop/y").ask_async("still there?", timeout=None))


@pytest.mark.parametrize("end", ["the tree", "the group"])
def test_a_body_that_hears_it_in_a_task_group_has_stopped_in_order(end: str) -> None:
    """Nothing but such errors is in the group: it is not restarted until its desk gives up."""
    with Hang() as gate:
        desk = SupervisorSpec(id="desk", max_restarts=0, children=[WorkerSpec(id="x", run=asks_two_at_once)])
        slow = faulty("slow", on_stop=gate, shutdown="infinity")
        with running(shop(desk, slow, ECHO, faulty("bad"), strategy="one_for_all")) as tree:
            record = Record(tree)
            stops = tree.stop if end == "the tree" else lambda: tree.ref("shop/bad").tell("raise ValueError")
            with meanwhile(stops):
                gate.wait_until_entered()
                eventually(lambda: record.exits("shop/desk/x"), "the end of x")
                gate.release()
            eventually(lambda: end == "the tree" or set(incarnations(tree).values()) == {2})

            assert record.exits("shop/desk/x")[0] == "shutdown"
            assert record.of(SupervisorGaveUp) == []


def test_one_that_dies_of_it_and_comes_back_with_its_supervisor_keeps_its_messages() -> None:
    lives, asks_now = list[int](), Hang(deaf=True)

    class Asks(Worker):
        def on_start(self) -> None:
            lives.append(1)
            if len(lives) == 2:
                asks_now.hold()
                actors.ref("shop/y").ask("hello", timeout=None)

        def on_receive(self, message: Any) -> Any:
            return message.upper()

    with Hang() as gate, asks_now:
        desk = SupervisorSpec(id="desk", children=[WorkerSpec(id="x", actor=Asks)])
        slow = faulty("slow", on_stop=gate, shutdown="infinity")
        with running(shop(desk, slow, ECHO, faulty("bad"), strategy="one_for_all")) as tree:
            record = Record(tree)
            tree.ref("shop/desk/x").stop()
            asks_now.wait_until_entered()
            waits: Reply = tree.ref("shop/desk/x").ask("hello", timeout=None, block=False)
            tree.ref("shop/bad").tell("raise ValueError")
            gate.wait_until_entered()
            asks_now.release()
            eventually(lambda: len(record.exits("shop/desk/x")) == 2, "the end of the start of x")
            assert not waits.done
            gate.release()

            assert waits.get(timeout=LONG_S) == "HELLO"


def waiting_for_a_backoff(tree: Tree, at: str) -> None:
    """``x`` has crashed and waits for its backoff; ``asker``, younger, waits for its answer."""
    tree.ref(f"{at}/x").tell("raise ValueError")
    eventually(lambda: tree.child(f"{at}/x").state == "restarting")
    tree.ref(f"{at}/asker").tell("hello")
    eventually(lambda: tree.ref(f"{at}/x").depth == 1, "the ask in the mailbox")


def two(at: str, came: list[Any]) -> list[WorkerSpec]:
    asker = WorkerSpec(id="asker", handle=asks(f"{at}/x", came), shutdown=5.0)
    return [faulty("x", backoff=Backoff(initial_s=1e4, max_s=1e4)), asker]


def test_a_stop_of_the_tree_waits_for_no_ask_to_an_older_one_that_waits_for_its_backoff() -> None:
    came = list[Any]()
    with running(shop(*two("shop", came))) as tree:
        waiting_for_a_backoff(tree, "shop")
        record = Record(tree)
        with meanwhile(tree.stop):
            pass

    assert [type(each) for each in came] == [TreeDownError]
    assert record.of(ChildStopAbnormal) == []


@pytest.mark.parametrize("end", ["stop", "terminate", "restart"])
def test_a_supervisor_that_stops_waits_for_no_ask_to_an_older_one_that_waits_for_its_backoff(end: str) -> None:
    came = list[Any]()
    desk = SupervisorSpec(id="desk", children=two("shop/desk", came))
    with running(shop(desk, faulty("bad"), strategy="one_for_all")) as tree:
        waiting_for_a_backoff(tree, "shop/desk")
        acts = {"stop": tree.stop, "terminate": lambda: tree.terminate_child("shop/desk")}
        with meanwhile(acts.get(end, lambda: tree.ref("shop/bad").tell("raise ValueError"))):
            pass
        eventually(lambda: came, "the end of the ask")

    assert isinstance(came[0], ActorStoppedError)
    assert [isinstance(came[0], TreeDownError), bool(came[0].stop_first)] == [end == "stop", end == "restart"]


class HoldsItsStart(Worker):
    """Does something else in the start of its second life."""

    def __init__(self, lives: list[int], act: Callable[[], object]) -> None:
        lives.append(1)
        self.act = act if len(lives) == 2 else int

    def on_start(self) -> None:
        self.act()


def test_an_ask_in_a_start_of_a_supervisor_that_stops_fails_when_its_target_comes_back_only_with_that() -> None:
    """X starts again, and asks y, which waits for its backoff: neither comes up before their desk is restarted."""
    came, lives = list[Any](), list[int]()
    kwargs = {"lives": lives, "act": lambda: asks("shop/desk/y", came)(0)}
    x = WorkerSpec(id="x", actor=HoldsItsStart, kwargs=kwargs, shutdown=5.0, start_timeout_s=1e4)
    desk = SupervisorSpec(id="desk", children=[x, faulty("y", backoff=Backoff(initial_s=1e4, max_s=1e4))])
    with running(shop(desk, faulty("bad"), strategy="one_for_all")) as tree:
        record = Record(tree)
        tree.ref("shop/desk/y").tell("raise ValueError")
        eventually(lambda: tree.child("shop/desk/y").state == "restarting")
        tree.ref("shop/desk/x").stop()
        eventually(lambda: tree.ref("shop/desk/y").depth == 1, "the ask in the mailbox")
        tree.ref("shop/bad").tell("raise ValueError")
        eventually(lambda: len(lives) == 3, "the next life of x")
        settle(tree)

        assert [(type(each), each.stop_first) for each in came] == [(ActorStoppedError, ("shop/desk/x",))]
        assert record.of(ChildStopAbnormal) == []


@pytest.mark.parametrize("turn", ["before its turn", "at its turn"])
def test_an_ask_below_a_supervisor_that_starts_and_is_to_be_stopped_fails(
    turn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The desk is being restarted, and its x asks y, which is started after the desk; then an older one crashes."""
    came, lives, gate, slow = list[Any](), list[int](), Hang(deaf=True), Hang(deaf=True)
    x = WorkerSpec(id="x", handle=asks("shop/y", came, gate.hold), shutdown=5.0)
    starts = WorkerSpec(
        id="slow",
        actor=HoldsItsStart,
        kwargs={"lives": lives, "act": slow.hold},
        shutdown="infinity",
        start_timeout_s=1e4,
    )
    desk = SupervisorSpec(id="desk", children=[x, starts])
    is_desk = stop_at(ChildControl, "stop", lambda _, child, **__: child.id == "desk", after=False, patch=monkeypatch)
    with gate, slow, running(shop(faulty("old"), desk, ECHO, strategy="rest_for_one")) as tree:
        tree.ref("shop/desk").stop()
        slow.wait_until_entered()
        tree.ref("shop/desk/x").tell("hello")
        gate.wait_until_entered()
        if turn == "at its turn":
            with is_desk as seam:
                tree.ref("shop/old").tell("raise ValueError")
                seam.wait_reached()
                gate.release()
                eventually(lambda: came, "the end of the ask")
        else:
            gate.release()
            eventually(lambda: tree.ref("shop/y").depth == 1, "the ask in the mailbox")
            tree.ref("shop/old").tell("raise ValueError")
            eventually(lambda: came, "the end of the ask")
        slow.release()
        settle(tree)

        assert [(type(each), each.stop_first) for each in came] == [(ActorStoppedError, ("shop/desk/x",))]


@pytest.mark.parametrize("order", ["waits first", "asks later"])
def test_an_ask_that_waits_for_room_in_the_mailbox_of_one_that_is_down_fails(order: str) -> None:
    """The mailbox of y is full, and nobody empties it before x has stopped."""
    came = list[Any]()
    with Hang(deaf=True) as gate, Hang() as busy:
        x = WorkerSpec(id="x", handle=asks("shop/y", came, gate.hold), shutdown=5.0)
        y = WorkerSpec(id="y", handle=lambda act: act() if callable(act) else act, mailbox=Mailbox(capacity=1))
        with running(shop(x, y, faulty("bad"), strategy="one_for_all")) as tree:
            record = Record(tree)
            tree.ref("shop/y").tell(busy.hold)
            busy.wait_until_entered()
            tree.ref("shop/y").tell(int)
            tree.ref("shop/x").tell("hello")
            gate.wait_until_entered()
            line = tree._system.boxes["shop/y"]
            if order == "waits first":
                gate.release()
                eventually(lambda: line.waiters, "the wait for room")
                tree.ref("shop/bad").tell("raise ValueError")
            else:
                tree.ref("shop/bad").tell("raise ValueError")
                eventually(lambda: tree.child("shop/y").state != "running", "the end of y")
                gate.release()
            eventually(lambda: came, "the end of the ask")
            settle(tree)

            assert [(type(each), each.stop_first) for each in came] == [(ActorStoppedError, ("shop/x",))]
            assert record.of(ChildStopAbnormal) == []
            assert set(incarnations(tree).values()) == {2}


@pytest.mark.parametrize("how", ["tell", "ask"])
def test_code_that_is_abandoned_while_it_waits_for_room_sends_nothing_once_there_is_some(how: str) -> None:
    """Room comes when its successor may be at work."""
    heard, ended = list[Any](), threading.Event()
    with Hang(deaf=True) as busy:

        def sends(message: Any) -> None:
            if message != "go":
                return
            try:
                ref = actors.ref("shop/y")
                ref.ask("late", timeout=None) if how == "ask" else ref.tell("late")
            finally:
                ended.set()

        def hears(message: Any) -> None:
            heard.append(message)
            if message == "first":
                busy.hold()

        x = WorkerSpec(id="x", handle=sends, shutdown=0)
        y = WorkerSpec(id="y", handle=hears, mailbox=Mailbox(capacity=1))
        with running(shop(x, y)) as tree:
            tree.ref("shop/y").tell("first")
            busy.wait_until_entered()
            tree.ref("shop/y").tell("second")
            tree.ref("shop/x").tell("go")
            line = tree._system.boxes["shop/y"]
            eventually(lambda: line.waiters, "the wait for room")
            tree.terminate_child("shop/x")
            tree.restart_child("shop/x")
            assert not ended.is_set()
            busy.release()
            assert ended.wait(LONG_S)
            settle(tree)

            assert heard == ["first", "second"]


def test_a_wait_for_the_end_of_one_that_has_just_gone_down_is_no_dead_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its supervisor knows of the end before those do who wait for that."""
    came, told = list[Any](), list[Reply]()
    with Hang(deaf=True) as gate, Hang() as busy:

        def stops(_: Any) -> None:
            told.append(actors.ref("shop/y").stop(block=False))
            gate.hold()
            try:
                came.append(told[0].get())
            except ActorsError as error:
                came.append(error)

        x = WorkerSpec(id="x", handle=stops, shutdown="infinity")
        y = WorkerSpec(id="y", handle=lambda _: busy.hold(), shutdown="infinity")
        is_end = stop_at(SupervisorMailbox, "post", lambda _, said: is_end_of_y(said), after=True, patch=monkeypatch)
        with running(shop(x, y, faulty("bad"), strategy="one_for_all")) as tree:
            tree.ref("shop/y").tell("hello")
            busy.wait_until_entered()
            with is_end as seam:
                tree.ref("shop/x").tell("hello")
                gate.wait_until_entered()
                tree.ref("shop/bad").tell("raise ValueError")
                busy.release()
                seam.wait_reached()
                eventually(lambda: tree.child("shop/y").state != "running", "the end of y")
                gate.release()
                eventually(lambda: came or told[0].waiters, "the wait for the end")
                assert came == []
            settle(tree)

    assert came == [True]


def is_end_of_y(said: object) -> bool:
    return isinstance(said, Exited) and said.incarnation.mailbox.path == "shop/y"
