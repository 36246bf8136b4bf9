"""MCP server of a tree: requests that cannot be read are answered, and texts that no message can have are mended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from actors import Escalated
from trees import Escalate, Last, Retry, StaticPlan, Subtask, SupervisorSpec, Tasks, Tree, WorkerSpec, start
from trees.agents.mcp_messages import readable, sendable
from trees.agents.serving import _Lines
from trees.agents.tree_server import server_of

HALF = "cut \ud83d"
"""A text that somebody has cut within a character."""
DEEP = b"[" * 3000 + b"]" * 3000


def request(id_: Any, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}).encode()


# -- lines of a client -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [request(7, name="x"), b'{"jsonrpc":"2.0","method":"notifications/initialized"}'])
def test_a_message_that_can_be_read_is_handed_on_as_it_is(line: bytes) -> None:
    assert readable(line) is line


def test_half_of_a_pair_of_surrogates_in_a_request_is_a_question_mark() -> None:
    found = readable(request(7, name="run_task", arguments={"goal": HALF}))
    assert isinstance(found, bytes)
    assert json.loads(found)["params"]["arguments"] == {"goal": "cut ?"}


@pytest.mark.parametrize("id_", [7, "seven"])
@pytest.mark.parametrize(
    "rest", [b'"method":"x","params":' + DEEP + b"}", b'"method":5}', b'"method":"x","params":{"goal":"no end']
)
def test_a_request_that_cannot_be_read_is_known_by_its_id(id_: int | str, rest: bytes) -> None:
    assert readable(b'{"jsonrpc":"2.0","id":' + json.dumps(id_).encode() + b"," + rest) == id_


@pytest.mark.parametrize("line", [b"", b"hello", b"[]", b"123", b"{}", b'{"id":true,"method":5}', b'{"id":7}', DEEP])
def test_what_is_no_request_has_no_id(line: bytes) -> None:
    assert readable(line) is None


def test_a_client_hears_of_a_request_that_cannot_be_read_and_all_others_go_on() -> None:
    answers: list[str] = []

    class Out:
        async def write(self, text: str) -> None:
            answers.append(text)

        async def flush(self) -> None:
            answers.append("flushed")

    async def read() -> list[str]:
        reader = asyncio.StreamReader()
        bad = b'{"jsonrpc":"2.0","id":8,"method":"x","params":' + DEEP + b"}"
        reader.feed_data(b"\n".join([request(7), bad, b"rubbish", request(9), b""]))
        reader.feed_eof()
        return [line async for line in _Lines(reader, Out())]

    lines = asyncio.run(read())
    assert [json.loads(each)["id"] for each in lines if each.startswith("{")] == [7, 9]
    said, flushed = answers
    assert flushed == "flushed"
    assert said.endswith("\n")
    assert json.loads(said)["id"] == 8
    assert json.loads(said)["error"]["code"] == types.PARSE_ERROR


# -- texts that go out -------------------------------------------------------------------------------------------


def test_a_value_is_sent_as_it_is_but_for_halves_of_surrogates() -> None:
    whole = {"a": [1, None, 2.5, True, "\U0001f9a6"], "b": {"c": []}}
    assert sendable(whole) == whole
    assert sendable({HALF: [HALF, {"x": HALF}]}) == {"cut ?": ["cut ?", {"x": "cut ?"}]}


async def _works(task: Any, context: Any) -> Any:
    if "ask" in str(task) and not context.answers:
        raise Escalated(HALF)
    if "break" in str(task):
        raise ValueError(HALF)
    return {"said": HALF}


def _tree(ladder: list[Any]) -> SupervisorSpec:
    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]), synthesizer=Last(), on_failure=ladder)
    return SupervisorSpec(id="shop", tasks=tasks, children=[WorkerSpec(id="w", execute=_works)])


def using(tree: Tree, use: Callable[[Client], Awaitable[Any]]) -> Any:
    """Use a client of the server of a tree."""

    async def connected() -> Any:
        async with Client(server_of(tree)) as client:
            return await use(client)

    return asyncio.run(connected())


@pytest.mark.parametrize(
    ("goal", "said"),
    [("sell", "cut ?"), ("break", "ValueError: cut ?"), ("ask", "cut ?")],
    ids=["result", "error", "?"],
)
@pytest.mark.parametrize("tool", ["run_task", "get_task"])
def test_what_workers_say_reaches_the_client_whatever_it_is(goal: str, said: str, tool: str) -> None:
    ladder = [Escalate()] if goal == "ask" else [Retry(1)]

    async def use(client: Client) -> Any:
        found = await client.call_tool("run_task", {"goal": goal, "task_id": "t"})
        if tool == "get_task":
            found = await client.call_tool("get_task", {"task_id": "t"})
        return json.dumps(found.model_dump(mode="json"))

    with start(_tree(ladder)) as tree:
        assert said in using(tree, use)


def test_a_tree_is_shown_whatever_its_workers_have_said() -> None:
    with start(_tree([Retry(1), Escalate()])) as tree:
        handle = tree.submit("ask")
        next(event for event in handle.events() if event.name == "escalation_raised")
        found = using(tree, lambda client: client.call_tool("dump_tree", {"format": "json"}))
        handle.cancel()
    assert not found.is_error
    assert "shop" in json.dumps(found.model_dump(mode="json"))
