"""The tables of a durable store, the same on SQLite and PostgreSQL, and how an older file is brought up to date.

Everything belongs to a *root* (the id of a tree's root): several trees may use one database. Bodies are JSON in ASCII.
A stream with the number 0 holds one record that is replaced; all others are journals, numbered as they were created.

``leases.token`` is the fencing token: it grows with every process that opens the root for writing, and every
transaction of the writer looks at it first. So one that was replaced can write nothing more.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    bindparam,
    func,
    inspect,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from actors.tasks.errors import StoreError

VERSION: Final = 2
_LOCK: Final = 0x7265_6772_6F77
"""The advisory lock under which the tables are made."""

metadata: Final = MetaData()
_Name = Text().with_variant(Text(collation="C"), "postgresql")
"""Compared by its bytes: a prefix is a range."""

meta: Final = Table(
    "regrow_meta", metadata, Column("key", _Name, primary_key=True), Column("value", Text, nullable=False)
)
streams: Final = Table(
    "regrow_streams",
    metadata,
    Column("root", _Name, primary_key=True),
    Column("id", _Name, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("finished_at", Float),
    sqlite_with_rowid=False,
)
records: Final = Table(
    "regrow_records",
    metadata,
    Column("root", _Name, primary_key=True),
    Column("stream", _Name, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("large", _Name),
    sqlite_with_rowid=False,
)
large: Final = Table(
    "regrow_large",
    metadata,
    Column("root", _Name, primary_key=True),
    Column("hash", _Name, primary_key=True),
    Column("body", Text, nullable=False),
)
orders: Final = Table(
    "regrow_orders",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("root", _Name, nullable=False, index=True),
    Column("task", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("at", Float, nullable=False),
    sqlite_autoincrement=True,
)
leases: Final = Table(
    "regrow_leases",
    metadata,
    Column("root", _Name, primary_key=True),
    Column("token", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("expires_at", Float),
)
Index("regrow_streams_finished", streams.c.root, streams.c.finished_at)
Index(
    "regrow_records_large",
    records.c.root,
    records.c.large,
    sqlite_where=records.c.large.is_not(None),
    postgresql_where=records.c.large.is_not(None),
)


def inserting(connection: Connection, table: Table) -> Any:
    """``INSERT``, with what the database's dialect can do about rows that are there (``on_conflict_do_...``)."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


# -- versions ------------------------------------------------------------------------------------------------


def prepare(connection: Connection, store: str) -> None:
    """Make the tables, or bring those of an older version up to date. In a transaction of its own.

    Raises:
        StoreError: they are of a newer version.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))  # two that start at once make them once
    found = version_of(connection, store)
    if found == VERSION:
        return
    if found > VERSION:
        what = f"was written by a newer version (schema {found}, this one knows {VERSION}). Upgrade regrow"
        raise StoreError(store, what)
    metadata.create_all(connection)  # what version 1 lacks is a table: regrow_orders
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


# -- tokens --------------------------------------------------------------------------------------------------

_TOKEN = (
    select(leases.c.token, leases.c.holder)
    .where(leases.c.root == bindparam("root"))
    .with_for_update(read=True)  # SQLite has one writer at a time anyway
)


def take_token(connection: Connection, root: str, holder: str) -> int:
    """The next token of a root, within the caller's transaction: every older one is refused from its commit on.

    A lease that had a time limit has none any more; whoever wants one sets ``expires_at`` in the same transaction.
    """
    taken = inserting(connection, leases)
    taken = taken.on_conflict_do_update(
        index_elements=["root"],
        set_={"token": leases.c.token + 1, "holder": taken.excluded.holder, "expires_at": None},
    )
    connection.execute(taken, {"root": root, "token": 1, "holder": holder, "expires_at": None})
    token: int = connection.execute(select(leases.c.token).where(leases.c.root == root)).scalar_one()
    return token


def present_token(connection: Connection, root: str) -> tuple[int, str]:
    """The token that counts, and who took it. Nobody else takes one before the transaction is over."""
    found = connection.execute(_TOKEN, {"root": root}).first()
    return (0, "nobody") if found is None else (found.token, found.holder)
