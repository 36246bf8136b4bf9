"""The lease of one root: the row that says which process leads, and until when by the store's clock.

Each method is one short transaction, waits at most a fixed time for the locks of others, and may be called from any
thread. What follows from the answers is decided in ``trees.ha.leader``. The lease is taken under a lock of the row, so
of two who try at once one gets it. Taking it ends with a new token, which every transaction of the writer compares with
its own: from that commit on nothing that an older process still writes is kept.

The token has another row, which a writer locks for as long as it writes: a renewal never waits for a write. A leader
that hangs in the middle of one may hold that lock, and PostgreSQL does not always notice. So the sessions of a leader
are named after its token (``session_of``), and whoever wants the lease when its time is over, and does not get at the
row, has the server end them.

The clock is PostgreSQL's own; a file has none, so there it is this machine's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlalchemy import Connection

from actors.tasks.model import StoreBusyError, StoreError
from trees.store.database import Database
from trees.store.lock import FileLock, lock_in_session
from trees.store.schema import is_postgres, prepare, run, take_token

IsWanted: TypeAlias = Callable[[], bool]
"""Asked before the commit: False where nobody waits for the answer any more, and nothing is to be changed."""
_EMPTY: Final = "INSERT INTO regrow_leases (root, token, holder) VALUES (:root, 0, '') ON CONFLICT DO NOTHING"
_STATE: Final = "SELECT token, holder, expires_at FROM regrow_leases WHERE root = :root"
_SET_END: Final = (
    "UPDATE regrow_leases SET expires_at = :until WHERE root = :root AND token = :token AND holder = :holder"
)
_END_SESSIONS: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE application_name = :name AND datname = current_database() AND usename = current_user"
    " AND pid <> pg_backend_pid()"
)


@dataclass(frozen=True, slots=True)
class LeaseState:
    """The lease as the store has it."""

    token: int
    """0: nobody has ever led."""
    holder: str
    """Who leads, or was the last who did."""
    expires_at: float | None
    """By the store's clock, seconds since 1970; None: it has no end, or was never taken."""
    left_s: float
    """Until then; 0 or less: anybody may have it."""


def session_of(root: str, token: int) -> str:
    """Name in PostgreSQL of the sessions of the owner of this token."""
    return f"regrow {hashlib.sha256(root.encode()).hexdigest()[:16]} {token}"


class SqlLease:
    """The lease of one root in one database."""

    def __init__(self, url: str, root: str, holder: str, *, lease_s: float, wait_s: float, hangs_s: float) -> None:
        self._database = Database(url, busy_s=wait_s)
        self._database.hangs_s = hangs_s
        self._root, self._holder, self._lease_s = root, holder, lease_s
        self._is_prepared = False
        self._file_lock = FileLock(self._database.file, root) if self._database.file is not None else None

    @property
    def store(self) -> str:
        """The store, without its secrets."""
        return self._database.name

    def look(self, _: IsWanted) -> LeaseState:
        """As it is now. Waits for nobody.

        Raises:
            StoreError: the store does not answer.
        """
        if not self._is_prepared:
            self._database.create()
            with self._database.transaction() as connection:
                prepare(connection, self._database.name)
            self._is_prepared = True
        with self._database.reading() if self._database.is_sqlite else self._database.transaction() as connection:
            return self._state(connection)

    def acquire(self, is_wanted: IsWanted) -> int | LeaseState:
        """Take it where it is free or its time is up: the new token. Else who has it.

        Raises:
            StoreBusyError: a process leads that was started without ``ha=``: that has no end.
            StoreError: the store does not answer.
        """
        try:
            return self._acquire(is_wanted)
        except StoreBusyError:
            raise
        except StoreError:
            if self._database.is_sqlite or not self._end_sessions():
                raise
            return self._acquire(is_wanted)

    def _acquire(self, is_wanted: IsWanted) -> int | LeaseState:
        with self._database.transaction() as connection:
            run(connection, _EMPTY, root=self._root)
            row = self._state(connection, locked=is_postgres(connection))
            if row.left_s > 0:
                return row
            if not self._share_lock(connection):
                raise StoreBusyError(self._database.name, self._root, row.holder or "another process")
            token = take_token(connection, self._root, self._holder)
            self._set_end(connection, token, self._lease_s)
            self._require(is_wanted)
        return token

    def _end_sessions(self) -> int:
        """End what is left of a leader whose time is over; how many sessions there were."""
        with self._database.transaction() as connection:
            row = self._state(connection)
            if row.left_s > 0:
                return 0
            return len(run(connection, _END_SESSIONS, name=session_of(self._root, row.token)).all())

    def renew(self, token: int, is_wanted: IsWanted) -> int | LeaseState:
        """Keep it for another ``lease_s``: the token. Else who has it.

        Raises:
            StoreError: the store does not answer.
        """
        with self._database.transaction() as connection:
            if not self._set_end(connection, token, self._lease_s):
                return self._state(connection)
            self._require(is_wanted)
        return token

    def release(self, token: int) -> None:
        """Give it back: anybody may have it from now on. Where it is not ours nothing happens.

        Raises:
            StoreError: the store does not answer; then it runs out.
        """
        with self._database.transaction() as connection:
            self._set_end(connection, token, 0.0)

    def close(self) -> None:
        """Let go of the store."""
        if self._file_lock is not None:
            self._file_lock.release()
        self._database.close()

    # -- within one ----------------------------------------------------------------------------------------

    def _state(self, connection: Connection, *, locked: bool = False) -> LeaseState:
        found = run(connection, f"{_STATE} FOR UPDATE" if locked else _STATE, root=self._root).first()
        if found is None:
            return LeaseState(0, "", None, 0.0)
        token, holder, ends = found
        return LeaseState(token, holder, ends, 0.0 if ends is None else ends - self._database.now(connection))

    def _share_lock(self, connection: Connection) -> bool:
        """Candidates have the lock of the root together; False where somebody has it alone."""
        if self._file_lock is not None:
            return self._file_lock.acquire(shared=True)
        return lock_in_session(connection, self._root, shared=True) is not None

    def _set_end(self, connection: Connection, token: int, left_s: float) -> bool:
        until = self._database.now(connection) + left_s
        done = run(connection, _SET_END, until=until, root=self._root, token=token, holder=self._holder)
        return bool(done.rowcount)

    def _require(self, is_wanted: IsWanted) -> None:
        if not is_wanted():
            raise StoreError(self._database.name, "was asked for a lease that nobody waits for any more")
