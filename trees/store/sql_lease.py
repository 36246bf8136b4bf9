"""The lease of one root: the row that says which process leads, and until when by the store's clock.

Comes in: who asks. Goes out: the token of whoever has it now. Each method is one short transaction, waits at most a
fixed time for the locks of others, and may be called from any thread. What follows from the answers is decided in
``trees.ha.candidate``.

Taking it is one transaction under a lock of the row: of two who try at once one gets it, and the other one sees that.
It ends with a new token, which every transaction of the writer compares with its own: from that commit on nothing that
an older process still writes is kept. Renewing and releasing change the row only where token and holder are ours.

The token has another row, which a writer locks for as long as it writes: a renewal never waits for a write. A leader
that hangs in the middle of one may hold that lock, and PostgreSQL does not always notice. So the sessions of a leader
are named after its token (``session_of``), and whoever wants the lease when its time is over, and does not get at the
row, has the server end them.

The clock is PostgreSQL's own (``clock_timestamp``). A file has none: there it is this machine's, the same for all its
processes. Set forward, it ends a lease early for those who have not watched it; set back, one that is not renewed any
more lasts longer.

Locking: ``_lock`` guards the connection that is kept between two requests; nothing is called while it is held.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, bindparam, select, text, update

from actors.tasks.model.task_errors import StoreBusyError, StoreError
from trees.store.database import Database, discard
from trees.store.lease_store import LeaseState
from trees.store.lock import FileLock, lock_in_session
from trees.store.schema import inserting, leases, prepare, take_token

if TYPE_CHECKING:
    from sqlalchemy import RowMapping

_ROW = select(leases.c.token, leases.c.holder, leases.c.expires_at).where(leases.c.root == bindparam("root"))
_ROW_LOCKED = _ROW.with_for_update()
_UNTIL = (
    update(leases)
    .where(leases.c.root == bindparam("r"), leases.c.token == bindparam("t"), leases.c.holder == bindparam("h"))
    .values(expires_at=bindparam("until"))
)


_END_SESSIONS = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE application_name = :name AND datname = current_database() AND usename = current_user"
    " AND pid <> pg_backend_pid()"
)


def session_of(root: str, token: int) -> str:
    """Name in PostgreSQL of the sessions of the owner of this token."""
    return f"regrow {hashlib.sha256(root.encode()).hexdigest()[:16]} {token}"


class SqlLease:
    """The lease of one root in one database."""

    def __init__(self, url: str, root: str, holder: str, *, lease_s: float, wait_s: float, hangs_s: float) -> None:
        self._database = Database(url, busy_s=wait_s)
        self._database.hangs_s = hangs_s
        self._root = root
        self._holder = holder
        self._lease_s = lease_s
        self._wait_s = wait_s
        """How long a request waits for the locks of others."""
        self._over = False
        """True once it was given back: a request that has hung until now must not take it again."""
        self._lock = threading.Lock()
        self._kept: Connection | None = None
        self._closed = False
        self._prepared = False
        self._guard = FileLock(self._database.file, root) if self._database.file is not None else None
        self._guard_taken = False

    def __repr__(self) -> str:
        return f"<SqlLease {self._root} in {self._database.name}>"

    @property
    def store(self) -> str:
        """The store, without its secrets."""
        return self._database.name

    # -- requests ------------------------------------------------------------------------------------------

    def look(self) -> LeaseState:
        """As it is now. Waits for nobody.

        Raises:
            StoreError: the store does not answer.
        """
        if not self._prepared:
            self._prepare()
        if self._database.is_sqlite:
            with self._database.reading() as connection:
                return self._row(connection)
        with self._transaction() as connection:
            return self._row(connection)

    def acquire(self) -> int | LeaseState:
        """Take it where it is free or its time is up: the new token. Else who has it.

        Raises:
            StoreBusyError: a process leads that was started without ``ha=``: that has no end.
            StoreError: the store does not answer, and it may be taken all the same.
        """
        try:
            return self._acquire()
        except StoreBusyError:
            raise
        except StoreError:
            if self._database.is_sqlite or not self._end_sessions():
                raise
            return self._acquire()

    def _acquire(self) -> int | LeaseState:
        with self._transaction() as connection:
            empty = inserting(connection, leases).on_conflict_do_nothing(index_elements=["root"])
            connection.execute(empty, {"root": self._root, "token": 0, "holder": "", "expires_at": None})
            row = self._row(connection, locked=True)
            if row.left_s > 0:
                return row
            if not self._guarded(connection):
                raise StoreBusyError(self._database.name, self._root, row.holder or "another process")
            token = take_token(connection, self._root, self._holder)
            self._set_end(connection, token, self._lease_s)
            self._require_wanted()
        return token

    def _end_sessions(self) -> int:
        """End what is left of a leader whose time is over; how many sessions there were."""
        with self._transaction() as connection:
            row = self._row(connection)
            if row.left_s > 0:
                return 0
            return len(connection.execute(_END_SESSIONS, {"name": session_of(self._root, row.token)}).all())

    def renew(self, token: int) -> int | LeaseState:
        """Keep it for another ``lease_s``: the token. Else who has it.

        Raises:
            StoreError: the store does not answer, and it may be renewed all the same.
        """
        with self._transaction() as connection:
            if not self._set_end(connection, token, self._lease_s):
                return self._row(connection)
            self._require_wanted()
        return token

    def release(self, token: int) -> None:
        """Give it back: anybody may have it from now on. Where it is not ours nothing happens.

        Raises:
            StoreError: the store does not answer; then it runs out.
        """
        self._over = True
        with self._transaction() as connection:
            self._set_end(connection, token, 0.0)

    def close(self) -> None:
        """Let go of the store. A request that comes later connects for itself."""
        with self._lock:
            self._over = self._closed = True
            kept, self._kept = self._kept, None
        if kept is not None:
            with suppress(StoreError), self._database.errors():
                kept.close()
        if self._guard is not None:
            self._guard.release()
        self._database.close()

    # -- within one ----------------------------------------------------------------------------------------

    def _row(self, connection: Connection, *, locked: bool = False) -> LeaseState:
        found: RowMapping | None = (
            connection.execute(_ROW_LOCKED if locked else _ROW, {"root": self._root}).mappings().first()
        )
        now = self._database.now(connection)
        if found is None:
            return LeaseState(0, "", None, 0.0)
        ends = found["expires_at"]
        return LeaseState(found["token"] or 0, found["holder"], ends, 0.0 if ends is None else ends - now)

    def _guarded(self, connection: Connection) -> bool:
        """Candidates have the guard of the root together; False where somebody has it alone."""
        if self._guard is None:
            return lock_in_session(connection, self._root, shared=True) is not None
        self._guard_taken = self._guard_taken or self._guard.acquire(shared=True)
        return self._guard_taken

    def _set_end(self, connection: Connection, token: int, left_s: float) -> bool:
        until = self._database.now(connection) + left_s
        given: dict[str, Any] = {"r": self._root, "t": token, "h": self._holder, "until": until}
        return connection.execute(_UNTIL, given).rowcount == 1

    def _require_wanted(self) -> None:
        """With the lock of the row: so what follows ``release`` in time follows it here too, or is not done."""
        if self._over:
            raise StoreError(self._database.name, "was asked for a lease that nobody wants any more")

    def _prepare(self) -> None:
        """Make what is not there yet."""
        self._database.create()
        with self._transaction() as connection:
            prepare(connection, self._database.name)
        self._prepared = True

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """One short transaction, on the connection that is kept where nobody else uses it just now."""
        with self._lock:
            connection, self._kept = self._kept, None
        with self._database.errors():
            try:
                if connection is None:
                    connection = self._connected()
                with connection.begin():
                    yield connection
            except BaseException:
                discard(connection)
                raise
        self._keep(connection)

    def _connected(self) -> Connection:
        connection = self._database.writing()
        if not self._database.is_sqlite:
            with connection.begin():
                connection.exec_driver_sql(f"SET statement_timeout = {int(2000 * self._wait_s)}")
        return connection

    def _keep(self, connection: Connection) -> None:
        with self._lock:
            if not self._closed and self._kept is None:
                self._kept, unused = connection, None
            else:
                unused = connection
        if unused is not None:
            unused.close()
