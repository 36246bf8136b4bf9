"""Commands of other processes: what ``regrow`` asks of a tree that runs elsewhere, by way of the store they share.

A command is a row of ``regrow_orders`` until the tree has carried it out. A tree that runs finds it within
``trees.store.writer.POLL_S``, one that is down when it comes up. A command that cannot be read is reported
(``OrderDamaged``) and deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from actors.tasks.journal.codec import from_json, to_json
from actors.tasks.journal.store import RemoteCommand
from actors.tasks.model.task_errors import StoreError
from trees.store.schema import run


@dataclass(frozen=True, slots=True)
class DamagedCommand:
    """A row that is no valid command: another tool wrote it, a newer version, or it is damaged."""

    id: int
    task: str
    error: StoreError


def post(connection: Connection, root: str, task: str, kind: str, body: Mapping[str, Any], at: float) -> int:
    """Leave a command for the tree of this root, within the caller's transaction; return its id."""
    insert = (
        "INSERT INTO regrow_orders (root, task, kind, body, at) VALUES (:root, :task, :kind, :body, :at) RETURNING id"
    )
    posted: int = run(connection, insert, root=root, task=task, kind=kind, body=to_json(body), at=at).scalar_one()
    return posted


def waiting(connection: Connection, root: str, taken: Collection[int] = ()) -> list[RemoteCommand | DamagedCommand]:
    """Return the commands of a root that are not done and were not taken yet, the oldest first."""
    found = run(connection, "SELECT * FROM regrow_orders WHERE root = :root ORDER BY id", root=root)
    return [_command(row) for row in found if row.id not in taken]


def _command(row: Any) -> RemoteCommand | DamagedCommand:
    try:
        body = from_json(row.body)
        if not isinstance(body, dict):
            raise TypeError  # noqa: TRY301 - with the other ways in which it can be none
    except (TypeError, ValueError, RecursionError) as error:
        # Without its content: a command holds payload.
        what = f"holds a command that cannot be read ({type(error).__name__}): damaged, or written by something else"
        return DamagedCommand(row.id, row.task, StoreError("orders", what))
    return RemoteCommand(row.id, row.task, row.kind, body, row.at)
