"""Usage of a graph with a checkpointer is in the journal before its answers are in a checkpoint: a crash loses none."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from tests.trees.agents.one_agent import tree_of
from trees import Task, start
from trees.agents import LangChain

LONG_S = 60.0


def answer(text: str, tokens: int) -> AIMessage:
    usage: Any = {"input_tokens": tokens - 1, "output_tokens": 1, "total_tokens": tokens}
    return AIMessage(text, usage_metadata=usage)


class Looking(InMemorySaver):
    """Notes, as it keeps the results of a node, what they have cost, and what is in the file of the store by then."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url, self.cost, self.seen = url, 0, list[tuple[int, int]]()

    def put_writes(self, config: Any, writes: Any, *more: Any, **named: Any) -> None:
        messages = [each for channel, value in writes if channel == "messages" for each in value]
        new = sum(each.usage_metadata["total_tokens"] for each in messages if isinstance(each, AIMessage))
        if new:
            self.cost += new
            self.seen.append((self.cost, recorded(self.url)))
        super().put_writes(config, writes, *more, **named)


class SyncLooking(Looking):
    """The same, for sync code only."""

    async def aget_tuple(self, *_: Any) -> Any:
        raise NotImplementedError


def recorded(url: str, kind: str = "UsageTold") -> int:
    """Tokens in the records of this kind that are on the disk."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
        bodies = file.execute("SELECT body FROM regrow_records WHERE kind = ?", (kind,)).fetchall()
    return sum(json.loads(body).get("usage", {}).get("tokens", 1) for (body,) in bodies)


def by_hand(tokens: int) -> Any:
    def node(_: Any) -> Any:
        return {"messages": [answer("by hand", tokens)]}

    return node


def by_model(tokens: int) -> Any:
    model = GenericFakeChatModel(messages=iter([answer("of a model", tokens)]))

    async def node(state: Any) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return node


def by_sync_code_on_the_loop(tokens: int) -> Any:
    """A chain that is called without an await: nobody may wait for the journal there."""
    chain = RunnableLambda(lambda _: answer("of sync code", tokens))

    async def node(state: Any) -> Any:
        return {"messages": [chain.invoke(state["messages"])]}

    return node


def graph_of(saver: Any, **nodes: Any) -> Any:
    graph = StateGraph(MessagesState)
    before = START
    for name, node in nodes.items():
        graph.add_node(name, node).add_edge(before, name)
        before = name
    return graph.compile(checkpointer=saver)


@pytest.mark.parametrize("thread", [{}, {"thread_id": "of the user"}], ids=["own thread", "thread of the user"])
def test_what_a_node_has_used_is_in_the_journal_before_a_checkpoint_has_its_result(
    sqlite_url: str, thread: Any
) -> None:
    saver = Looking(sqlite_url)
    graph = graph_of(saver, a=by_hand(10), b=by_model(100), c=by_sync_code_on_the_loop(1000))
    with start(tree_of(LangChain(graph, config={"configurable": thread})), store=sqlite_url) as tree:
        report = tree.submit(Task("go", id="t")).result(LONG_S)

    assert saver.seen == [(10, 10), (110, 110), (1110, 1110)]
    assert report.usage.tokens == 1110


def test_so_it_is_where_the_graph_runs_on_a_thread(sqlite_url: str) -> None:
    saver = SyncLooking(sqlite_url)
    graph = graph_of(saver, a=by_hand(10), b=by_hand(100))
    with start(tree_of(graph), store=sqlite_url) as tree:
        report = tree.submit(Task("go", id="t")).result(LONG_S)

    assert len(saver.seen) == 2, "in either order: LangGraph keeps the results of a sync graph on threads of its own"
    assert all(kept >= cost for cost, kept in saver.seen), "the next node goes on meanwhile"
    assert report.usage.tokens == 110
