"""Feed of events for browsers: numbered, kept for a while, encoded once for all of them.

The tree's threads put events in; each browser reads on from its own place on the loop of the server. A browser has no
queue: one that is slow falls behind the oldest event that is kept, and is told how many it has lost. So memory is
bounded by ``KEPT`` events and ``MOST_BYTES``, however many look, and whatever an exception has to say. The feed gathers
for all of them: its loop is called by the first event of a piece, and once more when that is to be sent.

Numbers begin with the microseconds since 1970 at which the feed was made. A browser comes back by itself to a program
that was started anew, or a server that has crashed, with a number of the one before. That is less than any of this
feed, so it is told of a loss, and not taken for one of here.

While nobody looks the feed is not subscribed: it costs nothing. It stays for ``LINGER_S`` after the last one has left,
for browsers that come back; later ones are told that they have lost something.

Lock: ``_lock`` guards the ring, its numbers and the subscription, between the thread that delivers events, the one that
subscribes, and the loop. Nothing is called while it is held but ``call_soon_threadsafe``.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final

from actors.model.clock import SystemClock
from trees.observe.source import Source

KEPT: Final = 4096
"""Events that are kept for browsers that are slow, or come back."""
MOST_BYTES: Final = 16 * 1024 * 1024
"""Bytes of these; the newest event is kept whatever it has."""
MOST_AT_ONCE: Final = 256
"""Events of one piece that is sent."""
GATHER_S: Final = 0.1
"""Seconds in which events are gathered before they are sent: ten pieces a second, however many events there are."""
LINGER_S: Final = 30.0
_ENCODER: Final = json.JSONEncoder(ensure_ascii=True, allow_nan=False, default=str, separators=(",", ":"))
"""Made once: to make one costs as much as a small event."""


def sse(kind: str, data: dict[str, Any], number: int | None = None) -> bytes:
    """Return one message of a stream of server-sent events; JSON has no line breaks in it."""
    id_ = "" if number is None else f"id: {number}\n"
    return f"event: {kind}\n{id_}data: {as_json(data)}\n\n".encode()


def as_json(data: object) -> str:
    """Return JSON in ASCII: any text of a worker can be written, also half of a surrogate pair."""
    return _ENCODER.encode(data)


class _Hearing:
    """One subscription to the source."""

    begun: asyncio.Future[None]
    """Done once it hears; made on the loop, where it is waited for."""

    def __init__(self) -> None:
        self.unsubscribe: Callable[[], None] | None = None
        """How to end it, once it hears. The feed's lock guards it."""


class EventFeed:
    """Events of one source, which is subscribed to while somebody looks, on one event loop."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._ring: deque[bytes] = deque()
        self._bytes = 0
        """Bytes in it."""
        self._before = int(SystemClock().wall() * 1e6)
        """Number before all of its events: what is less is of an earlier feed."""
        self._last = self._before
        """Number of the newest event; that of the oldest which is kept follows from it."""
        self._hearing: _Hearing | None = None
        """Subscription to the source, from the moment in which it is asked for; None: nobody looks."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bells: set[asyncio.Event] = set()
        self._told = False
        """True while the loop has been told of news, and has not rung yet: until then it gathers."""
        self._closing: asyncio.TimerHandle | None = None
        self._over = False

    @property
    def watching(self) -> int:
        """Number of those who look."""
        return len(self._bells)

    async def follow(self, after: int | None) -> AsyncIterator[bytes]:
        """Yield what happens from now on, in pieces; after the event of a number where it is known.

        Ends when the feed is closed. The first piece is empty: whoever has it misses nothing from there on.
        """
        bell = asyncio.Event()
        try:
            place = await self._enter(bell, after)
            yield b""
            while True:
                pieces, place, lost = self._take(place)
                if lost:
                    yield sse("lost", {"version": 1, "lost": lost}, place - len(pieces))
                if pieces:
                    yield b"".join(pieces)
                    await asyncio.sleep(0)  # others have their turn, and the end of this connection is seen
                    continue
                if self._over:
                    return
                await bell.wait()
                bell.clear()
        finally:
            self._leave(bell)

    async def _enter(self, bell: asyncio.Event, after: int | None) -> int:
        """Begin to look; returns the number after which to read on. ``after``: None, or not less than 0."""
        self._loop = asyncio.get_running_loop()
        self._bells.add(bell)
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
        hearing = self._hearing
        if hearing is None and not self._over:
            hearing = self._hearing = _Hearing()
            with self._lock:
                self._last += 1  # nobody has counted what happened meanwhile: it is lost to whoever comes back
            hearing.begun = asyncio.ensure_future(asyncio.to_thread(self._subscribe, hearing))
        if hearing is not None:
            await asyncio.shield(hearing.begun)  # all wait for it, and one who goes away ends it for nobody
        with self._lock:
            if after is None:
                return self._last
            return after if self._before <= after <= self._last else self._before  # of another: all of here is news

    def _leave(self, bell: asyncio.Event) -> None:
        self._bells.discard(bell)
        if self._bells:
            return
        if self._over:
            self._sleep()
        elif self._loop is not None and not self._loop.is_closed():
            self._closing = self._loop.call_later(LINGER_S, self._sleep)

    def _subscribe(self, hearing: _Hearing) -> None:
        """Hear events from now on; on a thread, which may end after whoever has asked for it is gone."""
        try:
            unsubscribe = self._source.subscribe(self._hear)
        except BaseException:
            with self._lock:
                if self._hearing is hearing:
                    self._hearing = None  # the next one that looks tries again
            raise
        with self._lock:
            wanted = self._hearing is hearing
            if wanted:
                hearing.unsubscribe = unsubscribe
        if not wanted:
            unsubscribe()

    def _sleep(self) -> None:
        """Hear nothing any more, and keep nothing: nobody has come back."""
        self._unsubscribe()
        with self._lock:
            self._ring.clear()
            self._bytes = 0

    def _unsubscribe(self) -> None:
        with self._lock:
            hearing, self._hearing, self._closing = self._hearing, None, None
        if hearing is not None and hearing.unsubscribe is not None:
            hearing.unsubscribe()

    def _take(self, place: int) -> tuple[list[bytes], int, int]:
        """Return the next pieces after a place, the place after them, and how many before them are lost."""
        with self._lock:
            first = self._last - len(self._ring) + 1
            lost = max(0, first - 1 - place)
            begin = max(place + 1, first)
            skip = begin - first
            pieces = [self._ring[at] for at in range(skip, min(skip + MOST_AT_ONCE, len(self._ring)))]
            return pieces, begin - 1 + len(pieces), lost

    def _hear(self, event: dict[str, Any]) -> None:
        """Take an event, on a thread of the tree."""
        with self._lock:
            number = self._last + 1
            piece = sse("change", {"version": 1, **event, "id": number}, number)
            self._ring.append(piece)
            self._bytes += len(piece)
            while len(self._ring) > KEPT or (self._bytes > MOST_BYTES and len(self._ring) > 1):
                self._bytes -= len(self._ring.popleft())
            self._last = number
            tell, self._told = not self._told, True
            loop = self._loop
        if tell and loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody looks
                loop.call_soon_threadsafe(loop.call_later, GATHER_S, self._ring_all)

    def _ring_all(self) -> None:
        with self._lock:
            self._told = False
        for bell in self._bells:
            bell.set()

    def close(self) -> None:
        """End all that look, on the loop, each once it has what is kept: the end of the tree is the newest of it."""
        self._over = True
        if self._closing is not None:
            self._closing.cancel()
        if self._bells:
            self._unsubscribe()
        else:
            self._sleep()
        for bell in self._bells:
            bell.set()
