"""Threads for ``asyncio.to_thread``: a call that hangs keeps nobody else's from running, once nobody waits for it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from actors.execution.daemon_executor import DaemonExecutor
from actors.execution.loop import MOST_GIVEN_UP
from actors.testing import ManualClock
from tests.support.hardening import LONG_S, Gate, eventually
from trees import Retry, StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec, start


def hanging(executor: DaemonExecutor, count: int = 1) -> tuple[list[Gate], list[Any]]:
    """Calls that run and do not return, and their futures."""
    gates = [Gate() for _ in range(count)]
    futures = [executor.submit(gate) for gate in gates]
    for gate in gates:
        gate.wait_reached()
    return gates, futures


def test_a_call_that_hangs_and_is_waited_for_by_nobody_leaves_its_place_to_another_one() -> None:
    executor = DaemonExecutor("narrow", most=1, most_given_up=1)
    [gate], [future] = hanging(executor)
    other = executor.submit(lambda: "done")
    try:
        assert not future.cancel()
        assert other.result(LONG_S) == "done"
    finally:
        gate.open.set()
    assert future.result(LONG_S) == "through"
    eventually(lambda: executor._given_up == 0)
    assert executor.submit(lambda: "done").result(LONG_S) == "done"
    assert executor._count == 1
    executor.shutdown()


def test_a_call_that_is_given_up_twice_leaves_one_place() -> None:
    executor = DaemonExecutor("narrow", most=1, most_given_up=5)
    [gate], [future] = hanging(executor)
    future.cancel()
    future.cancel()
    assert (executor._count, executor._given_up) == (0, 1)
    gate.open.set()
    executor.shutdown()


def test_a_call_that_ends_just_before_it_is_given_up_keeps_its_thread() -> None:
    executor = DaemonExecutor("narrow", most=1, most_given_up=1)
    [gate], [future] = hanging(executor)
    gate.open.set()
    eventually(lambda: not future.call.has_thread)
    executor._give_up(future.call)
    assert (executor._count, executor._given_up) == (1, 0)
    assert executor.submit(lambda: "done").result(LONG_S) == "done"
    executor.shutdown()


def test_a_call_that_is_given_up_while_its_thread_is_about_to_look_ends_the_thread() -> None:
    executor = DaemonExecutor("narrow", most=1, most_given_up=1)
    gate, looks = Gate(), Gate()
    future = executor.submit(gate)
    gate.wait_reached()
    future.add_done_callback(looks)  # on its thread, which has yet to look whether it was given up
    gate.open.set()
    looks.wait_reached()
    executor._give_up(future.call)  # type: ignore[attr-defined]
    other = executor.submit(threading.get_ident)
    assert other.result(LONG_S)
    assert (executor._count, executor._given_up) == (1, 1)
    looks.open.set()
    eventually(lambda: executor._given_up == 0)
    assert executor._count == 1
    executor.shutdown()


def test_a_call_that_has_not_begun_is_cancelled_and_gives_up_no_thread() -> None:
    executor = DaemonExecutor("narrow", most=1, most_given_up=1)
    [gate], _ = hanging(executor)
    waiting = executor.submit(lambda: "done")
    assert waiting.cancel()
    assert (executor._count, executor._given_up) == (1, 0)
    gate.open.set()
    executor.shutdown()


def test_only_so_many_threads_are_given_up_and_no_more() -> None:
    executor = DaemonExecutor("narrow", most=2, most_given_up=1)
    gates, futures = hanging(executor, 2)
    for future in futures:
        future.cancel()
    assert (executor._count, executor._given_up) == (1, 1)
    [third], _ = hanging(executor)  # takes the place that is left
    last = executor.submit(lambda: "done")
    assert not last.running()
    gates[1].open.set()
    assert last.result(LONG_S) == "done"
    gates[0].open.set()
    third.open.set()
    executor.shutdown()


def test_a_worker_whose_calls_on_threads_hang_keeps_no_other_worker_from_calling() -> None:
    released, hung, clock = threading.Event(), list[str](), ManualClock()

    def hangs() -> None:
        hung.append("one more")
        released.wait(LONG_S)

    async def hang(*_: Any) -> None:
        await asyncio.to_thread(hangs)

    async def call(*_: Any) -> str:
        return await asyncio.to_thread(lambda: "done")

    times = DaemonExecutor("any")._most + 2
    assert times < MOST_GIVEN_UP
    plan = [Subtask("hangs", worker="hangs", required=False), Subtask("calls", worker="calls", depends_on=["hangs"])]
    spec = SupervisorSpec(
        id="office",
        tasks=Tasks(planner=StaticPlan(plan)),
        children=[
            WorkerSpec(
                id="hangs", execute=hang, timeout_s=0.05, on_failure=[Retry(times, initial_s=0.0)], breaker=None
            ),
            WorkerSpec(id="calls", execute=call, timeout_s=LONG_S / 2, on_failure=[]),
        ],
    )
    try:
        with start(spec, clock=clock) as tree:
            handle = tree.submit("call")
            for number in range(times):
                assert eventually(lambda wanted=number: len(hung) > wanted)
                clock.advance(0.05)
            assert handle.result(LONG_S).results == {"calls": "done"}
    finally:
        released.set()
    assert len(hung) == times


@pytest.mark.parametrize("most_given_up", [0, 3])
def test_whoever_asks_for_a_shutdown_waits_for_no_call_that_hangs(most_given_up: int) -> None:
    executor = DaemonExecutor("narrow", most=1, most_given_up=most_given_up)
    [gate], [future] = hanging(executor)
    future.cancel()
    executor.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(lambda: None)
    gate.open.set()
    assert future.result(LONG_S) == "through"
