"""A task group as the lifespan of a worker wraps the crash that it is left with: that is no second fault."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from actors import ChildExited, ChildStopAbnormal, Event, Worker
from actors.testing import settle
from trees import SupervisorSpec, WorkerSpec, start

WAIT_S = 20.0


@contextlib.asynccontextmanager
async def nested() -> AsyncIterator[object]:
    async with anyio.create_task_group(), anyio.create_task_group() as group:
        yield group


@contextlib.asynccontextmanager
async def of_asyncio() -> AsyncIterator[object]:
    async with asyncio.TaskGroup() as group:
        yield group


@contextlib.asynccontextmanager
async def with_a_fault_of_its_own() -> AsyncIterator[object]:
    async with anyio.create_task_group() as group:
        try:
            yield group
        except ValueError:
            raise OSError("disk full") from None


def crash(message: Any) -> None:
    raise ExceptionGroup("two", [ValueError("a"), ValueError("b")]) if message == "group" else ValueError(message)


async def crash_async(message: Any) -> None:
    crash(message)


class Crashing(Worker):
    async def on_receive(self, message: Any, /) -> None:
        crash(message)


WORKERS: dict[str, dict[str, Any]] = {
    "on the loop": {"handle": crash_async},
    "an object": {"actor": Crashing},
    "on a thread": {"handle": crash},
    "in a process": {"handle": crash_async, "dispatch": "process"},
}


def events_of_a_crash(lifespan: Any, message: str, fields: dict[str, Any]) -> list[Event]:
    events: list[Event] = []
    with start(SupervisorSpec(id="s", children=[WorkerSpec(id="w", lifespan=lifespan, **fields)])) as tree:
        tree.subscribe(events.append)
        with pytest.raises((ValueError, ExceptionGroup)):
            tree.ref("s/w").ask(message, timeout=WAIT_S)
        settle(tree)
        assert sum(isinstance(event, ChildExited) for event in events) == 1
    return [event for event in events if isinstance(event, ChildStopAbnormal)]


@pytest.mark.parametrize("lifespan", [nested, of_asyncio])
@pytest.mark.parametrize("place", WORKERS)
def test_a_crash_inside_a_task_group_is_no_abnormal_stop(place: str, lifespan: Any) -> None:
    assert events_of_a_crash(lifespan, "bad" if lifespan is of_asyncio else "group", WORKERS[place]) == []


@pytest.mark.parametrize("place", WORKERS)
def test_what_the_lifespan_itself_raises_still_is_one(place: str) -> None:
    [event] = events_of_a_crash(with_a_fault_of_its_own, "bad", WORKERS[place])
    assert "lifespan" in str(event)
