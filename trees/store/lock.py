"""The lock of a root in a database: one process at a time.

A process that opens a root for itself takes the lock alone. Candidates of a tree with ``ha=`` share it, because among
those the lease decides. The lock goes with its process, however that ends: it is a lock of the file ``FILE.ROOT.lock``
beside SQLite, or an advisory lock of a session with PostgreSQL. ``regrow_leases.holder`` says who holds it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
from pathlib import Path
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from trees.store.schema import run

_LOCK_NOT_AVAILABLE: Final = "55P03"
_LOCKS: Final = Path("/proc/locks")


def this_process() -> str:
    """Name of this process for others."""
    return f"{platform.node() or 'localhost'}, process {os.getpid()}"


class FileLock:
    """The lock of a root in a file of SQLite. It is another file, because SQLite has locks of its own in that one."""

    def __init__(self, file: Path, root: str) -> None:
        self._path = lock_file(file, root)
        self._opened: int | None = None

    def acquire(self, *, shared: bool) -> bool:
        """Take it; False where another process has it.

        Raises:
            OSError: the file cannot be made.
        """
        if self._opened is not None:
            return True
        opened = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(opened, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            os.close(opened)
            if isinstance(error, BlockingIOError):
                return False
            raise
        self._opened = opened
        return True

    def release(self) -> None:
        """Let go. In the child of a fork: of the child's share only, which would outlive the parent."""
        opened, self._opened = self._opened, None
        if opened is not None:
            os.close(opened)


def lock_file(file: Path, root: str) -> Path:
    """The file whose lock is that of a root."""
    return file.with_name(f"{file.name}.{root}.lock")


def is_file_locked(file: Path, root: str) -> bool | None:
    """True if a process has the lock of a root; None: this system does not show it. Nothing is locked for the look."""
    try:
        found = lock_file(file, root).stat()
        listed = _LOCKS.read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return False if _LOCKS.exists() else None
    except OSError:
        return None
    inode = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    return any(inode in line.split() for line in listed if "FLOCK" in line and "->" not in line)


# -- PostgreSQL ----------------------------------------------------------------------------------------------


def lock_in_session(connection: Connection, root: str, *, shared: bool) -> int | None:
    """Take the lock for as long as this session lives: the number of the session; None where another one has it.

    Waits as long as the session waits for any lock: the server needs a moment to notice that a process has died.
    """
    take = "SELECT pg_advisory_lock_shared(:key)" if shared else "SELECT pg_advisory_lock(:key)"
    try:
        with connection.begin_nested():
            run(connection, take, key=_key(connection, root))
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            return None
        raise
    number: int = run(connection, "SELECT pg_backend_pid()").scalar_one()
    return number


def is_locked_in_session(connection: Connection, root: str) -> bool:
    """True if a session has the lock of a root."""
    return run(connection, f"SELECT 1 {_HELD}", **_halves(connection, root)).first() is not None


def end_session(connection: Connection, root: str, number: int) -> None:
    """End a session that was ours, if it still has the lock: the server may not have noticed that it was cut."""
    end = f"SELECT pg_terminate_backend(pid) {_HELD} AND pid = :number"
    run(connection, end, number=number, **_halves(connection, root))


_HELD: Final = (
    "FROM pg_locks WHERE locktype = 'advisory' AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid = CAST(:upper AS bigint)::oid AND objid = CAST(:lower AS bigint)::oid"
)


def _halves(connection: Connection, root: str) -> dict[str, int]:
    unsigned = _key(connection, root) % 2**64
    return {"upper": unsigned >> 32, "lower": unsigned % 2**32}


def _key(connection: Connection, root: str) -> int:
    schema = run(connection, "SELECT current_schema()").scalar()
    return int.from_bytes(hashlib.sha256(f"regrow {schema} {root}".encode()).digest()[:8], signed=True)
