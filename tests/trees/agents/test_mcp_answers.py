"""Answers of MCP servers that are wrong: at the start, to a call, and as lines that cannot be read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from actors import ChildRestarting, StartError
from tests.trees.agents.mcp_trees import call, failure, office
from trees import start
from trees.agents import MCP

SECRET = "sk-SECRET-42"  # noqa: S105 - no password
SERVER = """
import json, sys
def say(**what):
    print(json.dumps({"jsonrpc": "2.0", **what}), flush=True)
def answer(method, asked):
    {how}
    return usual(method, asked)
def usual(method, asked):
    id = asked["id"]
    if method == "initialize":
        version, about = asked["params"]["protocolVersion"], {"name": "raw", "version": "1"}
        say(id=id, result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about})
    elif method == "tools/list":
        say(id=id, result={"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        say(id=id, result={"content": [{"type": "text", "text": "hello"}]})
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        answer(asked["method"], asked)
"""


def server(at: Path, method: str, answer: str) -> MCP:
    """A server of a few lines that answers this method so: code with ``id``. In a file: arguments are secrets."""
    how = f'if method == "{method}":\n        id = asked["id"]\n        return {answer}'
    program = at / "server.py"
    program.write_text(SERVER.replace("{how}", how))
    return MCP(command=[sys.executable, "-S", str(program)], env={"TOKEN": SECRET})


def raw(text: str) -> str:
    """Code that writes a line, with the id of the request in place of ``ID``."""
    return f"print({text!r}.replace('ID', str(id)), flush=True)"


@pytest.mark.parametrize(
    ("method", "answer", "said"),
    [
        ("initialize", f"say(id=id, error={{'code': -32000, 'message': 'no {SECRET}'}})", "it answered: no ***"),
        ("initialize", "say(id=id, result={'capabilities': {}})", "protocolVersion: Field required"),
        (
            "initialize",
            "say(id=id, result=dict(protocolVersion='1999', capabilities={}, serverInfo=dict(name='', version='')))",
            "Unsupported protocol version",
        ),
        ("tools/list", "say(id=id, error={'code': -32603, 'message': 'no list'})", "it answered: no list"),
        ("tools/list", "say(id=id, result={'tools': [{'name': 'greet'}]})", "tools.0.inputSchema: Field required"),
        ("tools/list", raw('{"jsonrpc":"2.0","id":ID,"result":null}'), "its answer cannot be read"),
        ("tools/list", "sys.exit(3)", "its process has ended with exit code 3"),
    ],
)
def test_a_server_that_cannot_start_is_told_by_what_it_has_answered(
    tmp_path: Path, method: str, answer: str, said: str
) -> None:
    with pytest.raises(StartError) as caught, start(office(server(tmp_path, method, answer))):
        pass

    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","id":ID,"result":null}',
        '{"jsonrpc":"2.0","id":ID,"result":[1]}',
        '{"jsonrpc":"2.0","id":ID,"error":{"code":"x","message":null}}',
        '{"result":{"content":[],"structuredContent":{"v":' + "9" * 5000 + '}},"jsonrpc":"2.0","id":ID}',
        '{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":' + "[" * 3000 + "]" * 3000 + "}}",
        '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","te',
    ],
)
def test_an_answer_that_cannot_be_read_fails_its_call_and_nobody_waits_for_it(tmp_path: Path, line: str) -> None:
    with start(office(server(tmp_path, "tools/call", raw(line)), timeout_s=60.0)) as tree:
        assert "its answer cannot be read" in failure(tree, "greet")


def test_half_of_a_pair_of_surrogates_is_a_question_mark(tmp_path: Path) -> None:
    line = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"cut \\ud83d"}]}}'
    with start(office(server(tmp_path, "tools/call", raw(line)), timeout_s=60.0)) as tree:
        assert call(tree, "greet") == "cut ?"


def test_an_error_of_the_server_with_the_code_of_a_closed_connection_is_no_crash(tmp_path: Path) -> None:
    seen: list[Any] = []
    answer = "say(id=id, error={'code': -32000, 'message': 'the disk is full'})"
    with start(office(server(tmp_path, "tools/call", answer))) as tree:
        tree.subscribe(seen.append)

        assert "the disk is full" in failure(tree, "greet")

    assert not [event for event in seen if isinstance(event, ChildRestarting)]
