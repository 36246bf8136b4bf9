"""One transaction of rows behind the fence, through the driver itself: SQLAlchemy's layers cost more than the rows.

Comes in: a connection of the driver that is in no transaction, whose root and token these are, and what to write. Goes
out: True, and all is committed; or False: the token is not the one that counts any more, and nothing is written.

``in_doubt`` is called just before the database may commit. SQLite: that is before its COMMIT. PostgreSQL: before the
one statement is sent (``statements.in_one``), because that is committed by the server itself. A connection that the
server has closed while it was idle is found out before: nothing was sent, so nothing is in doubt.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Mapping, Sequence
from json.encoder import JSONEncoder
from typing import Any, Final, TypeAlias

from trees.store.statements import FENCE, Statement, in_one

Parts: TypeAlias = Mapping[Statement, Sequence[Mapping[str, Any]]]
_JSON: Final = JSONEncoder(separators=(",", ":"), check_circular=False).encode
_MOST_PENDING: Final = 100
"""Times that something unasked for is read from a server before a statement is sent."""


def commit_rows(raw: Any, root: str, token: int, parts: Parts, in_doubt: Callable[[], object]) -> bool:
    """On SQLite, row by row, with the one write lock."""
    raw.execute("BEGIN IMMEDIATE")
    found = raw.execute(FENCE, (root,)).fetchone()
    if found is None or found[0] != token:
        raw.rollback()
        return False
    for statement, rows in parts.items():
        raw.executemany(statement.each, rows)
    in_doubt()
    raw.commit()
    return True


def commit_at_once(raw: Any, root: str, token: int, parts: Parts, in_doubt: Callable[[], object]) -> bool:
    """On PostgreSQL, in one statement and one round trip."""
    _require_open(raw)
    text, given = in_one(tuple(parts)), [_JSON(rows) for rows in parts.values()]
    raw.autocommit = True
    in_doubt()
    (fences,) = raw.execute(text, (root, token, *given), prepare=True).fetchone()
    raw.autocommit = False
    return bool(fences)


def was_refused(error: BaseException) -> bool:
    """True if the server of PostgreSQL itself has said no, and so has committed nothing."""
    return getattr(getattr(error, "diag", None), "severity_nonlocalized", None) == "ERROR"


def _require_open(raw: Any) -> None:
    """Read what the server has sent meanwhile: at the end of a connection that raises the driver's own error."""
    waiting = select.poll()
    waiting.register(raw.pgconn.socket, select.POLLIN)
    for _ in range(_MOST_PENDING):
        if not waiting.poll(0):
            return
        raw.pgconn.consume_input()
