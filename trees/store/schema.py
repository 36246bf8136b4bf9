"""The tables of a durable store, the same on SQLite and PostgreSQL.

Tables of another version are refused (``trees.store.migrations``).

Everything belongs to a *root* (the id of a tree's root): several trees may use one database. Bodies are JSON in ASCII.
A stream with the number 0 holds one record that is replaced; all others are journals, numbered as they were created.

``tokens.token`` is the fencing token: it grows with every process that opens the root for writing, and every
transaction of the writer looks at it first. So one that was replaced can write nothing more. It has a row of its own:
a writer locks that row for as long as it writes, and the renewal of the lease, which is another row (``leases``), must
not wait for that. Whoever takes a token locks the lease first, and then the token.

A value of more than ``PIECE`` characters is kept in pieces, each written in a transaction of its own before the record
that has it, so that no transaction is long. The row of ``large`` is written with the record, and seals them.
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
    TypeDecorator,
    bindparam,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

VERSION: Final = 3
LOCK: Final = 0x7265_6772_6F77
"""The advisory lock under which the tables are made."""
PIECE: Final = 4 * 1024 * 1024
"""Characters of a value in one row."""


class _Number(TypeDecorator[float]):
    """Seconds; None where there is something else: a file of SQLite takes anything, and what is no number is damage."""

    impl = Float
    cache_ok = True

    def process_result_value(self, value: object, dialect: object) -> float | None:  # noqa: ARG002 - as its base
        """Return what is a number."""
        return value if isinstance(value, (int, float)) else None


class _Whole(TypeDecorator[int]):
    """Whole number; None where there is something else."""

    impl = BigInteger
    cache_ok = True

    def process_result_value(self, value: object, dialect: object) -> int | None:  # noqa: ARG002 - as its base
        """Return what is a whole number."""
        return value if isinstance(value, int) else None


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
    Column("seq", _Whole, nullable=False),
    Column("finished_at", _Number),
    Column("whole", Text),
    Column("last", Text),
    sqlite_with_rowid=False,
)
"""``whole``: the task that this is a team's part of. ``last``: of a finished one, kind and body of its last record."""
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
    Column("pieces", Integer),
)
"""``pieces``: how many there are, where the value is too long for one row; then ``body`` is empty."""
pieces: Final = Table(
    "regrow_pieces",
    metadata,
    Column("root", _Name, primary_key=True),
    Column("hash", _Name, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False),
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
    Column("token", _Whole, nullable=False),
    Column("holder", Text, nullable=False),
    Column("expires_at", _Number),
)
tokens: Final = Table(
    "regrow_tokens", metadata, Column("root", _Name, primary_key=True), Column("token", _Whole, nullable=False)
)
Index("regrow_streams_finished", streams.c.root, streams.c.finished_at)
unfinished_index: Final = Index(
    "regrow_streams_unfinished",
    streams.c.root,
    streams.c.seq,
    sqlite_where=streams.c.finished_at.is_(None),
    postgresql_where=streams.c.finished_at.is_(None),
)
Index(
    "regrow_records_large",
    records.c.root,
    records.c.large,
    sqlite_where=records.c.large.is_not(None),
    postgresql_where=records.c.large.is_not(None),
)


def is_name(value: object) -> bool:
    """False for the name of a root or stream that can be none, so that nobody can have meant it."""
    return isinstance(value, str)


def inserting(connection: Connection, table: Table) -> Any:
    """``INSERT``, with what the database's dialect can do about rows that are there (``on_conflict_do_...``)."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


# -- tokens --------------------------------------------------------------------------------------------------

_TOKEN = (
    select(tokens.c.token)
    .where(tokens.c.root == bindparam("root"))
    .with_for_update(read=True)  # SQLite has one writer at a time anyway
)
_HOLDER = select(leases.c.holder).where(leases.c.root == bindparam("root"))


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
    counted = connection.execute(select(leases.c.token).where(leases.c.root == root)).scalar() or 0
    known = connection.execute(select(tokens.c.token).where(tokens.c.root == root)).scalar() or 0
    token = max(counted, known + 1)
    if token != counted:  # the lease was lost, is damaged, or is that of a copy: a token never grows smaller
        connection.execute(update(leases).where(leases.c.root == root).values(token=token))
    fenced = inserting(connection, tokens)
    fenced = fenced.on_conflict_do_update(index_elements=["root"], set_={"token": fenced.excluded.token})
    connection.execute(fenced, {"root": root, "token": token})
    return token


def present_token(connection: Connection, root: str) -> int:
    """The token that counts; 0: there is none. Nobody else takes one before the transaction is over."""
    found: int | None = connection.execute(_TOKEN, {"root": root}).scalar()
    return 0 if found is None else found


def holder_of(connection: Connection, root: str) -> str:
    """Owner of the token that counts."""
    found: str | None = connection.execute(_HOLDER, {"root": root}).scalar()
    return "nobody" if found is None else found
