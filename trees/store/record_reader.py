"""Records on their way out of the database (``trees.store.batches`` has the way into it).

Comes in: which streams. Goes out: their records; of one that is damaged a ``DamagedJournalError`` that says what is
wrong with it: a record that is missing, that there are none at all, one that nobody can read, a value of which a piece
is gone. Damage to one stream is that stream's: whoever reads many gets all the others.

An *outline* lacks what is large (``actors.tasks.journal.dropped``): a large value that no state depends on is not read
at all, only looked for.

What is read when a store is opened is found by an index over what is not finished. Of what is finished only one row
each is read, and no record.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import BindParameter, ColumnElement, Connection, Select, and_, bindparam, case, func, null, select

from actors.model.events import Event, kinds
from actors.tasks.journal.codec import decode
from actors.tasks.journal.dropped import Dropped, without_large
from actors.tasks.model.task_errors import DamagedJournalError, StoreError
from trees.store.schema import is_name, large, pieces, records, streams

_AT_ONCE: Final = 500
"""Names in one statement; SQLite takes 999 at least."""
_WITH_LARGE = records.outerjoin(large, and_(large.c.root == records.c.root, large.c.hash == records.c.large))
_NAMES: Final[BindParameter[str]] = bindparam("names", expanding=True)
_UNFOLDED: Final[BindParameter[str]] = bindparam("unfolded", expanding=True)
_NUMBERS: Final[BindParameter[int]] = bindparam("numbers", expanding=True)


def _texts(apart: ColumnElement[str]) -> Select[Any]:
    columns = (records.c.stream, records.c.n, records.c.kind, records.c.body, records.c.large)
    return select(*columns, apart.label("apart"), large.c.pieces, large.c.hash).select_from(_WITH_LARGE)


_TEXTS: Final = _texts(large.c.body)
_OUTLINES: Final = _texts(case((records.c.kind.in_(_UNFOLDED), null()), else_=large.c.body))
_OF_ONE: Final = (records.c.root == bindparam("root"), records.c.stream == bindparam("stream"))
_ONE: Final = _TEXTS.where(*_OF_ONE, records.c.n >= bindparam("start")).order_by(records.c.n)
_ONE_OUTLINE: Final = _OUTLINES.where(*_OF_ONE, records.c.n >= bindparam("start")).order_by(records.c.n)
_SOME: Final = _TEXTS.where(*_OF_ONE, records.c.n.in_(_NUMBERS)).order_by(records.c.n)
_MANY: Final = _OUTLINES.where(records.c.root == bindparam("root"), records.c.stream.in_(_NAMES)).order_by(
    records.c.stream, records.c.n
)
_OF_PIECE: Final = (pieces.c.root == bindparam("root"), pieces.c.hash == bindparam("hash"))
_PIECES: Final = select(pieces.c.body).where(*_OF_PIECE).order_by(pieces.c.n)
_PIECES_THERE: Final = select(func.count()).select_from(pieces).where(*_OF_PIECE)
_UNFINISHED: Final = (
    select(streams.c.id, streams.c.owner, streams.c.seq, streams.c.whole)
    .where(streams.c.root == bindparam("root"), streams.c.finished_at.is_(None))
    .order_by(streams.c.seq)
)
_FINISHED: Final = select(
    streams.c.id, streams.c.owner, streams.c.seq, streams.c.whole, streams.c.finished_at, streams.c.last
).where(streams.c.root == bindparam("root"), streams.c.finished_at.is_not(None))
"""Without an order: in that of ``regrow_streams_finished`` each row would be looked up by itself."""
_SEQ: Final = 2
_ENDED_AT: Final = 4
_LAST_KIND: Final = 5
"""Places of these columns in a row of it."""
_FIRSTS: Final = _TEXTS.where(records.c.root == bindparam("root"), records.c.stream.in_(_NAMES), records.c.n == 0)
_ENDS: Final = select(streams.c.id, streams.c.last).where(
    streams.c.root == bindparam("root"), streams.c.id.in_(_NAMES), streams.c.finished_at.is_not(None)
)
_LAST: Final = _TEXTS.where(*_OF_ONE).order_by(records.c.n.desc()).limit(1)


class Unfinished(NamedTuple):
    """A stream that is not finished, or that holds one record that is replaced (``seq`` 0)."""

    id: str
    owner: str
    seq: int
    whole: str | None
    records: list[Event] | StoreError
    """An outline of them; or what is wrong with them."""


def read(connection: Connection, root: str, stream: str, start: int = 0, *, is_there: bool = True) -> list[Event]:
    """The records of a stream, from the ``start``-th on.

    ``is_there``: the stream is known, so it has a first record.

    Raises:
        StoreError: they are damaged.
    """
    rows = connection.execute(_ONE, {"root": root, "stream": stream, "start": start}).all()
    if not rows and not start and is_there:
        raise _damaged(stream, "has lost all its records")
    return _decoded(connection, root, rows, start)


def outline(connection: Connection, root: str, stream: str, start: int = 0) -> list[Event]:
    """An outline of a stream that is known, from the ``start``-th record on.

    Raises:
        StoreError: it is damaged.
    """
    given = {"root": root, "stream": stream, "start": start, "unfolded": _unfolded()}
    rows = connection.execute(_ONE_OUTLINE, given).all()
    if not rows and not start:
        raise _damaged(stream, "has lost all its records")
    return _outlined(connection, root, rows, start)


def some(connection: Connection, root: str, stream: str, numbers: Collection[int]) -> dict[int, Event]:
    """Records of a stream, by their numbers.

    Raises:
        StoreError: they are not there, or are damaged.
    """
    found: dict[int, Event] = {}
    wanted = sorted(numbers)
    for at in range(0, len(wanted), _AT_ONCE):
        part = wanted[at : at + _AT_ONCE]
        rows = connection.execute(_SOME, {"root": root, "stream": stream, "numbers": part}).all()
        lost = sorted({*part}.difference(row[1] for row in rows))
        if lost:
            raise _damaged(stream, f"lacks record {lost[0]}")
        found |= {row[1]: _decoded(connection, root, [row], row[1])[0] for row in rows}
    return found


def firsts(connection: Connection, root: str, streams: Sequence[str]) -> dict[str, Event]:
    """The first record of each of these streams; of one that is not there or is damaged there is none."""
    found: dict[str, Event] = {}
    for at in range(0, len(streams), _AT_ONCE):
        for row in _plain(connection, _FIRSTS, {"root": root, "names": streams[at : at + _AT_ONCE]}):
            with suppress(StoreError):
                (found[row[0]],) = _decoded(connection, root, [row], 0)
    return found


def ends(connection: Connection, root: str, streams: Sequence[str]) -> dict[str, Event]:
    """The last record of each of these streams, as far as they are finished; of one that is damaged there is none."""
    found: dict[str, Event] = {}
    for at in range(0, len(streams), _AT_ONCE):
        for stream, text in _plain(connection, _ENDS, {"root": root, "names": streams[at : at + _AT_ONCE]}):
            kind, _, body = text.partition(" ") if isinstance(text, str) else ("", "", "")
            try:
                end = decode(kind, body) if kind else last(connection, root, stream)
            except StoreError:
                end = None
            if end is not None:
                found[stream] = end
    return found


def last(connection: Connection, root: str, stream: str) -> Event | None:
    """The last record of a stream; None where it has none, or that is damaged."""
    rows = connection.execute(_LAST, {"root": root, "stream": stream}).all()
    try:
        return next(iter(_decoded(connection, root, rows, rows[0][1])), None) if rows else None
    except StoreError:
        return None


def unfinished(connection: Connection, root: str) -> Iterator[Unfinished]:
    """All streams that are not finished, in the order of their creation."""
    found, unfolded = _plain(connection, _UNFINISHED, {"root": root}), _unfolded()
    for at in range(0, len(found), _AT_ONCE):
        group = found[at : at + _AT_ONCE]
        given = {"root": root, "names": [id_ for id_, *_ in group], "unfolded": unfolded}
        rows = _plain(connection, _MANY, given)
        texts = {stream: list(of) for stream, of in groupby(rows, itemgetter(0))}
        for id_, owner, seq, whole in group:
            if not is_name(id_):
                yield Unfinished(repr(id_), str(owner), 0, None, _damaged(repr(id_), "has a name that is none"))
                continue
            yield Unfinished(id_, owner, seq, whole, _read_or_damage(connection, root, id_, texts.get(id_, [])))


def finished(connection: Connection, root: str) -> Sequence[tuple[Any, ...]]:
    """One row for each stream that is finished, the first that finished first: id, owner, seq, whole, when, last."""
    found = _plain(connection, _FINISHED, {"root": root})
    if not _are_texts(found):  # a file of SQLite takes anything
        found = [
            (*row[:_LAST_KIND], row[_LAST_KIND] if is_name(row[_LAST_KIND]) else None)
            for row in found
            if is_name(row[0])
        ]
    try:
        return sorted(found, key=itemgetter(_ENDED_AT, _SEQ))
    except TypeError:  # what is no number stands before those that are
        return sorted(found, key=lambda row: (_number(row[_ENDED_AT]), _number(row[_SEQ])))


def _are_texts(found: Sequence[tuple[Any, ...]]) -> bool:
    """True where all names, and last records, are texts or not there; of many rows, without a step for each."""
    kinds_of_names = set(map(type, map(itemgetter(0), found)))
    return kinds_of_names <= {str} and set(map(type, map(itemgetter(_LAST_KIND), found))) <= {str, type(None)}


def _number(found: object) -> float:
    return found if isinstance(found, (int, float)) else -math.inf


def _plain(connection: Connection, query: Select[Any], given: dict[str, Any]) -> Sequence[tuple[Any, ...]]:
    """Rows as the driver gives them: for many rows, SQLAlchemy's own would cost more than what is done with them."""
    cursor: Any = connection.execute(query, given).cursor
    rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _read_or_damage(connection: Connection, root: str, stream: str, rows: Sequence[Any]) -> list[Event] | StoreError:
    if not rows:
        return _damaged(stream, "has lost all its records")
    try:
        return _outlined(connection, root, rows, 0)
    except StoreError as error:
        return error


def _decoded(connection: Connection, root: str, rows: Sequence[Any], start: int) -> list[Event]:
    _require_all(rows, start)
    return [_record(row, None if row[4] is None else _apart(connection, root, row)) for row in rows]


def _outlined(connection: Connection, root: str, rows: Sequence[Any], start: int) -> list[Event]:
    _require_all(rows, start)
    return [_record(row, None) if row[4] is None else _without_apart(connection, root, row) for row in rows]


def _require_all(rows: Sequence[Any], start: int) -> None:
    for expected, row in enumerate(rows, start):
        if row[1] != expected:
            raise _damaged(row[0], f"lacks record {expected}")


def _record(row: Sequence[Any], large: str | Dropped | None) -> Event:
    try:
        return decode(row[2], row[3], large)
    except StoreError as error:
        raise DamagedJournalError(f"journal of {row[0]!r}", error.what) from None


def _unfolded() -> list[str]:
    """The kinds of records whose large value is not read for an outline."""
    return [kind.__name__ for kind in kinds() if kind.journalled and kind.unfolded]


def _without_apart(connection: Connection, root: str, row: Sequence[Any]) -> Event:
    """A record with a value that is kept apart, without what is large."""
    stream, n, kind, _, digest, _, count, there = row
    if kind not in _unfolded():
        return without_large(_record(row, _apart(connection, root, row)), stream, n)
    if there is None:
        raise _damaged(stream, f"lacks the value of record {n}")
    if count is not None:
        _require_pieces(row, connection.execute(_PIECES_THERE, {"root": root, "hash": digest}).scalar_one())
    return _record(row, Dropped(stream, n))


def _apart(connection: Connection, root: str, row: Sequence[Any]) -> str:
    """Part of a record that is kept apart."""
    stream, n, _, _, digest, apart, count, _ = row
    if apart is None:
        raise _damaged(stream, f"lacks the value of record {n}")
    if count is None:
        whole: str = apart
        return whole
    found = connection.execute(_PIECES, {"root": root, "hash": digest}).scalars().all()
    _require_pieces(row, len(found))
    return "".join(found)


def _require_pieces(row: Sequence[Any], there: int) -> None:
    if there != row[6]:
        raise _damaged(row[0], f"lacks a piece of the value of record {row[1]}")


def _damaged(stream: str, what: str) -> DamagedJournalError:
    return DamagedJournalError(f"journal of {stream!r}", f"{what}. It is damaged: restore the store from a copy")
