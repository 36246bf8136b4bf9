"""What an attempt of an agent costs beside the run itself: each framework's agent bare, and as a worker, in one run.

Its model answers at once, from memory, so nothing but code is measured. Ours is from the goal to the report, for one
subtask of a chain, with the defaults: each request is a step, its text is streamed, its usage counted. Counted is the
time of the processor that the whole process takes: a machine that is busy with others says little by the clock.

A run that is repeated finds its code and data in the caches of the processor, and no other thread wants the interpreter
at the polls of its loop. With other work in between it does not, whosever that is, and what it loses so is counted for
the attempt. So a second row tells that part: what attempts of a function cost that does nothing but await a bare run,
less such runs, and less attempts of a function that does nothing.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import itertools
import statistics
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from time import process_time
from typing import Any

from tests.bench.sides import logs_to_nowhere
from tests.bench.table import Row, Size, limit, micros
from trees import StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec, start

FLOOR_S = 300e-6
"""Most that an attempt may cost beside its run."""
WAIT_S = 300.0
SAID = "Say it"
Bare = Callable[[], Awaitable[Any]]


def attempt(size: Size) -> Iterator[Row]:
    """An attempt of each framework, over a run of its own."""
    for name, package, made in _FRAMEWORKS:
        row = f"{name}: an attempt, over its run bare"
        try:
            importlib.import_module(package)
        except ImportError:
            yield Row(row, "not installed")
            continue
        agent, bare = made()
        with logs_to_nowhere():
            over, alone = _over(agent, bare, size)
            lost = _lost(bare, size)
        yield limit(row, over, show=micros, floor=FLOOR_S, raw=micros(alone))
        yield Row(f"{name}: of that, what run and attempt lose to each other", micros(lost))


def _over(agent: Any, bare: Bare, size: Size) -> tuple[float, float]:
    """Return what an attempt costs more than a run, and what a run costs: medians of pairs."""
    alone = _runs(bare, size.chained)
    with _attempts(agent, size.chained) as ours:
        pairs = _paired(size, ours, alone)
    return statistics.median(own - other for own, other in pairs), statistics.median(other for _, other in pairs)


def _lost(bare: Bare, size: Size) -> float:
    """Return what a run bare and an attempt cost more in turn than each by itself."""

    async def runs(_: Any, __: Any) -> str:
        await bare()
        return "done"

    async def nothing(_: Any, __: Any) -> str:
        return "done"

    number = size.chained
    with _attempts(runs, number) as both, _attempts(nothing, number) as ours:
        rounds = _paired(size, both, ours, _runs(bare, number))
    return statistics.median(both - own - other for both, own, other in rounds)


@contextmanager
def _attempts(execute: Any, number: int) -> Iterator[Callable[[], None]]:
    """Run a chain of so many attempts of one worker."""
    plan = [Subtask(f"n{at}", SAID, worker="w", depends_on=[f"n{at - 1}"] if at else []) for at in range(number)]
    tasks = Tasks(planner=StaticPlan(plan), max_subtasks=number)
    tree = SupervisorSpec(id="bench", tasks=tasks, children=[WorkerSpec(id="w", execute=execute)])
    with start(tree) as running:

        def run() -> None:
            assert len(running.run(SAID, WAIT_S).results) == number

        yield run


def _runs(bare: Bare, number: int) -> Callable[[], None]:
    async def alone() -> None:
        for _ in range(number):
            await bare()

    return lambda: asyncio.run(alone())


def _paired(size: Size, *measured: Callable[[], None]) -> list[tuple[float, ...]]:
    """Return the cost of one of each, in turn; the first time costs more, and does not count."""
    return [tuple(_cost(each) / size.chained for each in measured) for _ in range(size.pairs + 1)][1:]


def _cost(run: Callable[[], None]) -> float:
    gc.collect()
    began = process_time()
    run()
    return process_time() - began


def _pydantic_ai() -> tuple[Any, Bare]:
    from pydantic_ai import Agent  # noqa: PLC0415 - it is optional
    from pydantic_ai.models.test import TestModel  # noqa: PLC0415

    agent = Agent(TestModel(custom_output_text="done"))
    return agent, lambda: agent.run(SAID)


def _langchain() -> tuple[Any, Bare]:
    from langchain_core.language_models import GenericFakeChatModel  # noqa: PLC0415 - it is optional
    from langchain_core.messages import AIMessage  # noqa: PLC0415

    model = GenericFakeChatModel(messages=itertools.cycle([AIMessage("done")]))
    return model, lambda: model.ainvoke(SAID)


def _langgraph() -> tuple[Any, Bare]:
    from langchain_core.messages import AIMessage  # noqa: PLC0415 - it is optional
    from langgraph.graph import START, MessagesState, StateGraph  # noqa: PLC0415

    async def node(_: Any) -> dict[str, Any]:
        return {"messages": [AIMessage("done")]}

    graph = StateGraph(MessagesState).add_node("say", node).add_edge(START, "say").compile()
    return graph, lambda: graph.ainvoke({"messages": [("human", SAID)]})


def _openai_agents() -> tuple[Any, Bare]:
    from agents import Agent, RunConfig, Runner  # noqa: PLC0415 - it is optional

    from tests.trees.agents.openai_fakes import Scripted, says  # noqa: PLC0415

    class Model(Scripted):
        async def get_response(self, *_: Any, **__: Any) -> Any:
            return says("done")

    agent = Agent(name="it", model=Model())
    return agent, lambda: Runner.run(agent, SAID, run_config=RunConfig(tracing_disabled=True))


_FRAMEWORKS: tuple[tuple[str, str, Callable[[], tuple[Any, Bare]]], ...] = (
    ("pydantic-ai", "pydantic_ai", _pydantic_ai),
    ("LangChain", "langchain_core", _langchain),
    ("LangGraph", "langgraph", _langgraph),
    ("OpenAI Agents", "agents", _openai_agents),
)
