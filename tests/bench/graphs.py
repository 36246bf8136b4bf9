"""The other side of the tasks bench: LangGraph, and bare asyncio as what nothing can go below.

LangGraph is optional (``pip install '.[bench]'``): it is imported only here, and only when it is measured.
"""

import asyncio
import operator
from collections.abc import Coroutine
from time import perf_counter
from typing import Annotated, Any, TypedDict

from tests.bench.table import Measure


class Results(TypedDict):
    """What its nodes add to."""

    results: Annotated[list[str], operator.add]


async def node(_: Results) -> dict[str, list[str]]:
    return {"results": ["done"]}


async def done() -> str:
    return "done"


def langgraph(number: int, *, chained: bool, at_once: int | None = None) -> Measure | None:
    """Seconds for one node of so many, the graph compiled before; None where LangGraph is not installed."""
    try:
        from langgraph.graph import START, StateGraph  # noqa: PLC0415 - see above
    except ImportError:
        return None
    graph = StateGraph(Results)
    last = START
    for at in range(number):
        graph.add_node(f"n{at}", node)
        graph.add_edge(last, f"n{at}")
        last = f"n{at}" if chained else START
    compiled = graph.compile()
    config: dict[str, Any] = {"recursion_limit": number + 5}
    if at_once is not None:
        config["max_concurrency"] = at_once

    async def run() -> None:
        state = await compiled.ainvoke({"results": []}, config)
        assert state["results"] == ["done"] * number

    return lambda: _seconds(run()) / number


def gathered(number: int) -> Measure:
    """Seconds for one of so many coroutines that asyncio runs at once."""

    async def run() -> None:
        await asyncio.gather(*(done() for _ in range(number)))

    return lambda: _seconds(run()) / number


def one_by_one(number: int) -> Measure:
    """Seconds for one of so many coroutines, each a task of asyncio that begins when the one before has ended."""

    async def run() -> None:
        for _ in range(number):
            await asyncio.gather(done())

    return lambda: _seconds(run()) / number


def _seconds(what: Coroutine[Any, Any, None]) -> float:
    """Without the time that it takes to start an event loop."""

    async def timed() -> float:
        began = perf_counter()
        await what
        return perf_counter() - began

    return asyncio.run(timed())
