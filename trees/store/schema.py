"""The tables of a durable store, the same on SQLite and PostgreSQL, and the tokens in them.

Everything belongs to a *root* (the id of a tree's root): several trees may use one database. Bodies are JSON in ASCII.
Streams are numbered as they were created.

``tokens.token`` is the fencing token. It grows with every process that opens the root for writing, and every
transaction of the writer reads it first, so a process that was replaced writes nothing more. It has a row of its own: a
writer locks that row for as long as it writes, and the renewal of the lease (a row of ``leases``) must not wait for
that. Whoever takes a token locks the lease first, and then the token.
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
    func,
    inspect,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from actors.tasks.model.task_errors import StoreError

VERSION: Final = 4
LOCK: Final = 0x7265_6772_6F77
"""The advisory lock under which the tables are made."""

metadata: Final = MetaData()
_Name = Text().with_variant(Text(collation="C"), "postgresql")

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
    Column("last", Text),
    sqlite_with_rowid=False,
)
"""``last``: of a finished one, kind and body of its last record, unless that is long."""
records: Final = Table(
    "regrow_records",
    metadata,
    Column("root", _Name, primary_key=True),
    Column("stream", _Name, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
    sqlite_with_rowid=False,
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
tokens: Final = Table(
    "regrow_tokens", metadata, Column("root", _Name, primary_key=True), Column("token", BigInteger, nullable=False)
)
Index("regrow_streams_finished", streams.c.root, streams.c.finished_at)
Index(
    "regrow_streams_unfinished",
    streams.c.root,
    streams.c.seq,
    sqlite_where=streams.c.finished_at.is_(None),
    postgresql_where=streams.c.finished_at.is_(None),
)


def prepare(connection: Connection, store: str) -> None:
    """Make the tables if there are none, in a transaction of its own.

    Raises:
        StoreError: they are of another version.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(LOCK)))  # two that start at once make them once
    if not inspect(connection).has_table(meta.name):
        metadata.create_all(connection)
        connection.execute(inserting(connection, meta), {"key": "schema", "value": str(VERSION)})
    require_version(connection, store)


def require_version(connection: Connection, store: str) -> None:
    """Require tables of this version.

    Raises:
        StoreError: there are none, or those of another version.
    """
    if not inspect(connection).has_table(meta.name):
        raise StoreError(store, "is not a store yet. Start a tree on it first")
    found = connection.execute(select(meta.c.value).where(meta.c.key == "schema")).scalar()
    if found != str(VERSION):
        what = f"has tables of version {found}, and this version of regrow knows {VERSION} only. Use another database"
        raise StoreError(store, what)


def inserting(connection: Connection, table: Table) -> Any:
    """``INSERT`` of the database's dialect, for its ``on_conflict_do_...``."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


# -- tokens --------------------------------------------------------------------------------------------------


def take_token(connection: Connection, root: str, holder: str) -> int:
    """The next token of a root, within the caller's transaction: every older one is refused from its commit on.

    A lease that had a time limit has none any more; whoever wants one sets ``expires_at`` in the same transaction.
    """
    lease = inserting(connection, leases).values(root=root, token=0, holder=holder, expires_at=None)
    connection.execute(
        lease.on_conflict_do_update(index_elements=["root"], set_={"holder": holder, "expires_at": None})
    )
    counted = connection.execute(select(leases.c.token).where(leases.c.root == root)).scalar_one()
    token: int = max(counted, present_token(connection, root)) + 1
    connection.execute(update(leases).where(leases.c.root == root).values(token=token))
    fence = inserting(connection, tokens).values(root=root, token=token)
    connection.execute(fence.on_conflict_do_update(index_elements=["root"], set_={"token": token}))
    return token


def present_token(connection: Connection, root: str) -> int:
    """The token that counts; 0: there is none. Nobody else takes one before the transaction is over."""
    found = connection.execute(select(tokens.c.token).where(tokens.c.root == root).with_for_update(read=True)).scalar()
    return found or 0


def holder_of(connection: Connection, root: str) -> str:
    """Who has the token that counts."""
    return connection.execute(select(leases.c.holder).where(leases.c.root == root)).scalar() or "nobody"
