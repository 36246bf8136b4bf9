"""The tables of a durable store, the same on SQLite and PostgreSQL, and the tokens in them.

Everything belongs to a *root* (the id of a tree's root): several trees may use one database. Bodies are JSON in ASCII.
Streams are numbered as they were created. ``regrow_streams.last`` has kind and body of the last record of a stream that
is finished, unless that is long.

``regrow_tokens.token`` is the fencing token. It grows with every process that opens the root for writing, and every
transaction of the writer reads it first, so a process that was replaced writes nothing more. It has a row of its own: a
writer locks that row for as long as it writes, and the renewal of the lease (``regrow_leases``) must not wait for that.
Whoever takes a token locks the lease first, and then the token.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, bindparam, inspect, text

from actors.tasks.model import StoreError

VERSION: Final = 5
LOCK: Final = 0x7265_6772_6F77
"""The advisory lock under which the tables are made."""
TABLES: Final = (
    "CREATE TABLE regrow_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    (
        "CREATE TABLE regrow_streams (root TEXT, id TEXT, owner TEXT NOT NULL, seq BIGINT NOT NULL,"
        " finished_at DOUBLE PRECISION, last TEXT, PRIMARY KEY (root, id)){without_rowid}"
    ),
    (
        "CREATE TABLE regrow_records (root TEXT, stream TEXT, n INTEGER, kind TEXT NOT NULL, body TEXT NOT NULL,"
        " PRIMARY KEY (root, stream, n)){without_rowid}"
    ),
    (
        "CREATE TABLE regrow_orders (id {numbered}, root TEXT NOT NULL, task TEXT NOT NULL, kind TEXT NOT NULL,"
        " body TEXT NOT NULL, at DOUBLE PRECISION NOT NULL)"
    ),
    (
        "CREATE TABLE regrow_leases (root TEXT PRIMARY KEY, token BIGINT NOT NULL, holder TEXT NOT NULL,"
        " expires_at DOUBLE PRECISION)"
    ),
    "CREATE TABLE regrow_tokens (root TEXT PRIMARY KEY, token BIGINT NOT NULL)",
    "CREATE INDEX regrow_streams_finished ON regrow_streams (root, finished_at)",
    "CREATE INDEX regrow_streams_unfinished ON regrow_streams (root, seq) WHERE finished_at IS NULL",
    "CREATE INDEX regrow_orders_root ON regrow_orders (root)",
)
_SQLITE: Final = {"without_rowid": " WITHOUT ROWID", "numbered": "INTEGER PRIMARY KEY AUTOINCREMENT"}
_POSTGRES: Final = {"without_rowid": "", "numbered": "SERIAL PRIMARY KEY"}


def run(connection: Connection, sql: str, **given: Any) -> Any:
    """Execute a statement whose values are ``:name``; one that is a list stands for as many, as behind ``IN``."""
    lists: list[Any] = [bindparam(name, expanding=True) for name, value in given.items() if isinstance(value, list)]
    return connection.execute(text(sql).bindparams(*lists), given)


def is_postgres(connection: Connection) -> bool:
    """True on PostgreSQL, False on SQLite."""
    return connection.dialect.name == "postgresql"


def prepare(connection: Connection, store: str) -> None:
    """Make the tables if there are none, in a transaction of its own.

    Raises:
        StoreError: they are of another version.
    """
    if is_postgres(connection):
        run(connection, "SELECT pg_advisory_xact_lock(:lock)", lock=LOCK)  # two that start at once make them once
    if not inspect(connection).has_table("regrow_meta"):
        for table in TABLES:
            connection.exec_driver_sql(table.format(**(_POSTGRES if is_postgres(connection) else _SQLITE)))
        run(connection, "INSERT INTO regrow_meta VALUES ('schema', :version)", version=str(VERSION))
    require_version(connection, store)


def require_version(connection: Connection, store: str) -> None:
    """Require tables of this version.

    Raises:
        StoreError: there are none, or those of another version.
    """
    if not inspect(connection).has_table("regrow_meta"):
        raise StoreError(store, "is not a store yet. Start a tree on it first")
    found = run(connection, "SELECT value FROM regrow_meta WHERE key = 'schema'").scalar()
    if found != str(VERSION):
        what = f"has tables of version {found}, and this version of regrow knows {VERSION} only. Use another database"
        raise StoreError(store, what)


# -- tokens --------------------------------------------------------------------------------------------------


def take_token(connection: Connection, root: str, holder: str) -> int:
    """The next token of a root, within the caller's transaction: every older one is refused from its commit on.

    A lease that had a time limit has none any more; whoever wants one sets ``expires_at`` in the same transaction.
    """
    insert = "INSERT INTO regrow_leases (root, token, holder) VALUES (:root, 0, :holder) ON CONFLICT (root)"
    run(connection, f"{insert} DO UPDATE SET holder = :holder, expires_at = NULL", root=root, holder=holder)
    counted = run(connection, "SELECT token FROM regrow_leases WHERE root = :root", root=root).scalar_one()
    token: int = max(counted, present_token(connection, root)) + 1
    run(connection, "UPDATE regrow_leases SET token = :token WHERE root = :root", root=root, token=token)
    insert = "INSERT INTO regrow_tokens (root, token) VALUES (:root, :token) ON CONFLICT (root)"
    run(connection, f"{insert} DO UPDATE SET token = :token", root=root, token=token)
    return token


def present_token(connection: Connection, root: str) -> int:
    """The token that counts; 0: there is none. Nobody else takes one before the transaction is over."""
    sql = "SELECT token FROM regrow_tokens WHERE root = :root"
    found: int | None = run(connection, f"{sql} FOR SHARE" if is_postgres(connection) else sql, root=root).scalar()
    return found or 0


def holder_of(connection: Connection, root: str) -> str:
    """Who has the token that counts."""
    found: str | None = run(connection, "SELECT holder FROM regrow_leases WHERE root = :root", root=root).scalar()
    return found or "nobody"
