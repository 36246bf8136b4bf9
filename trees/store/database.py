"""A database: how it is reached, and what its errors mean to whoever reads them.

``writing`` gives connections whose transactions take SQLite's write lock when they begin; ``reading`` gives connections
that wait for nobody. Whatever the database raises becomes a ``StoreError`` that says what to do. A file of SQLite has
mode 0600, and so have the two beside it. No password is ever shown.

SQLite truncates its log (``FILE-wal``) only while nobody reads what is older: another program that holds one
transaction open for minutes makes the log grow for as long. Our own reads last for one query.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from actors.model.clock import SystemClock
from actors.tasks.model import StoreError
from trees.agents.packages import install
from trees.store.database_errors import FinalStoreError, is_final, said
from trees.store.retention import Durability
from trees.store.schema import run

T = TypeVar("T")
BUSY_S: Final = 1.0
"""Seconds that a transaction waits for the lock of another process."""
HANGS_S: Final = 10.0
CONNECT_S: Final = 5
_WAL_BYTES: Final = 16 * 1024 * 1024
_FORMS: Final = (
    "Use sqlite:///FILE or postgresql://USER@HOST:PORT/DATABASE, or leave store= out to keep tasks in memory"
)
_OF_LINES: Final = "is a file of lines, read only by the program that opened it. To look from outside, use sqlite:///"


class Database:
    """The database of one store."""

    def __init__(self, url: str, durability: Durability = "process", *, busy_s: float = BUSY_S) -> None:
        self._url = _normal(url)
        self._busy_s, self._durability = busy_s, durability
        shown = self._url.set(query={}, drivername=self._url.get_backend_name())  # a query may hold a password, too
        self.name = shown.render_as_string(hide_password=True)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        self.file = Path(os.path.realpath(self._url.database)) if self.is_sqlite and self._url.database else None
        """Path of a file of SQLite without links: the lock of a root lies beside it."""
        if self.file is not None:
            self._url = self._url.set(database=str(self.file))
        self.hangs_s = HANGS_S
        """Seconds after which PostgreSQL ends a session of ours that hangs in a transaction."""
        self.session: str | None = None
        """Name of the sessions with PostgreSQL from now on."""
        self._is_closed = False
        self._writers = self._engine(writes=True)
        self._readers = self._engine(writes=False)
        driver = self._writers.dialect.loaded_dbapi
        self._raised = (SQLAlchemyError, OSError, MemoryError, OverflowError, UnicodeError, driver.Error)

    # -- connections ---------------------------------------------------------------------------------------

    def create(self) -> None:
        """Make the file of SQLite for its owner only; one that is there is made so.

        Raises:
            StoreError: it cannot be made, or is no file.
        """
        if self.file is None:
            return
        try:
            # Only a new one: closing a file that SQLite has open in this process would drop SQLite's locks.
            os.close(os.open(self.file, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            for end in ("", "-wal", "-shm"):
                self._tighten(self.file.with_name(f"{self.file.name}{end}"))
        except OSError as error:
            what = (
                f"the file cannot be made ({error.strerror}). Check that its directory exists, and who may write there"
            )
            raise StoreError(self.name, what) from error

    def _tighten(self, file: Path) -> None:
        with suppress(FileNotFoundError, PermissionError):
            found = file.stat().st_mode
            if not stat.S_ISREG(found):
                other = (file if stat.S_ISDIR(found) else file.parent) / "tasks.db"
                raise StoreError(self.name, f"{file} is no regular file: name another one, such as {other}")
            if found & 0o077:
                file.chmod(stat.S_IMODE(found) & ~0o077)

    def require(self) -> None:
        """Require that the file is there: a reader makes none.

        Raises:
            StoreError: there is no such file.
        """
        if self.file is not None and not self.file.exists():
            hint = "Name the file that the tree was started with: --store sqlite:///FILE"
            raise StoreError(self.name, f"does not exist. {hint}")

    def writing(self) -> Connection:
        """A connection that the caller keeps and closes."""
        return self._writers.connect()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for a few queries; it sees what is committed.

        Raises:
            StoreError: a query failed.
        """
        self.require()
        with self.errors(), self._readers.connect() as connection:
            yield connection
            self._returns(connection)

    def read(self, read: Callable[[Connection], T]) -> T:
        """Read something; once more where the connection was cut meanwhile, so a restart of the server goes unnoticed.

        Raises:
            StoreError: it failed.
        """
        try:
            with self.reading() as connection:
                return read(connection)
        except StoreError as error:
            if not (isinstance(error.__cause__, DBAPIError) and error.__cause__.connection_invalidated):
                raise
        with self.reading() as connection:
            return read(connection)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One short transaction that writes.

        Raises:
            StoreError: it failed, and nothing is written (or the answer to its commit was lost).
        """
        self.require()
        with self.errors(), self._writers.connect() as connection:
            with connection.begin():
                yield connection
            self._returns(connection)

    def _returns(self, connection: Connection) -> None:
        """Close a connection whose pool is closed: nobody would take it from there."""
        if self._is_closed:
            connection.invalidate()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Whatever the database raises within becomes a ``StoreError``; ``FinalStoreError`` where it always would."""
        try:
            yield
        except self._raised as error:
            kind = FinalStoreError if is_final(error) else StoreError
            raise kind(self.name, said(error)) from error

    def now(self, connection: Connection) -> float:
        """Seconds since 1970 by the store's clock: that of PostgreSQL; of a file that of this machine."""
        if self.is_sqlite:
            return SystemClock().wall()
        return float(run(connection, "SELECT extract(epoch FROM clock_timestamp())").scalar_one())

    def close(self) -> None:
        """Close what is kept open. It can be read all the same."""
        self._is_closed = True
        self._readers.dispose()
        self._writers.dispose()

    # -- making them ---------------------------------------------------------------------------------------

    def _engine(self, *, writes: bool) -> Engine:
        # To open a file is quick. Of PostgreSQL one connection is kept, and looked at before it is used again.
        pool: dict[str, Any] = {"poolclass": NullPool} if self.is_sqlite else {"pool_size": 1, "pool_pre_ping": True}
        try:
            engine = create_engine(self._url, hide_parameters=True, connect_args=self._arguments(writes), **pool)
        except ImportError as error:  # also where psycopg is there, and what it needs is not
            what = f"needs {error.name or error}, which is not installed. {install('sql')}"
            raise StoreError(self.name, what) from error
        if not self.is_sqlite:
            event.listen(engine, "connect", self._set_up_postgres)
        elif writes:
            event.listen(engine, "connect", self._set_up_writer)
            event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        return engine

    def _arguments(self, writes: bool) -> dict[str, Any]:
        if self.is_sqlite:
            return {"timeout": self._busy_s, "check_same_thread": False}
        given = {
            "connect_timeout": CONNECT_S,
            "client_encoding": "utf8",
            "application_name": "regrow" if writes else "regrow reads",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 15_000,
        }
        return {name: value for name, value in given.items() if name not in self._url.query}

    def _set_up_writer(self, connection: Any, _: object) -> None:
        connection.isolation_level = None  # we say when a transaction begins
        for setting in (
            "auto_vacuum = INCREMENTAL",  # writes and syncs a page: SQLite drops a log whose file is empty
            "journal_mode = WAL",
            f"synchronous = {'FULL' if self._durability == 'power' else 'NORMAL'}",
            f"journal_size_limit = {_WAL_BYTES}",
        ):
            connection.execute(f"PRAGMA {setting}").fetchall()

    def _set_up_postgres(self, connection: Any, _: object) -> None:
        """Limit a session: it must neither hold a lock for ever nor wait for one for ever."""
        connection.autocommit = True
        connection.execute(f"SET idle_in_transaction_session_timeout = {int(self.hangs_s * 1000)}")
        connection.execute(f"SET lock_timeout = {int(self._busy_s * 1000)}")
        connection.execute("SET default_transaction_isolation = 'read committed'")
        if self._durability == "power":  # a server that waits for more than its own disk goes on doing so
            setting = "'synchronous_commit'"
            connection.execute(f"SELECT set_config({setting}, 'on', false) WHERE current_setting({setting}) = 'off'")
        if self.session is not None:
            connection.execute("SELECT set_config('application_name', %s, false)", (self.session,))
        connection.autocommit = False


def _normal(url: str) -> URL:
    """The URL with the driver that we use.

    Raises:
        StoreError: it is none of ours. It is not shown: it may hold a password.
    """
    try:
        url.encode()
        found = make_url(url)
        backend, _, driver = found.drivername.partition("+")
        wanted = {"sqlite": "pysqlite", "postgresql": "psycopg", "postgres": "psycopg"}[backend]
    except UnicodeEncodeError:
        what = "has a name that is no text, such as a path whose bytes are no UTF-8. Give the file another name"
        raise StoreError(url.partition(":")[0], what) from None
    except (ArgumentError, KeyError, ValueError):
        if url.endswith(".jsonl") and ":" not in url:
            raise StoreError(url, _OF_LINES) from None
        raise StoreError(url.partition(":")[0], f"is not a known kind of store. {_FORMS}") from None
    if "@" in (found.host or ""):
        what = "has more than one @ before its host. Write one that belongs to the user or the password as %40"
        raise StoreError(backend, what)  # without the URL: a part of a password may stand anywhere in it
    if driver not in {"", wanted}:
        raise StoreError(found.drivername, f"is another driver than ours ({wanted}). {_FORMS}")
    if backend == "sqlite" and (found.database in {None, "", ":memory:"} or found.query):
        if found.host:
            raise StoreError("sqlite", f"names its file after three slashes, as sqlite:///tasks.db. {_FORMS}")
        raise StoreError("sqlite", f"keeps nothing without a plain file. {_FORMS}")
    return found.set(drivername=f"{'sqlite' if backend == 'sqlite' else 'postgresql'}+{wanted}")


def discard(connection: Connection | None) -> None:
    """Close a connection that may be broken; nothing is raised."""
    if connection is not None:
        with suppress(SQLAlchemyError, OSError):
            connection.invalidate()
        with suppress(SQLAlchemyError, OSError):
            connection.close()
