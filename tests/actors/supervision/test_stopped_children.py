"""SEMANTICS.md 17 and 18: what a stop leaves behind, and who may stop whom."""

from __future__ import annotations

from typing import Any

import pytest

from actors import ActorStoppedError, ChildExited, ChildStopAbnormal, DeadLetter, RecursionDetectedError
from actors.testing import Hang, settle
from tests.support.crew import Record, faulty, hooks, incarnations, running, shop, states
from trees import SupervisorSpec, Tree, WorkerSpec

BOTH = pytest.mark.parametrize("dispatch", ["pool", "loop", "thread"])
THREADS = pytest.mark.parametrize("dispatch", ["pool", "thread"])


# -- 17 ----------------------------------------------------------------------------------------------------


@BOTH
def test_an_on_stop_that_raises_is_reported_and_never_stops_the_shutdown(dispatch: str) -> None:
    diary: list[str] = []
    spec = shop(faulty("a", diary=diary), faulty("b", dispatch=dispatch, on_stop="raise OSError"))
    with running(spec) as tree:
        record = Record(tree)
        in_order = tree.stop()

    assert in_order
    assert record.exits("shop/b") == ["crashed"]
    assert [event.path for event in record.of(ChildStopAbnormal)] == ["shop/b"]
    assert hooks(diary) == ["on_start a", "on_stop a"]


@THREADS
def test_a_crash_while_it_is_being_stopped_is_reported_as_that(dispatch: str) -> None:
    hang = Hang()

    def handle(message: Any) -> None:
        hang.hold()
        raise ValueError

    with running(shop(WorkerSpec(id="a", handle=handle, dispatch=dispatch))) as tree:  # type: ignore[arg-type]
        record = Record(tree)
        tree.ref("shop/a").tell("hang until asked to stop, then crash")
        hang.wait_until_entered()
        tree.terminate_child("shop/a")
        settle(tree)

        assert record.exits("shop/a") == ["crashed"]
        assert [event.reason for event in record.of(ChildStopAbnormal)] == ["crashed"]
        assert states(tree) == {"a": "stopped"}


def test_a_clean_stop_is_not_reported_as_abnormal() -> None:
    with running(shop(faulty("a"), faulty("b", dispatch="loop"), faulty("c", dispatch="thread"))) as tree:
        record = Record(tree)

    assert {event.reason for event in record.of(ChildExited)} == {"shutdown"}
    assert record.of(ChildStopAbnormal) == []


@BOTH
def test_where_a_child_stays_down_asks_are_answered_and_tells_become_dead_letters(dispatch: str) -> None:
    hang = Hang()
    with running(shop(faulty("a", dispatch=dispatch, shutdown=0.1))) as tree:
        record = Record(tree)
        ref = tree.ref("shop/a")
        ref.tell(hang)
        hang.wait_until_entered()
        waiting = ref.ask("hello", block=False)
        ref.tell("hello")
        tree.terminate_child("shop/a")

        with pytest.raises(ActorStoppedError):
            waiting.get()
        assert [event.reason for event in record.wait_for(DeadLetter, "shop/a")] == ["stopped"]


def test_the_end_of_the_tree_answers_everything_that_waits() -> None:
    hang = Hang()
    with running(shop(faulty("a"))) as tree:
        ref = tree.ref("shop/a")
        ref.tell(hang)
        hang.wait_until_entered()
        waiting = [ref.ask(number, block=False) for number in range(3)]
        tree.stop()

    for reply in waiting:
        with pytest.raises(ActorStoppedError):
            reply.get()


@BOTH
def test_a_child_stopped_to_be_started_again_keeps_its_mailbox(dispatch: str) -> None:
    hang = Hang()
    with running(shop(faulty("a"), faulty("b", dispatch=dispatch, shutdown=0.1), strategy="one_for_all")) as tree:
        record = Record(tree)
        ref = tree.ref("shop/b")
        ref.tell(hang)
        hang.wait_until_entered()
        waiting = [ref.ask(number, block=False) for number in range(3)]
        tree.ref("shop/a").tell("raise ValueError")
        replies = [reply.get() for reply in waiting]

        assert replies == [0, 1, 2]
        assert tree.child("shop/b").incarnation == 2
        assert record.of(DeadLetter) == []


@BOTH
def test_the_children_of_a_restarted_supervisor_keep_their_mailboxes(dispatch: str) -> None:
    hang = Hang()
    team = SupervisorSpec(
        id="team", max_restarts=0, children=[faulty("x"), faulty("y", dispatch=dispatch, shutdown=0.1)]
    )
    with running(shop(team)) as tree:
        ref = tree.ref("shop/team/y")
        ref.tell(hang)
        hang.wait_until_entered()
        waiting = [ref.ask(number, block=False) for number in range(3)]
        tree.ref("shop/team/x").tell("raise ValueError")

        assert [reply.get() for reply in waiting] == [0, 1, 2]
        assert tree.child("shop/team/y").incarnation == 2


def test_a_message_that_a_crash_interrupted_is_lost_and_those_behind_it_are_not() -> None:
    with running(shop(faulty("a"))) as tree:
        record = Record(tree)
        ref = tree.ref("shop/a")
        crashing = ref.ask("raise ValueError", block=False)
        behind = [ref.ask(number, block=False) for number in range(5)]

        with pytest.raises(ValueError):  # noqa: PT011 - it has no text
            crashing.get()
        assert [reply.get() for reply in behind] == [0, 1, 2, 3, 4]
        assert [event.lost for event in record.wait_for(ChildExited, "shop/a")] == [1]


# -- 18 ----------------------------------------------------------------------------------------------------


def test_a_worker_cannot_stop_the_tree_that_it_lives_in() -> None:
    trees: list[Tree] = []

    def handle(message: Any) -> None:
        trees[0].stop()

    with running(shop(WorkerSpec(id="a", handle=handle))) as tree:
        trees.append(tree)
        with pytest.raises(RecursionDetectedError):
            tree.ref("shop/a").ask("stop")

        assert tree.is_alive


@BOTH
@pytest.mark.parametrize(("restart", "expected"), [("permanent", "running"), ("transient", "stopped")])
def test_a_stop_through_a_ref_is_an_exit_shutdown_of_that_child(dispatch: str, restart: str, expected: str) -> None:
    with running(shop(faulty("a", dispatch=dispatch, restart=restart))) as tree:
        record = Record(tree)
        stopped = tree.ref("shop/a").stop()
        settle(tree)

        assert stopped
        assert record.exits("shop/a") == ["shutdown"]
        assert states(tree) == {"a": expected}


@BOTH
def test_a_worker_that_stops_itself_is_a_normal_exit_after_its_message(dispatch: str) -> None:
    diary: list[str] = []
    with running(shop(faulty("a", dispatch=dispatch, restart="transient", diary=diary))) as tree:
        record = Record(tree)
        reply = tree.ref("shop/a").ask("stop")
        settle(tree)

        assert reply == "stop"
        assert record.exits("shop/a") == ["normal"]
        assert hooks(diary) == ["on_start a", "on_stop a"]


def test_a_stop_through_the_ref_of_a_supervisor_is_an_exit_of_that_supervisor() -> None:
    with running(shop(SupervisorSpec(id="team", children=[faulty("x")]), faulty("b"))) as tree:
        record = Record(tree)
        tree.ref("shop/team").stop()
        settle(tree)

        assert record.exits("shop/team") == ["shutdown"]
        assert incarnations(tree) == {"team": 2, "b": 1}


def call(message: Any) -> Any:
    """A handler that does what it is told."""
    return message()


def a_desk(**words: Any) -> SupervisorSpec:
    """Workers that do what they are told: one and a pool on a desk, another beside it."""
    workers = [WorkerSpec(id="w", handle=call, **words), WorkerSpec(id="p", handle=call, pool=2, **words)]
    return shop(SupervisorSpec(id="desk", children=workers), WorkerSpec(id="b", handle=call))


ENDS: dict[str, Any] = {
    "terminate the child": lambda tree, path: tree.terminate_child(path),
    "terminate its supervisor": lambda tree, _: tree.terminate_child("shop/desk"),
    "stop the child": lambda tree, path: tree.ref(path).stop(),
    "stop its supervisor": lambda tree, _: tree.ref("shop/desk").stop(),
    "stop the tree": lambda tree, _: tree.stop(),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=list(ENDS))
@pytest.mark.parametrize("path", ["shop/desk/w", "shop/desk/p"])
def test_nobody_waits_for_the_end_of_one_who_waits_for_him(path: str, end: Any) -> None:
    """The worker asks b, and b is to end it: neither would go on before the worker's time is up."""
    with running(a_desk(shutdown="infinity")) as tree:

        def ask_b_to_end_it() -> Any:
            return tree.ref("shop/b").ask(lambda: end(tree, path))

        with pytest.raises(RecursionDetectedError) as refused:
            tree.ref(path).ask(ask_b_to_end_it)

        assert "shop/b > " in str(refused.value)
        assert states(tree, "shop/desk") == {"w": "running", "p#0": "running", "p#1": "running"}
        assert set(incarnations(tree, "shop/desk").values()) == {1}


def test_whoever_is_told_and_not_asked_may_end_the_teller() -> None:
    with running(a_desk()) as tree:
        record = Record(tree)

        def tell_b_to_end_it() -> None:
            tree.ref("shop/b").tell(lambda: tree.terminate_child("shop/desk/w"))

        tree.ref("shop/desk/w").ask(tell_b_to_end_it)
        record.wait_for(ChildExited, "shop/desk/w")
        settle(tree)

        assert states(tree, "shop/desk")["w"] == "stopped"
        assert record.exits("shop/b") == []
