"""Records on their way out of the database (``trees.store.rows`` has the way into it).

Comes in: which streams. Goes out: their records; of one that is damaged a ``StoreError`` that says what is wrong with
it: a record that is missing, that there are none at all, one that nobody can read, a value of which a piece is gone.
Damage to one stream is that stream's: whoever reads many gets all the others.

What is read when a store is opened is found by an index over what is not finished. Of what is finished only one row
each is read, and no record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import BindParameter, Connection, and_, bindparam, select

from actors.events import Event
from actors.tasks.errors import StoreError
from actors.tasks.written import decode
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


def last(connection: Connection, root: str, stream: str) -> Event | None:
    """The last record of a stream; None where it has none, or that is damaged."""
    rows = connection.execute(_LAST, {"root": root, "stream": stream}).all()
    try:
        return next(iter(_decoded(connection, root, stream, rows, rows[0].n)), None) if rows else None
    except StoreError:
        return None


def unfinished(connection: Connection, root: str) -> Iterator[Unfinished]:
    """All streams that are not finished, in the order of their creation."""
    found = connection.execute(_UNFINISHED, {"root": root}).all()
    for at in range(0, len(found), _AT_ONCE):
        group = found[at : at + _AT_ONCE]
        rows = connection.execute(_MANY, {"root": root, "names": [row.id for row in group]}).all()
        texts = dict(_grouped(rows))
        for row in group:
            yield Unfinished(*row, _read_or_damage(connection, root, row.id, texts.get(row.id, [])))


def finished(connection: Connection, root: str) -> Iterable[Any]:
    """One row for each stream that is finished, the first that finished first."""
    return connection.execute(_FINISHED, {"root": root})


def _read_or_damage(connection: Connection, root: str, stream: str, rows: Sequence[Any]) -> list[Event] | StoreError:
    if not rows:
        return _damaged(stream, "has lost all its records")
    try:
        return _decoded(connection, root, stream, rows, 0)
    except StoreError as error:
        return error


def _grouped(rows: Iterable[Any]) -> Iterator[tuple[str, list[Any]]]:
    group: list[Any] = []
    for row in rows:
        if group and group[0].stream != row.stream:
            yield group[0].stream, group
            group = []
        group.append(row)
    if group:
        yield group[0].stream, group


def _decoded(connection: Connection, root: str, stream: str, rows: Sequence[Any], start: int) -> list[Event]:
    for expected, row in enumerate(rows, start):
        if row.n != expected:
            raise _damaged(stream, f"lacks record {expected}")
    try:
        return [decode(row.kind, row.body, _apart(connection, root, row)) for row in rows]
    except StoreError as error:
        raise StoreError(f"journal of {stream!r}", error.what) from None


def _apart(connection: Connection, root: str, row: Any) -> str | None:
    """What is kept apart of a record; None: nothing."""
    if row.large is None:
        return None
    if row.apart is None:
        raise _damaged(row.stream, f"lacks the value of record {row.n}")
    if row.pieces is None:
        apart: str = row.apart
        return apart
    found = connection.execute(_PIECES, {"root": root, "hash": row.large}).scalars().all()
    if len(found) != row.pieces:
        raise _damaged(row.stream, f"lacks a piece of the value of record {row.n}")
    return "".join(found)


def _damaged(stream: str, what: str) -> StoreError:
    return StoreError(f"journal of {stream!r}", f"{what}. It is damaged: restore the store from a copy")
