"""A loop that was given up and wakes begins nothing more, and lets nobody go on beside his successor."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

import actors
from actors import ChildRestarting, StartError
from actors.execution.residence import PlaceLostError
from actors.runtime.loop_renewal import LoopRenewal
from tests.actors.execution.test_blocked_loops import Blocker, blocked
from tests.support.hardening import LONG_S, Gate, eventually, in_thread, obey_async, root, stop_at, worker
from trees import WorkerSpec, start


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
    with start(root(worker("a", obey_async), worker("b", obey_async)), loop_stall_s=2.0) as tree:
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
