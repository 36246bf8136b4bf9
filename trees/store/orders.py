"""Orders from other processes: what ``regrow`` asks of a tree that runs elsewhere, by way of the store they share.

An order lies in the store until the tree has done it: ``post`` puts it there, the tree's store finds it (``waiting``)
within ``trees.store.writer.POLL_S``, and takes it away when that is done. A tree that is down finds it when it comes
up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, insert, select

from actors.tasks.written import from_json, to_json
from trees.store.schema import orders


@dataclass(frozen=True, slots=True)
class Order:
    """What somebody wants of a task."""

    id: int
    """The later one has the larger one."""
    task: str
    kind: str
    """cancel, respond."""
    body: dict[str, Any] = field(repr=False)
    """What there is to say beside that."""
    at: float
    """Seconds since 1970, by the store's clock."""


def post(connection: Connection, root: str, task: str, kind: str, body: Mapping[str, Any], at: float) -> int:
    """Put an order down for the tree of this root, within the caller's transaction; its id."""
    row = {"root": root, "task": task, "kind": kind, "body": to_json(body), "at": at}
    posted: int = connection.execute(insert(orders).returning(orders.c.id), row).scalar_one()
    return posted


_WAITING: Final = (
    select(orders.c.id, orders.c.task, orders.c.kind, orders.c.body, orders.c.at)
    .where(orders.c.root == bindparam("root"))
    .order_by(orders.c.id)
)
_DONE: Final = delete(orders).where(orders.c.root == bindparam("of_root"), orders.c.id == bindparam("of_id"))


def waiting(connection: Connection, root: str, taken: Collection[int] = ()) -> list[Order]:
    """The orders of a root that are not done and were not taken yet, the oldest first."""
    found = connection.execute(_WAITING, {"root": root})
    return [Order(row.id, row.task, row.kind, from_json(row.body), row.at) for row in found if row.id not in taken]


def done(connection: Connection, root: str, ids: Collection[int]) -> None:
    """They are done, within the caller's transaction."""
    rows: list[dict[str, Any]] = [{"of_root": root, "of_id": each} for each in ids]
    connection.execute(_DONE, rows)
