"""SEMANTICS.md, "A child exits": the table, and rule 5."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import actors
from actors import ActorStoppedError, ChildAbandoned, ChildExited, DeadLetter, RequestFailed, UnknownPathError
from actors.testing import Fault, Hang, settle
from tests.support.crew import LONG_S, Record, faulty, running, shop
from trees import Tree, WorkerSpec

DISPATCHES = ("pool", "loop", "thread")
BOTH = pytest.mark.parametrize("dispatch", DISPATCHES)

AGAIN, LISTED, FORGOTTEN = ("running", 2), ("stopped", 1), None
TABLE = [
    ("permanent", "normal", AGAIN),
    ("permanent", "shutdown", AGAIN),
    ("permanent", "crashed", AGAIN),
    ("permanent", "killed", AGAIN),
    ("transient", "normal", LISTED),
    ("transient", "shutdown", LISTED),
    ("transient", "crashed", AGAIN),
    ("transient", "killed", AGAIN),
    ("temporary", "normal", FORGOTTEN),
    ("temporary", "shutdown", FORGOTTEN),
    ("temporary", "crashed", FORGOTTEN),
    ("temporary", "killed", FORGOTTEN),
]


def stands(tree: Tree, path: str) -> tuple[str, int] | None:
    try:
        child = tree.child(path)
    except UnknownPathError:
        return None
    return child.state, child.incarnation


def end(tree: Tree, path: str, reason: str) -> None:
    """End a worker so; a killed one is one that stops itself and cannot end its on_stop in time."""
    if reason == "shutdown":
        tree.ref(path).stop(timeout=LONG_S)
    else:
        tree.ref(path).tell({"normal": "stop", "crashed": "raise ValueError", "killed": "stop"}[reason])


@BOTH
@pytest.mark.parametrize(("restart", "reason", "expected"), TABLE)
def test_an_exit_is_treated_as_the_table_says(
    dispatch: str, restart: str, reason: str, expected: tuple[str, int] | None
) -> None:
    hang = Hang(deaf=dispatch != "loop")
    on_stop = Fault(hang, times=1) if reason == "killed" else None
    patience_s = 0.05 if reason == "killed" else LONG_S
    spec = shop(faulty("a", dispatch=dispatch, restart=restart, shutdown=patience_s, on_stop=on_stop))

    with running(spec) as tree:
        record = Record(tree)
        end(tree, "shop/a", reason)
        record.wait_for(ChildExited, "shop/a")
        settle(tree)
        hang.release()

        assert stands(tree, "shop/a") == expected
        assert record.exits("shop/a") == [reason]


BODIES: dict[str, Any] = {"returns": None, "raises": ValueError("the feed is gone"), "exits": SystemExit(1)}


@pytest.mark.parametrize("dispatch", ["thread", "loop"])
@pytest.mark.parametrize("how", BODIES)
@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
def test_a_body_that_returns_is_a_normal_exit_and_one_that_raises_a_crash(
    dispatch: str, how: str, restart: str
) -> None:
    fault = Fault(BODIES[how], times=1)
    again, go = threading.Event(), threading.Event()

    def first() -> bool:
        go.wait(LONG_S)
        error = fault.take()
        if error is not None:
            raise error  # type: ignore[misc]
        if again.is_set():
            return False
        again.set()
        return how == "returns"

    def body() -> None:
        if not first():
            actors.sleep(LONG_S)

    async def async_body() -> None:
        if not first():
            await actors.Reply()

    reason = "normal" if how == "returns" else "crashed"
    (expected,) = (row[2] for row in TABLE if row[:2] == (restart, reason))
    spec = shop(WorkerSpec(id="a", run=async_body if dispatch == "loop" else body, restart=restart))  # type: ignore[arg-type]
    with running(spec) as tree:
        record = Record(tree)
        go.set()
        record.wait_for(ChildExited, "shop/a")
        settle(tree)

        assert record.exits("shop/a")[0] == reason
        assert stands(tree, "shop/a") == expected


# -- 5 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dispatch", ["pool", "thread"])
def test_the_late_crash_of_an_abandoned_thread_is_dropped(dispatch: str) -> None:
    hang = Hang(deaf=True)

    def handle(message: Any) -> Any:
        if message == "hang":
            hang.hold()
            raise ValueError
        return message

    with running(shop(WorkerSpec(id="a", handle=handle, shutdown=0.05, dispatch=dispatch))) as tree:  # type: ignore[arg-type]
        record = Record(tree)
        tree.ref("shop/a").tell("hang")
        hang.wait_until_entered()
        tree.terminate_child("shop/a")
        ref = tree.restart_child("shop/a")
        hang.release()
        reply = ref.ask("hello")
        settle(tree)

        assert reply == "hello"
        assert record.exits("shop/a") == ["killed"]
        assert len(record.of(ChildAbandoned, "shop/a")) == 1
        assert stands(tree, "shop/a") == ("running", 2)


def test_the_late_reply_of_an_abandoned_thread_is_dropped() -> None:
    hang = Hang(deaf=True)

    with running(shop(faulty("a", shutdown=0.05))) as tree:
        reply = tree.ref("shop/a").ask(hang, block=False)
        hang.wait_until_entered()
        tree.terminate_child("shop/a")
        hang.release()

        with pytest.raises(ActorStoppedError):
            reply.get()


@BOTH
def test_an_exit_is_reported_once_however_many_ways_it_is_asked_for(dispatch: str) -> None:
    with running(shop(faulty("a", dispatch=dispatch, restart="transient"))) as tree:
        record = Record(tree)
        ref = tree.ref("shop/a")
        for message in ("stop", "raise ValueError", "stop"):
            ref.tell(message)
        ref.stop()
        tree.terminate_child("shop/a")
        settle(tree)

        assert len(record.exits("shop/a")) == 1 + record.restarts("shop/a")


@BOTH
def test_a_failed_request_is_no_exit(dispatch: str) -> None:
    with running(shop(faulty("a", dispatch=dispatch))) as tree:
        record = Record(tree)
        with pytest.raises(actors.Failed, match="sold out"):
            tree.ref("shop/a").ask("fail sold out")
        settle(tree)

        assert stands(tree, "shop/a") == ("running", 1)
        assert record.exits("shop/a") == []
        assert [event.asked for event in record.of(RequestFailed, "shop/a")] == [True]


@BOTH
def test_what_waits_for_a_worker_that_ended_for_good_is_answered(dispatch: str) -> None:
    hang = Hang()

    with running(shop(faulty("a", dispatch=dispatch, restart="temporary"))) as tree:
        record = Record(tree)
        ref = tree.ref("shop/a")
        ref.tell(hang)
        hang.wait_until_entered()
        ref.tell("stop")
        waiting = ref.ask("too late", block=False)
        ref.tell("too late")
        hang.release()

        with pytest.raises(ActorStoppedError):
            waiting.get()
        assert [letter.reason for letter in record.wait_for(DeadLetter, "shop/a")] == ["forgotten"]
