"""Waits for tasks that lead over several trees: a circle is refused, and whoever does not wait closes none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

import pytest

import actors
from actors import Context, RecursionDetectedError
from tests.support.asking import LONG_S
from trees import Plan, Subtask, SupervisorSpec, Task, TaskFailedError, Tasks, TaskTimeoutError, Tree, WorkerSpec, start

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


WAYS = [arun, run, submitted, mapped]


@pytest.mark.parametrize("back", WAYS)
@pytest.mark.parametrize("there", WAYS)
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


@pytest.mark.parametrize("further", WAYS)
def test_a_circle_is_refused_that_leads_through_a_task_which_a_worker_of_another_tree_waits_for(further: Ask) -> None:
    trees: Trees = {}
    waits = threading.Event()

    async def a1(*_: Any) -> Any:
        return await arun(trees["b"], task_of("b1"))

    async def b1(*_: Any) -> Any:
        return await further(trees["c"], task_of("c1"), waits.set)

    async def c1(*_: Any) -> Any:
        await asyncio.to_thread(waits.wait, LONG_S)
        return await arun(trees["a"], task_of("a2"))

    with (
        trees_of(trees, a1=a1, a2=does, b1=b1, c1=c1),
        pytest.raises(TaskFailedError, match="a > a/a1 > b > b/b1 > c > c/c1 > a"),
    ):
        trees["a"].run(task_of("a1"), LONG_S)


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


@pytest.mark.parametrize("to", ["b", "c"])
def test_a_task_that_was_left_to_another_tree_may_wait_for_the_tree_that_waits_for_its_submitter(to: str) -> None:
    trees: Trees = {}
    left: list[Any] = []
    over = threading.Event()

    async def a1(*_: Any) -> Any:
        return await arun(trees["b"], task_of("b1"))

    async def b1(*_: Any) -> Any:
        left.append(await trees[to].asubmit(task_of(f"{to}2")))
        await asyncio.to_thread(over.wait, LONG_S)  # whoever waits for this does so still
        return "left it"

    async def second(*_: Any) -> Any:
        try:
            return await arun(trees["a"], task_of("a2"))
        finally:
            over.set()

    workers = {"a1": a1, "a2": does, "b1": b1, f"{to}2": second}
    with trees_of(trees, **workers):
        assert trees["a"].run(task_of("a1"), LONG_S).results == {"a1": {"b1": "left it"}}
        assert left[0].result(LONG_S).results == {f"{to}2": {"a2": "done"}}


@pytest.mark.parametrize("how", ["cancelled", "timed out"])
def test_a_task_that_nobody_waits_for_any_more_may_wait_for_whoever_did(how: str) -> None:
    trees: Trees = {}
    begun, given_up, over = threading.Event(), threading.Event(), threading.Event()

    async def a1(*_: Any) -> Any:
        task = task_of("b1")
        if how == "timed out":
            with pytest.raises(TaskTimeoutError):
                await asyncio.to_thread(trees["b"].run, task, 0.01)
        else:
            waits = asyncio.ensure_future(arun(trees["b"], task))
            await asyncio.to_thread(begun.wait, LONG_S)
            waits.cancel()
            await asyncio.wait([waits])
        given_up.set()
        await asyncio.to_thread(over.wait, LONG_S)
        return "gave it up"

    async def b1(*_: Any) -> Any:
        begun.set()
        await asyncio.to_thread(given_up.wait, LONG_S)
        try:
            return await arun(trees["a"], task_of("a2"))
        finally:
            over.set()

    with trees_of(trees, a1=a1, a2=does, b1=b1):
        assert trees["a"].run(task_of("a1"), LONG_S).results == {"a1": "gave it up"}
        assert trees["b"].tasks()[0].result(LONG_S).results == {"b1": {"a2": "done"}}


def test_a_request_that_nobody_waits_for_is_not_waited_for_by_those_who_wait_for_its_sender() -> None:
    trees: Trees = {}
    over, found = threading.Event(), list[Any]()

    async def handles(_: Any) -> None:
        try:
            found.append(await arun(trees["a"], task_of("a2")))
        finally:
            over.set()

    async def a1(*_: Any) -> Any:
        return await arun(trees["b"], task_of("b1"))

    async def b1(*_: Any) -> Any:
        actors.ref("b/other").ask("for later", block=False)
        await asyncio.to_thread(over.wait, LONG_S)
        return "did not wait"

    children = [WorkerSpec(id="b1", execute=b1), WorkerSpec(id="other", handle=handles)]
    spec = SupervisorSpec(id="b", tasks=Tasks(on_failure=[]), children=children)
    with trees_of(trees, a1=a1, a2=does), start(spec) as trees["b"]:
        assert trees["a"].run(task_of("a1"), LONG_S).results == {"a1": {"b1": "did not wait"}}
    assert found == [{"a2": "done"}]


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
