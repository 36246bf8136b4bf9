"""Connection that writes for a root: under its guard, and with its token.

Every transaction looks first whether the token is still the one that this session took; if it is not, nothing is
written, and never will be (``LeaseLostError``). A connection that has failed is closed, and the next transaction makes
a new one: on PostgreSQL that takes the guard again, because it went with the old connection.

A batch is written by the driver itself (``trees.store.fenced_transaction``): one round trip to PostgreSQL. What is rare
or large (a removal, pruning, pieces, more than ``AT_ONCE`` characters) goes by SQLAlchemy, in a transaction of several
statements.

A value that is kept in pieces is written before the batch that has it, each piece in a transaction of its own; between
two of them there is time (``trees.store.large_values``), so that others get at the file (the renewal of a lease,
commands). Pieces of a process that died before their record was written are deleted when the root is opened.

Used by one thread at a time: by the one that opens a store, then by its writer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, NoReturn

from sqlalchemy import Connection, Executable
from sqlalchemy.exc import SQLAlchemyError

from actors.tasks.journal.store import RemoteCommand
from actors.tasks.model.task_errors import LeaseLostError, StoreBusyError, StoreError
from trees.store import remote_commands
from trees.store.batches import Batch
from trees.store.database import Database, discard
from trees.store.fenced_transaction import commit_at_once, commit_rows, was_refused
from trees.store.migrations import prepare
from trees.store.process_lock import FileLock, end_session, lock_in_session, session_id, this_process
from trees.store.pruning import drop_loose_pieces, give_back, prune
from trees.store.schema import holder_of, inserting, leases, pieces, present_token, take_token

AT_ONCE: Final = 1024 * 1024
"""Characters of a batch that go to PostgreSQL in one statement; one that has more goes row by row."""


class FencedConnection:
    """Writes for one root."""

    def __init__(self, database: Database, root: str) -> None:
        self._database = database
        self._root = root
        self._connection: Connection | None = None
        self._file_guard = FileLock(database.file, root) if database.file is not None else None
        self._shared = False
        self._session_id = 0
        """Id of the session with PostgreSQL, whose guard may outlive the connection, until the server notices."""
        self.token = 0
        self.in_doubt = False
        """A commit was under way when something failed: what it was to write may be written."""
        self.reserved: set[str] = set()
        """Values whose pieces are being written: pruning leaves those that are there already."""

    # -- opening -------------------------------------------------------------------------------------------

    def open(self, token: int | None) -> None:
        """Connect, see that the tables are there, take the guard, and the next token unless one was taken already.

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
                self._take_guard(connection)
                with connection.begin():
                    self._take_token(connection, token)
                    drop_loose_pieces(connection, self._root)
        except BaseException:
            self.close()
            raise

    def _take_guard(self, connection: Connection) -> None:
        """Raises ``StoreBusyError`` where another process has it."""
        with connection.begin():
            if self._file_guard is not None:
                taken = self._file_guard.acquire(shared=self._shared)
            else:
                taken = lock_in_session(connection, self._root, shared=self._shared)
            if not taken:
                raise self._busy(connection)
            if self._file_guard is None:
                self._session_id = session_id(connection)

    def _take_guard_again(self, connection: Connection) -> None:
        """Take the guard again: the old session has lost it, or still holds it and is ended."""
        with connection.begin():
            self._require_token(connection)
            if not lock_in_session(connection, self._root, shared=self._shared):
                end_session(connection, self._root, self._session_id)
                what = "still holds the session that was lost, and is asked to end it. It goes on by itself"
                raise StoreError(self._database.name, what)
            self._session_id = session_id(connection)

    def _take_token(self, connection: Connection, token: int | None) -> None:
        if token is not None:
            self.token = token
            self._require_token(connection)
            return
        row = connection.execute(leases.select().where(leases.c.root == self._root)).first()
        if row is not None and row.expires_at is not None and row.expires_at > self._database.now(connection):
            raise self._busy(connection)
        self.token = take_token(connection, self._root, this_process())

    def _busy(self, connection: Connection) -> StoreBusyError:
        return StoreBusyError(self._database.name, self._root, holder_of(connection, self._root))

    def _require_token(self, connection: Connection) -> None:
        if present_token(connection, self._root) != self.token:
            self._lose(connection)

    def _lose(self, connection: Connection) -> NoReturn:
        raise LeaseLostError(self._database.name, self._root, holder_of(connection, self._root))

    # -- transactions --------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> None:
        """Write a batch, all or nothing; it may be one that was in doubt.

        Raises:
            LeaseLostError: somebody else writes for this root now.
            UnwritableError: something in it never can be written; nothing of it is.
            StoreError: it is not written now; where ``in_doubt`` is true it may be.
        """
        if batch.removed is not None or (self._file_guard is None and batch.characters > AT_ONCE):
            self._transact(lambda connection: batch.write(connection, self.reserved))
        else:
            self._commit(batch)

    def write_piece(self, digest: str, number: int, body: str) -> None:
        """Write one piece of a large value, unless it is there; raises what ``write`` raises."""
        row = {"root": self._root, "hash": digest, "n": number, "body": body}
        self._transact(lambda connection: connection.execute(_piece_of(connection), row))

    def prune(self, names: Sequence[str]) -> None:
        """Delete these streams; raises what ``write`` raises."""
        self._transact(lambda connection: prune(connection, self._root, names, self.reserved))
        with self._database.errors():
            give_back(self._connected())

    def waiting(self, taken: Collection[int]) -> list[RemoteCommand | remote_commands.DamagedCommand]:
        """Return the commands that are new; also sees whether this session is still the one that writes.

        Raises:
            LeaseLostError: somebody else writes for this root now.
            StoreError: the store cannot be reached.
        """
        if self._file_guard is not None:  # without the lock of the file, which the other connection would take
            with self._database.reading() as connection:
                return self._waiting(connection, taken)
        found: list[RemoteCommand | remote_commands.DamagedCommand] = []
        self._transact(lambda connection: found.extend(self._waiting(connection, taken)))
        return found

    def _waiting(
        self, connection: Connection, taken: Collection[int]
    ) -> list[RemoteCommand | remote_commands.DamagedCommand]:
        self._require_token(connection)
        return remote_commands.waiting(connection, self._root, taken)

    def _transact(self, act: Callable[[Connection], object]) -> None:
        try:
            with self._database.errors():
                connection = self._connected()
                transaction = connection.begin()
                self._require_token(connection)
                act(connection)
                self.in_doubt = True
                transaction.commit()
                self.in_doubt = False
        except BaseException:
            self._drop()
            raise

    def _commit(self, batch: Batch) -> None:
        """A batch in one step, without the layers of SQLAlchemy: almost all that is written comes this way."""
        commit = commit_rows if self._file_guard is not None else commit_at_once
        was_in_doubt = self.in_doubt
        try:
            with self._database.errors():
                connection = self._connected()
                raw = connection.connection.driver_connection
                if commit(raw, self._root, self.token, batch.parts(), self._is_in_doubt):
                    self.in_doubt = False
                else:
                    self.in_doubt = was_in_doubt
                    self._lose(connection)
        except BaseException as error:
            if was_refused(error.__cause__ or error):
                self.in_doubt = was_in_doubt
            self._drop()
            raise

    def _is_in_doubt(self) -> None:
        self.in_doubt = True

    def _connected(self) -> Connection:
        if self._connection is None:
            connection = self._connection = self._database.writing()
            if self._file_guard is None:
                self._take_guard_again(connection)
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        discard(connection)

    # -- closing -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of connection and guard; nothing is raised."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except (SQLAlchemyError, OSError):
                discard(connection)
        if self._file_guard is not None:
            self._file_guard.release()

    def forked(self) -> None:
        """In the child of a fork: none of it is ours. The connection stays as it is: to close it is the parent's."""
        if self._file_guard is not None:
            self._file_guard.release()


def _piece_of(connection: Connection) -> Executable:
    statement: Executable = inserting(connection, pieces).on_conflict_do_nothing()
    return statement
