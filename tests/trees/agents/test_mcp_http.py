"""MCP over HTTP: what an answer means that is none, or not the one that was to come."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from actors import StartError
from tests.trees.agents.mcp_trees import call, failure, office
from trees import Backoff, Retry, SubtaskRetrying, start
from trees.agents import MCP

AT_ONCE = [Retry(3, initial_s=0.0)]
TOOLS = [
    {"name": "charge", "inputSchema": {"type": "object"}},
    {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]
DONE = {"content": [{"type": "text", "text": "done"}]}
SECRET = "sk-SECRET-42"  # noqa: S105 - no password


class Http(ThreadingHTTPServer):
    """A server with sessions, whose first answers to calls are not what they should be."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sessions: list[str] = []
        self.calls: list[str] = []
        self.odd: list[str] = []
        """How the next calls are answered; after that, as they should be."""
        self.refuses = 404
        """Status for a session that is not known."""
        self.starts_with = 200
        """Status of the answer to ``initialize``."""

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that closes its connection."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Http

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._say(405)

    def do_DELETE(self) -> None:
        self._say(200)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, server = asked["method"], self.server
        if method == "initialize":
            server.sessions.append(f"s{len(server.sessions)}")
            about = {"name": "shop", "version": "1"}
            version = asked["params"]["protocolVersion"]
            said = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
            self._answer(asked, said, status=server.starts_with, session=server.sessions[-1])
        elif self.headers["mcp-session-id"] not in server.sessions:
            self._say(server.refuses, b"no such session", "text/plain")
        elif "id" not in asked:
            self._say(202)
        elif method == "tools/list":
            self._answer(asked, {"tools": TOOLS})
        else:
            server.calls.append(asked["params"]["name"])
            self._call(asked, server.odd.pop(0) if server.odd else "as it should be")

    def _call(self, asked: dict[str, Any], how: str) -> None:
        kind, _, rest = how.partition(" ")
        if how == "as it should be":
            self._answer(asked, DONE)
        elif kind == "HTTP":
            self._say(int(rest), f"<p>{SECRET}</p>".encode(), "text/html")
        elif kind == "error":
            error = {"code": int(rest), "message": "not like that"}
            self._say(400, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}).encode())
        elif kind == "later":
            self._say(503, **{"retry-after": rest})
        elif how == "a login page":
            self._say(200, f"<p>{SECRET}</p>".encode(), "text/html")
        elif how == "half an answer":
            self._say(200, f'{{"jsonrpc":"2.0","{SECRET}'.encode())
        elif how == "half an event":
            self._say(200, f'event: message\ndata: {{"jsonrpc":"2.0","{SECRET}\n\n'.encode(), "text/event-stream")
        elif kind == "long":
            result = {"content": [{"type": "text", "text": "x" * int(rest)}]}
            said = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result})
            self._say(200, f"event: message\ndata: {said}\n\n".encode(), "text/event-stream")
        elif how == "accepted":
            self._say(202)
        else:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b": it begins\n\n")
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    def _answer(self, asked: dict[str, Any], result: Any, *, status: int = 200, session: str = "") -> None:
        said = {"mcp-session-id": session} if session else {}
        self._say(status, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode(), **said)

    def _say(self, status: int, body: bytes = b"", kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def http() -> Iterator[Http]:
    """A server, running."""
    with Http() as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield server
        finally:
            server.shutdown()
            serving.join()


def shop(http: Http, **fields: Any) -> Any:
    """A tree with this server."""
    backoff = Backoff(initial_s=0.01, factor=1.0, max_s=0.01, jitter=0.0)
    fields = {"on_failure": AT_ONCE, "timeout_s": 60.0, "max_restarts": 100, "backoff": backoff} | fields
    return office(MCP(url=http.url), **fields)


LOST = [
    "cut off",
    "half an event",
    "a login page",
    "HTTP 502",
]
"""Ends of a call of which nobody knows whether it was done."""


@pytest.mark.slow
@pytest.mark.parametrize("how", LOST)
def test_a_call_whose_answer_is_lost_is_not_made_again_unless_its_tool_says_that_it_may_be(
    http: Http, how: str
) -> None:
    with start(shop(http)) as tree:
        http.odd = [how]
        said = failure(tree, "charge")
        assert "(key " in said
        assert "may have been done" in said
        assert SECRET not in said
        assert http.calls == ["charge"]

        http.odd = [how]
        assert call(tree, "look") == "done"
        assert http.calls == ["charge", "look", "look"]


@pytest.mark.parametrize("status", [401, 403, 405, 422])
def test_a_request_that_the_server_refuses_is_not_tried_again_and_the_error_has_the_status(
    http: Http, status: int
) -> None:
    with start(shop(http)) as tree:
        http.odd = [f"HTTP {status}"] * 3
        assert f"charge: it answered with HTTP {status}" in failure(tree, "charge")
        assert http.calls == ["charge"]


@pytest.mark.parametrize("status", [408, 429, 503])
def test_a_request_that_nobody_has_begun_is_tried_again(http: Http, status: int) -> None:
    with start(shop(http)) as tree:
        http.odd = [f"HTTP {status}"]
        assert call(tree, "charge") == "done"
        assert len(http.sessions) == 1


def test_a_server_that_says_when_to_come_back_is_called_then_and_no_attempt_counts(http: Http) -> None:
    told: list[SubtaskRetrying] = []
    with start(shop(http, on_failure=[])) as tree:
        tree.subscribe(lambda event: told.append(event) if isinstance(event, SubtaskRetrying) else None)
        http.odd = ["later 0"]
        assert call(tree, "charge") == "done"
    assert [event.kind for event in told] == ["later"]


@pytest.mark.parametrize("status", [404, 400])
def test_a_server_that_does_not_know_the_session_any_more_gets_a_new_one_and_the_call(http: Http, status: int) -> None:
    with start(shop(http)) as tree:
        assert call(tree, "charge") == "done"
        http.refuses = status
        http.sessions[:] = ["of another server"]

        assert call(tree, "charge") == "done"
        assert call(tree, "charge") == "done"
    assert http.calls == ["charge"] * 3
    assert len(http.sessions) == 2


@pytest.mark.parametrize("how", ["HTTP 400", "error -32602", "error -32000"])
def test_a_bad_request_in_a_session_that_the_server_knows_is_a_failure_and_no_crash(http: Http, how: str) -> None:
    with start(shop(http, on_failure=[])) as tree:
        http.odd = [how]
        assert ("HTTP 400" if "HTTP" in how else "not like that") in failure(tree, "charge")
        assert call(tree, "charge") == "done"
    assert len(http.sessions) == 1


def test_a_server_that_refuses_the_session_is_a_start_error_with_the_status(http: Http) -> None:
    http.starts_with = 401
    with pytest.raises(StartError, match="it answered with HTTP 401"), contextlib.ExitStack() as stack:
        stack.enter_context(start(shop(http, max_restarts=1)))


def test_a_long_answer_comes_whole_as_an_event_and_one_that_is_too_long_says_so(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start(shop(http)) as tree:
        http.odd = ["long 3000000"]
        assert call(tree, "charge") == "x" * 3_000_000
    monkeypatch.setattr("trees.agents.mcp_session.MOST_BYTES", 1000)
    with start(shop(http)) as tree:
        http.odd = ["long 3000"]
        said = failure(tree, "charge")
    assert "its answer cannot be read: one event has more than" in said
    assert "may have been done" in said
    assert http.calls == ["charge"] * 2
