"""Changes on their way into the database, and records on their way out of it.

Comes in: the ``Change``s that a store was told, in order. Goes out: a ``Batch``, all of them as the rows of one
transaction. What it writes may be written again with the same effect: whoever does not know whether a commit came
through writes it once more. The one field of a record that may be large is kept apart, once for each content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Final

from sqlalchemy import Connection, and_, bindparam, func, select, update

from actors.events import Event
from actors.tasks.errors import StoreError
from actors.tasks.written import decode, encode_apart, joined
from trees.store import orders
from trees.store.schema import inserting, large, records, streams

LARGE: Final = 8 * 1024
"""Characters of JSON from which on a field is kept apart."""
BATCH_CHARACTERS: Final = 8 * 1024 * 1024
_TRIES: Final = 3

Row = dict[str, Any]


class What(Enum):
    """What a change does."""

    CREATED = auto()
    ADDED = auto()
    REPLACED = auto()
    FINISHED = auto()
    REOPENED = auto()
    ORDER_DONE = auto()
    NOTHING = auto()
    """It was taken back."""


class Change:
    """One change of a store that is to be written."""

    __slots__ = ("at", "number", "owner", "record", "stream", "text", "what")

    def __init__(
        self,
        what: What,
        stream: str = "",
        *,
        number: int = 0,
        owner: str = "",
        record: Event | None = None,
        at: float = 0.0,
    ) -> None:
        self.what = what
        self.stream = stream
        self.number = number
        """Of a stream that is created: which it is; of a record that is added: which it is; of an order: its id."""
        self.owner = owner
        self.record = record
        self.at = at
        self.text: tuple[str, str, str | None] | None = None
        """The record as it is written: kind, body, and what is kept apart."""

    def write_down(self) -> int:
        """Make the text of its record, if it has one; returns how long it is.

        Raises:
            Exception: there is none: a bug.
        """
        if self.record is None:
            return 0
        if self.text is None:
            kind, body, apart = _encoded(self.record)
            if apart is not None and len(apart) <= LARGE:
                body, apart = joined(self.record, body, apart), None
            self.text = kind, body, apart
        return len(self.text[1]) + len(self.text[2] or "")


def _encoded(record: Event) -> tuple[str, str, str | None]:
    for _ in range(_TRIES - 1):
        try:
            return encode_apart(record)
        except RuntimeError:  # a subscriber has just changed the value that it was shown
            continue
    return encode_apart(record)


class Batch:
    """What one transaction writes."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.size = 0
        """How many changes are in it."""
        self.ends: dict[str, Change] = {}
        """The last of each stream that was finished or reopened."""
        self._streams: list[Row] = []
        self._records: list[Row] = []
        self._large: dict[str, str] = {}
        self._replaced: dict[str, tuple[Row, Row]] = {}
        self.orders: list[int] = []
        """Those that are done."""

    def fill(self, changes: Iterable[Change]) -> list[Exception]:
        """Take changes until it is large enough; returns what is wrong with those that cannot be written."""
        refused, characters = [], 0
        for change in changes:
            self.size += 1
            try:
                characters += change.write_down()
            except Exception as error:  # noqa: BLE001 - the record is missing then, and nothing else is
                refused.append(error)
                change.what = What.NOTHING
            self._add(change)
            if characters > BATCH_CHARACTERS:
                break
        return refused

    def _add(self, change: Change) -> None:
        stream = change.stream
        match change.what:
            case What.ADDED:
                self._records.append(self._record(change, change.number))
            case What.CREATED:
                self._streams.append(self._stream(change))
                self._records.append(self._record(change, 0))
            case What.REPLACED:
                self._replaced[stream] = (self._stream(change), self._record(change, 0))
            case What.FINISHED | What.REOPENED:
                self.ends[stream] = change
            case What.ORDER_DONE:
                self.orders.append(change.number)

    def _stream(self, change: Change) -> Row:
        return {
            "root": self.root,
            "id": change.stream,
            "owner": change.owner,
            "seq": change.number,
            "finished_at": None,
        }

    def _record(self, change: Change, number: int) -> Row:
        assert change.text is not None  # noqa: S101 - filled a moment ago
        kind, body, apart = change.text
        digest = None
        if apart is not None:
            digest = hashlib.sha256(apart.encode("ascii")).hexdigest()
            self._large[digest] = apart
        return {"root": self.root, "stream": change.stream, "n": number, "kind": kind, "body": body, "large": digest}

    def write(self, connection: Connection) -> None:
        """All of it, within the caller's transaction."""
        statements = _Statements.of(connection)
        if self._streams:
            connection.execute(statements.new_stream, self._streams)
        if self._large:
            rows = [{"root": self.root, "hash": digest, "body": body} for digest, body in self._large.items()]
            connection.execute(statements.new_large, rows)
        if self._records:
            connection.execute(statements.new_record, self._records)
        if self._replaced:
            connection.execute(statements.new_stream, [row for row, _ in self._replaced.values()])
            connection.execute(statements.replaced, [row for _, row in self._replaced.values()])
        if self.ends:
            ends = [
                {"of_root": self.root, "of_id": stream, "at": change.at if change.what is What.FINISHED else None}
                for stream, change in self.ends.items()
            ]
            connection.execute(_END, ends)
        if self.orders:
            orders.done(connection, self.root, self.orders)


_END: Final = (
    update(streams)
    .where(streams.c.root == bindparam("of_root"), streams.c.id == bindparam("of_id"))
    .values(finished_at=bindparam("at"))
)


class _Statements:
    """Made once for each dialect: SQLAlchemy knows them again and does not compile them anew."""

    def __init__(self, connection: Connection) -> None:
        self.new_stream = inserting(connection, streams).on_conflict_do_nothing()
        self.new_record = inserting(connection, records).on_conflict_do_nothing()
        self.new_large = inserting(connection, large).on_conflict_do_nothing()
        replaced = inserting(connection, records)
        self.replaced = replaced.on_conflict_do_update(
            index_elements=["root", "stream", "n"],
            set_={name: replaced.excluded[name] for name in ("kind", "body", "large")},
        )

    @classmethod
    def of(cls, connection: Connection) -> _Statements:
        dialect = connection.dialect.name
        made = _MADE.get(dialect)
        if made is None:
            made = _MADE[dialect] = cls(connection)
        return made


_MADE: Final[dict[str, _Statements]] = {}


# -- reading -------------------------------------------------------------------------------------------------

_WITH_LARGE = records.outerjoin(large, and_(large.c.root == records.c.root, large.c.hash == records.c.large))
_TEXTS = select(records.c.stream, records.c.n, records.c.kind, records.c.body, large.c.body.label("apart")).select_from(
    _WITH_LARGE
)
_ONE: Final = (
    _TEXTS.where(
        records.c.root == bindparam("root"),
        records.c.stream == bindparam("stream"),
        records.c.n >= bindparam("start"),
    )
).order_by(records.c.n)
_other = records.alias()
_LAST: Final = _TEXTS.join(streams, and_(streams.c.root == records.c.root, streams.c.id == records.c.stream)).where(
    records.c.root == bindparam("root"),
    streams.c.finished_at.is_not(None),
    records.c.n
    == select(func.max(_other.c.n))
    .where(_other.c.root == records.c.root, _other.c.stream == records.c.stream)
    .scalar_subquery(),
)
_UNFINISHED: Final = (
    _TEXTS.join(streams, and_(streams.c.root == records.c.root, streams.c.id == records.c.stream))
    .where(records.c.root == bindparam("root"), streams.c.finished_at.is_(None))
    .order_by(records.c.stream, records.c.n)
)


def read(connection: Connection, root: str, stream: str, start: int = 0) -> list[Event]:
    """The records of a stream, from the ``start``-th on.

    Raises:
        StoreError: they are damaged.
    """
    rows = connection.execute(_ONE, {"root": root, "stream": stream, "start": start}).all()
    return _decoded(stream, rows, start)


def unfinished(connection: Connection, root: str) -> dict[str, list[Event] | StoreError]:
    """The records of all streams that are not finished; of one that is damaged, what is wrong with it."""
    found: dict[str, list[Event] | StoreError] = {}
    rows = connection.execute(_UNFINISHED, {"root": root})
    for stream, texts in _grouped(rows):
        try:
            found[stream] = _decoded(stream, texts, 0)
        except StoreError as error:
            found[stream] = error
    return found


def lasts(connection: Connection, root: str) -> dict[str, Event]:
    """The last record of each stream that is finished; without those that are damaged."""
    found = {}
    for row in connection.execute(_LAST, {"root": root}):
        with suppress(StoreError):
            found[row.stream] = decode(row.kind, row.body, row.apart)
    return found


def _grouped(rows: Iterable[Any]) -> Iterable[tuple[str, list[Any]]]:
    group: list[Any] = []
    for row in rows:
        if group and group[0].stream != row.stream:
            yield group[0].stream, group
            group = []
        group.append(row)
    if group:
        yield group[0].stream, group


def _decoded(stream: str, rows: Sequence[Any], start: int) -> list[Event]:
    for expected, row in enumerate(rows, start):
        if row.n != expected:
            what = f"lacks record {expected}. It is damaged: restore the store from a copy"
            raise StoreError(f"journal of {stream!r}", what)
    try:
        return [decode(row.kind, row.body, row.apart) for row in rows]
    except StoreError as error:
        raise StoreError(f"journal of {stream!r}", error.what) from None
