"""Records on their way out of the database; of a journal that is damaged a ``DamagedJournalError`` that says how.

Damage to one stream is that stream's: whoever reads many gets all the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from actors.model.events import Event
from actors.tasks.journal.codec import decode
from actors.tasks.model import DamagedJournalError, StoreError
from trees.store.schema import run

_AT_ONCE: Final = 500
"""Names in one statement; SQLite takes 999 at least."""
_ROWS: Final = "SELECT r.stream, r.n, r.kind, r.body FROM regrow_records AS r"
_ONE: Final = f"{_ROWS} WHERE root = :root AND stream = :stream"
_THEIRS: Final = (
    f"{_ROWS} JOIN regrow_streams AS s ON s.root = r.root AND s.id = r.stream"
    " WHERE s.root = :root AND s.finished_at IS NULL ORDER BY s.seq, r.n"
)
_UNFINISHED: Final = "SELECT id, owner, seq FROM regrow_streams WHERE root = :root AND finished_at IS NULL ORDER BY seq"
_FINISHED: Final = (
    "SELECT id, owner, seq, finished_at, last FROM regrow_streams WHERE root = :root AND finished_at IS NOT NULL"
)
_ENDS: Final = "SELECT id, last FROM regrow_streams WHERE root = :root AND id IN :names AND finished_at IS NOT NULL"


class Unfinished(NamedTuple):
    """A stream that is not finished."""

    id: str
    owner: str
    number: int
    records: list[Event] | StoreError
    """The records, or what is wrong with them."""


def read(connection: Connection, root: str, stream: str, start: int = 0) -> list[Event]:
    """The records of a stream that is there, from the ``start``-th on.

    Raises:
        DamagedJournalError: they are damaged.
    """
    rows = run(connection, f"{_ONE} AND n >= :start ORDER BY n", root=root, stream=stream, start=start).all()
    return _decoded(stream, rows, start)


def last(connection: Connection, root: str, stream: str) -> Event | None:
    """The last record of a stream; None where it has none, or that is damaged."""
    with suppress(StoreError):
        for row in run(connection, f"{_ONE} ORDER BY n DESC LIMIT 1", root=root, stream=stream):
            return _record(row)
    return None


def firsts(connection: Connection, root: str, names: Sequence[str]) -> dict[str, Event]:
    """The first record of each of these streams; of one that is not there or is damaged there is none."""
    found: dict[str, Event] = {}
    for part in _parts(names):
        for row in run(connection, f"{_ROWS} WHERE root = :root AND stream IN :names AND n = 0", root=root, names=part):
            with suppress(StoreError):
                found[row.stream] = _record(row)
    return found


def ends(connection: Connection, root: str, names: Sequence[str]) -> dict[str, Event]:
    """The last record of each of these streams that are finished; of one that is damaged there is none."""
    found: dict[str, Event] = {}
    for part in _parts(names):
        for stream, text in run(connection, _ENDS, root=root, names=part).all():
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
    """All streams that are not finished, in the order of their creation."""
    rows = groupby(run(connection, _THEIRS, root=root).all(), itemgetter(0))
    texts = {stream: list(of) for stream, of in rows}
    for stream, owner, number in run(connection, _UNFINISHED, root=root).all():
        found: list[Event] | StoreError
        try:
            found = _decoded(stream, texts.get(stream, []), 0)
        except StoreError as error:
            found = error
        yield Unfinished(stream, owner, number, found)


def finished(connection: Connection, root: str) -> Sequence[Any]:
    """A row of each stream that is finished, the first that finished first: id, owner, seq, when, last."""
    # From the driver itself: of a hundred thousand rows, SQLAlchemy's own cost more than what is done with them.
    return sorted(run(connection, _FINISHED, root=root).cursor.fetchall(), key=itemgetter(3, 2))


def _decoded(stream: str, rows: Sequence[Any], start: int) -> list[Event]:
    if not rows and not start:
        raise _damaged(stream, "has lost all its records")
    for expected, row in enumerate(rows, start):
        if row[1] != expected:
            raise _damaged(stream, f"lacks record {expected}")
    return [_record(row) for row in rows]


def _record(row: Any) -> Event:
    stream, _, kind, body = row
    try:
        return decode(kind, body)
    except StoreError as error:
        raise DamagedJournalError(f"journal of {stream!r}", error.what) from None


def _damaged(stream: str, what: str) -> DamagedJournalError:
    return DamagedJournalError(f"journal of {stream!r}", f"{what}. It is damaged: restore the store from a copy")


def _parts(names: Sequence[Any]) -> Iterator[list[Any]]:
    return (list(names[at : at + _AT_ONCE]) for at in range(0, len(names), _AT_ONCE))
