"""The timer of an attempt: it holds the orchestrator that set it, so it goes with what it was for."""

from __future__ import annotations

import asyncio
import gc
import queue
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from actors import ChildStarted, Event
from actors.execution.timers import Timer
from actors.tasks.execution.attempt import Attempt
from actors.tasks.execution.attempt_spec import AttemptSpec
from actors.testing import ManualClock, settle
from tests.tasks.orchestrators import kill_orchestrator
from trees import Subtask, SupervisorSpec, TaskCancelledError, Tasks, WorkerSpec, start

PATIENCE_S = 60.0


def attempt() -> Attempt:
    desk: Any = SimpleNamespace(post=lambda _: True)
    return Attempt(AttemptSpec("t/s#1.1", desk, "t", Subtask(id="s"), "w", "r/w"))


def timer() -> Timer:
    return Timer(lambda: None)


def test_an_attempt_that_ends_cancels_its_timer() -> None:
    one, its = attempt(), timer()
    one.watch(its)

    one.complete(None)

    assert its.callback is None


def test_a_timer_that_comes_after_the_end_is_cancelled_at_once() -> None:
    """The step was quick: it ended on another thread before its limit was set."""
    one, late = attempt(), timer()
    one.complete(None)

    one.watch(late)

    assert late.callback is None


def test_a_timer_replaces_the_one_before() -> None:
    one, first, second = attempt(), timer(), timer()

    one.watch(first)
    one.watch(second)

    assert first.callback is None
    assert second.callback is not None
    one.complete(None)
    assert second.callback is None


@pytest.mark.parametrize("crashes", [1, 3])
def test_an_orchestrator_that_crashed_is_not_held_by_the_limits_of_what_runs_on(crashes: int) -> None:
    """A limit of hours must not keep each incarnation, with all that it knew of its tasks, for hours."""
    begun = threading.Event()
    up: queue.SimpleQueue[int] = queue.SimpleQueue()

    async def wait(task: Subtask, context: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    def hear(event: Event) -> None:
        if isinstance(event, ChildStarted) and event.path == "r/orchestrator":
            up.put(event.incarnation)

    work = WorkerSpec(id="w", execute=wait, timeout_s=10_000.0)
    spec = SupervisorSpec(id="r", max_restarts=1_000, tasks=Tasks(), children=[work])
    with start(spec, clock=ManualClock()) as tree:
        tree.subscribe(hear)
        handle = tree.submit("w")
        assert begun.wait(PATIENCE_S)
        gone = []
        for number in range(crashes):
            incarnation: Any = tree._system.children["r/orchestrator"].incarnation
            gone.append(weakref.ref(incarnation.actor))
            kill_orchestrator(tree, "r")
            while up.get(timeout=PATIENCE_S) < number + 2:
                pass
        handle.cancel()
        with pytest.raises(TaskCancelledError):
            handle.result(PATIENCE_S)
        settle(tree)
        del incarnation
        gc.collect()

        assert [ref() for ref in gone] == [None] * crashes
