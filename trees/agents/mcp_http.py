"""Meaning of the answers of an MCP server over HTTP, where the SDK does not tell it.

The SDK makes an error of its own of each answer that is none, so that nobody waits for ever. Three of these differ for
whoever has called a tool:

========================================  =============================================================================
the server does not know the session      it was started anew: the call was not done, and is made in a new session
it has refused the request                the call was not done; whether it is tried again its status says
the call was sent, and no answer came     nobody knows whether it was done
========================================  =============================================================================

A server that was started anew answers 404, as MCP says. Many answer 400 instead: after that another request, for the
tools, finds out.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, Final

import mcp_types
from mcp import MCPError

from trees.agents.model_errors import is_refused, retry_after_s

_STATUS_ONLY: Final = "Server returned an error response"
"""Text of the SDK's error for a status that comes without an error of the protocol."""
_CUT: Final = "SSE stream ended"
"""Beginning of the SDK's texts for an answer that was cut off, with the code ``CONNECTION_CLOSED``."""
_LONG: Final = "byte limit"
"""Part of the text for an event that is too long."""
_UNREADABLE: Final = {
    mcp_types.CONNECTION_CLOSED: ("SSE stream failed",),
    mcp_types.PARSE_ERROR: ("Failed to parse ", "its answer cannot be read"),
    mcp_types.INVALID_REQUEST: ("Unexpected content type", "server answered a request with 202"),
}
"""By the code: beginnings of the texts for an answer that is none."""
_PUTS_OFF: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
"""Statuses of a request that nobody has begun, and whose answer may say when to come back."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""Longest event that is read: as long as a line of a program may be. The SDK alone takes a sixty-fourth of that."""
_UNKNOWN: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND})
"""Statuses with which servers refuse requests of a session that they do not know."""


class HttpAnswers:
    """Statuses with which a server has refused requests of one session."""

    def __init__(self) -> None:
        self._refused: dict[str, tuple[int, float | None]] = {}
        """By method: the status, and after how many seconds it wants the request again."""
        self._in_session: set[str] = set()
        """Methods whose refused request named the session."""

    async def look_at(self, response: Any) -> None:
        """Note a request that was refused; a hook of the HTTP client."""
        request = response.request
        if response.status_code < HTTPStatus.BAD_REQUEST or request.method != "POST":
            return
        method = str(json.loads(request.content).get("method"))
        self._refused[method] = response.status_code, retry_after_s(response)
        if "mcp-session-id" in request.headers:
            self._in_session.add(method)

    def begin(self, method: str) -> None:
        """A request is about to be sent: what was noted of the last one of its kind is forgotten."""
        self._refused.pop(method, None)
        self._in_session.discard(method)

    def status(self, method: str) -> int:
        """Status with which the last request was refused; 0: it was not."""
        return self._refused.get(method, (0, None))[0]

    def after_s(self, method: str) -> float | None:
        """Seconds after which the server wants a refused request again; None: it did not say."""
        status, after_s = self._refused.get(method, (0, None))
        return after_s if status in _PUTS_OFF else None

    def is_gone(self, method: str) -> bool:
        """True where the server has said, as the protocol has it, that it does not know the session."""
        return self.status(method) == HTTPStatus.NOT_FOUND and method in self._in_session

    def may_be_gone(self, method: str) -> bool:
        """True where it may have meant that."""
        return self.status(method) in _UNKNOWN and method in self._in_session

    def said(self, method: str, error: MCPError) -> str:
        """Return what a server says of a call that has failed: its text, or the status alone."""
        text = error.error.message
        return f"it answered with HTTP {self.status(method)}" if text == _STATUS_ONLY else text

    def is_worth_a_try(self, method: str) -> bool:
        """True where a request that was refused may succeed later; also where it was not refused by a status."""
        return not is_refused(self.status(method))

    def lost(self, method: str, error: MCPError) -> str:
        """Say why nobody knows whether a call was done; nothing where the server has answered, or refused it."""
        text, status = error.error.message, self.status(method)
        if text == _STATUS_ONLY and status >= HTTPStatus.INTERNAL_SERVER_ERROR and status not in _PUTS_OFF:
            return self.said(method, error)
        if not text.startswith(_UNREADABLE.get(error.code, ("\n",))):
            return ""
        return "its answer cannot be read" + (f": one event has more than {MOST_BYTES} bytes" if _LONG in text else "")


def is_cut(error: MCPError) -> bool:
    """True where the connection was closed before the answer had come."""
    return error.code == mcp_types.CONNECTION_CLOSED and error.error.message.startswith(_CUT)
