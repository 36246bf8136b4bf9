"""S32 in a coroutine: ``async for`` over ``tree.map`` holds up no event loop, and a cancelled wait loses nothing."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from actors import BlockingAskError, Context, TreeDownError, Worker
from trees import Batch, Subtask, SupervisorSpec, Tasks, Tree, WorkerSpec, start_async

PATIENCE_S = 60.0


def fussy(item: int) -> int:
    if item % 10 == 3:
        raise ValueError(item)
    return 2 * item


def work(task: Subtask, context: Context) -> int:
    return fussy(context.inputs["item"])


MESSAGES = SupervisorSpec(id="t", children=[WorkerSpec(id="w", handle=fussy, pool=3)])
TASKS = SupervisorSpec(id="t", tasks=Tasks(on_failure=[]), children=[WorkerSpec(id="w", execute=work, pool=3)])
BOTH = pytest.mark.parametrize("spec", [MESSAGES, TASKS], ids=["messages", "tasks"])


def run(spec: SupervisorSpec, code: Callable[[Tree], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with start_async(spec, **options) as tree:
            await asyncio.wait_for(code(tree), PATIENCE_S)

    asyncio.run(main())


async def numbers(count: int) -> AsyncIterator[int]:
    for item in range(count):
        await asyncio.sleep(0)
        yield item


@BOTH
@pytest.mark.parametrize("make", [range, numbers], ids=["sync items", "async items"])
def test_async_for_accounts_for_every_item(spec: SupervisorSpec, make: Callable[[int], Any]) -> None:
    async def code(tree: Tree) -> None:
        found = [pair async for pair in tree.map(make(40), "t/w")]

        assert sorted(item for item, _ in found) == list(range(40))
        assert all(result == 2 * item for item, result in found if item % 10 != 3)
        assert sum(isinstance(result, Exception) for _, result in found) == 4

    run(spec, code)


@BOTH
def test_the_loop_goes_on_while_a_batch_waits(spec: SupervisorSpec) -> None:
    gate, turns = threading.Event(), 0

    def wait(*_: object) -> int:
        gate.wait(PATIENCE_S)
        return 1

    async def code(tree: Tree) -> None:
        nonlocal turns
        waiting = asyncio.ensure_future(anext(tree.map([1], "t/w", timeout_s=PATIENCE_S)))
        while turns < 100:
            turns += 1
            await asyncio.sleep(0)
        assert not waiting.done()
        gate.set()
        assert (await waiting)[1] == 1

    kind = {"handle": wait} if spec is MESSAGES else {"execute": wait}
    run(spec.model_copy(update={"children": [WorkerSpec(id="w", **kind)]}), code)
    assert turns == 100


@BOTH
@pytest.mark.parametrize("sync", [True, False], ids=["sync items", "async items"])
def test_a_cancelled_wait_loses_no_item(spec: SupervisorSpec, sync: bool) -> None:
    """A keep-alive by ``asyncio.wait_for``, again and again: each item comes once."""

    async def code(tree: Tree) -> None:
        batch = tree.map(range(30) if sync else numbers(30), "t/w", max_in_flight=2)
        found = []
        for moment in itertools.cycle([0.0, 0.0005, 0.001]):
            try:
                found.append(await asyncio.wait_for(anext(batch), moment))
            except TimeoutError:
                await asyncio.sleep(0.001)
            except StopAsyncIteration:
                break

        assert sorted(item for item, _ in found) == list(range(30))

    run(spec, code)


def test_a_source_that_takes_its_time_holds_up_no_result() -> None:
    async def code(tree: Tree) -> None:
        more = asyncio.Event()

        async def items() -> AsyncIterator[int]:
            yield 1
            await more.wait()
            yield 2

        batch = tree.map(items(), "t/w")
        assert await anext(batch) == (1, 2)
        more.set()
        assert await anext(batch) == (2, 4)
        assert [pair async for pair in batch] == []

    run(MESSAGES, code)


@BOTH
def test_a_tree_that_stops_ends_it(spec: SupervisorSpec) -> None:
    async def code(tree: Tree) -> None:
        found: list[int] = []
        batch = tree.map(itertools.count(10), "t/w")
        found += [(await anext(batch))[0] for _ in range(3)]
        await asyncio.to_thread(tree.stop)
        with pytest.raises(TreeDownError):
            await _into(found, batch)

        assert sorted(found) == list(range(10, 10 + len(found)))

    run(spec, code)


@BOTH
def test_a_blocking_loop_over_a_batch_on_the_trees_own_loop_is_refused(spec: SupervisorSpec) -> None:
    class Asker(Worker):
        tree: Tree

        async def on_receive(self, how: str) -> list[Any]:
            batch = Asker.tree.map([1, 2], "t/w")
            return list(batch) if how == "for" else [pair async for pair in batch]

    async def code(tree: Tree) -> None:
        Asker.tree = tree
        asker = tree.ref("t/asker")

        assert sorted(await asker.ask_async("async for")) == [(1, 2), (2, 4)]
        with pytest.raises(BlockingAskError, match="async for item, result"):
            await asker.ask_async("for")

    run(spec.model_copy(update={"children": [*spec.children, WorkerSpec(id="asker", actor=Asker)]}), code)


def test_a_batch_in_a_store_keeps_its_tasks(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'batch.db'}"

    async def code(tree: Tree) -> None:
        assert len([pair async for pair in tree.map(range(8), "t/w")]) == 8
        assert len(tree.tasks("succeeded")) == 7
        assert len(tree.tasks("failed")) == 1

    run(TASKS, code, store=url)


async def _into(found: list[int], batch: Batch[int, Any]) -> None:
    """Note what it hands out, up to its end."""
    async for item, _ in batch:
        found.append(item)
