"""A blocked loop is given up: everything that ran on it goes on, on a fresh one, and only the culprit has crashed.

``loop_stall_s`` is short here, and each wait is for an event: what blocks the loop stands at a ``Gate`` until the end.
"""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import actors
from actors import (
    ActorStoppedError,
    ChildExited,
    ChildRestarting,
    ChildStalled,
    StalledError,
    SubtaskRetrying,
)
from tests.support.hardening import LONG_S, Gate, Witness, eventually, obey_async, root, worker
from trees import Plan, Retry, StaticPlan, Subtask, Tasks, WorkerSpec, start

STALL_S = 1.5


class Blocker(Gate):
    """Blocks the loop on which it runs, once."""

    def __init__(self) -> None:
        super().__init__()
        self.thread: threading.Thread | None = None

    async def once(self) -> str:
        if not self.reached.is_set():
            self.thread = threading.current_thread()
            self.reached.set()
            self.open.wait(LONG_S)
        return "again"


@contextmanager
def blocked(*children: Any, blocker: Blocker, **fields: Any) -> Iterator[tuple[Any, Witness]]:
    with start(root(*children, **fields), loop_stall_s=STALL_S) as tree:
        witness = Witness(tree)
        try:
            yield tree, witness
        finally:
            blocker.open.set()
            if blocker.thread is not None:
                eventually(lambda: not blocker.thread.is_alive(), "the end of the late loop")


def test_an_async_worker_that_blocks_for_ever_beside_ten_that_work_and_a_task_that_runs() -> None:
    """After ``loop_stall_s`` + 1 s everything goes on, and only the culprit has a restart counted."""
    blocker, runs, handed = Blocker(), [], threading.Event()

    async def execute(task: Any, context: Any) -> str:
        runs.append(context.attempt)
        handed.set()
        if len(runs) == 1:
            await asyncio.Event().wait()
        return "done"

    ten = [worker(f"w{n}", obey_async) for n in range(10)]
    tasks = Tasks(planner=StaticPlan([Subtask("s", "go", capability="work")]), on_failure=[])
    busy = WorkerSpec(id="x", execute=execute, capabilities=["work"])
    with blocked(worker("culprit", obey_async), *ten, busy, blocker=blocker, tasks=tasks) as (tree, witness):
        handle = tree.submit("goal")
        assert handed.wait(LONG_S)
        asked = tree.ref("t/culprit").ask(blocker.once, block=False, timeout=LONG_S)
        blocker.wait_reached()
        began = time.monotonic()
        with pytest.raises(StalledError) as caught:
            asked.get(timeout=LONG_S)
        answers = [tree.ref(f"t/w{n}").ask(lambda: 1, timeout=LONG_S) for n in range(10)]
        report = handle.result(timeout=LONG_S)
        took = time.monotonic() - began
        again = tree.ref("t/culprit").ask(blocker.once, timeout=LONG_S)
        children = {child.id: child for child in tree.which_children("t")}
        counted = witness.of(ChildRestarting)
        abandoned = tree.snapshot().abandoned

    assert caught.value.path == "t/culprit"
    assert caught.value.silent_s >= STALL_S
    assert answers == [1] * 10
    assert report.results == {"s": "done"}
    assert runs == [1, 1]
    assert again == "again"
    assert {child.id: child.restarts for child in children.values() if child.restarts} == {"culprit": 1}
    assert {child.incarnation for child in children.values()} == {2}
    assert [each.path for each in counted] == ["t/culprit"]
    assert abandoned == {"t/culprit": 1}
    assert took < LONG_S


def test_the_culprit_has_stalled_and_the_others_were_killed() -> None:
    blocker = Blocker()
    with blocked(worker("a", obey_async), worker("b", obey_async), worker("c"), blocker=blocker) as (tree, witness):
        tree.ref("t/b").tell(blocker.once)
        witness.wait(ChildRestarting, path="t/b")
        eventually(lambda: tree.child("t/a").incarnation == 2)
        exits = {each.path: each for each in witness.of(ChildExited)}
        stalled = witness.of(ChildStalled)

    assert {path: each.reason for path, each in exits.items()} == {"t/a": "killed", "t/b": "crashed"}
    assert isinstance(exits["t/b"].error, StalledError)
    assert exits["t/a"].error is None
    assert exits["t/a"].detail == "its event loop was given up"
    assert [each.path for each in stalled] == ["t/b"]


def test_what_others_had_in_flight_is_lost_to_its_asker_and_the_rest_waits() -> None:
    blocker, begun = Blocker(), threading.Event()

    async def waits() -> None:
        begun.set()
        await asyncio.Event().wait()

    with blocked(worker("a", obey_async), worker("b", obey_async), blocker=blocker) as (tree, _):
        first = tree.ref("t/a").ask(waits, block=False, timeout=LONG_S)
        assert begun.wait(LONG_S)
        second = tree.ref("t/a").ask(lambda: 2, block=False, timeout=LONG_S)
        tree.ref("t/b").tell(blocker.once)
        with pytest.raises(ActorStoppedError):
            first.get(timeout=LONG_S)
        assert second.get(timeout=LONG_S) == 2


def test_the_late_loop_can_reach_nothing() -> None:
    """It wakes: its answer is dropped, its next message is the successor's, and its thread ends."""
    blocker, replies = Blocker(), []
    with blocked(worker("a", obey_async), worker("b", obey_async), blocker=blocker) as (tree, witness):
        asked = tree.ref("t/b").ask(blocker.once, block=False, timeout=LONG_S)
        replies = [tree.ref("t/b").ask(threading.get_ident, block=False, timeout=LONG_S) for _ in range(3)]
        witness.wait(ChildRestarting, path="t/b")
        on = {reply.get(timeout=LONG_S) for reply in replies}
        blocker.open.set()
        eventually(lambda: not blocker.thread.is_alive())
        eventually(lambda: not tree.snapshot().abandoned)
        with pytest.raises(StalledError):
            asked.get(timeout=LONG_S)
        fresh = tree.ref("t/a").ask(threading.get_ident)
        assert tree.child("t/b").restarts == 1

    assert on == {fresh}
    assert fresh != blocker.thread.ident


@pytest.mark.parametrize("turn", ["the same turn", "the next turn"])
def test_work_of_others_that_was_about_to_go_on_when_the_loop_was_blocked_never_does(turn: str) -> None:
    """It is done again elsewhere, or lost: on the late loop it is cancelled, once, and cleans up."""
    blocker, done, events = Blocker(), [], []

    async def goes_on() -> None:
        events.append(asyncio.Event())
        try:
            await events[0].wait()
            done.append("went on")
        finally:
            await asyncio.sleep(0)
            done.append("cleaned up")

    async def blocks() -> str:
        if not blocker.reached.is_set():
            if turn == "the same turn":
                events.append(asyncio.Event())
                await events[0].wait()
            else:
                events[0].set()
        return await blocker.once()

    async def wakes_both() -> None:
        events[0].set()

    three = [worker(each, obey_async) for each in "abc"]
    with blocked(*three, blocker=blocker) as (tree, witness):
        first, second = ("t/b", "t/a") if turn == "the same turn" else ("t/a", "t/b")
        acts = {"t/a": goes_on, "t/b": blocks}
        tree.ref(first).tell(acts[first])
        eventually(lambda: events)
        tree.ref(second).tell(acts[second])
        if turn == "the same turn":
            eventually(lambda: len(events) == 2)
            tree.ref("t/c").tell(wakes_both)
        witness.wait(ChildRestarting, path="t/b")
        assert tree.ref("t/a").ask(lambda: 1, timeout=LONG_S) == 1
        assert done == []
        blocker.open.set()
        eventually(lambda: not blocker.thread.is_alive())
    assert done == ["cleaned up"]


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
def test_each_comes_back_once_whatever_the_strategy(strategy: Any) -> None:
    blocker = Blocker()
    children = [worker("a", obey_async), worker("b", obey_async), worker("c", obey_async), worker("sync")]
    with blocked(*children, blocker=blocker, strategy=strategy) as (tree, _):
        tree.ref("t/b").tell(blocker.once)
        eventually(lambda: tree.child("t/b").restarts == 1)
        assert [tree.ref(f"t/{each}").ask(lambda: 1, timeout=LONG_S) for each in ("a", "b", "c", "sync")] == [1] * 4
        incarnations = [tree.child(f"t/{each}").incarnation for each in ("a", "b", "c")]
    assert incarnations == [2, 2, 2]


def test_the_attempt_that_blocks_has_failed_and_costs_its_try() -> None:
    blocker, runs = Blocker(), []

    async def execute(task: Any, context: Any) -> str:
        runs.append(context.attempt)
        return await blocker.once()

    tasks = Tasks(planner=StaticPlan([Subtask("s", "go", capability="work")]), on_failure=[Retry(2, initial_s=0.01)])
    child = WorkerSpec(id="x", execute=execute, capabilities=["work"])
    with blocked(child, blocker=blocker, tasks=tasks) as (tree, witness):
        report = tree.submit("goal").result(timeout=LONG_S)
        failed = witness.of(SubtaskRetrying)

    assert report.results == {"s": "again"}
    assert runs == [1, 2]
    assert len(failed) == 1


def test_a_planner_that_blocks_has_failed_and_no_other_task_waits() -> None:
    blocker = Blocker()

    async def plan(task: Any, catalogue: Any, feedback: str) -> Any:
        if task.goal == "hang":
            await blocker.once()
        return Plan([Subtask("s", "go", worker="x")])

    async def execute(task: Any, context: Any) -> str:
        return "done"

    tasks = Tasks(planner=plan, on_failure=[])
    with blocked(WorkerSpec(id="x", execute=execute), blocker=blocker, tasks=tasks) as (tree, _):
        hung = tree.submit("hang")
        blocker.wait_reached()
        good = tree.submit("good")
        assert good.result(timeout=LONG_S).results == {"s": "done"}
        assert hung.result(timeout=LONG_S).results == {"s": "done"}
        told = list(hung.events())

    steps = [type(each).__name__ for each in told if getattr(each, "role", "") == "plan"]
    assert steps == ["SubtaskStarted", "SubtaskRetrying", "SubtaskStarted"]


def test_a_loop_that_turns_late_but_in_time_is_only_reported() -> None:
    blocker = Blocker()
    with start(root(worker("b", obey_async)), loop_stall_s=LONG_S) as tree:
        witness = Witness(tree)
        reply = tree.ref("t/b").ask(blocker.once, block=False, timeout=LONG_S)
        witness.wait(actors.LoopBlocked)
        blocker.open.set()
        assert reply.get(timeout=LONG_S) == "again"
        assert tree.child("t/b").restarts == 0


def test_with_none_a_blocked_loop_is_never_given_up() -> None:
    blocker = Blocker()
    with start(root(worker("b", obey_async)), loop_stall_s=None) as tree:
        witness = Witness(tree)
        reply = tree.ref("t/b").ask(blocker.once, block=False, timeout=LONG_S)
        witness.wait(actors.LoopBlocked)
        assert not any("stall" in each.name for each in threading.enumerate())
        blocker.open.set()
        assert reply.get(timeout=LONG_S) == "again"
        assert tree.child("t/b").incarnation == 1
