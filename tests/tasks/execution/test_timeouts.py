"""Time: what an attempt may take, what a queue may, what a task may, and what becomes of what hangs (point 12)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from actors import Event
from actors.testing import AsyncScriptedExecutable, Hang, InTurn, ManualClock, ScriptedExecutable, settle
from tests.support.crew import Record, until
from tests.tasks.dispatching import LONG_S, failure, heard, one, shop, single, submitted
from tests.tasks.puppet import Puppet
from trees import (
    Retry,
    TaskStatus,
    WorkerSpec,
    start,
)

BOTH = pytest.mark.parametrize("kind", [ScriptedExecutable, AsyncScriptedExecutable], ids=["sync", "async"])
RETRY = Retry(max_attempts=2, initial_s=0.0, max_s=0.0, jitter=0.0)


def held_up(kind: type[Any]) -> Hang:
    """Hang until the attempt is ended. What a sync one returns as it is told to stop may count as its result."""
    return Hang(deaf=kind is ScriptedExecutable)


# -- running -----------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("said_by", ["worker", "subtask"])
def test_an_attempt_that_runs_longer_than_its_timeout_has_failed(kind: type[Any], said_by: str) -> None:
    words = {"timeout_s": 5.0} if said_by == "worker" else {}
    plan = [one("w", timeout_s=5.0 if said_by == "subtask" else None)]
    clock = ManualClock()
    with held_up(kind) as hang, start(single(kind(hang), plan, **words), clock=clock) as tree:
        handle = submitted(tree, "go")
        hang.wait_until_entered()
        clock.advance(4.9)
        heard(tree)
        before = handle.status
        clock.advance(0.2)
        report = failure(handle)

    assert before is TaskStatus.RUNNING
    assert report.failed["w"] == "AttemptTimeoutError: subtask 'w': attempt 1 ran longer than 5 s"


@BOTH
def test_the_timeout_of_a_subtask_counts_more_than_that_of_its_worker(kind: type[Any]) -> None:
    clock = ManualClock()
    with (
        held_up(kind) as hang,
        start(single(kind(hang), [one("w", timeout_s=50.0)], timeout_s=5.0), clock=clock) as tree,
    ):
        handle = submitted(tree, "go")
        hang.wait_until_entered()
        clock.advance(40)
        heard(tree)
        before = handle.status
        clock.advance(20)
        report = failure(handle)

    assert before is TaskStatus.RUNNING
    assert "50 s" in report.failed["w"]


@BOTH
def test_time_in_the_queue_does_not_count_and_is_told_apart(kind: type[Any]) -> None:
    plan = [one("first", "w"), one("second", "w", timeout_s=5.0)]
    clock = ManualClock()
    with Hang() as hang, start(single(kind(InTurn(hang, "done")), plan), clock=clock) as tree:
        handle = submitted(tree, "go")
        hang.wait_until_entered()
        clock.advance(100)
        heard(tree)
        hang.release()
        report = handle.result(timeout=LONG_S)

    assert report.results == {"first": "done", "second": "done"}
    first, second = report.graph
    assert (second.queued_s, second.running_s) == (pytest.approx(100), pytest.approx(0))
    assert first.running_s == pytest.approx(100)


# -- idle --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sign",
    [lambda context: context.heartbeat(), lambda context: context.progress(0.5, "half")],
    ids=["heartbeat", "progress"],
)
def test_an_attempt_with_signs_of_life_may_take_as_long_as_it_likes(sign: Callable[[Any], object]) -> None:
    puppet, clock = Puppet(), ManualClock()

    with start(single(puppet, [one("w", idle_timeout_s=5.0)]), clock=clock) as tree:
        handle = submitted(tree, "go")
        puppet.does(sign)
        for _ in range(10):
            clock.advance(4)
            heard(tree)
            puppet.does(sign)
        puppet.orders.put(None)
        report = handle.result(timeout=LONG_S)

    assert report.results == {"w": "done"}
    assert report.timings["running"] == pytest.approx(40)


@BOTH
def test_an_attempt_without_a_sign_of_life_is_ended_and_that_is_named_apart(kind: type[Any]) -> None:
    clock = ManualClock()
    with held_up(kind) as hang, start(single(kind(hang), idle_timeout_s=5.0, timeout_s=60.0), clock=clock) as tree:
        handle = submitted(tree, "go")
        hang.wait_until_entered()
        clock.advance(5)
        report = failure(handle)

    assert report.failed["w"] == "AttemptTimeoutError: subtask 'w': attempt 1 gave no sign of life for 5 s"


# -- cancelling --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["timeout", "cancel", "deadline"])
def test_an_async_attempt_is_really_cancelled_and_its_finally_blocks_run(how: str) -> None:
    diary: list[str] = []
    has_begun = threading.Event()

    async def work(_task: object, _context: object) -> None:
        try:
            has_begun.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            diary.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0)
            diary.append("finally")

    clock = ManualClock()
    with start(single(work, timeout_s=5.0 if how == "timeout" else None), clock=clock) as tree:
        handle = submitted(tree, "go", deadline_s=5.0 if how == "deadline" else None)
        assert has_begun.wait(LONG_S)
        if how == "cancel":
            handle.cancel()
        else:
            clock.advance(5)
        until(lambda: handle.report is not None)
        incarnation = tree.which_children("shop")[-1].incarnation

    assert diary == ["cancelled", "finally"]
    assert incarnation == 1


def test_async_code_that_swallows_its_cancellation_is_replaced_after_a_moment() -> None:
    clock = ManualClock()
    with Hang(deaf=True) as hang:
        script = AsyncScriptedExecutable(hang, "second")
        with start(single(script, timeout_s=5.0, on_failure=[RETRY]), clock=clock) as tree:
            handle = submitted(tree, "go")
            hang.wait_until_entered()
            clock.advance(5)
            heard(tree)
            until(lambda: len(script.calls) == 2, clock, 1.0)
            report = handle.result(timeout=LONG_S)
            child = tree.which_children("shop")[-1]
            hang.release()

    assert report.results == {"w": "second"}
    assert (child.state, child.incarnation) == ("running", 2)


# -- what hangs --------------------------------------------------------------------------------------------


def test_a_sync_worker_that_hangs_is_replaced_at_once_and_that_counts_in_no_restart_window() -> None:
    clock = ManualClock()
    with Hang(deaf=True) as hang:
        script = ScriptedExecutable(at={1: hang, 2: hang, 3: hang, 4: hang}, then="done", by="call")
        spec = single(script, timeout_s=5.0).model_copy(update={"max_restarts": 1})
        with start(spec, clock=clock) as tree:
            record = Record(tree)
            for _ in range(4):
                handle = submitted(tree, "go")
                hang.wait_until_entered()
                clock.advance(5)
                failure(handle)
            last = tree.run("go", timeout=LONG_S)
            child = tree.which_children("shop")[-1]
            parked = [event for event in record.of(Event) if type(event).__name__ == "ChildParked"]
            dump = tree.dump()
            hang.release()

    assert last.results == {"w": "done"}
    assert (child.state, child.incarnation) == ("running", 5)
    assert parked == []
    assert "abandoned 4" in dump


def test_the_slot_of_what_hangs_is_free_and_its_thread_stays_in_the_books() -> None:
    clock = ManualClock()
    with Hang(deaf=True) as hang:
        spec = shop(
            WorkerSpec(id="w", execute=ScriptedExecutable(hang), timeout_s=5.0),
            WorkerSpec(id="v", execute=ScriptedExecutable("free")),
            plans={"go": [one("w")], "other": [one("v")]},
            max_parallel=1,
        )
        with start(spec, clock=clock) as tree:
            stuck = submitted(tree, "go")
            hang.wait_until_entered()
            other = submitted(tree, "other")
            before = other.status
            clock.advance(5)
            report = other.result(timeout=LONG_S)
            failure(stuck)
            during = tree.dump()
            hang.release()
            until(lambda: "abandoned" not in tree.dump())

    assert before is TaskStatus.RUNNING
    assert report.results == {"v": "free"}
    assert "abandoned 1" in during


def test_more_than_max_abandoned_threads_park_a_worker() -> None:
    clock = ManualClock()
    with Hang(deaf=True) as hang:
        script = ScriptedExecutable(hang)
        with start(single(script, timeout_s=5.0, max_abandoned=2), clock=clock) as tree:
            states = []
            for _ in range(3):
                handle = submitted(tree, "go")
                hang.wait_until_entered()
                clock.advance(5)
                failure(handle)
                settle(tree)
                states.append(tree.which_children("shop")[-1].state)
            report = failure(tree.submit("go"))
            hang.release()

    assert states == ["running", "running", "parked"]
    assert len(script.calls) == 3
    assert "w" in report.failed


def test_a_late_result_of_an_abandoned_thread_changes_nothing() -> None:
    clock = ManualClock()
    with Hang(deaf=True) as hang:
        script = ScriptedExecutable(InTurn(hang, "late"), "in time")
        with start(single(script, timeout_s=5.0, on_failure=[RETRY]), clock=clock) as tree:
            handle = submitted(tree, "go")
            hang.wait_until_entered()
            clock.advance(5)
            report = handle.result(timeout=LONG_S)
            hang.release()
            until(lambda: script.calls[0].ended)
            settle(tree)
            after = handle.result(timeout=LONG_S)

    assert report.results == after.results == {"w": "in time"}
