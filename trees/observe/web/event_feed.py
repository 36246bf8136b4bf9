"""Feed of events for browsers: numbered, kept for a while, encoded once for all of them.

The tree's threads put events in; each browser reads on from its own place on the loop of the server. A browser has no
queue: one that is slow falls behind the oldest event that is kept, and is told how many it has lost. So memory is
bounded by ``KEPT`` events, however many look.

While nobody looks the feed is not subscribed: it costs nothing. It stays for ``LINGER_S`` after the last one has left,
for browsers that come back; later ones are told that they have lost something.

Lock: ``_lock`` guards the ring, its numbers and the listeners, between the thread that delivers events and the loop.
Nothing is called while it is held but ``call_soon_threadsafe``.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final

from trees.observe.source import Source

KEPT: Final = 4096
"""Events that are kept for browsers that are slow, or come back."""
MOST_AT_ONCE: Final = 256
"""Events of one piece that is sent."""
GATHER_S: Final = 0.1
"""Seconds in which events are gathered before they are sent: ten pieces a second, however many events there are."""
LINGER_S: Final = 30.0


def sse(kind: str, data: dict[str, Any], number: int | None = None) -> bytes:
    """Return one message of a stream of server-sent events; JSON has no line breaks in it."""
    lines = [f"event: {kind}", *([f"id: {number}"] if number is not None else []), f"data: {as_json(data)}"]
    return ("\n".join(lines) + "\n\n").encode()


def as_json(data: object) -> str:
    """Return JSON in ASCII: any text of a worker can be written, also half of a surrogate pair."""
    return json.dumps(data, ensure_ascii=True, allow_nan=False, default=str, separators=(",", ":"))


class EventFeed:
    """Events of one source, on one event loop."""

    def __init__(self, source: Source, *, kept: int = KEPT, linger_s: float = LINGER_S) -> None:
        self._source = source
        self._linger_s = linger_s
        self._lock = threading.Lock()
        self._ring: deque[bytes] = deque(maxlen=kept)
        self._last = 0
        """Number of the newest event; that of the oldest which is kept follows from it."""
        self._hears = False
        self._unsubscribe: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bells: set[asyncio.Event] = set()
        self._told = False
        """True while the loop has been told of news, and has not rung yet."""
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
        place = await self._enter(bell, after)
        try:
            yield b""
            while True:
                pieces, place, lost = self._take(place)
                if lost:
                    yield sse("lost", {"version": 1, "lost": lost}, place - len(pieces))
                if pieces:
                    yield b"".join(pieces)
                    continue
                if self._over:
                    return
                await bell.wait()
                bell.clear()
                if not self._over:
                    await asyncio.sleep(GATHER_S)
        finally:
            self._leave(bell)

    async def _enter(self, bell: asyncio.Event, after: int | None) -> int:
        """Begin to look; returns the number after which to read on."""
        self._loop = asyncio.get_running_loop()
        self._bells.add(bell)
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
        if not self._hears and not self._over:
            self._hears = True
            with self._lock:
                self._last += 1  # nobody has counted what happened meanwhile: it is lost to whoever comes back
            await asyncio.to_thread(self._subscribe)
        with self._lock:
            known = after is not None and 0 <= after <= self._last
            return after if known and after is not None else self._last

    def _leave(self, bell: asyncio.Event) -> None:
        self._bells.discard(bell)
        if not self._bells and self._loop is not None and not self._over and not self._loop.is_closed():
            self._closing = self._loop.call_later(self._linger_s, self._sleep)

    def _subscribe(self) -> None:
        """Hear events from now on; on a thread, which may end after whoever has asked for it is gone."""
        unsubscribe = self._source.subscribe(self._hear)
        with self._lock:
            wanted = self._hears
            if wanted:
                self._unsubscribe = unsubscribe
        if not wanted:
            unsubscribe()

    def _sleep(self) -> None:
        """Hear nothing any more: nobody has come back."""
        with self._lock:
            unsubscribe, self._unsubscribe, self._closing = self._unsubscribe, None, None
            self._hears = False
            self._ring.clear()
        if unsubscribe is not None:
            unsubscribe()

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
        event = {"version": 1, **event}
        with self._lock:
            number = self._last + 1
            self._ring.append(sse("change", {**event, "id": number}, number))
            self._last = number
            tell, self._told = not self._told, True
            loop = self._loop
        if tell and loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody looks
                loop.call_soon_threadsafe(self._ring_all)

    def _ring_all(self) -> None:
        with self._lock:
            self._told = False
        for bell in self._bells:
            bell.set()

    def close(self) -> None:
        """End all that look, on the loop."""
        self._over = True
        if self._closing is not None:
            self._closing.cancel()
        self._sleep()
        for bell in self._bells:
            bell.set()
