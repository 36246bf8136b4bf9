"""A loop that was given up and wakes begins nothing more, and lets nobody go on beside his successor."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

import actors
from actors import ChildExited, ChildRestarting, StartError, Worker
from actors.execution.incarnation_orders import PLACE_LOST
from actors.execution.residence import PlaceLostError
from actors.model.spec import Reason
from actors.runtime.loop_renewal import LoopRenewal
from tests.actors.execution.test_blocked_loops import Blocker, blocked
from tests.support.hardening import (
    LONG_S,
    Gate,
    eventually,
    in_thread,
    obey_async,
    root,
    stop_at,
    threads_named,
    worker,
)
from trees import StaticPlan, Subtask, Tasks, WorkerSpec, start


def asks(path: str, done: list[str]) -> Callable[[], Coroutine[Any, Any, None]]:
    """A message: ask a colleague, and note if that is over."""

    async def act() -> None:
        try:
            await actors.ref(path).ask_async(int, timeout=None)
            done.append("went on")
        finally:
            await asyncio.sleep(0)
            done.append("cleaned up")

    return act


def test_whoever_gets_his_answer_while_another_blocks_the_loop_does_not_go_on_with_it() -> None:
    """The block ends in the turn of the loop in which answers come down: before that all is cancelled."""
    blocker, answers, done = Blocker(), Gate(), list[str]()
    three = [worker("a", obey_async), worker("b", obey_async), worker("colleague", lambda _: answers())]
    with blocked(*three, blocker=blocker) as (tree, witness):
        tree.ref("t/a").tell(asks("t/colleague", done))
        answers.wait_reached()
        tree.ref("t/b").tell(blocker.once)
        blocker.wait_reached()
        answers.open.set()
        witness.wait(ChildRestarting, path="t/b")
        assert tree.ref("t/a").ask(lambda: 1, timeout=LONG_S) == 1
        assert tree.ref("t/colleague").ask("after the answer", timeout=LONG_S) == "through"
        assert done == []
        blocker.open.set()
        eventually(lambda: not blocker.thread.is_alive())
    assert done == ["cleaned up"]


def test_whoever_gets_his_answer_with_that_of_one_who_then_blocks_the_loop_does_not_go_on_with_it() -> None:
    """Both answers are given in one step of the colleague, so they come down together: first that of the blocker."""
    blocker, done, waits = Blocker(), list[str](), list[tuple[Any, asyncio.Event]]()

    async def waits_for_both() -> None:
        waits.append((asyncio.get_running_loop(), asyncio.Event()))
        await waits[0][1].wait()

    async def asks_and_blocks() -> None:
        await actors.ref("t/colleague").ask_async(int, timeout=None)
        await blocker.once()

    three = [worker(each, obey_async) for each in ("a", "b", "colleague")]
    with blocked(*three, blocker=blocker) as (tree, witness):
        tree.ref("t/colleague").tell(waits_for_both)
        eventually(lambda: waits)
        tree.ref("t/b").tell(asks_and_blocks)
        eventually(lambda: tree.ref("t/colleague").depth == 1)
        tree.ref("t/a").tell(asks("t/colleague", done))
        eventually(lambda: tree.ref("t/colleague").depth == 2)
        loop, event = waits[0]
        loop.call_soon_threadsafe(event.set)
        witness.wait(ChildRestarting, path="t/b")
        assert tree.ref("t/a").ask(lambda: 1, timeout=LONG_S) == 1
        assert done == []
        blocker.open.set()
        eventually(lambda: not blocker.thread.is_alive())
    assert done == ["cleaned up"]


def test_a_lifespan_whose_turn_was_to_come_when_the_loop_was_blocked_is_not_waited_for() -> None:
    """It has its turn behind the blocker, in the same round: whoever gives the loop up ends it, too."""
    blocker, begins, entered = Blocker(), threading.Event(), list[int]()

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        entered.append(1)
        yield

    async def holds_the_loop_until_both_wait() -> None:
        actors.ref("t/b").tell(blocker.once)
        begins.set()
        eventually(lambda: len(tree._system.loop._ready) == 2)

    held = WorkerSpec(id="held", handle=int, lifespan=lifespan, start_timeout_s=LONG_S)
    with start(root(worker("a", obey_async), worker("b", obey_async)), loop_stall_s=5.0) as tree:
        try:
            tree.ref("t/a").tell(holds_the_loop_until_both_wait)
            assert begins.wait(LONG_S)
            start_ = in_thread(lambda: tree.start_child("t", held))
            with pytest.raises(StartError) as caught:
                start_()
            assert isinstance(caught.value.__cause__, PlaceLostError)
            assert entered == []
            assert tree.start_child("t", held).ask("7") == 7
        finally:
            blocker.open.set()
        eventually(lambda: blocker.thread is not None and not blocker.thread.is_alive())
    assert entered == [1]


def test_what_waited_for_its_turn_behind_the_blocker_is_not_begun_on_the_late_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loop wakes before anybody has been told that it is given up: the message waits for the next incarnation."""
    blocker, where = Blocker(), list[threading.Thread]()

    async def notes() -> None:
        where.append(threading.current_thread())

    async def wakes_both() -> None:
        actors.ref("t/b").tell(blocker.once)
        actors.ref("t/c").tell(notes)

    seam_of = stop_at(LoopRenewal, "_given_up", lambda *_: True, after=False, patch=monkeypatch)
    three = [worker(each, obey_async) for each in "abc"]
    with seam_of as seam, blocked(*three, blocker=blocker) as (tree, _):
        tree.ref("t/a").tell(wakes_both)
        seam.wait_reached()
        blocker.open.set()
        eventually(lambda: not blocker.thread.is_alive())
        seam.open.set()
        eventually(lambda: where)
    assert len(where) == 1
    assert where[0] is not blocker.thread


async def waits_in_a_handler(_: Any) -> None:
    await asyncio.Event().wait()


async def waits_in_a_body() -> None:
    await asyncio.Event().wait()


class Rests(Worker):
    """Has one task for its whole life, which waits for messages."""

    async def on_stop(self) -> None:
        await asyncio.sleep(0)

    async def on_receive(self, _: Any) -> None:
        pass


class Owns(Rests):
    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        yield


INNOCENT = {
    "handler": WorkerSpec(id="a", handle=waits_in_a_handler),
    "body": WorkerSpec(id="a", run=waits_in_a_body),
    "rest": WorkerSpec(id="a", actor=Rests),
    "rest in a lifespan": WorkerSpec(id="a", actor=Owns),
    "temporary": WorkerSpec(id="a", handle=waits_in_a_handler, restart="temporary"),
}


@pytest.mark.parametrize("innocent", INNOCENT.values(), ids=list(INNOCENT))
def test_what_a_loop_cancels_that_wakes_while_it_is_given_up_has_not_crashed(
    innocent: WorkerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wakes, and cancels all, before any supervisor has heard of it."""
    blocker = Blocker()
    seam_of = stop_at(LoopRenewal, "_given_up", lambda *_: True, after=False, patch=monkeypatch)
    with seam_of as seam, blocked(innocent, worker("b", obey_async), blocker=blocker) as (tree, witness):
        tree.ref("t/a").tell(0)
        tree.ref("t/b").tell(blocker.once)
        seam.wait_reached()
        blocker.open.set()
        eventually(lambda: not blocker.thread.is_alive())
        seam.open.set()
        eventually(lambda: tree.child("t/a").state == "running" and tree.child("t/a").incarnation >= 2)
        exits = witness.of(ChildExited, path="t/a")
        restarting = witness.of(ChildRestarting, path="t/a")

    assert {(each.reason, each.detail) for each in exits} == {(Reason.KILLED, PLACE_LOST)}
    assert restarting == []


def test_an_attempt_that_a_loop_cancels_which_wakes_while_it_is_given_up_costs_no_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocker, attempts = Blocker(), list[int]()

    async def execute(_: Any, context: Any) -> str:
        attempts.append(context.attempt)
        if len(attempts) == 1:
            await asyncio.Event().wait()
        return "done"

    tasks = Tasks(planner=StaticPlan([Subtask("s", "go", capability="work")]), on_failure=[])
    works = WorkerSpec(id="a", execute=execute, capabilities=["work"])
    seam_of = stop_at(LoopRenewal, "_given_up", lambda *_: True, after=False, patch=monkeypatch)
    with seam_of as seam, blocked(works, worker("b", obey_async), blocker=blocker, tasks=tasks) as (tree, _):
        handle = tree.submit("goal")
        eventually(lambda: attempts)
        tree.ref("t/b").tell(blocker.once)
        seam.wait_reached()
        blocker.open.set()
        eventually(lambda: not blocker.thread.is_alive())
        seam.open.set()
        assert handle.result(timeout=LONG_S).results == {"s": "done"}
    assert attempts == [1, 1]


def test_a_loop_that_is_given_up_while_its_tree_ends_leaves_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree has closed all of its loops when the fresh one comes."""
    blocker = Blocker()
    seam_of = stop_at(LoopRenewal, "_given_up", lambda *_: True, after=False, patch=monkeypatch)
    with seam_of as seam, blocked(worker("b", obey_async), blocker=blocker) as (tree, _):
        tree.ref("t/b").tell(blocker.once)
        seam.wait_reached()
        blocker.open.set()
        eventually(lambda: not blocker.thread.is_alive())
    eventually(lambda: not threads_named("t-loop"), "the end of the fresh loop")
