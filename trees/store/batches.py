"""Changes on their way into the database (``trees.store.record_reader`` has the way out of it).

Comes in: the ``Change``s that a store was told, in order. Goes out: a ``Batch``, all of them as the rows of one
transaction. What it writes may be written again with the same effect: whoever does not know whether a commit came
through writes it once more. A record that is there already under the number of a new one is no record of ours (only
one process writes for a root), and is replaced.

The one field of a record that may be large is kept apart, once for each content. One that is longer than
``schema.PIECE`` is in no batch: its pieces are written before, each in a transaction of its own (``Batch.pieces``), so
that neither the file's lock nor that of the token is held for long. Nobody reads them before their record is there. Nor
is it ever one text here: to make that, or to look at it, would be one call of C that stops every other thread.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from actors.model.events import Event
from actors.tasks.journal.codec import encode_apart, joined
from actors.tasks.model.task_errors import StoreError
from trees.store import statements
from trees.store.pruning import prune
from trees.store.schema import PIECE, inserting, pieces
from trees.store.statements import Statement

LARGE: Final = 8 * 1024
"""Characters of JSON from which on a field is kept apart."""
BATCH_CHARACTERS: Final = 8 * 1024 * 1024
_TRIES: Final = 3

RecordRow = dict[str, Any]


class ChangeKind(Enum):
    """Kind of a change."""

    CREATED = auto()
    ADDED = auto()
    REPLACED = auto()
    FINISHED = auto()
    REOPENED = auto()
    REMOVED = auto()
    ORDER_DONE = auto()
    NOTHING = auto()
    """Change that was taken back."""


class LargePart(NamedTuple):
    """A value that is kept apart from its record."""

    digest: str
    """By its content."""
    pieces: list[str]
    """Pieces of the JSON, each ``schema.PIECE`` long but the last."""


class Change:
    """One change of a store that is to be written."""

    __slots__ = ("at", "number", "owner", "record", "stream", "text", "what", "whole")

    def __init__(
        self,
        what: ChangeKind,
        stream: str = "",
        *,
        number: int = 0,
        owner: str = "",
        whole: str | None = None,
        record: Event | None = None,
        at: float = 0.0,
    ) -> None:
        self.what = what
        self.stream = stream
        self.number = number
        """Number of a stream that is created, or of a record that is added; id of an order."""
        self.owner = owner
        self.whole = whole
        """Parent of a stream that is created."""
        self.record = record
        """Record that is added; for a stream that is finished its last one."""
        self.at = at
        self.text: tuple[str, str, LargePart | None] | None = None
        """The record as it is written: kind, body, and what is kept apart."""

    def write_down(self) -> int:
        """Make the text of its record, if it has one; returns how long it is.

        Raises:
            StoreError: not now: there is no memory for it.
            Exception: there is none: a bug.
        """
        if self.record is None:
            return 0
        if self.text is None:
            try:
                kind, body, apart = _encoded(self.record)
            except MemoryError as error:
                what = "has no memory for what is to be written. Give this process more; it goes on by itself"
                raise StoreError(f"journal of {self.stream!r}", what) from error
            self.text = kind, body, apart
        _, body, apart = self.text
        return len(body) + (sum(map(len, apart.pieces)) if apart is not None else 0)


def _encoded(record: Event) -> tuple[str, str, LargePart | None]:
    for _ in range(_TRIES - 1):
        try:
            return _texts_of(record)
        except RuntimeError:  # a subscriber has just changed the value that it was shown
            continue
    return _texts_of(record)


def _texts_of(record: Event) -> tuple[str, str, LargePart | None]:
    kind, body, texts = encode_apart(record)
    if texts is None:
        return kind, body, None
    pieces = list(_cut(texts))
    if len(pieces) == 1 and len(pieces[0]) <= LARGE:
        return kind, joined(record, body, pieces[0]), None
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece.encode("ascii"))
    return kind, body, LargePart(digest.hexdigest(), pieces)


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


class Batch:
    """Batch: what one transaction writes."""

    def __init__(self, root: str, broken: Container[str] = ()) -> None:
        self.root = root
        self.size = 0
        """How many changes are in it."""
        self.ends: dict[str, Change] = {}
        """The last of each stream that was finished or reopened."""
        self.refused: list[tuple[Change, Exception]] = []
        """Changes that cannot be written, and why."""
        self._broken = broken
        """Streams of which nothing more is written."""
        self.characters = 0
        """Characters of what is in it."""
        self._newest: dict[str, Change] = {}
        """The last change of each stream that adds a record."""
        self._streams: dict[str, RecordRow] = {}
        self._records: dict[tuple[str, int], RecordRow] = {}
        """By stream and number: one statement may write no row twice."""
        self._large: dict[str, LargePart] = {}
        self.orders: list[int] = []
        """Orders that are done."""
        self.removed: str | None = None
        """A stream that is deleted before all else is written: it ends the batch, so all else is of other streams."""

    def fill(self, changes: Iterable[Change]) -> None:
        """Take changes until it is large enough, or one cannot be written.

        Raises:
            StoreError: there is no memory for them.
        """
        for change in changes:
            self.size += 1
            if change.what is ChangeKind.REMOVED:
                self._remove(change.stream)
                break
            if change.stream in self._broken:
                continue
            self._reuse_text(change)
            try:
                self.characters += change.write_down()
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - it is the end of this journal, and of nothing else
                self.refused.append((change, error))
                break
            self._add(change)
            if self.characters > BATCH_CHARACTERS:
                break

    def _reuse_text(self, change: Change) -> None:
        """The end of a stream names its last record, whose text was made a moment ago."""
        if change.what is ChangeKind.ADDED:
            self._newest[change.stream] = change
        elif change.what is ChangeKind.FINISHED and change.text is None:
            newest = self._newest.get(change.stream)
            change.text = newest.text if newest is not None and newest.record is change.record else None

    def _add(self, change: Change) -> None:
        match change.what:
            case ChangeKind.ADDED:
                self._record(change, change.number)
            case ChangeKind.CREATED | ChangeKind.REPLACED:
                self._stream(change)
                self._record(change, 0)
            case ChangeKind.FINISHED | ChangeKind.REOPENED:
                self.ends[change.stream] = change
            case ChangeKind.ORDER_DONE:
                self.orders.append(change.number)

    def _remove(self, stream: str) -> None:
        """Nothing of it that came before in this batch is written either."""
        self.removed = stream
        self._streams.pop(stream, None)
        self._records = {key: row for key, row in self._records.items() if key[0] != stream}
        self.ends.pop(stream, None)

    def _stream(self, change: Change) -> None:
        self._streams[change.stream] = {
            "root": self.root,
            "id": change.stream,
            "owner": change.owner,
            "seq": change.number,
            "finished_at": None,
            "whole": change.whole,
            "last": None,
        }

    def _record(self, change: Change, number: int) -> None:
        assert change.text is not None  # noqa: S101 - filled a moment ago
        kind, body, apart = change.text
        digest = apart.digest if apart is not None else None
        if apart is not None:
            self._large[apart.digest] = apart
        row = {"root": self.root, "stream": change.stream, "n": number, "kind": kind, "body": body, "large": digest}
        self._records[change.stream, number] = row

    def pieces(self) -> Iterator[RecordRow]:
        """The rows that are written before it, each by itself."""
        for digest, bodies in self._large.values():
            for n, body in enumerate(bodies if len(bodies) > 1 else ()):
                yield {"root": self.root, "hash": digest, "n": n, "body": body}

    def parts(self) -> dict[Statement, list[RecordRow]]:
        """Return the rows, by what writes them, in that order; but for what is to be removed."""
        ends = [self._end(*each) for each in self.ends.items()]
        for end in ends:
            if end["id"] in self._streams:
                self._streams[end["id"]].update(end)
        found = {
            statements.STREAM: list(self._streams.values()),
            statements.LARGE: [self._sealed(each) for each in self._large.values()],
            statements.RECORD: list(self._records.values()),
            statements.END: ends,
            statements.ORDER: [{"root": self.root, "id": each} for each in self.orders],
        }
        return {statement: rows for statement, rows in found.items() if rows}

    def write(self, connection: Connection) -> None:
        """All of it, row by row, within the caller's transaction."""
        if self.removed is not None:
            prune(connection, self.root, [self.removed])
        by_name = connection.dialect.name == "postgresql"
        cursor = connection.connection.cursor()
        for statement, rows in self.parts().items():
            cursor.executemany(statements.by_name(statement) if by_name else statement.each, rows)
        cursor.close()

    def _sealed(self, apart: LargePart) -> RecordRow:
        count = len(apart.pieces)
        body = apart.pieces[0] if count == 1 else ""
        return {"root": self.root, "hash": apart.digest, "body": body, "pieces": count if count > 1 else None}

    def _end(self, stream: str, change: Change) -> RecordRow:
        over = change.what is ChangeKind.FINISHED
        kind, body, apart = change.text if change.text is not None else ("", "", None)
        last = f"{kind} {body}" if over and kind and apart is None else None
        return {"root": self.root, "id": stream, "finished_at": change.at if over else None, "last": last}


def write_piece(connection: Connection, piece: RecordRow) -> None:
    """One of ``Batch.pieces``, within the caller's transaction."""
    connection.execute(inserting(connection, pieces).on_conflict_do_nothing(), piece)
