"""``start_async(TREE, loop="host")``: async workers run on the loop of the host, orchestrators on that of the tree."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from time import monotonic
from typing import Any

import pytest

import actors
from actors import (
    BlockingAskError,
    ConfigError,
    HostLoopClosedError,
    InternalError,
    LoopBlocked,
    TreeDownError,
    Worker,
)
from tests.support.hardening import (
    LONG_S,
    Witness,
    eventually,
    obey_async,
    python,
    threads_named,
    worker,
)
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start_async


async def on_which_loop(*_: Any) -> int:
    await asyncio.sleep(0)
    return id(asyncio.get_running_loop())


def root(*children: WorkerSpec, **fields: Any) -> SupervisorSpec:
    return SupervisorSpec(id="t", children=children, **{"max_restarts": 100, **fields})


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run it, and fail where it hangs."""

    async def limited() -> Any:
        async with asyncio.timeout(LONG_S):
            return await main()

    return asyncio.run(limited())


# -- where things run ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "same"), [({}, False), ({"loop": "tree"}, False), ({"loop": "host"}, True)])
def test_async_workers_run_on_the_callers_running_loop_where_it_is_asked_for(words: Any, *, same: bool) -> None:
    async def main() -> None:
        async with start_async(root(worker("w", on_which_loop)), **words) as tree:
            own = id(asyncio.get_running_loop())
            assert (await tree.ref("t/w").ask_async(1) == own) is same

    run(main)


def test_a_client_that_belongs_to_the_hosts_loop_works_in_a_worker() -> None:
    """An asyncio lock that is contended belongs to the loop of the first who waits."""
    lock, queue = asyncio.Lock(), asyncio.Queue[str]()

    async def locked(*_: Any) -> str:
        async with lock:
            return await queue.get()

    spec = SupervisorSpec(
        id="r", tasks=Tasks(planner=StaticPlan([Subtask("a")])), children=[WorkerSpec(id="a", execute=locked)]
    )

    async def main() -> Any:
        async with start_async(spec, loop="host") as tree:
            async with lock:
                handle = await tree.asubmit(Task("x"))
                await asyncio.sleep(0.01)
            await queue.put("from the host")
            return (await handle).results

    assert run(main) == {"a": "from the host"}


class Owning(Worker):
    """Lives in one task of the host's loop."""

    def __init__(self, lines: list[Any]) -> None:
        self.lines = lines

    @contextlib.asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        self.lines.append(("entered", asyncio.current_task()))
        yield
        self.lines.append(("left", asyncio.current_task()))

    async def on_receive(self, message: Any) -> Any:
        if message == "boom":
            raise ValueError("boom")
        return threading.get_ident()


def test_crashes_restarts_lifespans_and_pools_are_as_on_the_trees_loop() -> None:
    lines: list[Any] = []

    async def main() -> None:
        spec = root(worker("w", Owning, args=(lines,)), worker("pool", on_which_loop, pool=3))
        async with start_async(spec, loop="host") as tree:
            seen = Witness(tree)
            here = threading.get_ident()
            assert await tree.ref("t/w").ask_async(1) == here
            with pytest.raises(ValueError, match="boom"):
                await tree.ref("t/w").ask_async("boom")
            assert await tree.ref("t/w").ask_async(1) == here
            assert set(await asyncio.gather(*(tree.ref("t/pool").ask_async(n) for n in range(20)))) == {
                id(asyncio.get_running_loop())
            }
            assert await asyncio.to_thread(seen.of, InternalError) == []
        assert [what for what, _ in lines] == ["entered", "entered", "left"]
        assert len({task for _, task in lines}) == 2

    run(main)


@pytest.mark.parametrize("word", ["mine", None, 3])
def test_any_other_word_is_a_mistake_of_the_call(word: Any) -> None:
    with pytest.raises(ConfigError, match="loop"):
        start_async(root(), loop=word)


# -- what a host may do to its loop -------------------------------------------------------------------------


def test_a_worker_that_blocks_it_is_named() -> None:
    told = threading.Event()

    async def block(_: Any) -> None:
        told.wait(LONG_S)  # the fault that is to be reported

    def hear(event: Any) -> None:
        if isinstance(event, LoopBlocked) and (event.loop, event.path) == ("host", "t/w"):
            told.set()

    async def main() -> None:
        async with start_async(root(worker("w", block)), loop="host") as tree:
            tree.subscribe(hear)
            await tree.ref("t/w").ask_async(1)
            assert told.is_set()

    run(main)


WAITS: dict[str, Callable[[Tree], Any]] = {
    "ask": lambda tree: tree.ref("t/w").ask(1),
    "get": lambda tree: tree.ref("t/w").ask(1, block=False).get(),
    "stop": lambda tree: tree.stop(),
    "wait": lambda tree: tree.wait(1),
    "terminate_child": lambda tree: tree.terminate_child("t/w"),
}


@pytest.mark.parametrize("call", WAITS.values(), ids=WAITS)
def test_a_wait_on_the_hosts_loop_for_what_needs_it_is_refused_at_once(call: Callable[[Tree], Any]) -> None:
    async def main() -> None:
        async with start_async(root(worker("w", obey_async)), loop="host") as tree:
            with pytest.raises(BlockingAskError):
                call(tree)
            with pytest.raises(BlockingAskError):
                await tree.ref("t/w").ask_async(lambda: actors.ref("t/w").ask(1))
            assert await asyncio.to_thread(tree.ref("t/w").ask, 1) == 1, "from another thread it is not"
        async with start_async(root(worker("w", obey_async))) as tree:
            assert tree.ref("t/w").ask(1) == 1, "where the workers do not run there, the host may block its loop"

    run(main)


def test_a_tree_is_stopped_from_another_thread_while_the_loop_goes_on() -> None:
    async def main() -> None:
        tree = await start_async(root(worker("w", Owning, args=([],))), loop="host")
        assert await asyncio.to_thread(tree.stop, LONG_S)
        assert not tree.is_alive

    run(main)


def test_a_start_that_is_cancelled_leaves_nothing() -> None:
    class Slow(Worker):
        async def on_start(self) -> None:
            started.set()
            await asyncio.Event().wait()

    started = asyncio.Event()

    async def main() -> None:
        task = asyncio.create_task(_awaited(start_async(root(worker("w", Slow, shutdown=0.05)), loop="host")))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        loop = asyncio.get_running_loop()
        await asyncio.to_thread(eventually, lambda: len(asyncio.all_tasks(loop)) == 1, "the end of the worker's task")

    run(main)
    eventually(lambda: not threads_named("t-"), "the end of the tree, for which nobody waits")


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


@pytest.mark.parametrize("kind", ["idle", "busy", "resting"])
def test_a_loop_that_ends_without_a_stop_ends_the_tree_with_an_error_that_says_so(kind: str) -> None:
    trees: list[Tree] = []

    async def hang(_: Any) -> None:
        await asyncio.Event().wait()

    target: Any = {"idle": on_which_loop, "busy": hang, "resting": Owning}[kind]
    args: Any = ([],) if kind == "resting" else ()

    async def main() -> None:
        tree = await start_async(root(worker("w", target, args=args), worker("sync")), loop="host")
        trees.append(tree)
        if kind == "busy":
            tree.ref("t/w").tell(1)
            await asyncio.sleep(0.01)
        else:
            await tree.ref("t/w").ask_async(1)

    asyncio.run(main())
    (tree,) = trees
    began = monotonic()
    with pytest.raises((TreeDownError, HostLoopClosedError, actors.ActorStoppedError)):
        tree.ref("t/w").ask("anybody?", timeout=LONG_S)
    with pytest.raises(HostLoopClosedError, match="before the loop"):
        tree.wait(LONG_S)
    assert monotonic() - began < LONG_S / 2
    assert not tree.is_alive


def test_a_tree_whose_loop_has_ended_can_be_stopped_as_ever() -> None:
    trees: list[Tree] = []

    async def main() -> None:
        trees.append(await start_async(root(worker("w", Owning, args=([],)), worker("sync")), loop="host"))

    asyncio.run(main())
    began = monotonic()
    assert trees[0].stop(LONG_S)
    assert monotonic() - began < LONG_S / 2


def test_a_program_that_leaves_its_loop_without_a_stop_ends_at_once() -> None:
    program = """
        import asyncio
        from actors import Worker
        from trees import SupervisorSpec, WorkerSpec, start_async

        class Resident(Worker):
            async def on_start(self):
                pass

            async def on_receive(self, message):
                return message

        async def main():
            tree = await start_async(SupervisorSpec(id="r", children=[WorkerSpec(id="w", actor=Resident)]), loop="host")
            print(await tree.ref("r/w").ask_async("hello"))

        asyncio.run(main())
        print("through")
    """
    began = monotonic()
    ended = python(program)
    assert ended.stdout.split() == ["hello", "through"]
    assert ended.returncode == 0
    assert monotonic() - began < LONG_S
