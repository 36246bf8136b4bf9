"""The server of a tree over HTTP takes so many connections at a time, and no more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the SDK of MCP")

from tests.support.hardening import LONG_S
from trees.agents import serving


class Answers:
    """Stands for the server of a tree: its app answers everything with 200."""

    def streamable_http_app(self, host: str) -> Any:
        """Make the app."""
        assert host == serving.HOST

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                await receive()
                await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
                await send({"type": "http.response.body", "body": b""})

        return app


async def status_of(port: int, held: list[Any]) -> str:
    """Status of the answer to a request on a connection of its own, which stays open."""
    reader, writer = await asyncio.open_connection(serving.HOST, port)
    held.append(writer)
    writer.write(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
    return (await reader.readline()).split()[1].decode()


def test_one_connection_too_many_is_refused_and_one_that_ends_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 3)

    async def statuses() -> list[str]:
        stop, said, held = asyncio.Event(), asyncio.Queue[str](), list[Any]()
        server: Any = Answers()
        serves = asyncio.create_task(serving.serve_http(server, 0, stop, said.put_nowait))
        port = int((await said.get()).rpartition(":")[2].partition("/")[0])
        found = [await status_of(port, held) for _ in range(3)]
        again = ""
        while again != "200":  # the server hears of the end of a connection in its own time
            while held:
                writer = held.pop()
                writer.close()
                await writer.wait_closed()
            again = await status_of(port, held)
        held.pop().close()
        stop.set()
        await serves
        return [*found, again]

    assert asyncio.run(asyncio.wait_for(statuses(), LONG_S)) == ["200", "200", "503", "200"]
