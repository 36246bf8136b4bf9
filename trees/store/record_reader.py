"""Records on their way out of the database (``trees.store.batches`` has the way into it).

Comes in: which streams. Goes out: their records; of one that is damaged a ``StoreError`` that says what is wrong with
it: a record that is missing, that there are none at all, one that nobody can read, a value of which a piece is gone.
Damage to one stream is that stream's: whoever reads many gets all the others.

What is read when a store is opened is found by an index over what is not finished. Of what is finished only one row
each is read, and no record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import BindParameter, Connection, Select, and_, bindparam, select

from actors.model.events import Event
from actors.tasks.journal.codec import decode
from actors.tasks.model.task_errors import StoreError
from trees.store.schema import large, pieces, records, streams

_AT_ONCE: Final = 500
"""Names in one statement; SQLite takes 999 at least."""
_WITH_LARGE = records.outerjoin(large, and_(large.c.root == records.c.root, large.c.hash == records.c.large))
_NAMES: Final[BindParameter[str]] = bindparam("names", expanding=True)
_TEXTS = select(
    records.c.stream,
    records.c.n,
    records.c.kind,
    records.c.body,
    records.c.large,
    large.c.body.label("apart"),
    large.c.pieces,
).select_from(_WITH_LARGE)
_ONE: Final = _TEXTS.where(
    records.c.root == bindparam("root"), records.c.stream == bindparam("stream"), records.c.n >= bindparam("start")
).order_by(records.c.n)
_MANY: Final = _TEXTS.where(records.c.root == bindparam("root"), records.c.stream.in_(_NAMES)).order_by(
    records.c.stream, records.c.n
)
_PIECES: Final = (
    select(pieces.c.body)
    .where(pieces.c.root == bindparam("root"), pieces.c.hash == bindparam("hash"))
    .order_by(pieces.c.n)
)
_UNFINISHED: Final = (
    select(streams.c.id, streams.c.owner, streams.c.seq, streams.c.whole)
    .where(streams.c.root == bindparam("root"), streams.c.finished_at.is_(None))
    .order_by(streams.c.seq)
)
_FINISHED: Final = (
    select(streams.c.id, streams.c.owner, streams.c.seq, streams.c.whole, streams.c.finished_at, streams.c.last)
    .where(streams.c.root == bindparam("root"), streams.c.finished_at.is_not(None))
    .order_by(streams.c.finished_at, streams.c.seq)
)
_FIRSTS: Final = _TEXTS.where(records.c.root == bindparam("root"), records.c.stream.in_(_NAMES), records.c.n == 0)
_LAST: Final = (
    _TEXTS.where(records.c.root == bindparam("root"), records.c.stream == bindparam("stream"))
    .order_by(records.c.n.desc())
    .limit(1)
)


class Unfinished(NamedTuple):
    """A stream that is not finished, or that holds one record that is replaced (``seq`` 0)."""

    id: str
    owner: str
    seq: int
    whole: str | None
    records: list[Event] | StoreError
    """Or what is wrong with them."""


def read(connection: Connection, root: str, stream: str, start: int = 0, *, is_there: bool = True) -> list[Event]:
    """The records of a stream, from the ``start``-th on.

    Args:
        connection: to be read from.
        root: of the tree.
        stream: its name.
        start: the first one that is wanted.
        is_there: the stream is known: then it has a first record.

    Raises:
        StoreError: they are damaged.
    """
    rows = connection.execute(_ONE, {"root": root, "stream": stream, "start": start}).all()
    if not rows and not start and is_there:
        raise _damaged(stream, "has lost all its records")
    return _decoded(connection, root, stream, rows, start)


def firsts(connection: Connection, root: str, streams: Sequence[str]) -> dict[str, Event]:
    """The first record of each of these streams; of one that is not there or is damaged there is none."""
    found: dict[str, Event] = {}
    for at in range(0, len(streams), _AT_ONCE):
        for row in _plain(connection, _FIRSTS, {"root": root, "names": streams[at : at + _AT_ONCE]}):
            with suppress(StoreError):
                (found[row[0]],) = _decoded(connection, root, row[0], [row], 0)
    return found


def last(connection: Connection, root: str, stream: str) -> Event | None:
    """The last record of a stream; None where it has none, or that is damaged."""
    rows = connection.execute(_LAST, {"root": root, "stream": stream}).all()
    try:
        return next(iter(_decoded(connection, root, stream, rows, rows[0][1])), None) if rows else None
    except StoreError:
        return None


def unfinished(connection: Connection, root: str) -> Iterator[Unfinished]:
    """All streams that are not finished, in the order of their creation."""
    found = _plain(connection, _UNFINISHED, {"root": root})
    for at in range(0, len(found), _AT_ONCE):
        group = found[at : at + _AT_ONCE]
        rows = _plain(connection, _MANY, {"root": root, "names": [id_ for id_, *_ in group]})
        texts = {stream: list(of) for stream, of in groupby(rows, itemgetter(0))}
        for id_, owner, seq, whole in group:
            yield Unfinished(id_, owner, seq, whole, _read_or_damage(connection, root, id_, texts.get(id_, [])))


def finished(connection: Connection, root: str) -> Sequence[tuple[Any, ...]]:
    """One row for each stream that is finished, the first that finished first: id, owner, seq, whole, when, last."""
    return _plain(connection, _FINISHED, {"root": root})


def _plain(connection: Connection, query: Select[Any], given: dict[str, Any]) -> Sequence[tuple[Any, ...]]:
    """Rows as the driver gives them: for many rows, SQLAlchemy's own would cost more than what is done with them."""
    cursor: Any = connection.execute(query, given).cursor
    rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _read_or_damage(connection: Connection, root: str, stream: str, rows: Sequence[Any]) -> list[Event] | StoreError:
    if not rows:
        return _damaged(stream, "has lost all its records")
    try:
        return _decoded(connection, root, stream, rows, 0)
    except StoreError as error:
        return error


def _decoded(connection: Connection, root: str, stream: str, rows: Sequence[Any], start: int) -> list[Event]:
    for expected, row in enumerate(rows, start):
        if row[1] != expected:
            raise _damaged(stream, f"lacks record {expected}")
    try:
        return [decode(row[2], row[3], None if row[4] is None else _apart(connection, root, row)) for row in rows]
    except StoreError as error:
        raise StoreError(f"journal of {stream!r}", error.what) from None


def _apart(connection: Connection, root: str, row: Sequence[Any]) -> str:
    """Part of a record that is kept apart."""
    stream, n, _, _, digest, apart, count = row
    if apart is None:
        raise _damaged(stream, f"lacks the value of record {n}")
    if count is None:
        whole: str = apart
        return whole
    found = connection.execute(_PIECES, {"root": root, "hash": digest}).scalars().all()
    if len(found) != count:
        raise _damaged(stream, f"lacks a piece of the value of record {n}")
    return "".join(found)


def _damaged(stream: str, what: str) -> StoreError:
    return StoreError(f"journal of {stream!r}", f"{what}. It is damaged: restore the store from a copy")
