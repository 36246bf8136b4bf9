"""Values too large for one transaction: made text piece by piece, and written piece by piece, each by itself.

Comes in: the JSON of one value, in parts. Goes out: pieces of ``schema.PIECE`` characters, each written in a
transaction of its own before the record that names them, so that neither the file's lock nor that of the token is held
for long, and whatever is small is written in between. Nor is the value ever one text here: to make that, or to look at
it, would be one call of C that stops every other thread.

The steps of one value (``LargeValue``), each of a moment::

    next piece made (no memory: tried again) -> ... -> next piece written -> wait -> ... -> its change goes on

    withdrawn before the first step      nothing is made or written
    no text can be made of it            its journal ends with the record before it
    a piece could not be written         that one is written again; a piece that is there already stays
    the process dies                     pieces without a record are deleted when the root is opened
    its twin is pruned meanwhile         its pieces are reserved from the first one on (``FencedConnection.reserved``)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from actors.model.clock import monotonic
from trees.store.schema import PIECE

if TYPE_CHECKING:
    from trees.store.batches import Change
    from trees.store.fenced_connection import FencedConnection

GAP_S: Final = 0.01
"""Between two pieces, at least."""
QUIET_S: Final = 0.02
"""As long as small changes follow each other within this time, the next step waits for them, up to its limit."""


class ValueText:
    """JSON of one value that is kept apart, as far as it is made."""

    def __init__(self, kind: str, body: str, texts: Iterable[str]) -> None:
        self.kind = kind
        self.body = body
        """JSON of its record without it."""
        self.pieces: list[str] = []
        """Pieces of the JSON, each ``PIECE`` long but the last."""
        self._rest = _cut(texts)
        self._hash = hashlib.sha256()
        self.is_large = self.make_more() and self.make_more()

    def make_more(self) -> bool:
        """Make one more piece; False where there is none."""
        piece = next(self._rest, None)
        if piece is None:
            return False
        self.pieces.append(piece)
        self._hash.update(piece.encode("ascii"))
        return True

    def digest(self) -> str:
        """The name of what is made by now, by its content."""
        return self._hash.hexdigest()


class LargeValue:
    """The work on the value of one change."""

    def __init__(self, change: Change) -> None:
        self.change = change
        self._written = 0
        self.next_at = 0.0
        """When the next step may be made. After a piece was written others have the database for as long as that took,
        also those of other processes; text is made without the database."""
        self._limit = 0.0
        """When it is made in any case: small changes take two thirds of the time at most."""

    @property
    def is_made(self) -> bool:
        """True if the whole text of it is there."""
        return self.change.text is not None

    def make(self) -> None:
        """Make the next piece of the text.

        Raises:
            StoreError: there is no memory for it now. It is begun anew at the next call.
            Exception: no text can be made of it.
        """
        began = monotonic()
        self.change.make_more()
        self._made_step(began, gap=0.0)

    def write(self, session: FencedConnection) -> bool:
        """Write the next piece; False where that was the last.

        Raises:
            StoreError: not now. The same piece is written at the next call.
            UnwritableError: it never can be.
            LeaseLostError: nothing can be written any more.
        """
        value, text = self.change.value, self.change.text
        if value is None or text is None or text[2] is None:
            return False  # it has become small, or is not wanted any more
        digest = text[2].digest
        session.reserved.add(digest)
        began = monotonic()
        session.write_piece(digest, self._written, value.pieces[self._written])
        value.pieces[self._written] = ""  # it is in the database
        self._written += 1
        self._made_step(began, gap=1.0)
        return self._written < len(value.pieces)

    def _made_step(self, began: float, gap: float) -> None:
        ended = monotonic()
        took = max(GAP_S, ended - began)
        self.next_at, self._limit = ended + gap * took, ended + 2 * took

    def give_way(self) -> None:
        """Something small was just written: more of the same task may follow at once, and need not wait for a step."""
        self.next_at = min(self._limit, max(self.next_at, monotonic() + QUIET_S))


def short_text(texts: Iterable[str]) -> str | None:
    """Return the text that came in one part, and is one piece; None: it has to be cut, or put together."""
    return texts[0] if type(texts) is tuple and len(texts[0]) <= PIECE else None


def _cut(texts: Iterable[str]) -> Iterator[str]:
    """Cut a text into pieces of one length; at least one."""
    gathered, length = list[str](), 0
    for text in texts:
        at = 0
        while length + len(text) - at > PIECE:
            end = at + PIECE - length
            yield "".join([*gathered, text[at:end]])
            gathered, length, at = [], 0, end
        gathered.append(text[at:])
        length += len(text) - at
    yield "".join(gathered)
