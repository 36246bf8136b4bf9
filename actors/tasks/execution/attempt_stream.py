"""Gathering of what one attempt streams: deltas of text, calls of tools and what those gave, as events every 50 ms.

Made with the first ``context.stream``: an attempt that streams nothing has none. What comes within ``GATHER_S`` of the
first piece goes out together, on the thread of the timers; what is left at the end goes out before anybody is told of
that end, so before any record of it.

Bounds. Texts that follow each other are joined to one event. Within ``GATHER_S`` at most ``MOST_CHARS`` characters and
``MOST_PIECES`` pieces are kept; what comes beyond is dropped up to the next time, and an event without a text says how
many characters were (``SubtaskStreamed.lost``). After the end of the attempt nothing is taken any more: a thread that
was given up may go on streaming, and nobody hears it.

Locking: that of ``_turns`` guards all fields, and is held while events go out, so that they come in order whichever
thread sends them. Under it the locks of the timers and of ``StreamRelay`` are taken, which take no other. A finalizer
or a signal handler may run at any step under it: what it streams is taken next, and what it looks at may lack a piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from actors.concurrency.in_turn import InTurn
from actors.tasks.model.live_events import StreamKind

if TYPE_CHECKING:
    from actors.execution.timers import Timer
    from actors.tasks.execution.attempt import Attempt

GATHER_S: Final = 0.05
"""Seconds for which pieces are gathered, on the tree's clock."""
MOST_CHARS: Final = 65_536
"""Characters of one attempt that are kept within that time."""
MOST_PIECES: Final = 256
"""Events of one attempt that are kept within that time."""
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
        self._turns = InTurn()
        self._kinds: list[StreamKind] = []
        self._texts: list[list[str]] = []
        """Parts of each piece."""
        self._size = 0
        """Characters of all of them."""
        self._lost = 0
        """Characters that were dropped after them."""
        self._tail = ""
        """End of the text that was told."""
        self._timer: Timer | None = None
        self._closed = False

    def add(self, kind: StreamKind, text: str) -> None:
        """Take a piece, as far as there is room for it."""
        self._turns.do(lambda: self._add(kind, text))

    def _add(self, kind: StreamKind, text: str) -> None:
        if self._closed:
            return
        joins = kind == "text" and bool(self._kinds) and self._kinds[-1] == "text"
        room = MOST_CHARS - self._size if joins or len(self._kinds) < MOST_PIECES else 0
        if self._lost:
            room = 0  # what follows a gap would look like a continuation of what stands before it
        kept = text if len(text) <= room else text[:room]
        self._lost += len(text) - len(kept)
        if joins and kept:
            self._texts[-1].append(kept)
        elif kept:
            self._kinds.append(kind)
            self._texts.append([kept])
        self._size += len(kept)
        if self._timer is None:
            system = self._attempt.owner.system
            self._timer = system.timers.call_at(system.now() + GATHER_S, self.flush)

    def flush(self) -> None:
        """Tell what was gathered."""
        self._turns.do(self._flush)

    def close(self) -> None:
        """Tell what is left, and take nothing more."""
        self._turns.do(self._close)

    def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        timer = self._timer
        self._flush()
        if timer is not None:
            timer.cancel()

    def _flush(self) -> None:
        self._timer = None
        pieces = self._pieces()
        tail = _end_of(self._tail, pieces)
        lost, self._lost, self._size = self._lost, 0, 0
        self._kinds.clear()
        self._texts.clear()
        self._tail = tail  # last: whoever looks in between must not see these words twice
        if lost:
            pieces.append(Piece("text", "", lost))
        if pieces:
            self._attempt.owner.streams.tell(self._attempt, pieces)

    def _pieces(self) -> list[Piece]:
        return [Piece(kind, "".join(parts)) for kind, parts in zip(self._kinds, self._texts, strict=False)]

    @property
    def last_line(self) -> str:
        """Last line of the text that has any words, or the end of it; empty: there is none yet."""
        said = self._turns.look(self._said)
        return next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")

    def _said(self) -> str:
        tail = self._tail  # before the pieces: they may become part of it in between
        return _end_of(tail, self._pieces())


def _end_of(tail: str, pieces: Sequence[Piece]) -> str:
    return "".join([tail, *(piece.text for piece in pieces if piece.kind == "text")])[-_TAIL_CHARS:]
