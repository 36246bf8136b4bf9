"""What may be given as ``handle=``, ``execute=``, ``run=`` and ``actor=``: callables, but no generators."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from trees import ConfigError, StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec, start


def generator(message: Any = None) -> Iterator[int]:
    yield 1


async def async_generator(message: Any = None) -> AsyncIterator[int]:
    yield 1


class Calls:
    def __call__(self, message: Any = None) -> Iterator[int]:
        yield 1

    async def method(self, message: Any) -> str:
        await asyncio.sleep(0)
        return f"method {message}"


@pytest.mark.parametrize("field", ["handle", "execute", "run"])
@pytest.mark.parametrize("code", [generator, async_generator, functools.partial(generator), Calls()])
def test_a_generator_function_is_refused_because_calling_it_runs_nothing(field: str, code: Any) -> None:
    with pytest.raises(ConfigError, match=rf"app/w\.{field}: .*a generator function, so that calling it runs nothing"):
        start(SupervisorSpec(id="app", children=[WorkerSpec(id="w", **{field: code})]))


def plain(message: Any) -> str:
    return f"plain {message}"


async def later(message: Any) -> str:
    await asyncio.sleep(0)
    return f"later {message}"


CALLABLES: dict[str, tuple[Callable[..., Any], str]] = {
    "function": (plain, "plain m"),
    "async function": (later, "later m"),
    "partial of an async function": (functools.partial(later), "later m"),
    "bound async method": (Calls().method, "method m"),
    "cached": (functools.lru_cache(plain), "plain m"),
    "singledispatch": (functools.singledispatch(plain), "plain m"),
    "method of a class": (str.upper, "M"),
}


@pytest.mark.parametrize(("code", "result"), CALLABLES.values(), ids=CALLABLES)
def test_callables_of_all_sorts_take_messages_and_work(code: Callable[..., Any], result: str) -> None:
    tree = SupervisorSpec(
        id="app",
        tasks=Tasks(planner=StaticPlan([Subtask("m", worker="works")]), on_failure=[]),
        children=[WorkerSpec(id="handles", handle=code), WorkerSpec(id="works", execute=code)],
    )
    with start(tree) as running:
        assert running.ref("app/handles").ask("m", timeout=20) == result
        assert running.run("m").results["m"] == result
