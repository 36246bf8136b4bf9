"""A database: how it is reached, and what its errors mean to whoever reads them.

Comes in: the URL of a store. Goes out: connections, set up for what they are for, and ``StoreError``s that say what to
do. A file of SQLite is made with mode 0600, and so are the two beside it. No password is ever shown.

Two kinds of connections: ``writing`` (a transaction takes SQLite's write lock when it begins) and ``reading`` (waits
for nobody). What came out of one process is never used in another: see ``forked``.

Two kinds of errors: what may go well the next time (``StoreError``), and what never will (``UnwritableError``).

SQLite writes its log (``FILE-wal``) back, and begins it anew, only while nobody reads what is older. A reader that
holds one transaction open for minutes (a backup by ``.dump``, a shell that has forgotten a ``BEGIN``) makes it grow for
as long, by all that is written meanwhile. Our own readers are over within one query.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import URL, Connection, Engine, NullPool, QueuePool, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from actors.model.clock import SystemClock
from actors.tasks.model.task_errors import StoreError
from trees.agents.packages import install
from trees.store.database_errors import ODD, UnwritableError, is_for_good, said, was_cut
from trees.store.retention import Durability

T = TypeVar("T")
BUSY_S: Final = 1.0
"""How long a transaction waits for the lock of another process."""
HANGS_S: Final = 10.0
CONNECT_S: Final = 5
_READS: Final = 3
"""How often something is read whose connection is cut."""
_WAL_BYTES: Final = 16 * 1024 * 1024
"""The log beside a file of SQLite is cut to this after it was written back."""
INSTALL: Final = install("sql")
_FORMS: Final = "Use sqlite:///FILE or postgresql://USER@HOST:PORT/DATABASE"
_OF_LINES: Final = "is a file of lines, read only by the program that opened it. To look from outside, use sqlite:///"


class Database:
    """The database of one store."""

    def __init__(self, url: str, durability: Durability = "process", *, busy_s: float = BUSY_S) -> None:
        self._url = _normal(url)
        self._busy_s = busy_s
        said = self._url.set(query={}, drivername=self._url.get_backend_name())  # as it is typed
        self.name = said.render_as_string(hide_password=True)  # a query may have a password, too
        """For messages."""
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        self.file = Path(os.path.realpath(self._url.database)) if self.is_sqlite and self._url.database else None
        """Path of a file of SQLite, absolute. One file has one name, whatever links to it:
        its guard goes by that."""
        if self.file is not None:
            self._url = self._url.set(database=str(self.file))
        self.hangs_s = HANGS_S
        """How long PostgreSQL lets a transaction of ours hang: so long it may hold what others wait for."""
        self.session: str | None = None
        """Name of a session with PostgreSQL from now on; None: unchanged."""
        self._durability: Durability = durability
        self._writers = self._engine(writes=True)
        self._readers = self._engine(writes=False)
        driver = self._writers.dialect.loaded_dbapi
        self._raised: tuple[type[Exception], ...] = (SQLAlchemyError, OSError, MemoryError, *ODD, driver.Error)
        self._of_the_parent: list[Engine] = []

    def __repr__(self) -> str:
        return f"<Database {self.name}>"

    # -- connections ---------------------------------------------------------------------------------------

    def create(self) -> None:
        """Make the file of SQLite, for its owner only. One that is there is made so, with the two beside it.

        Raises:
            StoreError: it cannot be made, or everybody may read or write it and that cannot be changed.
        """
        if self.file is None:
            return
        try:
            # Only a new one: to close a file that SQLite has open in this process would take its locks away.
            os.close(os.open(self.file, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            for file in (self.file, *(self.file.with_name(f"{self.file.name}{end}") for end in ("-wal", "-shm"))):
                self._tighten(file)
        except OSError as error:
            what = (
                f"the file cannot be made ({error.strerror}). Check that its directory exists, and who may write there"
            )
            raise StoreError(self.name, what) from error

    def _tighten(self, file: Path) -> None:
        """Let only the owner read and write a file. Nothing else is changed: a directory is others', too."""
        mode = 0
        try:
            found = file.stat().st_mode
            if not stat.S_ISREG(found):
                raise StoreError(self.name, _not_a_file(file, found))
            mode = stat.S_IMODE(found)
            if mode & 0o077:
                file.chmod(mode & ~0o077)
        except FileNotFoundError:
            return
        except OSError as error:
            if mode & 0o007:
                what = (
                    f"is open to everybody (mode {mode:o}), and that cannot be changed ({error.strerror}). "
                    f"Check who may read and write there; its owner may run: chmod 600 {file.name}"
                )
                raise StoreError(self.name, what) from error

    def require(self) -> None:
        """Require that the database exists: a reader makes none.

        Raises:
            StoreError: there is no such file.
        """
        if self.file is not None and not self.file.exists():
            hint = "Name the file that the tree was started with: --store sqlite:///FILE"
            raise StoreError(self.name, f"does not exist. {hint}")

    def writing(self) -> Connection:
        """A connection that the caller keeps, and closes. Each of its transactions takes the right to write at once."""
        return self._writers.connect()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for a few queries; it sees what is committed, and waits for nobody.

        Raises:
            StoreError: they failed.
        """
        self.require()
        with self.errors(), self._readers.connect() as connection:
            yield connection

    def read(self, read: Callable[[Connection], T]) -> T:
        """Read something; once more, through another connection, where one was cut while it was used.

        So neither a server that is started anew nor a firewall that forgets a connection is seen by whoever reads. What
        cannot be reached at all fails at once: whoever reads may be on an event loop.

        Args:
            read: makes a few queries; it is called again from the beginning.

        Raises:
            StoreError: it failed.
        """
        for left in reversed(range(_READS)):
            try:
                with self.reading() as connection:
                    return read(connection)
            except StoreError as error:
                if not left or not was_cut(error):
                    raise
        raise AssertionError("there is a last try")

    def read_much(self, read: Callable[[Connection], T]) -> T:
        """Read what many rows are made of.

        The driver of SQLite makes texts of what it reads faster than we do, but stumbles over one that is none. So
        where that fails it is all read once more as ``reading`` does.

        Raises:
            StoreError: it failed.
        """
        if self.is_sqlite:
            with suppress(StoreError), self.reading() as connection:
                raw: Any = connection.connection.driver_connection
                raw.text_factory = str
                return read(connection)
        return self.read(read)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A connection for one short transaction that writes.

        Raises:
            StoreError: it failed, and nothing is written (or the answer to its commit was lost).
        """
        self.require()
        with self.errors(), self._writers.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Whatever the database says within is said as a ``StoreError``."""
        try:
            yield
        except self._raised as error:
            raise self.error(error) from error

    def error(self, error: Exception) -> StoreError:
        """Return what an error of the database means, and what to do."""
        kind = UnwritableError if is_for_good(error) else StoreError
        return kind(self.name, said(error))

    def now(self, connection: Connection) -> float:
        """Seconds since 1970 by the store's own clock; a file has none, so there it is this machine's."""
        if self.is_sqlite:
            return SystemClock().wall()
        seconds: float = connection.execute(select(func.extract("epoch", func.clock_timestamp()))).scalar_one()
        return float(seconds)

    def close(self) -> None:
        """Close what is kept open. It may be read all the same: each query connects by itself from now on."""
        readers, self._readers = self._readers, self._engine(writes=False, keeps=False)
        readers.dispose()

    def forked(self) -> None:
        """In the child of a fork: let go of the parent's connections, without a word to the database."""
        self._of_the_parent.append(self._readers)
        self._readers = self._engine(writes=False, keeps=False)

    # -- making them ---------------------------------------------------------------------------------------

    def _engine(self, *, writes: bool, keeps: bool = True) -> Engine:
        keeps = keeps and not writes and not self.is_sqlite  # to open a file is quick
        options: dict[str, Any] = {"poolclass": QueuePool, "pool_size": 1, "pool_pre_ping": True} if keeps else {}
        options = {"poolclass": NullPool, "hide_parameters": True} | options  # what is written has no place in a log
        try:
            engine = create_engine(self._url, **options, connect_args=self._arguments(writes))
        except ImportError as error:  # also where psycopg is there, and what it needs is not
            raise StoreError(self.name, f"needs {error.name or error}, which is not installed. {INSTALL}") from error
        except (ArgumentError, SQLAlchemyError) as error:
            raise StoreError(self.name, f"is not a store. {_FORMS}") from error
        if not self.is_sqlite:
            event.listen(engine, "connect", self._set_up_postgres)
            return engine
        event.listen(engine, "connect", self._set_up_writer if writes else _set_up_reader)
        if writes:
            event.listen(engine, "begin", _begin_at_once)
        return engine

    def _arguments(self, writes: bool) -> dict[str, Any]:
        if self.is_sqlite:
            return {"timeout": self._busy_s, "check_same_thread": False}
        given = {
            "connect_timeout": CONNECT_S,
            "client_encoding": "utf8",  # whatever that of the database is, whose default it would be
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
            "auto_vacuum = INCREMENTAL",  # counts for a new file, before anything else is written to it
            "journal_mode = WAL",
            f"synchronous = {'FULL' if self._durability == 'power' else 'NORMAL'}",
            f"journal_size_limit = {_WAL_BYTES}",
        ):
            connection.execute(f"PRAGMA {setting}").fetchall()

    def _set_up_postgres(self, connection: Any, _: object) -> None:
        """Limit a session: one that hangs in a transaction must not hold a lock for ever; nor must we wait for one."""
        connection.autocommit = True
        connection.execute(f"SET idle_in_transaction_session_timeout = {int(self.hangs_s * 1000)}")
        connection.execute(f"SET lock_timeout = {int(self._busy_s * 1000)}")
        connection.execute("SET default_transaction_isolation = 'read committed'")
        if self._durability == "power":  # and where the server waits for more than its own disk, that stays
            setting = "'synchronous_commit'"
            connection.execute(f"SELECT set_config({setting}, 'on', false) WHERE current_setting({setting}) = 'off'")
        if self.session is not None:
            connection.execute("SELECT set_config('application_name', %s, false)", (self.session,))
        connection.autocommit = False


def _set_up_reader(connection: Any, _: object) -> None:
    connection.isolation_level = None
    connection.text_factory = _text  # a text that is none is damage to its row, and not the end of a query
    connection.execute("PRAGMA query_only = ON")


def _text(found: bytes) -> str:
    return found.decode("utf-8", "surrogateescape")


def _begin_at_once(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _not_a_file(place: Path, mode: int) -> str:
    """Say what stands in the place of a file, and what to name."""
    if stat.S_ISDIR(mode):
        return f"{place} is a directory: name a file in it, such as {place / 'tasks.db'}"
    return f"{place} is no regular file: name another one, such as {place.parent / 'tasks.db'}"


def _meant(url: str) -> str:
    """Say what a wrong URL was probably meant to be; nothing where that is unclear, or would show a password."""
    scheme, mark, rest = url.partition(":")
    if url.strip("/: ") == "memory":
        return ". For a store in memory leave store= out"
    if "@" in url or "\0" in url or "?" in url or rest.strip("/:") == "memory":
        return ""
    if not mark:
        scheme, slashes, rest = url.partition("//")  # of one without its colon
        rest = slashes + rest
    close = get_close_matches(scheme.partition("+")[0].lower(), ("sqlite", "postgresql"), n=1)
    if not mark and not close:
        return f". Did you mean 'sqlite:///{url}'?" if url.strip() else ""
    if close == ["sqlite"]:
        file = rest.lstrip("/")
        is_absolute = len(rest) - len(file) in {1, 4}
        return f". Did you mean 'sqlite://{'//' if is_absolute else '/'}{file}'?" if file else ""
    return f". Did you mean '{close[0]}://{rest.lstrip('/')}'?" if close and rest.strip("/") else ""


def _normal(url: str) -> URL:
    """The URL with the driver that we use.

    Raises:
        StoreError: it is none of ours. It is not shown: it may hold a password.
    """
    try:
        if "\0" in url:
            raise ValueError  # noqa: TRY301 - with the other ways in which it can be none
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
        raise StoreError(url.partition(":")[0], f"is not a known kind of store. {_FORMS}{_meant(url)}") from None
    if "@" in (found.host or ""):
        what = "has more than one @ before its host. Write one that belongs to the user or the password as %40"
        raise StoreError(backend, what)  # without the URL: a part of a password may stand anywhere in it
    if driver not in {"", wanted}:
        raise StoreError(found.drivername, f"is another driver than ours ({wanted}). {_FORMS}")
    if backend == "sqlite" and (found.database in {None, "", ":memory:"} or found.query):
        raise StoreError("sqlite", f"keeps nothing without a plain file. {_FORMS}, or no store for memory{_meant(url)}")
    return found.set(drivername=f"{'sqlite' if backend == 'sqlite' else 'postgresql'}+{wanted}")


def discard(connection: Connection | None) -> None:
    """Close a connection that may be broken; nothing is raised."""
    if connection is not None:
        with suppress(SQLAlchemyError, OSError):
            connection.invalidate()
        with suppress(SQLAlchemyError, OSError):
            connection.close()
