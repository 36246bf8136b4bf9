"""One process at a time: the guard of a root in a database.

Whoever opens a root for itself takes it alone; candidates of a tree with ``ha=`` take it together, because among those
the lease decides. It goes with its process: the system lets go of the lock of a file (SQLite: ``FILE.ROOT.lock``), the
server of the one of a session (PostgreSQL: an advisory lock), however the process ended. Neither file nor lock says who
holds it; ``regrow_leases.holder`` does.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import DBAPIError

_LOCK_NOT_AVAILABLE: Final = "55P03"
_ALONE: Final = fcntl.LOCK_EX | fcntl.LOCK_NB
_TOGETHER: Final = fcntl.LOCK_SH | fcntl.LOCK_NB


def this_process() -> str:
    """Name for others."""
    return f"{platform.node() or 'localhost'}, process {os.getpid()}"


class FileLock:
    """The lock of a file beside that of SQLite. It must not be that one: SQLite has locks of its own there."""

    def __init__(self, file: Path, root: str) -> None:
        self.path = file.with_name(f"{file.name}.{root}.lock")
        self._opened: int | None = None

    def acquire(self, *, shared: bool) -> bool:
        """Take it; False where another process has it.

        Raises:
            OSError: the file cannot be made.
        """
        opened = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(opened, _TOGETHER if shared else _ALONE)
        except BlockingIOError:
            os.close(opened)
            return False
        except OSError:
            os.close(opened)
            raise
        self._opened = opened
        return True

    def release(self) -> None:
        """Let go. In the child of a fork: of the child's share of it only, which would outlive the parent."""
        opened, self._opened = self._opened, None
        if opened is not None:
            os.close(opened)


def lock_in_session(connection: Connection, root: str, *, shared: bool) -> bool:
    """Take the guard for as long as this connection to PostgreSQL lives; False where another session has it.

    Waits as long as the session waits for any lock (``engine.BUSY_S``): the server needs a moment to see that a process
    has died.
    """
    take = func.pg_advisory_lock_shared if shared else func.pg_advisory_lock
    key = _key(connection, root)
    try:
        with connection.begin_nested():
            connection.execute(select(take(key)))
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            return False
        raise
    return True


def guards_of_file(file: Path, root: str) -> bool | None:
    """True if a process has the guard of a root in a file of SQLite; None: this system does not show it.

    Nothing is locked for it, or a tree that starts at that moment would find its own guard taken. A damaged name of a
    root may be none of a file.
    """
    try:
        path = FileLock(file, root).path
        found = path.stat()
        listed = _LOCKS.read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return False if _LOCKS.exists() else None
    except (OSError, ValueError):
        return None
    inode = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    return any(inode in line.split() for line in listed if "FLOCK" in line and "->" not in line)


_LOCKS: Final = Path("/proc/locks")


def is_guarded_in_session(connection: Connection, root: str) -> bool:
    """True if a session with PostgreSQL has the guard of a root. Nothing is locked for it."""
    unsigned = _key(connection, root) % 2**64
    found = connection.execute(_HELD, {"upper": unsigned >> 32, "lower": unsigned % 2**32})
    return found.first() is not None


_HELD: Final = text(
    "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid = CAST(:upper AS bigint)::oid AND objid = CAST(:lower AS bigint)::oid LIMIT 1"
)


def session_id(connection: Connection) -> int:
    """Which session this is, to PostgreSQL."""
    number: int = connection.execute(select(func.pg_backend_pid())).scalar_one()
    return number


def end_session(connection: Connection, root: str, number: int) -> None:
    """End a session that was ours, if it still holds the guard; it would until the server notices that we are gone."""
    unsigned = _key(connection, root) % 2**64
    connection.execute(_END, {"upper": unsigned >> 32, "lower": unsigned % 2**32, "number": number})


_END: Final = text(
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = :number"
    " AND classid = CAST(:upper AS bigint)::oid AND objid = CAST(:lower AS bigint)::oid"
)


def _key(connection: Connection, root: str) -> int:
    schema = connection.execute(select(func.current_schema())).scalar()
    return int.from_bytes(hashlib.sha256(f"regrow {schema} {root}".encode()).digest()[:8], signed=True)
