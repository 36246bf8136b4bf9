"""In a group that restarts nobody waits for a reply that cannot come before he has stopped himself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import actors
from actors import ActorsError, ActorStoppedError, ChildRestarting, Reply, Worker
from actors.testing import Hang, ManualClock, settle
from tests.support.crew import EACH_TARGET, LONG_S, Record, faulty, incarnations, running, shop
from tests.support.hardening import eventually
from trees import Backoff, SupervisorSpec, Tree, WorkerSpec

ECHO = WorkerSpec(id="y", handle=lambda message: message)


class Asker(Worker):
    """Asks with no limit of time when it is told; notes what came."""

    def __init__(self, path: str, came: list[Any], *, gate: Hang | None = None) -> None:
        self.path, self.came, self.gate = path, came, gate

    def on_receive(self, message: Any) -> None:
        if self.gate is not None:
            self.gate.hold()
        try:
            self.came.append(actors.ref(self.path).ask(message, timeout=None))
        except ActorsError as error:
            self.came.append(error)
            raise


class AsyncAsker(Asker):
    async def on_receive(self, message: Any) -> None:  # type: ignore[override]
        if self.gate is not None:
            await self.gate.hold_async()
        try:
            self.came.append(await actors.ref(self.path).ask_async(message, timeout=None))
        except ActorsError as error:
            self.came.append(error)
            raise


ASKERS = pytest.mark.parametrize("asker", [Asker, AsyncAsker])
GROUPS = pytest.mark.parametrize("words", [{}, {"parallel_stop": True}], ids=["in order", "at once"])


def x(asker: type[Asker], path: str, came: list[Any], **words: Any) -> WorkerSpec:
    return WorkerSpec(id="x", actor=asker, args=(path, came), kwargs=words, shutdown="infinity")


def is_refused(came: list[Any], path: str) -> bool:
    return [type(each) for each in came] == [ActorStoppedError] and came[0].path == path


@GROUPS
@ASKERS
@EACH_TARGET
def test_an_ask_that_waits_in_the_mailbox_fails_when_its_target_is_down(
    path: str, target: Any, asker: type[Asker], words: dict[str, Any]
) -> None:
    """The ask comes before the target is down, and stands behind a message that ends when the target is to stop."""
    came: list[Any] = []
    busy = Hang()

    def handle(message: Any) -> Any:
        return busy.hold() if message == "be busy" else message

    children = [x(asker, path, came), target(handle), faulty("bad")]
    with running(shop(*children, strategy="one_for_all", **words)) as tree:
        for _ in range(2 if "×2" in tree.dump() else 1):  # as many as there are members
            tree.ref(path).tell("be busy")
            busy.wait_until_entered()
        tree.ref("shop/x").tell("hello")
        eventually(lambda: tree.ref(path).depth == 1, "the ask in the mailbox")
        tree.ref("shop/bad").tell("raise ValueError")
        settle(tree)

        assert is_refused(came, path), came
        assert set(incarnations(tree).values()) == {2}
        assert tree.ref(path).ask("again") == "again"


def asks_one_that_is_down(tree: Tree, gate: Hang) -> None:
    """Have ``x`` go on once its target is down, in a restart of their group."""
    tree.ref("shop/x").tell("hello")
    gate.wait_until_entered()
    tree.ref("shop/bad").tell("raise ValueError")
    eventually(lambda: tree.which_children("shop")[-2].state != "running", "the end of the target")
    gate.release()
    settle(tree)


@GROUPS
@ASKERS
@EACH_TARGET
def test_an_ask_to_one_that_is_down_already_fails_at_once(
    path: str, target: Any, asker: type[Asker], words: dict[str, Any]
) -> None:
    came: list[Any] = []
    with Hang(deaf=True) as gate:
        children = [x(asker, path, came, gate=gate), target(lambda message: message), faulty("bad")]
        with running(shop(*children, strategy="one_for_all", **words)) as tree:
            asks_one_that_is_down(tree, gate)

            assert is_refused(came, path), came
            assert set(incarnations(tree).values()) == {2}


def test_whoever_is_not_in_the_group_waits_for_the_next_incarnation() -> None:
    with Hang() as gate:
        slow = faulty("slow", on_stop=gate, shutdown="infinity")
        with running(shop(slow, ECHO, faulty("bad"), strategy="one_for_all")) as tree:
            tree.ref("shop/bad").tell("raise ValueError")
            gate.wait_until_entered()
            asked: Reply = tree.ref("shop/y").ask("hello", timeout=None, block=False)
            assert not asked.done
            gate.release()

            assert asked.get(timeout=LONG_S) == "hello"


def test_an_ask_that_nobody_waits_for_is_kept() -> None:
    """Of the group, but with block=False: its sender ends without it."""
    left: list[Reply] = []
    with Hang() as gate:

        def leave(message: Any) -> None:
            gate.hold()
            left.append(actors.ref("shop/y").ask(message, timeout=None, block=False))

        with running(shop(WorkerSpec(id="x", handle=leave), ECHO, faulty("bad"), strategy="one_for_all")) as tree:
            tree.ref("shop/x").tell("hello")
            gate.wait_until_entered()
            tree.ref("shop/bad").tell("raise ValueError")
            settle(tree)

            assert left[0].get(timeout=LONG_S) == "hello"


@contextmanager
def waits_for_a_backoff(**words: Any) -> Iterator[tuple[Tree, ManualClock, list[Any]]]:
    """X waits for the reply of y, which waits for its backoff."""
    came: list[Any] = []
    clock = ManualClock()
    backoff = Backoff(initial_s=100.0, max_s=100.0, jitter=0.0)
    children = [faulty("first"), x(Asker, "shop/y", came), faulty("y", backoff=backoff)]
    with running(shop(*children, max_restarts=9, **words), clock=clock) as tree:
        tree.ref("shop/y").tell("raise ValueError")
        settle(tree)
        tree.ref("shop/x").tell("hello")
        eventually(lambda: tree.ref("shop/y").depth == 1, "the ask in the mailbox")
        yield tree, clock, came


@pytest.mark.parametrize("strategy", ["one_for_one", "rest_for_one"])
def test_an_ask_to_one_that_is_restarted_alone_waits(strategy: str) -> None:
    with waits_for_a_backoff(strategy=strategy) as (tree, clock, came):
        assert came == []
        clock.advance(100.0)
        settle(tree)

        assert came == ["hello"]
        assert incarnations(tree) == {"first": 1, "x": 1, "y": 2}


def test_an_ask_fails_when_the_group_grows_by_its_asker() -> None:
    with waits_for_a_backoff(strategy="rest_for_one") as (tree, clock, came):
        tree.ref("shop/first").tell("raise ValueError")
        eventually(lambda: came, "the end of the ask")
        clock.advance(200.0)
        settle(tree)

        assert is_refused(came, "shop/y"), came
        assert incarnations(tree) == {"first": 2, "x": 2, "y": 2}


class AsksAtTheEnd(Asker):
    def on_stop(self) -> None:
        self.on_receive("still there?")


def test_in_a_supervisor_that_gives_up_and_comes_back_nobody_waits_either() -> None:
    came: list[Any] = []
    oldest = WorkerSpec(id="x", actor=AsksAtTheEnd, args=("shop/desk/y", came), shutdown="infinity")
    desk = SupervisorSpec(id="desk", max_restarts=0, children=[oldest, ECHO, faulty("bad")])
    with running(shop(desk)) as tree:
        tree.ref("shop/desk/bad").tell("raise ValueError")
        settle(tree)

        assert is_refused(came, "shop/desk/y"), came
        assert incarnations(tree, "shop/desk") == {"x": 2, "y": 2, "bad": 2}
        came.clear()


def asks_in_a_loop(path: str) -> Callable[[], None]:
    def body() -> None:
        while True:
            actors.ref(path).ask("still there?", timeout=None)

    return body


def test_a_body_that_dies_of_it_has_stopped_in_order() -> None:
    body = WorkerSpec(id="x", run=asks_in_a_loop("shop/y"), shutdown="infinity")
    with running(shop(body, ECHO, faulty("bad"), strategy="one_for_all", max_restarts=1)) as tree:
        record = Record(tree)
        tree.ref("shop/bad").tell("raise ValueError")
        record.wait_for(ChildRestarting, "shop/bad")
        settle_but_for_bodies(tree)

        assert record.exits("shop/x") == ["shutdown"]
        assert record.restarts() == 1


def settle_but_for_bodies(tree: Tree) -> None:
    """A body that goes on asking never lets the tree come to rest."""
    eventually(lambda: set(incarnations(tree).values()) == {2}, "the second incarnation of all")
