"""Changes on their way into the database (``trees.store.record_reader`` has the way out of it).

Comes in: the ``Change``s that a store was told, in order. Goes out: a ``Batch``, all of them as the rows of one
transaction. What it writes may be written again with the same effect: whoever does not know whether a commit came
through writes it once more. A record that is there already under the number of a new one is no record of ours (only
one process writes for a root), and is replaced.

The one field of a record that may be large is kept apart, once for each content. One that is longer than
``schema.PIECE`` is in no batch: the change that has it is put off (``Batch.put_off``), with all that comes after it in
its lane, until its pieces are written (``trees.store.large_values``). Nobody reads them before their record is there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from actors.messaging.reply import Reply
from actors.model.events import Event
from actors.tasks.journal.codec import encode_apart, joined
from actors.tasks.model.task_errors import StoreError
from trees.store import statements
from trees.store.large_values import ValueText, short_text
from trees.store.pruning import prune
from trees.store.statements import Statement

LARGE: Final = 8 * 1024
"""Characters of JSON from which on a field is kept apart."""
BATCH_CHARACTERS: Final = 8 * 1024 * 1024
TRIES: Final = 3
"""How often a value is made text that somebody changes meanwhile."""

RecordRow = dict[str, Any]


class ChangeKind(Enum):
    """Kind of a change."""

    CREATED = auto()
    ADDED = auto()
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
    body: str
    """The JSON; empty where that is kept in pieces."""
    pieces: int | None = None
    """How many of them there are."""


@dataclass(slots=True, eq=False)
class Change:
    """One change of a store that is to be written."""

    what: ChangeKind
    stream: str = ""
    number: int = 0
    """Number of a stream that is created, or of a record that is added; id of a command."""
    owner: str = ""
    whole: str | None = None
    """Parent of a stream that is created."""
    record: Event | None = None
    """Record that is added; for a stream that is finished its last one."""
    at: float = 0.0
    lane: str = ""
    """Changes of one lane are written in their order (``trees.store.lanes``)."""
    follows: bool = False
    """True where it is written in one transaction with the change before it."""
    place: int = 0
    """Number of it among all changes."""
    waits: list[Wait] = field(default_factory=list)
    """Waits that end when this change is kept."""
    text: tuple[str, str, LargePart | None] | None = None
    """The record as it is written: kind, body, and what is kept apart."""
    value: ValueText | None = None
    """The text of a value that is too large for a batch, as far as it is made."""
    tries: int = 0

    def write_down(self) -> int | None:
        """Make the text of its record, if it has one; returns how long it is.

        None: its value is too large for a batch. The begin of it is in ``value``.

        Raises:
            StoreError: not now: there is no memory for it.
            Exception: there is none: a bug.
        """
        if self.record is None:
            return 0
        if self.text is None and self.value is None:
            self._guarded(self._make)
        if self.text is None:
            return None
        _, body, apart = self.text
        return len(body) + (len(apart.body) if apart is not None else 0)

    def make_more(self) -> bool:
        """Make one more piece of a value that is too large for a batch; False where that was all.

        Raises:
            StoreError: not now: there is no memory for it.
            Exception: there is none: a bug.
        """
        self._guarded(self._make if self.value is None else self._go_on)
        return self.text is None

    def _guarded(self, make: Callable[[], None]) -> None:
        """Make text of a value that may change meanwhile: a subscriber was shown it."""
        while True:
            try:
                make()
            except RuntimeError:
                self.tries, self.value = self.tries + 1, None
                if self.tries >= TRIES:
                    raise
                make = self._make
            except MemoryError as error:
                self.value = None
                what = "has no memory for what is to be written. Give this process more; it goes on by itself"
                raise StoreError(f"journal of {self.stream!r}", what) from error
            else:
                return

    def _make(self) -> None:
        record = self.record
        assert record is not None  # noqa: S101 - one without has no text
        kind, body, texts = encode_apart(record)
        if texts is None:
            self.text = kind, body, None
            return
        short = short_text(texts)
        if short is not None and len(short) <= LARGE:  # as with most
            self.text = kind, joined(record, body, short), None
            return
        value = ValueText(kind, body, texts)
        if not value.is_large:
            (text,) = value.pieces
            is_short = len(text) <= LARGE
            self.text = (
                (kind, joined(record, body, text), None) if is_short else (kind, body, LargePart(value.digest(), text))
            )
        elif self.what is ChangeKind.FINISHED:
            self.text = kind, body, LargePart("", "")  # the end only names it: it has been written as a record
        else:
            self.value = value

    def _go_on(self) -> None:
        value = self.value
        if value is not None and not value.make_more():
            self.text = value.kind, value.body, LargePart(value.digest(), "", len(value.pieces))


def boundary(changes: Sequence[Change]) -> int:
    """Place near the middle of these at which they may be written in two transactions; 0: they belong together."""
    places = [at for at, change in enumerate(changes) if at and not change.follows]
    return min(places, key=lambda at: abs(2 * at - len(changes)), default=0)


class Wait:
    """A caller's wait for changes of one lane, or of several."""

    __slots__ = ("left", "reply")

    def __init__(self, left: int) -> None:
        self.left = left
        """How many changes it waits for."""
        self.reply = Reply()


class Batch:
    """Batch: what one transaction writes."""

    def __init__(self, root: str, broken: Container[str] = (), held: Mapping[str, int] | None = None) -> None:
        self.root = root
        self.size = 0
        """How many changes it has taken, with those that it puts off."""
        self.put_off: list[Change] = []
        """Changes that wait for a large value, their own or one before them in their lane; in their order."""
        self._held = dict(held or {})
        """Lanes that wait for a large value, with the place of the first change there."""
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
        self.large: list[tuple[str, int, Event]] = []
        """Records whose large value is kept apart, each with its stream and number."""
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
            if self.characters > BATCH_CHARACTERS and not change.follows:
                break
            self.size += 1
            if self._must_wait(change):
                self.put_off.append(change)
                continue
            if change.what is ChangeKind.REMOVED:
                self._remove(change.stream)
                break
            if change.stream in self._broken:
                continue
            self._reuse_text(change)
            try:
                length = change.write_down()
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - it is the end of this journal, and of nothing else
                self.refused.append((change, error))
                break
            if length is None:
                self._held[change.lane] = change.place
                self.put_off.append(change)
                continue
            self.characters += length
            self._add(change)

    def _must_wait(self, change: Change) -> bool:
        """Return True where an earlier change is put off that it must not overtake; without a lane there is none."""
        if not self._held:
            return False
        return change.lane in self._held if change.lane else min(self._held.values()) < change.place

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
            case ChangeKind.CREATED:
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
        if apart is not None and change.record is not None:
            self._large[apart.digest] = apart
            self.large.append((change.stream, number, change.record))
        row = {"root": self.root, "stream": change.stream, "n": number, "kind": kind, "body": body, "large": digest}
        self._records[change.stream, number] = row

    @property
    def digests(self) -> Iterable[str]:
        """The values in it that are kept apart."""
        return self._large.keys()

    @property
    def is_empty(self) -> bool:
        """True if there is nothing in it to be written."""
        return self.size == len(self.put_off)

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

    def write(self, connection: Connection, reserved: Collection[str] = ()) -> None:
        """All of it, row by row, within the caller's transaction; pieces that are reserved are not deleted."""
        if self.removed is not None:
            prune(connection, self.root, [self.removed], reserved)
        by_name = connection.dialect.name == "postgresql"
        cursor = connection.connection.cursor()
        for statement, rows in self.parts().items():
            cursor.executemany(statements.by_name(statement) if by_name else statement.each, rows)
        cursor.close()

    def _sealed(self, apart: LargePart) -> RecordRow:
        return {"root": self.root, "hash": apart.digest, "body": apart.body, "pieces": apart.pieces}

    def _end(self, stream: str, change: Change) -> RecordRow:
        over = change.what is ChangeKind.FINISHED
        kind, body, apart = change.text if change.text is not None else ("", "", None)
        last = f"{kind} {body}" if over and kind and apart is None else None
        return {"root": self.root, "id": stream, "finished_at": change.at if over else None, "last": last}
