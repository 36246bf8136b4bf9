"""Connections of the server: bounded in number, in the size of a head, in the time of a head, and in that of an answer.

A browser sends the head of a request at once. Whoever sends it byte by byte, or nothing at all, holds a connection and
nothing else, and not for long (slow-loris): ``HEAD_S`` after a connection is made, or after the first byte of the next
request on it, the head must be complete. The time of a body is bounded where it is read (``request_reading``).

Whoever does not read its answer holds a connection and the answer. What the system does not take at once is looked at
every ``TAKE_S``: with less than ``LEAST_TAKEN`` taken of it since, nobody reads it. A stream has a time of its own.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_QUIET: Final = logging.getLogger("regrow.web")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False
"""Requests that are no HTTP are no news for the log of the host: anybody can send them."""


HEAD_S: Final = 10.0
"""Seconds that a head may take."""
MOST_CONNECTIONS: Final = 200
"""Connections at a time; more are closed at once."""
MOST_ACCEPTED: Final = 64
"""Connections that are accepted in one turn of the loop, before any is looked at: each has a descriptor of the tree's
process. More of them wait in the queue of the system."""
MOST_HEAD: Final = 16 * 1024
"""Bytes of a head."""
TAKE_S: Final = 30.0
"""Seconds between two looks at how much of an answer was taken."""
LEAST_TAKEN: Final = 64 * 1024
"""Bytes of an answer, or all that is left, that must have been taken since the last look."""


class PatientProtocol(H11Protocol):
    """A connection whose requests must come in time."""

    head_s: ClassVar[float] = HEAD_S
    take_s: ClassVar[float] = TAKE_S

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = self.access_logger = _QUIET
        self._due: asyncio.TimerHandle | None = None
        self._look: asyncio.TimerHandle | None = None
        """When it is looked at how much of the answers was taken; None: all of them were."""

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
        if self._look is None:
            self._expect_reading(self.transport.get_write_buffer_size())
        if self.conn.trailing_data[0]:  # half a head has come with the request before
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._expect_nothing()
        if self._look is not None:
            self._look.cancel()
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

    def _expect_reading(self, left: int) -> None:
        self._look = self.loop.call_later(self.take_s, self._look_again, left) if left else None

    def _look_again(self, before: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left and left > before - LEAST_TAKEN:
            self.transport.abort()
        else:
            self._expect_reading(left)

    def _is_at_work(self) -> bool:
        """True from the end of a head to the end of the answer."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete
