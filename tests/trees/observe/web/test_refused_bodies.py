"""Bodies of requests that are refused: what is left of one is read before the answer, within bounds.

TCP resets a connection that is closed with bytes on it that nobody has read, and a reset overtakes the answer. So these
tests look at the order of the steps, on the application itself: who sends, and who reads, is no matter of time.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from actors.execution.daemon_executor import DaemonExecutor
from tests.support.asking import LONG_S
from tests.trees.observe.scripted_source import ScriptedSource
from trees.observe.source import SourceError
from trees.observe.web import request_reading
from trees.observe.web.access import Access
from trees.observe.web.event_feed import EventFeed
from trees.observe.web.request_reading import MOST_BODY, MOST_DISCARDED
from trees.observe.web.web_app import Handlers, web_app

TOKEN = "a-token-of-the-tests-0123456789"  # noqa: S105 - of no other tree
BEARER = (b"authorization", f"Bearer {TOKEN}".encode())
PIECE = MOST_BODY // 2


class Exchange:
    """One request to the application, piece by piece, and the order in which pieces were read and answers sent."""

    def __init__(self, *pieces: bytes, method: str = "POST", path: str = "/api/children", ends: bool = True) -> None:
        self._scope = {"type": "http", "method": method, "path": path, "query_string": b"", "raw_path": path.encode()}
        self._pieces, self._ends = list(pieces), ends
        self.steps: list[str] = []
        self.status = 0
        self.text = b""

    def run(self, *headers: tuple[bytes, bytes], **answers: Any) -> Exchange:
        """Have it answered."""
        source = ScriptedSource(**answers)
        with DaemonExecutor("acts") as acts:
            access = Access("127.0.0.1", 1, "box", TOKEN)
            handlers = Handlers(source, EventFeed(source), access, acts)
            app = web_app(handlers, handlers, access, lambda _: None)
            scope: Any = {**self._scope, "headers": [(b"host", b"127.0.0.1"), *headers], "client": ("127.0.0.1", 1)}
            asyncio.run(asyncio.wait_for(app(scope, self._receive, self._send), LONG_S))
        return self

    async def _receive(self) -> Any:
        if not self._pieces:
            assert not self._ends, "it reads on after the end of the body"
            await asyncio.Event().wait()
        piece = self._pieces.pop(0)
        self.steps.append("read")
        return {"type": "http.request", "body": piece, "more_body": bool(self._pieces) or not self._ends}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.steps.append("answer")
        self.text += message.get("body", b"")


@pytest.mark.parametrize(
    ("headers", "path", "status"),
    [
        ((), "/api/children", 401),
        ((BEARER, (b"origin", b"http://evil.example")), "/api/children", 403),
        ((BEARER,), "/api/nowhere", 404),
        ((BEARER,), "/api/snapshot", 405),
    ],
)
def test_who_is_refused_before_the_body_was_read_sees_why(
    headers: tuple[tuple[bytes, bytes], ...], path: str, status: int
) -> None:
    exchange = Exchange(b'{"path"', b': "shop/a", ', b'"act": "restart"}', path=path).run(*headers)
    assert (exchange.steps, exchange.status) == (["read"] * 3 + ["answer"], status)
    assert json.loads(exchange.text)["error"].endswith((".", "...'."))


def test_a_look_with_a_body_that_is_refused_sees_why() -> None:
    gone = SourceError(503, "It has gone.")
    exchange = Exchange(b"x", b"y", method="GET", path="/api/snapshot").run(snapshot=gone)
    assert (exchange.steps, exchange.status) == (["read", "read", "answer"], 503)


def test_a_body_that_was_read_to_its_end_is_not_waited_for_once_more() -> None:
    exchange = Exchange(b'{"path": "shop/a"', b"}").run(BEARER)
    assert (exchange.steps, exchange.status) == (["read", "read", "answer"], 422)


@pytest.mark.parametrize("headers", [(), (BEARER,)], ids=["nobody", "an operator"])
def test_no_more_than_a_bounded_part_of_a_refused_body_is_read(headers: tuple[tuple[bytes, bytes], ...]) -> None:
    pieces = [b"x" * PIECE] * (2 * MOST_DISCARDED // PIECE)
    exchange = Exchange(*pieces).run(*headers)
    assert exchange.status == (413 if headers else 401)
    assert exchange.steps.count("read") <= 3 + (MOST_DISCARDED + MOST_BODY) // PIECE


def test_a_body_that_says_that_it_is_too_long_is_not_begun_with() -> None:
    exchange = Exchange(b"x", ends=False).run(BEARER, (b"content-length", str(MOST_DISCARDED + 1).encode()))
    assert (exchange.steps, exchange.status) == (["answer"], 413)


def test_a_refused_body_that_does_not_come_is_not_waited_for_any_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_reading, "LINGER_S", 0.01)
    exchange = Exchange(b"{", ends=False).run()
    assert (exchange.steps, exchange.status) == (["read", "answer"], 401)


def test_a_body_that_was_waited_for_long_enough_is_waited_for_no_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_reading, "BODY_S", 0.01)
    monkeypatch.setattr(request_reading, "LINGER_S", 1000 * LONG_S)
    exchange = Exchange(b"{", ends=False).run(BEARER)
    assert (exchange.steps, exchange.status) == (["read", "answer"], 408)


@pytest.mark.parametrize("number", ["1e999", "[-1e400]", '{"a": [1, 1e999]}'])
def test_a_number_that_is_too_large_to_be_read_is_refused(number: str) -> None:
    body = f'{{"answer": "edit", "value": {number}}}'.encode()
    exchange = Exchange(body, path="/api/questions/q").run(BEARER)
    assert (exchange.status, json.loads(exchange.text)["error"]) == (
        422,
        "The field 'value' holds a number that is too large.",
    )
