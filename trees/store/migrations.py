"""The version of a store's tables, and how those of an older one are brought up to date.

Comes in: a connection in a transaction that nobody else can have at the same time. Goes out: tables of ``VERSION``,
with all that was in them. What each version added:

* 2: commands of other processes (``orders``).
* 3: the token in a row of its own, values in pieces, an index of what is not finished; of each task what it is a part
  of, and the last record of a finished one. Streams of breakers have names that no task of a user can have. Parts of
  tasks keep the names that they had: keys are made of them (``actors.tasks.model.task_ids``).

An older process that still runs is fenced as before: whoever takes a token changes its row of ``leases``, too.
"""

from __future__ import annotations

import json
from typing import Final

from sqlalchemy import Connection, bindparam, func, inspect, select, text, update

from actors.tasks.model.task_errors import StoreError
from actors.tasks.model.task_ids import whole_of
from trees.store.schema import LOCK, VERSION, inserting, meta, metadata, records, streams, unfinished_index

_ADD: Final = (
    "ALTER TABLE regrow_streams ADD COLUMN whole TEXT",
    "ALTER TABLE regrow_streams ADD COLUMN last TEXT",
    "ALTER TABLE regrow_large ADD COLUMN pieces INTEGER",
)
_FILL: Final = (
    "INSERT INTO regrow_tokens (root, token) SELECT root, token FROM regrow_leases",
    (
        "UPDATE regrow_streams SET last = (SELECT CASE WHEN r.large IS NULL THEN r.kind || ' ' || r.body END"
        " FROM regrow_records r WHERE r.root = regrow_streams.root AND r.stream = regrow_streams.id"
        " ORDER BY r.n DESC LIMIT 1) WHERE finished_at IS NOT NULL AND seq > 0"
    ),
    (
        "UPDATE regrow_records SET stream = '@' || stream WHERE stream LIKE 'breaker:%' AND EXISTS (SELECT 1"
        " FROM regrow_streams s WHERE s.root = regrow_records.root AND s.id = regrow_records.stream AND s.seq = 0)"
    ),
    "UPDATE regrow_streams SET id = '@' || id WHERE seq = 0 AND id LIKE 'breaker:%'",
)
_FIRSTS: Final = (
    select(records.c.root, records.c.stream, records.c.body)
    .where(records.c.n == 0, records.c.kind == "TaskSubmitted", records.c.stream.like("%:%"))
    .where(records.c.body.like('%"parent":%'))
)


def prepare(connection: Connection, store: str) -> None:
    """Make the tables, or bring those of an older version up to date. In a transaction of its own.

    Raises:
        StoreError: they are of a newer version.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(LOCK)))  # two that start at once make them once
    found = version_of(connection, store)
    if found == VERSION:
        return
    if found > VERSION:
        what = f"was written by a newer version (schema {found}, this one knows {VERSION}). Upgrade regrow"
        raise StoreError(store, what)
    metadata.create_all(connection)  # what version 1 lacks is a table: regrow_orders
    if found:
        _to_version_3(connection)
    kept = inserting(connection, meta)
    kept = kept.on_conflict_do_update(index_elements=["key"], set_={"value": kept.excluded.value})
    connection.execute(kept, {"key": "schema", "value": str(VERSION)})


def version_of(connection: Connection, store: str) -> int:
    """The version of its tables; 0: it has none yet.

    Raises:
        StoreError: they are not ours.
    """
    if not inspect(connection).has_table(meta.name):
        return 0
    found = connection.execute(select(meta.c.value).where(meta.c.key == "schema")).scalar()
    if found is None or not found.isdecimal():
        raise StoreError(store, f"holds a table {meta.name} without a schema version. Use another database")
    return int(found)


def _to_version_3(connection: Connection) -> None:
    for statement in (*_ADD, *_FILL):
        connection.execute(text(statement.replace(":", r"\:")))
    unfinished_index.create(connection, checkfirst=True)
    ids = {(row.root, row.id) for row in connection.execute(select(streams.c.root, streams.c.id))}
    wholes = []
    for root, stream, body in connection.execute(_FIRSTS).all():
        whole = whole_of(stream, _parent(body), lambda name, root=root: (root, name) in ids)  # type: ignore[misc]
        if whole is not None:
            wholes.append({"of_root": root, "of_id": stream, "is_part_of": whole})
    if wholes:
        connection.execute(_SET_WHOLE, wholes)


_SET_WHOLE: Final = (
    update(streams)
    .where(streams.c.root == bindparam("of_root"), streams.c.id == bindparam("of_id"))
    .values(whole=bindparam("is_part_of"))
)


def _parent(body: str) -> str | None:
    """The attempt that a task of an older version stands for; None too where its first record is damaged."""
    try:
        parent = json.loads(body).get("parent")
    except (ValueError, AttributeError, RecursionError):
        return None
    return parent if isinstance(parent, str) else None
