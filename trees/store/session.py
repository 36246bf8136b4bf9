"""The connection that writes for a root: it holds the root's lock, and writes with its token only.

A connection that has failed is closed, and the next transaction makes a new one; on PostgreSQL that takes the lock of
the root again, because the lock went with the old connection. A file of SQLite that was removed or replaced under the
store is noticed after each commit, before anybody is told of it: then the store has failed.

Used by one thread at a time: by the one that opens a store, then by its writer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import NoReturn, TypeVar

from sqlalchemy import Connection

from actors.tasks.journal.store import RemoteCommand
from actors.tasks.model import LeaseLostError, StoreBusyError, StoreError
from trees.store import commands
from trees.store.database import Database, discard
from trees.store.database_errors import FinalStoreError
from trees.store.lock import FileLock, end_session, lock_in_session, this_process
from trees.store.schema import holder_of, prepare, present_token, run, take_token
from trees.store.statements import Rows, commit_at_once, commit_rows, was_refused

T = TypeVar("T")


class WritingSession:
    """Writes for one root."""

    def __init__(self, database: Database, root: str) -> None:
        self._database, self._root = database, root
        self._connection: Connection | None = None
        self._file_lock = FileLock(database.file, root) if database.file is not None else None
        self._file_id: tuple[int, int] | None = None
        self._shared = False
        self._number: int | None = None
        """Which session with PostgreSQL has the lock."""
        self.token = 0
        self.in_doubt = False
        """True where a commit was under way when something failed: it may have gone through."""

    def open(self, token: int | None) -> None:
        """Connect, make the tables, take the lock, and the next token unless one was taken already.

        Raises:
            StoreBusyError: another process has this root.
            LeaseLostError: the token that was given is not the one that counts any more.
            StoreError: anything else.
        """
        self._database.create()
        self._shared = token is not None
        try:
            with self._database.errors():
                connection = self._connection = self._database.writing()
                with connection.begin():
                    prepare(connection, self._database.name)
                with connection.begin():
                    if not self._lock(connection):
                        self._refuse(connection)
                self._file_id = self._found_file()
                with connection.begin():
                    self._take_token(connection, token)
        except BaseException:
            self.close()
            raise

    def _lock(self, connection: Connection) -> bool:
        if self._file_lock is not None:
            return self._file_lock.acquire(shared=self._shared)
        number = lock_in_session(connection, self._root, shared=self._shared)
        self._number = number if number is not None else self._number
        return number is not None

    def _take_token(self, connection: Connection, token: int | None) -> None:
        if token is not None:
            self.token = token
            self._require_token(connection)
            return
        ends = run(connection, "SELECT expires_at FROM regrow_leases WHERE root = :root", root=self._root).scalar()
        if ends is not None and ends > self._database.now(connection):
            self._refuse(connection)
        self.token = take_token(connection, self._root, this_process())

    def _refuse(self, connection: Connection) -> NoReturn:
        raise StoreBusyError(self._database.name, self._root, holder_of(connection, self._root))

    def _require_token(self, connection: Connection) -> None:
        if present_token(connection, self._root) != self.token:
            raise LeaseLostError(self._database.name, self._root, holder_of(connection, self._root))

    def _found_file(self) -> tuple[int, int] | None:
        if self._database.file is None:
            return None
        with suppress(FileNotFoundError):
            found = self._database.file.stat()
            return found.st_dev, found.st_ino
        return None

    def _require_file(self) -> None:
        if self._found_file() != self._file_id:
            what = "was removed or replaced while it was in use. What was written since then is lost; start again"
            raise FinalStoreError(self._database.name, what)

    # -- writing -------------------------------------------------------------------------------------------

    def write(self, rows: Rows) -> None:
        """Write these, all or nothing; they may be those that are in doubt.

        Raises:
            LeaseLostError: somebody else writes for this root now.
            FinalStoreError: they never can be written.
            StoreError: they are not written now; where ``in_doubt`` is true they may be.
        """
        commit = commit_rows if self._file_lock is not None else commit_at_once
        was_in_doubt = self.in_doubt

        def write(connection: Connection) -> None:
            raw = connection.connection.driver_connection
            try:
                written = commit(raw, self._root, self.token, rows, self._doubt)
            except BaseException as error:
                if was_refused(error):
                    self.in_doubt = was_in_doubt
                raise
            if not written:
                self.in_doubt = was_in_doubt
                with connection.begin():
                    self._require_token(connection)
                raise StoreError(self._database.name, "has changed hands and back. It goes on by itself")
            self._require_file()
            self.in_doubt = False

        self._using(write)

    def _doubt(self) -> None:
        self.in_doubt = True

    def waiting(self, taken: Collection[int]) -> list[RemoteCommand]:
        """Return the commands that are new; also sees whether this session is still the one that writes.

        Raises:
            LeaseLostError: somebody else writes for this root now.
            StoreError: the store cannot be reached.
        """

        def look(connection: Connection) -> list[RemoteCommand]:
            self._require_token(connection)
            return commands.waiting(connection, self._root, taken)

        def in_transaction(connection: Connection) -> list[RemoteCommand]:
            with connection.begin():
                return look(connection)

        if self._file_lock is None:
            return self._using(in_transaction)
        self._require_file()
        with self._database.reading() as connection:  # without the lock of the file
            return look(connection)

    def _using(self, act: Callable[[Connection], T]) -> T:
        try:
            with self._database.errors():
                return act(self._connected())
        except BaseException:
            connection, self._connection = self._connection, None
            discard(connection)
            raise

    def _connected(self) -> Connection:
        if self._connection is None:
            self._require_file()
            connection = self._connection = self._database.writing()
            if self._file_lock is None:
                self._lock_again(connection)
        return self._connection

    def _lock_again(self, connection: Connection) -> None:
        """Take the lock in a new session: the old one has lost it, or still has it and is ended."""
        with connection.begin():
            self._require_token(connection)
            if not self._lock(connection):
                if self._number is not None:
                    end_session(connection, self._root, self._number)
                what = "still holds the session that was lost, and is asked to end it. It goes on by itself"
                raise StoreError(self._database.name, what)

    # -- closing -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of connection and lock; nothing is raised."""
        connection, self._connection = self._connection, None
        discard(connection)
        if self._file_lock is not None:
            self._file_lock.release()

    def forked(self) -> None:
        """In the child of a fork: nothing of it is ours. The connection is the parent's to close."""
        if self._file_lock is not None:
            self._file_lock.release()
