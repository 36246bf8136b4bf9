"""Frameworks by themselves: what the page says of them when a tool raises or hangs, they loop, or the process dies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Agent, MaxTurnsExceeded, RunConfig, Runner, UserError, function_tool
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph

from tests.trees.agents.openai_fakes import Scripted, calls, says

QUIET = RunConfig(tracing_disabled=True)
SHORT_S = 0.2


def graph_of(*nodes: Any, **options: Any) -> Any:
    graph = StateGraph(MessagesState)
    names = [f"n{number}" for number, _ in enumerate(nodes)]
    for before, name, node in zip([START, *names], names, nodes, strict=False):
        graph.add_node(name, node)
        graph.add_edge(before, name)
    return graph.compile(**options)


def run(graph: Any, given: Any = "keep", **config: Any) -> Any:
    return asyncio.run(graph.ainvoke({"messages": []} if given == "keep" else given, config))


# -- LangGraph --------------------------------------------------------------------------------------------------


def test_langgraph_alone_ends_with_the_error_of_a_node_and_tries_it_once() -> None:
    ran = []

    def node(_state: Any) -> Any:
        ran.append(1)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run(graph_of(node))
    assert ran == [1]


def test_langgraph_alone_waits_for_a_node_that_hangs() -> None:
    async def node(_state: Any) -> Any:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.wait_for(graph_of(node).ainvoke({"messages": []}), SHORT_S)

    with pytest.raises(TimeoutError):
        asyncio.run(main())


def test_langgraph_alone_loops_for_thousands_of_steps() -> None:
    steps = []

    def node(_state: Any) -> Any:
        steps.append(1)
        return {"messages": []}

    graph = StateGraph(MessagesState)
    graph.add_node("n", node)
    graph.add_edge(START, "n")
    graph.add_conditional_edges("n", lambda _: "n" if len(steps) < 300 else "__end__")
    run(graph.compile())
    assert len(steps) == 300
    steps.clear()
    with pytest.raises(GraphRecursionError):
        run(graph.compile(), recursion_limit=100)


def test_langgraph_alone_goes_on_only_where_you_call_it_again_with_its_thread() -> None:
    ran = []
    fails = [True]

    def first(_state: Any) -> Any:
        ran.append("first")
        return {"messages": [AIMessage("one")]}

    def second(_state: Any) -> Any:
        ran.append("second")
        if fails.pop() if fails else False:
            raise ConnectionError("the process dies here")
        return {"messages": [AIMessage("two")]}

    graph = graph_of(first, second, checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError):
        run(graph, configurable={"thread_id": "1"})
    run(graph, None, configurable={"thread_id": "1"})
    run(graph, configurable={"thread_id": "2"})
    assert ran == ["first", "second", "second", "first", "second"]


# -- OpenAI Agents SDK ------------------------------------------------------------------------------------------


@function_tool
def told() -> str:
    """Raise."""
    raise ValueError("broken")


@function_tool(failure_error_function=None)
def ends() -> str:
    """Raise."""
    raise ValueError("broken")


@function_tool
async def hangs() -> str:
    """Hang."""
    await asyncio.Event().wait()
    return ""


def agent_of(tool: Any, *answers: Any) -> Agent[Any]:
    return Agent("clerk", model=Scripted(*answers), tools=[tool])


def run_agent(agent: Agent[Any], **options: Any) -> Any:
    return asyncio.run(Runner.run(agent, "go", run_config=QUIET, **options)).final_output


def test_the_sdk_alone_tells_the_model_of_a_tool_that_raises_or_ends_the_run() -> None:
    assert run_agent(agent_of(told, calls(("told", {})), says("I see"))) == "I see"
    with pytest.raises(UserError, match="broken"):
        run_agent(agent_of(ends, calls(("ends", {})), says("never")))


def test_the_sdk_alone_waits_for_a_tool_that_hangs() -> None:
    async def main() -> None:
        agent = agent_of(hangs, calls(("hangs", {})))
        await asyncio.wait_for(Runner.run(agent, "go", run_config=QUIET), SHORT_S)

    with pytest.raises(TimeoutError):
        asyncio.run(main())


def test_the_sdk_alone_ends_a_loop_at_max_turns() -> None:
    agent = agent_of(told, *(calls(("told", {}), id_=f"c{number}") for number in range(20)))
    with pytest.raises(MaxTurnsExceeded):
        run_agent(agent)
    assert len(agent.model.told) == 10  # type: ignore[union-attr]


def test_the_sdk_alone_begins_anew_after_an_error() -> None:
    agent = agent_of(
        told, calls(("told", {})), ConnectionError("the process dies here"), calls(("told", {})), says("ok")
    )
    with pytest.raises(ConnectionError):
        run_agent(agent)
    assert run_agent(agent) == "ok"
    assert len(agent.model.told) == 4  # type: ignore[union-attr]
