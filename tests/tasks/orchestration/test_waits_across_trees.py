"""Waits for tasks that lead over several trees: a circle is refused, and whoever does not wait closes none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

import pytest

from actors import Context, RecursionDetectedError
from tests.support.asking import LONG_S
from trees import Plan, Retry, Subtask, SupervisorSpec, Task, TaskFailedError, Tasks, Tree, WorkerSpec, start

Code: TypeAlias = Callable[[Subtask, Context], Any]
Ask: TypeAlias = Callable[..., Awaitable[Any]]
Trees: TypeAlias = dict[str, Tree]


def task_of(worker: str) -> Task:
    return Task(f"for {worker}", plan=Plan([Subtask(worker, worker=worker)]))


@contextmanager
def trees_of(trees: Trees, **workers: Code) -> Iterator[None]:
    """A tree for each first letter, with the workers whose names begin so."""
    with ExitStack() as stack:
        for name in sorted({each[0] for each in workers}):
            own = [WorkerSpec(id=each, execute=code) for each, code in workers.items() if each[0] == name]
            spec = SupervisorSpec(id=name, tasks=Tasks(on_failure=[]), children=own)
            trees[name] = stack.enter_context(start(spec))
        yield


AGAIN = Retry(200, initial_s=0.0, max_s=0.0, jitter=0.0)


def does(*_: Any) -> str:
    return "done"


# -- ways to wait for a task -------------------------------------------------------------------------------------


def nothing() -> None:
    """Nobody wants to hear when a wait has begun."""


async def arun(tree: Tree, task: Task, begins: Callable[[], object] = nothing) -> Any:
    begins()  # it waits before there is anything to wait for
    return (await tree.arun(task)).results


async def run(tree: Tree, task: Task, begins: Callable[[], object] = nothing) -> Any:
    begins()
    return (await asyncio.to_thread(tree.run, task, LONG_S)).results


async def submitted(tree: Tree, task: Task, begins: Callable[[], object] = nothing) -> Any:
    handle = await tree.asubmit(task)
    asyncio.get_running_loop().call_soon(begins)  # in a moment, when this waits
    return (await handle).results


async def mapped(tree: Tree, task: Task, begins: Callable[[], object] = nothing) -> Any:
    begins()
    return [result async for _, result in tree.map([task], to=tree.spec.id, on_error="raise")]


TOGETHER = [arun, run, mapped]
"""Ways that submit and wait at once, so that no attempt begins before the wait is known."""


@pytest.mark.parametrize("back", [*TOGETHER, submitted])
@pytest.mark.parametrize("there", TOGETHER)
def test_a_circle_over_two_trees_is_refused_however_its_tasks_are_waited_for(there: Ask, back: Ask) -> None:
    trees: Trees = {}
    waits, refused = threading.Event(), threading.Event()

    async def a1(*_: Any) -> Any:
        return await there(trees["b"], task_of("b1"), waits.set)

    async def b1(*_: Any) -> Any:
        await asyncio.to_thread(waits.wait, LONG_S)
        try:
            return await back(trees["a"], task_of("a2"))
        finally:
            refused.set()

    async def a2(*_: Any) -> Any:
        await asyncio.to_thread(refused.wait, LONG_S)  # what has ended by then is not waited for

    with trees_of(trees, a1=a1, a2=a2, b1=b1), pytest.raises(TaskFailedError, match="a > a/a1 > b > b/b1 > a"):
        trees["a"].run(task_of("a1"), LONG_S)


def check_that_asking_who_waits_is_refused(wait: Callable[[Tree], Any], timeout: float) -> None:
    """A worker of tree a waits for a task of tree b, in which b1 asks that worker: b1 fails with the whole circle."""
    trees: Trees = {}

    def b1(*_: Any) -> Any:
        return trees["a"].ref("a/w").ask("go", timeout=timeout)

    spec = SupervisorSpec(id="a", children=[WorkerSpec(id="w", handle=lambda _: wait(trees["b"]))])
    with (
        trees_of(trees, b1=b1),
        start(spec) as trees["a"],
        pytest.raises(TaskFailedError, match="a/w > b > b/b1 > a/w"),
    ):
        trees["a"].ref("a/w").ask("go", timeout=LONG_S)


def test_a_message_to_a_worker_of_another_tree_that_waits_for_this_one_is_refused() -> None:
    check_that_asking_who_waits_is_refused(lambda b: b.run(task_of("b1"), LONG_S), LONG_S)


def test_an_attempt_that_begins_after_the_wait_for_its_task_is_refused_what_it_asks_of_who_waits() -> None:
    again = Task("again", plan=Plan([Subtask("b1", on_failure=[AGAIN])]))
    # The first attempts may begin before the wait: then their ask ends by its timeout.
    check_that_asking_who_waits_is_refused(lambda b: b.submit(again).result(LONG_S), 0.05)


def test_whoever_has_waited_for_a_task_may_be_asked_once_it_has_ended() -> None:
    trees: Trees = {}

    def waits(message: Any) -> Any:
        return trees["b"].run(copy_of_b1, LONG_S).results if message == "run" else "asked"

    def b1(*_: Any) -> Any:
        return trees["a"].ref("a/w").ask("say", timeout=LONG_S) if was_run.is_set() else "ran"

    copy_of_b1, was_run = task_of("b1"), threading.Event()
    spec = SupervisorSpec(id="a", children=[WorkerSpec(id="w", handle=waits)])
    with trees_of(trees, b1=b1), start(spec) as trees["a"]:
        copy_of_b1 = Task("for b1", plan=copy_of_b1.plan, id="t")
        assert trees["a"].ref("a/w").ask("run", timeout=LONG_S) == {"b1": "ran"}
        was_run.set()
        trees["b"].remove_task("t")
        assert trees["b"].run(copy_of_b1, LONG_S).results == {"b1": "asked"}


def test_a_planner_that_closes_a_circle_is_refused() -> None:
    trees: Trees = {}

    def plan(*_: Any) -> Plan:
        trees["a"].run(task_of("a2"), LONG_S)
        return Plan([Subtask("b1", worker="b1")])

    async def a1(*_: Any) -> Any:
        return await arun(trees["b"], Task("plan it"))

    spec = SupervisorSpec(id="b", tasks=Tasks(planner=plan), children=[WorkerSpec(id="b1", execute=does)])
    with (
        trees_of(trees, a1=a1, a2=does),
        start(spec) as trees["b"],
        pytest.raises(TaskFailedError, match=r"a > a/a1 > b.* > a: 'a' would wait for itself"),
    ):
        trees["a"].run(task_of("a1"), LONG_S)


# -- nobody waits ------------------------------------------------------------------------------------------------


def test_a_worker_that_waits_for_the_end_of_its_own_task_is_refused_and_nothing_goes_round_for_ever() -> None:
    trees: Trees = {}

    async def a1(*_: Any) -> Any:
        return await submitted(trees["b"], task_of("b1"))

    async def b1(*_: Any) -> Any:
        try:
            return await trees["b"].tasks()[0]
        except RecursionDetectedError:
            return await arun(trees["c"], task_of("c1"))

    with trees_of(trees, a1=a1, b1=b1, c1=does):
        assert trees["a"].run(task_of("a1"), LONG_S).results == {"a1": {"b1": {"c1": "done"}}}
