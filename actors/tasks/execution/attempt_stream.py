"""Gathering of what one attempt streams: deltas of text, calls of tools and what those gave, as events every 50 ms.

Made with the first ``context.stream``. What comes within ``GATHER_S`` of the first piece goes out together, on the
thread of the timers; what is left at the end of the attempt goes out before anybody is told of that end.

Texts that follow each other are joined to one event. Within ``GATHER_S`` at most ``MOST_CHARS`` characters are kept.
The rest is dropped, and an event without a text says how many characters that were.
After the end of the attempt nothing is taken any more.
"""

from __future__ import annotations

import threading
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from actors.tasks.model import StreamKind

if TYPE_CHECKING:
    from actors.execution.timers import Timer
    from actors.tasks.execution.attempt import Attempt

GATHER_S: Final = 0.05
"""Seconds for which pieces are gathered, on the tree's clock."""
MOST_CHARS: Final = 65_536
"""Characters of one attempt that are kept within that time."""
_TAIL_CHARS: Final = 400


class Piece(NamedTuple):
    """Content of one event."""

    kind: StreamKind
    text: str
    lost: int = 0
    """Characters that were dropped before it."""


class AttemptStream:
    """Pieces of one attempt that wait to be told."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._lock = threading.RLock()
        """Held while events go out, so that they come in order whichever thread sends them."""
        self._gathered: list[Piece] = []
        self._size = 0
        """Characters of all of them."""
        self._lost = 0
        """Characters that were dropped after them."""
        self._tail = ""
        """End of the text that was told or waits to be."""
        self._timer: Timer | None = None
        self._closed = False

    def add(self, kind: StreamKind, text: str) -> None:
        """Take a piece, as far as there is room for it."""
        with self._lock:
            if self._closed:
                return
            kept = "" if self._lost else text[: MOST_CHARS - self._size]  # nothing follows a gap
            self._lost += len(text) - len(kept)
            self._size += len(kept)
            if kind == "text":
                self._tail = f"{self._tail}{kept}"[-_TAIL_CHARS:]
            if kept:
                self._gathered.append(Piece(kind, kept))
            if self._timer is None:
                system = self._attempt.owner.system
                self._timer = system.timers.call_at(system.now() + GATHER_S, self.flush)

    def flush(self) -> None:
        """Tell what was gathered."""
        with self._lock:
            self._timer = None
            pieces: list[Piece] = []
            for kind, group in groupby(self._gathered, key=attrgetter("kind")):
                of_kind = list(group)
                pieces += [Piece(kind, "".join(each.text for each in of_kind))] if kind == "text" else of_kind
            self._gathered.clear()
            if self._lost:
                pieces.append(Piece("text", "", self._lost))
            self._lost = self._size = 0
            if pieces:
                self._attempt.owner.service.streams.tell(self._attempt, pieces)

    def close(self) -> None:
        """Tell what is left, and take nothing more."""
        with self._lock:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
                self.flush()

    @property
    def last_line(self) -> str:
        """Last line of the text that has any words, or the end of it; empty: there is none yet."""
        said = self._tail
        return next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
