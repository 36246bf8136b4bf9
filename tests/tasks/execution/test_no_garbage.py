"""A task leaves nothing that only the collector could free, however its attempts end."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from actors import Context
from actors.testing import settle
from tests.support.hardening import LONG_S
from trees import (
    Breaker,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

PLANS = {
    "a result": Subtask("a", worker="fine"),
    "a result of async code": Subtask("a", worker="fine_async"),
    "a retry": Subtask("a", worker="flaky"),
    "a failure": Subtask("a", worker="bad"),
    "a failure of async code": Subtask("a", worker="bad_async"),
    "an attempt that is too long": Subtask("a", worker="slow", timeout_s=0.05),
    "a subtask that asks": Subtask("a", worker="asks"),
}


def fine(_: Subtask, context: Context) -> int:
    return context.attempt


async def fine_async(_: Subtask, context: Context) -> int:
    return context.attempt


def flaky(_: Subtask, context: Context) -> int:
    if context.attempt == 1:
        raise OSError
    return context.attempt


def bad(_: Subtask, context: Context) -> int:
    raise OSError(context.attempt)


async def bad_async(_: Subtask, context: Context) -> int:
    raise OSError(context.attempt)


async def slow(_: Subtask, context: Context) -> int:
    await asyncio.sleep(LONG_S)
    return context.attempt


async def asks(_: Subtask, context: Context) -> Any:
    return await context.ask("fine", "count")


WORK = {
    "fine": fine,
    "fine_async": fine_async,
    "flaky": flaky,
    "bad": bad,
    "bad_async": bad_async,
    "slow": slow,
    "asks": asks,
}


@pytest.fixture
def _no_collector() -> Iterator[None]:
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def run(tree: Tree, times: int) -> None:
    for _ in range(times):
        with suppress(TaskFailedError):
            tree.run(Task("go"), timeout=LONG_S)
    settle(tree)


@pytest.mark.slow
@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("plan", PLANS)
def test_a_task_leaves_no_garbage_for_the_collector(plan: str) -> None:
    tasks = Tasks(planner=StaticPlan([PLANS[plan]]), on_failure=[Retry(max_attempts=2, initial_s=0.001)])
    patient = Breaker(failure_threshold=1000)
    workers = [WorkerSpec(id=name, execute=code, breaker=patient) for name, code in WORK.items()]
    with start(SupervisorSpec(id="t", tasks=tasks, children=workers)) as tree:
        run(tree, 2)  # what is made once is there then
        gc.collect()
        gc.disable()
        run(tree, 5)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        gc.set_debug(0)

        assert [type(each).__name__ for each in gc.garbage] == []
