"""SEMANTICS.md 17: a child that a stop has ended for good answers no more, also while its siblings still stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import actors
from actors import (
    ActorsError,
    ActorStoppedError,
    ChildStopAbnormal,
    DeadLetter,
    Reply,
    RestartLimitError,
    TreeDownError,
    Worker,
)
from actors.testing import Hang
from tests.support.crew import LONG_S, Record, doomed, faulty, running, shop
from trees import SupervisorSpec, Tree, WorkerSpec

Answers = list[Any]


class AsksAtTheEnd(Worker):
    """Asks another worker in its ``on_stop``, and notes what it got: in time for its own ``shutdown`` of 5 s."""

    def __init__(self, path: str, answers: Answers) -> None:
        self.path, self.answers = path, answers

    def on_stop(self) -> None:
        try:
            self.answers.append(actors.ref(self.path).ask("still there?", timeout=LONG_S))
        except ActorsError as error:
            self.answers.append(error)


def asks_at_the_end(path: str, answers: Answers) -> WorkerSpec:
    return WorkerSpec(id="older", actor=AsksAtTheEnd, args=(path, answers), shutdown=LONG_S)


def stop_the_tree(tree: Tree) -> None:
    tree.stop()


def stop_its_supervisor(tree: Tree) -> None:
    tree.terminate_child("shop/desk")


@pytest.mark.parametrize("end", [stop_the_tree, stop_its_supervisor])
def test_an_ask_to_a_sibling_that_the_stop_of_their_supervisor_has_ended_fails_at_once(
    end: Callable[[Tree], None],
) -> None:
    answers: Answers = []
    desk = SupervisorSpec(id="desk", children=[asks_at_the_end("shop/desk/younger", answers), faulty("younger")])
    with running(shop(desk)) as tree:
        end(tree)

    assert isinstance(answers[0], ActorStoppedError), answers


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
def test_an_ask_to_a_sibling_that_the_stop_of_the_tree_has_ended_fails_at_once(strategy: Any) -> None:
    answers: Answers = []
    with running(shop(asks_at_the_end("shop/younger", answers), faulty("younger"), strategy=strategy)):
        pass

    assert isinstance(answers[0], TreeDownError), answers


def test_while_a_root_gives_up_an_ask_to_one_that_is_down_says_why() -> None:
    answers: Answers = []
    with doomed(shop(asks_at_the_end("shop/bad", answers), faulty("bad"), max_restarts=0)) as tree:
        tree.ref("shop/bad").tell("raise ValueError")
        with pytest.raises(RestartLimitError):
            tree.wait(LONG_S)

    assert isinstance(answers[0], TreeDownError), answers
    assert isinstance(answers[0].__cause__, RestartLimitError)


def test_an_older_sibling_still_answers_while_a_younger_one_stops() -> None:
    answers: Answers = []
    with running(shop(WorkerSpec(id="first", handle=str.upper), asks_at_the_end("shop/first", answers))):
        pass

    assert answers == ["STILL THERE?"]


def test_a_tell_to_a_sibling_that_the_stop_has_ended_is_a_dead_letter_at_once() -> None:
    hang = Hang()

    def hold_then_tell(_: object) -> None:
        hang.hold()
        actors.ref("shop/younger").tell("too late")

    older = WorkerSpec(id="older", handle=hold_then_tell)
    with running(shop(older, faulty("younger"))) as tree:
        record = Record(tree)
        tree.ref("shop/older").tell("hold")
        hang.wait_until_entered()
        tree.stop()

    assert [event.reason for event in record.wait_for(DeadLetter, "shop/younger")] == ["tree_down"]


class Holds(Worker):
    """Its ``on_stop`` takes as long as the test wants."""

    def __init__(self, gate: Hang) -> None:
        self.gate = gate

    def on_stop(self) -> None:
        self.gate.hold()


def a_desk_that_stops(gate: Hang) -> SupervisorSpec:
    """Its younger child is down at once, its older one when the gate is open."""
    older = WorkerSpec(id="older", actor=Holds, args=(gate,), shutdown="infinity")
    return SupervisorSpec(id="desk", children=[older, faulty("younger")])


def stop_for_a_group(tree: Tree, gate: Hang) -> Reply:
    """Have a sibling restart the desk with it; an ask that waits for the desk's younger child to come back."""
    tree.ref("shop/bad").tell("raise ValueError")
    gate.wait_until_entered()
    waits: Reply = tree.ref("shop/desk/younger").ask("hello", timeout=None, block=False)
    assert not waits.done
    return waits


def test_the_children_of_a_supervisor_that_comes_back_keep_their_messages_while_it_stops() -> None:
    gate = Hang()
    with running(shop(faulty("bad"), a_desk_that_stops(gate), strategy="one_for_all")) as tree:
        waits = stop_for_a_group(tree, gate)
        gate.release()

        assert waits.get(timeout=LONG_S) == "hello"


def asks_in_a_loop() -> None:
    while True:
        actors.ref("shop/younger").ask("still there?")


async def asks_in_an_async_loop() -> None:
    while True:
        await actors.ref("shop/younger").ask_async("still there?")


@pytest.mark.parametrize("body", [asks_in_a_loop, asks_in_an_async_loop])
@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
def test_a_body_that_hears_from_its_own_ask_that_its_tree_ends_has_stopped_in_order(body: Any, restart: Any) -> None:
    with running(shop(WorkerSpec(id="older", run=body, restart=restart), faulty("younger"))) as tree:
        record = Record(tree)

    assert record.exits("shop/older") == ["shutdown"]
    assert record.of(ChildStopAbnormal) == []
