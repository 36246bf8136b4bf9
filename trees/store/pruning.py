"""Pruning: what is too old goes, with all that belongs to it, and a file of SQLite gives the room back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from sqlalchemy import BindParameter, Connection, bindparam, delete, exists, select

from trees.store.schema import is_name, large, orders, pieces, records, streams

_AT_ONCE: Final = 500
"""Names in one statement; SQLite takes 999 at least."""
PAGES: Final = 5_000
"""Pages of a file of SQLite that are given back at a time."""

_OF_ROOT = records.c.root == bindparam("of_root")
_NAMES: Final[BindParameter[str]] = bindparam("names", expanding=True)
_APART: Final = (
    select(records.c.large).distinct().where(_OF_ROOT, records.c.stream.in_(_NAMES), records.c.large.is_not(None))
)
_RECORDS: Final = delete(records).where(_OF_ROOT, records.c.stream.in_(_NAMES))
_STREAMS: Final = delete(streams).where(streams.c.root == bindparam("of_root"), streams.c.id.in_(_NAMES))
_ORDERS: Final = delete(orders).where(orders.c.root == bindparam("of_root"), orders.c.task.in_(_NAMES))
"""Orders about these tasks: they are not about the next ones of their ids."""
_UNUSED: Final = delete(large).where(
    large.c.root == bindparam("of_root"),
    large.c.hash.in_(_NAMES),
    ~exists().where(records.c.root == large.c.root, records.c.large == large.c.hash),
)
_UNUSED_PIECES: Final = delete(pieces).where(
    pieces.c.root == bindparam("of_root"),
    pieces.c.hash.in_(_NAMES),
    ~exists().where(large.c.root == pieces.c.root, large.c.hash == pieces.c.hash),
)
_IS_LOOSE: Final = (
    pieces.c.root == bindparam("of_root"),
    ~exists().where(large.c.root == pieces.c.root, large.c.hash == pieces.c.hash),
)
_ANY_LOOSE: Final = select(pieces.c.n).where(*_IS_LOOSE).limit(1)
_LOOSE_PIECES: Final = delete(pieces).where(*_IS_LOOSE)


def prune(connection: Connection, root: str, names: Sequence[str], reserved: Collection[str] = ()) -> None:
    """Delete these streams, their records and orders, and what was kept apart for no others.

    It is done within the caller's transaction.

    Pieces of the values that are ``reserved`` stay: a record that will have them is yet to be written.
    """
    apart: set[str] = set()
    for part in _parts(names):
        values = {"of_root": root, "names": part}
        apart.update(filter(is_name, connection.execute(_APART, values).scalars()))
        connection.execute(_RECORDS, values)
        connection.execute(_STREAMS, values)
        connection.execute(_ORDERS, values)
    for part in _parts(sorted(apart)):
        connection.execute(_UNUSED, {"of_root": root, "names": part})
    for part in _parts(sorted(apart.difference(reserved))):
        connection.execute(_UNUSED_PIECES, {"of_root": root, "names": part})


def drop_loose_pieces(connection: Connection, root: str) -> None:
    """Delete pieces that no record has: whoever was about to write it has died. Nobody may be writing any."""
    if connection.execute(_ANY_LOOSE, {"of_root": root}).first() is not None:
        connection.execute(_LOOSE_PIECES, {"of_root": root})


def _parts(names: Sequence[str]) -> Iterator[list[str]]:
    return (list(names[at : at + _AT_ONCE]) for at in range(0, len(names), _AT_ONCE))


def give_back(connection: Connection) -> None:
    """Have a file of SQLite shrink by what is not used; outside of any transaction."""
    raw = connection.connection.driver_connection
    if connection.dialect.name == "sqlite" and raw is not None:
        # As a script: a statement that gives no rows is made one step by `execute`, and a step is one page.
        raw.executescript(f"PRAGMA incremental_vacuum({PAGES}); PRAGMA wal_checkpoint(PASSIVE)")
