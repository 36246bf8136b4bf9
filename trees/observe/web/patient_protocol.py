"""Connections of the server: bounded in number, in the size of a head, and in the time that a head may take.

A browser sends the head of a request at once. Whoever sends it byte by byte, or nothing at all, holds a connection and
nothing else, and not for long (slow-loris): ``HEAD_S`` after a connection is made, or after the first byte of the next
request on it, the head must be complete. The time of a body is bounded where it is read (``request_reading``).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from trees.observe.web.head_limits import HEAD_S, MOST_CONNECTIONS

_QUIET: Final = logging.getLogger("regrow.web")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False
"""Requests that are no HTTP are no news for the log of the host: anybody can send them."""


class PatientProtocol(H11Protocol):
    """A connection whose requests must come in time."""

    head_s: ClassVar[float] = HEAD_S

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = self.access_logger = _QUIET
        self._due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Accept it, unless there are too many."""
        if len(self.connections) >= MOST_CONNECTIONS:
            transport.abort()
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Take bytes: of a head, which has its time, or of a body."""
        super().data_received(data)
        self._expect_head()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request, which uvicorn gives a time until its first byte."""
        super().on_response_complete()
        self._expect_nothing()
        if self.conn.trailing_data[0]:  # half a head has come with the request before
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._expect_nothing()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self._is_at_work():
            self._expect_nothing()
        elif self._due is None:
            self._due = self.loop.call_later(self.head_s, self._expire)

    def _expect_nothing(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _expire(self) -> None:
        self._due = None
        if not self._is_at_work():
            self.transport.abort()

    def _is_at_work(self) -> bool:
        """True from the end of a head to the end of the answer."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete
