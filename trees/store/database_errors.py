"""Errors of databases: what one means to whoever reads it, and whether another try may go well.

Comes in: an exception of SQLAlchemy, of a driver or of the system. Goes out: a text that says what to do, without any
payload, and what kind of error it is.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy.exc import DBAPIError

from actors.tasks.model import StoreError

_NO_PAYLOAD: Final = frozenset({"OperationalError", "InterfaceError"})
"""Types of errors whose text is shown; the text of others may hold what was to be written."""

_NEVER_SQLITE: Final = frozenset({18, 19, 20, 25})
"""Too big, against a constraint, of a wrong type, out of range."""
_NEVER_POSTGRES: Final = ("22", "23", "54000")
"""SQLSTATEs, or classes of them: wrong data, against a constraint, too large."""

_SQLITE: Final = {
    5: "is locked by another process. End that one, or wait: it goes on by itself",
    6: "is locked by another process. End that one, or wait: it goes on by itself",
    8: "cannot be written. Check the permissions of the file and of its directory",
    10: "cannot be read or written. Look at the disk, its quota and the limits of this process",
    11: "is damaged. Restore it from a copy, or try the .recover command of sqlite3",
    13: "has no room: the disk is full. Make room; it goes on by itself",
    14: "cannot be opened. Check that its directory exists, and who may read and write there",
    26: "is no SQLite database. Give another file",
}
"""By primary result code."""
_POSTGRES: Final = {
    "08": "cannot be reached. Check that the server runs, and host and port",
    "28": "refuses the connection. Check database, user and password",
    "42501": "does not let this user do that. Grant it the rights to create and write tables",
    "42P01": "lacks a table of ours. Somebody has dropped it: restore it from a copy",
    "53100": "has no room: the disk is full. Make room; it goes on by itself",
    "53300": "has no connection left. Allow more, or close some",
    "55P03": "is locked by another session. End that one, or wait: it goes on by itself",
    "57": "is stopping or starting. It goes on by itself",
}
"""By SQLSTATE, or the class of it."""


class FinalStoreError(StoreError):
    """Raised where another try cannot go better: the store has failed, and its tree ends."""


def said(error: Exception) -> str:
    """Say an error in our words, with the database's own first line where no payload can be in it."""
    cause = cause_of(error)
    if isinstance(cause, MemoryError):
        return "has no memory for what is to be written or read. Give this process more; it goes on by itself"
    if isinstance(cause, OSError):
        return f"a file beside it cannot be used ({cause}). Check who may read and write there"
    own = str(cause).strip().partition("\n")[0] if type(cause).__name__ in _NO_PAYLOAD else ""
    detail = f" ({own or type(cause).__name__})"
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None:
        return _SQLITE.get(code & 0xFF, "fails") + detail
    state = getattr(cause, "sqlstate", None) or ""
    if not state and "FATAL" in own:  # while it connects psycopg does not say which state that is
        state = "28"
    elif not state and own:
        state = "08"
    return (_POSTGRES.get(state) or _POSTGRES.get(state[:2]) or "fails") + detail


def cause_of(error: Exception) -> Any:
    """Return the error of the driver that stands behind one of SQLAlchemy."""
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error


def is_final(error: Exception) -> bool:
    """True if it would fail again, however often it is tried."""
    cause = cause_of(error)
    if isinstance(cause, (OverflowError, UnicodeError)):
        return True
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in _NEVER_SQLITE
    state = getattr(cause, "sqlstate", None)
    if state:
        return str(state).startswith(_NEVER_POSTGRES)
    return type(cause).__name__ in {"DataError", "IntegrityError"}  # what the driver itself refuses to send
