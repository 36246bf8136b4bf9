"""Commands of other processes: what ``regrow`` asks of a tree that runs elsewhere, by way of the store they share.

A command is a row of the table ``orders`` until the tree has carried it out: ``post`` puts it there, the tree's store
finds it (``waiting``) within ``trees.store.writer.POLL_S``, and deletes it when it is done. A tree that is down finds
it when it comes up. A command that cannot be read is reported (``OrderDamaged``) and deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, insert, select

from actors.tasks.journal.codec import from_json, to_json
from actors.tasks.journal.store import RemoteCommand
from actors.tasks.model.task_errors import StoreError
from trees.store.schema import orders


@dataclass(frozen=True, slots=True)
class DamagedCommand:
    """Row that is not a valid command: another tool wrote it, a newer version, or it is damaged."""

    id: int
    task: str
    error: StoreError


def post(connection: Connection, root: str, task: str, kind: str, body: Mapping[str, Any], at: float) -> int:
    """Leave a command for the tree of this root, within the caller's transaction; return its id."""
    row = {"root": root, "task": task, "kind": kind, "body": to_json(body), "at": at}
    posted: int = connection.execute(insert(orders).returning(orders.c.id), row).scalar_one()
    return posted


_WAITING: Final = (
    select(orders.c.id, orders.c.task, orders.c.kind, orders.c.body, orders.c.at)
    .where(orders.c.root == bindparam("root"))
    .order_by(orders.c.id)
)
_DONE: Final = delete(orders).where(orders.c.root == bindparam("of_root"), orders.c.id == bindparam("of_id"))


def waiting(connection: Connection, root: str, taken: Collection[int] = ()) -> list[RemoteCommand | DamagedCommand]:
    """Return the commands of a root that are not done and were not taken yet, the oldest first."""
    found = connection.execute(_WAITING, {"root": root})
    return [_command(row) for row in found if row.id not in taken]


def _command(row: Any) -> RemoteCommand | DamagedCommand:
    try:
        body, at = from_json(row.body), float(row.at)
        if not isinstance(body, dict) or not all(isinstance(each, str) for each in (row.task, row.kind)):
            raise TypeError  # noqa: TRY301 - with the other ways in which it can be none
    except (TypeError, ValueError, RecursionError) as error:
        # Without its content: a command holds payload.
        what = f"holds a command that cannot be read ({type(error).__name__}): damaged, or written by something else"
        return DamagedCommand(row.id, str(row.task), StoreError("orders", what))
    return RemoteCommand(row.id, row.task, row.kind, body, at)


def done(connection: Connection, root: str, ids: Collection[int]) -> None:
    """Delete commands that are done, within the caller's transaction."""
    rows: list[dict[str, Any]] = [{"of_root": root, "of_id": each} for each in ids]
    connection.execute(_DONE, rows)
