"""Records on their way out of the database; of a journal that is damaged a ``DamagedJournalError`` that says how.

Damage to one stream is that stream's: whoever reads many gets all the others.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import BindParameter, Connection, bindparam, func, select

from actors.model.events import Event
from actors.tasks.journal.codec import decode
from actors.tasks.journal.dropped import without_large
from actors.tasks.model.task_errors import DamagedJournalError, StoreError
from trees.store.schema import records, streams

LARGE: Final = 64 * 1024
"""Characters of JSON from which on a record's large value stays in the database."""
_AT_ONCE: Final = 500
"""Names in one statement; SQLite takes 999 at least."""
_NAMES: Final[BindParameter[str]] = bindparam("names", expanding=True)
_NUMBERS: Final[BindParameter[int]] = bindparam("numbers", expanding=True)
_ROWS: Final = select(records.c.stream, records.c.n, records.c.kind, records.c.body).where(
    records.c.root == bindparam("root")
)
_ONE: Final = _ROWS.where(records.c.stream == bindparam("stream"))
_FROM: Final = _ONE.where(records.c.n >= bindparam("start")).order_by(records.c.n)
_SOME: Final = _ONE.where(records.c.n.in_(_NUMBERS))
_LAST: Final = _ONE.order_by(records.c.n.desc()).limit(1)
_FIRSTS: Final = _ROWS.where(records.c.stream.in_(_NAMES), records.c.n == 0)
_OPEN: Final = (streams.c.root == bindparam("root"), streams.c.finished_at.is_(None))
_UNFINISHED: Final = select(streams.c.id, streams.c.owner, streams.c.seq).where(*_OPEN).order_by(streams.c.seq)
_THEIRS: Final = (
    _ROWS.join(streams, (streams.c.root == records.c.root) & (streams.c.id == records.c.stream))
    .where(streams.c.finished_at.is_(None))
    .order_by(streams.c.seq, records.c.n)
)
_FINISHED: Final = select(streams.c.id, streams.c.owner, streams.c.seq, streams.c.finished_at, streams.c.last).where(
    streams.c.root == bindparam("root"), streams.c.finished_at.is_not(None)
)
_ENDS: Final = select(streams.c.id, streams.c.last).where(
    streams.c.root == bindparam("root"), streams.c.id.in_(_NAMES), streams.c.finished_at.is_not(None)
)
_NUMBER: Final = select(func.coalesce(func.max(streams.c.seq), 0)).where(streams.c.root == bindparam("root"))


class Unfinished(NamedTuple):
    """A stream that is not finished."""

    id: str
    owner: str
    records: list[Event] | StoreError
    """The records, or what is wrong with them."""


def read(connection: Connection, root: str, stream: str, start: int = 0, *, large: float = math.inf) -> list[Event]:
    """The records of a stream that is there, from the ``start``-th on.

    Those of more than ``large`` characters lack their large value (``actors.tasks.journal.dropped``).

    Raises:
        DamagedJournalError: they are damaged.
    """
    rows = connection.execute(_FROM, {"root": root, "stream": stream, "start": start}).all()
    if not rows and not start:
        raise damaged(stream, "has lost all its records")
    return _decoded(stream, rows, start, large)


def some(connection: Connection, root: str, stream: str, numbers: Collection[int]) -> dict[int, Event]:
    """Records of a stream, by their numbers.

    Raises:
        DamagedJournalError: they are not there, or are damaged.
    """
    found: dict[int, Event] = {}
    for part in _parts(sorted(numbers)):
        rows = connection.execute(_SOME, {"root": root, "stream": stream, "numbers": part}).all()
        found |= {row.n: _record(row) for row in rows}
    lost = sorted({*numbers} - found.keys())
    if lost:
        raise damaged(stream, f"lacks record {lost[0]}")
    return found


def last(connection: Connection, root: str, stream: str) -> Event | None:
    """The last record of a stream; None where it has none, or that is damaged."""
    with suppress(StoreError):
        for row in connection.execute(_LAST, {"root": root, "stream": stream}):
            return _record(row)
    return None


def firsts(connection: Connection, root: str, names: Sequence[str]) -> dict[str, Event]:
    """The first record of each of these streams; of one that is not there or is damaged there is none."""
    found: dict[str, Event] = {}
    for part in _parts(names):
        for row in _plain(connection, _FIRSTS, {"root": root, "names": part}):
            with suppress(StoreError):
                found[row[0]] = _record(row)
    return found


def ends(connection: Connection, root: str, names: Sequence[str]) -> dict[str, Event]:
    """The last record of each of these streams that are finished; of one that is damaged there is none."""
    found: dict[str, Event] = {}
    for part in _parts(names):
        for stream, text in _plain(connection, _ENDS, {"root": root, "names": part}):
            end = last(connection, root, stream) if text is None else decoded_last(text)
            if end is not None:
                found[stream] = end
    return found


def decoded_last(text: str) -> Event | None:
    """The record in ``regrow_streams.last``; None: it is damaged."""
    kind, _, body = text.partition(" ")
    with suppress(StoreError):
        return decode(kind, body)
    return None


def unfinished(connection: Connection, root: str) -> Iterator[Unfinished]:
    """All streams that are not finished, in the order of their creation, without what is ``LARGE``."""
    found = _plain(connection, _UNFINISHED, {"root": root})
    rows = groupby(_plain(connection, _THEIRS, {"root": root}), itemgetter(0))
    texts = {stream: list(of) for stream, of in rows}
    for stream, owner, _ in found:
        its: list[Event] | StoreError
        try:
            its = _decoded(stream, texts.get(stream, []), 0, LARGE)
        except StoreError as error:
            its = error
        yield Unfinished(stream, owner, its or damaged(stream, "has lost all its records"))


def finished(connection: Connection, root: str) -> Sequence[tuple[Any, ...]]:
    """A row of each stream that is finished, the first that finished first: id, owner, seq, when, last."""
    return sorted(_plain(connection, _FINISHED, {"root": root}), key=itemgetter(3, 2))


def largest_number(connection: Connection, root: str) -> int:
    """The number of the stream that was created last; 0: there is none."""
    number: int = connection.execute(_NUMBER, {"root": root}).scalar_one()
    return number


def damaged(stream: str, what: str) -> DamagedJournalError:
    """The error of a journal that is damaged."""
    return DamagedJournalError(f"journal of {stream!r}", f"{what}. It is damaged: restore the store from a copy")


def _plain(connection: Connection, query: Any, given: dict[str, Any]) -> Sequence[tuple[Any, ...]]:
    """Rows as the driver gives them: of many rows, SQLAlchemy's own cost more than what is done with them."""
    cursor: Any = connection.execute(query, given).cursor
    rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _decoded(stream: str, rows: Sequence[Any], start: int, large: float) -> list[Event]:
    for expected, row in enumerate(rows, start):
        if row[1] != expected:
            raise damaged(stream, f"lacks record {expected}")
    return [_record(row) if len(row[3]) <= large else without_large(_record(row), stream, row[1]) for row in rows]


def _record(row: Any) -> Event:
    stream, _, kind, body = row
    try:
        return decode(kind, body)
    except StoreError as error:
        raise DamagedJournalError(f"journal of {stream!r}", error.what) from None


def _parts(names: Sequence[Any]) -> Iterator[list[Any]]:
    return (list(names[at : at + _AT_ONCE]) for at in range(0, len(names), _AT_ONCE))
