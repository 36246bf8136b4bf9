"""What the writer writes: changes of a store as rows, and one transaction of them, through the driver itself.

Every transaction looks at the fencing token first, and writes nothing where that is not ours. On SQLite it goes row by
row. On PostgreSQL it is one statement, and one round trip: it locks the token (``FOR SHARE``), and each part joins that
row. The parts of one statement do not see what the others write. So of the changes of one stream those that have to
follow each other are in transactions that do (``trees.store.writer``).

Everything here may be written again with the same effect: where it is unknown whether a commit went through, the writer
writes the same changes once more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from json.encoder import JSONEncoder
from typing import Any, Final, TypeAlias


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One kind of write."""

    columns: dict[str, str]
    """Names and types of its values."""
    each: str
    """For one row of SQLite."""
    at_once: str
    """For the rows ``v`` and the root of ``fence`` of PostgreSQL."""


def _inserting(table: str, columns: dict[str, str], conflict: str = "") -> Statement:
    columns = {"root": "text"} | columns
    into = f"INSERT INTO {table} ({', '.join(columns)})"
    places = ", ".join("?" * len(columns))
    at_once = f"{into} SELECT v.* FROM fence, {{rows}} {conflict}"  # noqa: S608 - words of ours
    return Statement(columns, f"{into} VALUES ({places}) {conflict}", at_once)


def _deleting(table: str, column: str, kind: str = "text") -> Statement:
    each = f"DELETE FROM {table} WHERE root = ? AND {column} = ?"  # noqa: S608 - words of ours
    at_once = f"DELETE FROM {table} AS o USING fence, {{rows}} WHERE o.root = fence.root AND o.{column} = v.{column}"  # noqa: S608 - as above
    return Statement({"root": "text", column: kind}, each, at_once)


BEGIN: Final = _inserting(
    "regrow_streams",
    {"id": "text", "owner": "text", "seq": "bigint", "finished_at": "float8", "last": "text"},
    "ON CONFLICT DO NOTHING",
)
RECORD: Final = _inserting(
    "regrow_records",
    {"stream": "text", "n": "int", "kind": "text", "body": "text"},
    "ON CONFLICT (root, stream, n) DO UPDATE SET kind = excluded.kind, body = excluded.body",
)
END: Final = Statement(
    {"finished_at": "float8", "last": "text", "root": "text", "id": "text"},
    "UPDATE regrow_streams SET finished_at = ?, last = ? WHERE root = ? AND id = ?",
    "UPDATE regrow_streams AS s SET finished_at = v.finished_at, last = v.last FROM fence, {rows}"
    " WHERE s.root = fence.root AND s.id = v.id",
)
"""Also of a stream that goes on: it has no end."""
LEFT: Final = _inserting("regrow_orders", {"task": "text", "kind": "text", "body": "text", "at": "float8"})
ORDER_DONE: Final = _deleting("regrow_orders", "id", "int")
FORGET: Final = (
    _deleting("regrow_records", "stream"),
    _deleting("regrow_streams", "id"),
    _deleting("regrow_orders", "task"),
)
"""All of a stream, with the orders about it: they are not about the next task of its id."""
Rows: TypeAlias = Mapping[Statement, list[tuple[Any, ...]]]


@dataclass(slots=True, eq=False)
class Change:
    """One change of a store that is to be written."""

    statement: Statement | None
    """None: its stream is deleted."""
    stream: str
    row: tuple[Any, ...]
    """Values, in the order of the columns."""
    then: Callable[[], object] | None = None
    """Called when it is kept, on the thread that writes."""


def rows_of(changes: Iterable[Change]) -> Rows:
    """The rows of one transaction, by their statement."""
    rows: dict[Statement, list[tuple[Any, ...]]] = {}
    for change in changes:
        for statement in FORGET if change.statement is None else (change.statement,):
            rows.setdefault(statement, []).append(change.row)
    return rows


# -- transactions ----------------------------------------------------------------------------------------------

_FENCE: Final = "SELECT token FROM regrow_tokens WHERE root = ?"
_JSON: Final = JSONEncoder(separators=(",", ":"), check_circular=False).encode


def commit_rows(raw: Any, root: str, token: int, rows: Rows, in_doubt: Callable[[], object]) -> bool:
    """Write to SQLite, row by row; False, and nothing is written: the token is not the one that counts any more.

    Args:
        raw: a connection of the driver that is in no transaction.
        root: of all rows.
        token: ours.
        rows: what to write.
        in_doubt: called just before the database may commit.
    """
    raw.execute("BEGIN IMMEDIATE")
    found = raw.execute(_FENCE, (root,)).fetchone()
    if found is None or found[0] != token:
        raw.rollback()
        return False
    for statement, values in rows.items():
        raw.executemany(statement.each, values)
    in_doubt()
    raw.commit()
    return True


def commit_at_once(raw: Any, root: str, token: int, rows: Rows, in_doubt: Callable[[], object]) -> bool:
    """Write to PostgreSQL, in one statement; otherwise as ``commit_rows``."""
    given = [
        _JSON([dict(zip(statement.columns, row, strict=True)) for row in values]) for statement, values in rows.items()
    ]
    raw.autocommit = True
    in_doubt()
    (fences,) = raw.execute(_in_one(tuple(rows)), (root, token, *given), prepare=True).fetchone()
    raw.autocommit = False
    return bool(fences)


def was_refused(error: BaseException) -> bool:
    """True if the server of PostgreSQL itself has said no, and so has committed nothing."""
    return getattr(getattr(error, "diag", None), "severity_nonlocalized", None) == "ERROR"


@functools.cache
def _in_one(parts: tuple[Statement, ...]) -> str:
    """One statement that does all of these: takes root, token and the rows of each; gives 1, or 0: no fence."""
    written = ["fence AS (SELECT root FROM regrow_tokens WHERE root = %s AND token = %s FOR SHARE)"]
    for number, statement in enumerate(parts):
        columns = ", ".join(f"{name} {kind}" for name, kind in statement.columns.items())
        rows = f"json_to_recordset(%s::json) AS v({columns})"
        written.append(f"part{number} AS ({statement.at_once.format(rows=rows)})")
    return f"WITH {', '.join(written)} SELECT count(*) FROM fence"  # noqa: S608 - words of ours
