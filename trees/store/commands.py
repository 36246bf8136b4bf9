"""Commands of other processes: what ``regrow`` asks of a tree that runs elsewhere, by way of the store they share.

A command is a row of ``regrow_orders`` until the tree has carried it out. A tree that runs finds it within
``trees.store.writer.POLL_S``, one that is down when it comes up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection

from actors.tasks.journal.codec import from_json, to_json
from actors.tasks.journal.store import RemoteCommand
from trees.store.schema import run


def post(connection: Connection, root: str, task: str, kind: str, body: Mapping[str, Any], at: float) -> int:
    """Leave a command for the tree of this root, within the caller's transaction; return its id."""
    insert = (
        "INSERT INTO regrow_orders (root, task, kind, body, at) VALUES (:root, :task, :kind, :body, :at) RETURNING id"
    )
    posted: int = run(connection, insert, root=root, task=task, kind=kind, body=to_json(body), at=at).scalar_one()
    return posted


def waiting(connection: Connection, root: str, taken: Collection[int] = ()) -> list[RemoteCommand]:
    """Return the commands of a root that are not done and were not taken yet, the oldest first."""
    found = run(connection, "SELECT * FROM regrow_orders WHERE root = :root ORDER BY id", root=root)
    return [RemoteCommand(row.id, row.task, row.kind, _read(row.body), row.at) for row in found if row.id not in taken]


def _read(body: str) -> dict[str, Any]:
    """The arguments of a command; none where nobody can read them: whoever carries it out says what it lacks."""
    with suppress(ValueError, RecursionError):
        found = from_json(body)
        return found if isinstance(found, dict) else {}
    return {}
