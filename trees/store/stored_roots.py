"""Roots of a store and who leads each: a fleet seen from outside, where nothing listens between its hosts.

Comes in: a connection that reads. Goes out: a ``StoredRoot`` for each tree that has ever opened the store. A tree with
``ha=`` is led while its lease has time left, by the store's clock. One without has no lease: it is led while a process
has its guard (``process_lock``), and only the holder's name is in the store. Nothing is locked or written here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, case, func, select

from trees.store.database import Database
from trees.store.process_lock import guards_of_file, is_guarded_in_session
from trees.store.schema import is_name, leases, orders, records, streams


@dataclass(frozen=True, slots=True)
class StoredRoot:
    """One tree of a store."""

    root: str
    holder: str
    """Name of whoever leads it, or has led it last; empty: nobody ever has."""
    token: int
    left_s: float | None
    """Seconds until its lease is over; None: it has none, as a tree without ``ha=``."""
    led: bool | None
    """True while it is led; None: that cannot be seen from here."""
    unfinished: int
    """Tasks that are not finished, without the parts of teams."""
    finished: int


_TASKS: Final = (
    select(
        streams.c.root,
        func.sum(case((streams.c.finished_at.is_(None), 1), else_=0)),
        func.sum(case((streams.c.finished_at.is_(None), 0), else_=1)),
    )
    .where(streams.c.seq > 0, streams.c.whole.is_(None))
    .group_by(streams.c.root)
)
_LEASES: Final = select(leases.c.root, leases.c.holder, leases.c.token, leases.c.expires_at)
_MARKS: Final = (
    select(func.count(), func.count(streams.c.finished_at), func.max(streams.c.finished_at)).where(streams.c.seq > 0),
    select(leases.c.root, leases.c.token, leases.c.holder).order_by(leases.c.root),
    select(func.count(), func.max(orders.c.id)),
    select(records.c.root, records.c.stream, func.max(records.c.n))
    .join(streams, (streams.c.root == records.c.root) & (streams.c.id == records.c.stream))
    .where(streams.c.finished_at.is_(None))
    .group_by(records.c.root, records.c.stream)
    .order_by(records.c.root, records.c.stream),
)


def stored_roots(connection: Connection, database: Database) -> list[StoredRoot]:
    """Every root of a store, by name."""
    counts = {root: (int(open_), int(ended)) for root, open_, ended in connection.execute(_TASKS) if is_name(root)}
    held = {
        root: (holder, token or 0, ends) for root, holder, token, ends in connection.execute(_LEASES) if is_name(root)
    }
    now = database.now(connection)
    found = []
    for root in sorted({*counts, *held}):
        holder, token, ends = held.get(root, ("", 0, None))
        left_s = None if ends is None else ends - now
        led = left_s > 0 if left_s is not None else token > 0 and _is_guarded(connection, database, root)
        found.append(StoredRoot(root, holder, token, left_s, led, *counts.get(root, (0, 0))))
    return found


def mark(connection: Connection) -> int:
    """Return a number that changes with what is in a store, as far as somebody who looks at its tasks sees it."""
    return hash(tuple(tuple(tuple(row) for row in connection.execute(each)) for each in _MARKS))


def _is_guarded(connection: Connection, database: Database, root: str) -> bool | None:
    if database.file is not None:
        return guards_of_file(database.file, root)
    return is_guarded_in_session(connection, root)
