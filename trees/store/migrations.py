"""The version of a store's tables. Tables of another version are refused: no version was released before this one."""

from __future__ import annotations

from sqlalchemy import Connection, func, inspect, select

from actors.tasks.model.task_errors import StoreError
from trees.store.schema import LOCK, VERSION, inserting, meta, metadata


def prepare(connection: Connection, store: str) -> None:
    """Make the tables if there are none. In a transaction of its own.

    Raises:
        StoreError: they are of another version.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(LOCK)))  # two that start at once make them once
    found = version_of(connection, store)
    if found and found != VERSION:
        what = f"has tables of version {found}, and this version of regrow knows {VERSION} only. Use another database"
        raise StoreError(store, what)
    if not found:
        metadata.create_all(connection)
        connection.execute(inserting(connection, meta), {"key": "schema", "value": str(VERSION)})


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
