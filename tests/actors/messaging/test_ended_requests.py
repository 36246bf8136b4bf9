"""What a finished request leaves behind: nothing. And what it gives to the code that it starts: all, until it ends."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

import actors
from actors import (
    ActorsError,
    ActorStoppedError,
    DeadLetter,
    Failed,
    RecursionDetectedError,
    ReplyTimeoutError,
    carry,
)
from actors.testing import ManualClock, settle
from tests.support.hardening import (
    LONG_S,
    Gate,
    Ours,
    Witness,
    crash,
    eventually,
    in_thread,
    obey_async,
    root,
    tree_of,
    worker,
)
from trees import Tree, start


class MarkedError(Exception):
    """An error that a test can look for afterwards."""

    alive: ClassVar[weakref.WeakSet[MarkedError]] = weakref.WeakSet()

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.alive.add(self)


# -- each way to ask, from each place, ended in each way ---------------------------------------------------


def tell(tree: Tree, message: object) -> None:
    tree.ref("t/b").tell(message)


def ask(tree: Tree, message: object) -> None:
    tree.ref("t/b").ask(message, timeout=0.05)


async def ask_async(tree: Tree, message: object) -> None:
    await tree.ref("t/b").ask_async(message, timeout=0.05)


def ask_later(tree: Tree, message: object) -> None:
    tree.ref("t/b").ask(message, timeout=0.05, block=False).get()


async def await_later(tree: Tree, message: object) -> None:
    await tree.ref("t/b").ask(message, timeout=0.05, block=False)


def never_looked_at(tree: Tree, message: object) -> None:
    tree.ref("t/b").ask(message, timeout=0.05, block=False)


def call(tree: Tree, message: object) -> None:
    tree.ref("t/b").proxy().on_receive(message).get(timeout=0.05)


async def cancelled(tree: Tree, message: object) -> None:
    task = asyncio.ensure_future(tree.ref("t/b").ask_async(message, timeout=None))
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])


SYNC = [tell, ask, ask_later, never_looked_at, call]
ASYNC = [ask_async, await_later, cancelled]


def quietly(tree: Tree, way: Any, message: object) -> Any:
    """Ask, and catch whatever comes of it."""
    try:
        way(tree, message)
    except (MarkedError, ActorsError):
        return None


async def quietly_async(tree: Tree, way: Any, message: object) -> Any:
    try:
        await way(tree, message)
    except (MarkedError, ActorsError):
        return None


def from_outside(tree: Tree, way: Any, message: object) -> None:
    quietly(tree, way, message)


def from_a_handler(tree: Tree, way: Any, message: object) -> None:
    tree.ref("t/a").ask(lambda _: quietly(tree, way, message), timeout=LONG_S)


def from_a_handler_that_then_crashes(tree: Tree, way: Any, message: object) -> None:
    def ask_and_crash(_: object) -> None:
        quietly(tree, way, message)
        crash()

    with pytest.raises(ValueError, match="boom"):
        tree.ref("t/a").ask(ask_and_crash, timeout=LONG_S)


def from_a_thread_of_a_handler(tree: Tree, way: Any, message: object) -> None:
    tree.ref("t/a").ask(lambda _: in_thread(carry(lambda: quietly(tree, way, message)))(), timeout=LONG_S)


def from_a_host_loop(tree: Tree, way: Any, message: object) -> None:
    asyncio.run(quietly_async(tree, way, message))


def from_an_async_handler(tree: Tree, way: Any, message: object) -> None:
    tree.ref("t/loop").ask(lambda: quietly_async(tree, way, message), timeout=LONG_S)


def from_a_task_that_outlives_its_handler(tree: Tree, way: Any, message: object) -> None:
    tasks, over = [], threading.Event()

    async def begin() -> None:
        async def later() -> None:
            await quietly_async(tree, way, message)
            over.set()

        tasks.append(asyncio.create_task(later()))

    tree.ref("t/loop").ask(begin, timeout=LONG_S)
    assert over.wait(LONG_S)


PLACES = [
    (place, way)
    for way in SYNC
    for place in (from_outside, from_a_handler, from_a_handler_that_then_crashes, from_a_thread_of_a_handler)
]
PLACES += [
    (place, way)
    for way in ASYNC
    for place in (from_a_host_loop, from_an_async_handler, from_a_task_that_outlives_its_handler)
]


def raise_marked() -> None:
    raise MarkedError


@contextmanager
def busy(tree: Tree) -> Iterator[None]:
    """While the target is busy with something else."""
    gate = Gate()
    tree.ref("t/b").tell(gate)
    gate.wait_reached()
    yield
    gate.open.set()


# -- who has gone ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [from_a_host_loop, from_an_async_handler, from_a_task_that_outlives_its_handler])
def test_an_ask_whose_asker_was_cancelled_in_the_queue_is_never_run_and_a_dead_letter(place: Any) -> None:
    handled = []
    with tree_of(worker("b", Ours), worker("loop", obey_async)) as tree:
        seen = Witness(tree)
        with busy(tree):
            place(tree, cancelled, lambda _: handled.append(1))
        settle(tree)

        assert (handled, len(seen.of(DeadLetter, reason="expired", path="t/b"))) == ([], 1)


def test_an_ask_that_times_out_in_a_queue_was_never_run() -> None:
    handled = []
    with start(root(worker("b", Ours)), clock=ManualClock()) as tree:  # its clock stands still: no deadline passes
        seen = Witness(tree)
        with busy(tree), pytest.raises(ReplyTimeoutError):
            tree.ref("t/b").ask(lambda _: handled.append(1), timeout=0.01)
        settle(tree)

        assert (handled, len(seen.of(DeadLetter, reason="expired"))) == ([], 1)


def test_an_await_of_a_reply_that_is_cancelled_leaves_its_message_to_be_handled() -> None:
    """Unlike ``ask_async``: the reply is in somebody's hands, who may look at it again."""
    handled = []

    async def host(tree: Tree) -> object:
        reply = tree.ref("t/b").ask(lambda _: handled.append(1) or "handled", timeout=LONG_S, block=False)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reply, 0.01)
        gate.open.set()
        return await reply

    with tree_of(worker("b", Ours)) as tree:
        gate = Gate()
        tree.ref("t/b").tell(gate)

        assert asyncio.run(host(tree)) == "handled"


# -- a body, a task, a thread ------------------------------------------------------------------------------


# -- what a request gives to code that it starts -----------------------------------------------------------


def test_an_abandoned_handler_stands_for_nobody() -> None:
    """Its asker was answered, its successor is free, and what it asks for late is asked by nobody: its code ends."""
    gate, ends, heard = Gate(), [], []

    def stuck() -> None:
        gate()
        try:
            tree.ref("t/a").ask(lambda: heard.append("late"))
        except BaseException as error:
            ends.append(type(error).__name__)
            raise

    with tree_of(worker("a", shutdown=0)) as tree:
        reply = tree.ref("t/a").ask(stuck, timeout=LONG_S, block=False)
        gate.wait_reached()
        tree.terminate_child("t/a")
        with pytest.raises(ActorStoppedError):
            reply.get()
        tree.restart_child("t/a")
        gate.open.set()
        eventually(lambda: ends)
        tree.ref("t/a").ask(lambda: heard.append("of others"))

    assert ends == ["AbandonedThreadExit"]
    assert heard == ["of others"]


# -- whose error it is -------------------------------------------------------------------------------------


async def gather(*asks: Any) -> None:
    async with asyncio.TaskGroup() as group:
        for each in asks:
            group.create_task(each)


def raise_stop_iteration() -> None:
    raise StopIteration


def raise_stop_async_iteration() -> None:
    raise StopAsyncIteration


async def a_group() -> None:
    await gather(*(actors.ref("t/b").ask_async(raise_marked) for _ in range(3)))


async def a_group_of_groups() -> None:
    await gather(a_group(), actors.ref("t/b").ask_async(raise_marked))


async def a_part_of_a_group() -> None:
    try:
        await a_group()
    except* MarkedError as caught:
        raise caught.subgroup(MarkedError) or AssertionError from None


async def a_stop_iteration() -> Any:
    return await actors.ref("t/b").ask_async(raise_stop_iteration)


async def a_stop_iteration_through_an_async_generator() -> Any:
    async def each() -> Any:
        yield await actors.ref("t/b").ask_async(raise_stop_async_iteration)

    return [one async for one in each()]


def a_stop_iteration_through_a_generator() -> Any:
    def each() -> Any:
        yield actors.ref("t/b").ask(raise_stop_iteration)

    return list(each())


async def a_group_with_failed() -> None:
    async def fail() -> None:
        raise Failed("this request")

    await gather(fail(), actors.ref("t/b").ask_async(raise_marked))


async def a_group_with_one_of_its_own() -> None:
    async def mine() -> None:
        await asyncio.sleep(0)
        raise OSError

    await gather(mine(), *(_kept(actors.ref("t/b").ask_async(raise_marked)) for _ in range(2)))


async def _kept(ask: Any) -> None:
    try:
        await ask
    except asyncio.CancelledError:
        raise MarkedError from None


async def an_own_runtime_error() -> None:
    try:
        await actors.ref("t/b").ask_async(raise_stop_iteration)
    except RuntimeError as error:
        raise RuntimeError("mine") from error.__cause__


FAILED = [
    a_group,
    a_group_of_groups,
    a_part_of_a_group,
    a_stop_iteration,
    a_stop_iteration_through_an_async_generator,
    a_stop_iteration_through_a_generator,
    a_group_with_failed,
]
CRASHED = [a_group_with_one_of_its_own, an_own_runtime_error]


@pytest.mark.parametrize("act", [*FAILED, *CRASHED])
def test_errors_of_own_asks_are_a_failed_request_in_whatever_they_come_wrapped(act: Any) -> None:
    handler = obey_async if asyncio.iscoroutinefunction(act) else (lambda message: message())
    with tree_of(worker("a", handler), worker("b")) as tree:
        tree.ref("t/a").tell(act)  # of a function: in an ask every Exception is a failed request
        settle(tree)

        assert tree.child("t/a").incarnation == (1 if act in FAILED else 2)


# -- other trees -------------------------------------------------------------------------------------------


def test_a_circle_over_two_trees_is_recursion() -> None:
    with start(root(worker("o"))) as outer, start(root(worker("i"))) as inner:

        def back() -> Any:
            return outer.ref("t/o").ask("back", timeout=LONG_S)

        with pytest.raises(RecursionDetectedError):
            outer.ref("t/o").ask(lambda: inner.ref("t/i").ask(back, timeout=LONG_S))
