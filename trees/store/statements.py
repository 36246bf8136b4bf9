"""Statements that a batch writes, in the words of both databases, for the driver itself.

A ``Statement`` has two forms. ``each`` takes one row at a time, its values by name. ``at_once`` is a part of one single
statement for PostgreSQL (``in_one``): that looks at the fence, writes all rows of all parts, and is a transaction by
itself. One round trip does what else takes five: begin, fence, rows, commit, and their answers. Rows come as JSON: one
value whatever their number, so there is one statement to prepare for each combination of parts. Each part joins the
fence, so none of them writes a row where that is lost; the fence stays locked until the rows are committed.

The parts of one statement do not see what the others write. So a row of a stream that begins and ends in one batch has
its end from the beginning (``trees.store.batches``); the part that ends streams finds it only where it was there
before.

This module must never import a driver: whoever has a connection executes what it makes.
"""

from __future__ import annotations

import functools
import re
from typing import Final, NamedTuple


class Statement(NamedTuple):
    """One of what a batch writes."""

    each: str
    """For one row, with ``:name`` where a value belongs."""
    columns: str
    """Names and types of what it takes, beside the root."""
    at_once: str
    """For the rows ``v`` of the root of ``fence``."""


def _insert(table: str, columns: dict[str, str], on_conflict: str) -> Statement:
    names, end = ", ".join(columns), f"ON CONFLICT {on_conflict}"
    values = ", ".join(f":{name}" for name in columns)
    return Statement(
        f"INSERT INTO {table} (root, {names}) VALUES (:root, {values}) {end}",  # noqa: S608 - words of ours
        ", ".join(f"{name} {kind}" for name, kind in columns.items()),
        f"INSERT INTO {table} (root, {names}) SELECT fence.root, v.* FROM fence, {{rows}} {end}",  # noqa: S608 - words of ours
    )


STREAM: Final = _insert(
    "regrow_streams",
    {"id": "text", "owner": "text", "seq": "bigint", "finished_at": "float8", "whole": "text", "last": "text"},
    "DO NOTHING",
)
LARGE: Final = _insert("regrow_large", {"hash": "text", "body": "text", "pieces": "int"}, "DO NOTHING")
RECORD: Final = _insert(
    "regrow_records",
    {"stream": "text", "n": "int", "kind": "text", "body": "text", "large": "text"},
    "(root, stream, n) DO UPDATE SET kind = excluded.kind, body = excluded.body, large = excluded.large",
)
END: Final = Statement(
    "UPDATE regrow_streams SET finished_at = :finished_at, last = :last WHERE root = :root AND id = :id",
    "id text, finished_at float8, last text",
    "UPDATE regrow_streams AS s SET finished_at = v.finished_at, last = v.last FROM fence, {rows}"
    " WHERE s.root = fence.root AND s.id = v.id",
)
ORDER: Final = Statement(
    "DELETE FROM regrow_orders WHERE root = :root AND id = :id",
    "id int",
    "DELETE FROM regrow_orders AS o USING fence, {rows} WHERE o.root = fence.root AND o.id = v.id",
)
FENCE: Final = "SELECT token FROM regrow_tokens WHERE root = ?"
"""For SQLite, in a transaction that has its one write lock."""


@functools.cache
def by_name(statement: Statement) -> str:
    """The form for one row as psycopg wants it."""
    return re.sub(r":(\w+)", r"%(\1)s", statement.each)


@functools.cache
def in_one(parts: tuple[Statement, ...]) -> str:
    """All of these in one statement of PostgreSQL: takes root, token, and the rows of each; gives 1, or 0: no fence."""
    fence = "fence AS (SELECT root FROM regrow_tokens WHERE root = %s AND token = %s FOR SHARE)"
    written = [
        f"part{n} AS ({part.at_once.format(rows=f'json_to_recordset(%s::json) AS v({part.columns})')})"
        for n, part in enumerate(parts)
    ]
    return f"WITH {', '.join([fence, *written])} SELECT count(*) FROM fence"  # noqa: S608 - words of ours
