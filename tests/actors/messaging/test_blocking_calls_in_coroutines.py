"""A blocking call in an ``async def`` of the host holds up its event loop: one warning for each line of code."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from actors import BlockingAskError, Event, LoopBlocked
from actors.testing import settle
from trees import SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start, start_async

WAIT_S = 20.0


def work(task: Any, context: Any) -> str:
    return str(task)


async def echo_async(message: Any) -> Any:
    return message


SPEC = SupervisorSpec(
    id="app",
    tasks=Tasks(),
    children=[
        WorkerSpec(id="echo", handle=str),
        WorkerSpec(id="echo-async", handle=echo_async),
        WorkerSpec(id="work", execute=work),
    ],
)


def warned(events: list[Event]) -> list[str]:
    return [event.stack for event in events if isinstance(event, LoopBlocked) and event.loop == "host"]


CALLS: dict[str, tuple[Callable[[Tree], object], str]] = {
    "ask": (lambda tree: tree.ref("app/echo").ask(1), "await ref.ask_async(...)"),
    "ask of an async worker": (lambda tree: tree.ref("app/echo-async").ask(1), "await ref.ask_async(...)"),
    "get": (lambda tree: tree.ref("app/echo").ask(1, block=False).get(), "await it"),
    "run": (lambda tree: tree.run("work"), "await tree.arun(...)"),
    "result": (lambda tree: slow_task(tree).result(WAIT_S), "await handle"),
    "wait": (lambda tree: tree.wait(0.0), "await asyncio.to_thread(tree.wait)"),
    "terminate_child": (lambda tree: tree.terminate_child("app/echo"), "asyncio.to_thread(tree.terminate_child, ...)"),
    "map": (lambda tree: list(tree.map(["a"], to="work")), "async for item, result in tree.map(...)"),
}


def slow_task(tree: Tree) -> Any:
    return tree.submit(Task("work"))


@pytest.mark.parametrize("name", CALLS)
def test_each_blocking_call_is_reported_once_with_its_line_and_what_to_write(name: str) -> None:
    call, instead = CALLS[name]
    line = inspect.getsourcelines(call)[1]
    events: list[Event] = []

    async def main() -> None:
        async with start_async(SPEC) as tree:
            tree.subscribe(events.append)
            for _ in range(3):
                call(tree)
            await asyncio.to_thread(settle, tree)

    asyncio.run(main())
    if name == "get":  # the reply may have come before it was waited for
        assert len(warned(events)) <= 1
        return
    [said] = warned(events)
    assert said.startswith(f"{__file__}:{line}:")
    assert instead in said


def test_two_lines_are_two_warnings_and_a_helper_without_async_counts_as_well(
    capsys: pytest.CaptureFixture[str],
) -> None:
    events: list[Event] = []

    def helper(tree: Tree) -> None:
        tree.ref("app/echo").ask("from a helper")

    async def main() -> None:
        async with start_async(SPEC) as tree:
            tree.subscribe(events.append)
            for _ in range(2):
                helper(tree)
                tree.ref("app/echo").ask("here")
            await asyncio.to_thread(settle, tree)

    asyncio.run(main())
    assert len(set(warned(events))) == len(warned(events)) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if "LoopBlocked" in line]
    assert len(lines) == 2
    assert all(line.startswith("WARNING") for line in lines)


def test_what_awaits_and_what_runs_on_a_thread_is_not_reported() -> None:
    events: list[Event] = []

    def on_a_thread(tree: Tree) -> None:
        tree.ref("app/echo").ask(1)
        tree.run("work")

    async def main() -> None:
        async with start_async(SPEC) as tree:
            tree.subscribe(events.append)
            assert await tree.ref("app/echo").ask_async(1) == "1"
            assert await tree.ref("app/echo").ask(1, block=False) == "1"
            await tree.ref("app/echo").tell_async(1)
            tree.ref("app/echo").tell(1)
            await tree.arun("work")
            handle = await tree.asubmit(Task("work"))
            await handle
            assert handle.result().status == "succeeded"
            assert [item async for item, _ in tree.map(["a", "b"], to="work")]
            tree.dump()
            tree.snapshot()
            await asyncio.to_thread(on_a_thread, tree)
            await asyncio.to_thread(settle, tree)

    asyncio.run(main())
    assert warned(events) == []


def test_code_without_an_event_loop_is_not_reported() -> None:
    events: list[Event] = []
    with start(SPEC) as tree:
        tree.subscribe(events.append)
        tree.ref("app/echo").ask(1)
        tree.run("work")
        settle(tree)
    assert warned(events) == []


def test_on_a_loop_that_runs_workers_the_call_is_refused_as_ever() -> None:
    async def main() -> None:
        async with start_async(SPEC, loop="host") as tree:
            with pytest.raises(BlockingAskError):
                tree.ref("app/echo-async").ask(1)

    asyncio.run(main())


def test_a_loop_that_a_worker_runs_in_its_own_thread_is_reported_too() -> None:
    events: list[Event] = []

    def runs_a_loop(message: Any) -> Any:
        async def inner() -> Any:
            return tree.ref("app/echo").ask(message)

        return asyncio.run(inner())

    spec = SupervisorSpec(
        id="app", children=[WorkerSpec(id="echo", handle=str), WorkerSpec(id="runs", handle=runs_a_loop)]
    )
    with start(spec) as tree:
        tree.subscribe(events.append)
        assert tree.ref("app/runs").ask(1, timeout=WAIT_S) == "1"
        settle(tree)
    assert len(warned(events)) == 1
