"""Lifespans that end by themselves under a sync worker, and starts that are given up in the middle of one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

import actors
from actors import ChildExited, InternalError, Worker
from tests.actors.execution.owning import Books
from tests.support.hardening import LONG_S, Witness, obey, tree_of, worker
from trees import WorkerSpec


class Breakable:
    """An async lifespan whose task group fails, or whose scope is left early, when it is told to."""

    def __init__(self, *, quietly: bool = False) -> None:
        self.books = Books()
        self.quietly = quietly
        self._loop: asyncio.AbstractEventLoop | None = None
        self._go: asyncio.Event | None = None

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[str]:
        self._loop, self._go = asyncio.get_running_loop(), asyncio.Event()
        host = asyncio.current_task()
        assert host is not None

        async def child(go: asyncio.Event) -> None:
            await go.wait()
            if not self.quietly:
                raise LookupError("the child of the group")
            host.cancel()

        self.books.note("entered")
        with suppress(*[asyncio.CancelledError] * self.quietly):
            async with asyncio.TaskGroup() as group:
                task = group.create_task(child(self._go))
                try:
                    yield "the resource"
                finally:
                    task.cancel()
        self.books.note("left")

    def break_it(self) -> None:
        assert self._loop is not None
        assert self._go is not None
        self._loop.call_soon_threadsafe(self._go.set)


class Careful(Worker):
    """A sync worker that keeps what its hooks were told."""

    told: list[object]

    def on_receive(self, message: Any) -> Any:
        return obey(message)

    def on_failure(self, kind: type[BaseException] | None, *_: Any) -> None:
        self.told.append(kind)

    def on_stop(self) -> None:
        self.told.append("stop")


def careful() -> tuple[type[Careful], list[object]]:
    told: list[object] = []
    return type("Told", (Careful,), {"told": told}), told


def test_a_sync_worker_whose_async_lifespan_fails_while_it_is_idle_has_crashed_of_that_and_gets_a_new_one() -> None:
    incarnation, (kind, told) = Breakable(), careful()
    with tree_of(worker("w", kind, lifespan=incarnation)) as tree:
        seen = Witness(tree)
        tree.ref("t/w").ask(1)
        incarnation.break_it()
        exited = seen.wait(ChildExited, path="t/w")
        assert exited.reason == "crashed"
        assert isinstance(exited.error, ExceptionGroup)
        assert told == [ExceptionGroup], "it is a crash: on_failure, and no on_stop"
        incarnation.books.wait("entered", 2)
        assert tree.ref("t/w").ask(actors.resource) == "the resource"
        assert seen.of(InternalError) == []


def test_a_sync_worker_whose_lifespan_fails_while_it_is_busy_ends_after_that_message() -> None:
    incarnation = Breakable()

    def break_it() -> bool:
        incarnation.break_it()
        return actors.stopping(LONG_S)

    with tree_of(worker("w", lifespan=incarnation)) as tree:
        seen = Witness(tree)
        busy = tree.ref("t/w").ask(break_it, block=False)
        waits = tree.ref("t/w").ask(actors.resource, block=False)
        assert busy.get(timeout=LONG_S) is True
        assert waits.get(timeout=LONG_S) == "the resource", "what waits is handled by its successor"
        assert seen.wait(ChildExited, path="t/w").reason == "crashed"
        assert incarnation.books.lines.count("entered") == 2


@pytest.mark.parametrize("quietly", [False, True])
def test_a_body_on_a_thread_learns_that_it_has_lost_its_lifespan_and_has_crashed_of_that(*, quietly: bool) -> None:
    incarnation, ended, go = Breakable(quietly=quietly), threading.Event(), threading.Event()

    def body() -> None:
        go.wait(LONG_S)
        incarnation.break_it()
        if actors.stopping(LONG_S):
            ended.set()

    with tree_of(WorkerSpec(id="w", run=body, lifespan=incarnation, restart="temporary")) as tree:
        seen = Witness(tree)
        go.set()
        exited = seen.wait(ChildExited, path="t/w")
        assert ended.is_set()
        assert exited.reason == "crashed"
        assert isinstance(exited.error, RuntimeError if quietly else ExceptionGroup)
