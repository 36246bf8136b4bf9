"""Where plans and results live: the stores behind ``actors.tasks.journal.store.Store``.

``open_store`` makes one of what ``start(store=...)`` was given. What needs a database is imported when one is wanted.
May import ``actors``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from actors.model.names import missing
from actors.tasks.journal.store import Store
from actors.tasks.model import StoreError
from trees.agents.packages import install
from trees.store.journal_file import SUFFIX, JournalFile
from trees.store.memory import MemoryStore
from trees.store.retention import Keep

if TYPE_CHECKING:
    from trees.store.sql import SqlStore

__all__ = ["Keep", "MemoryStore", "SqlStore", "open_store"]


def open_store(
    store: str | Store | None,
    *,
    root: str,
    durability: Literal["process", "power"] = "process",
    keep: Keep | None = None,
    opened: bool = True,
) -> Store:
    """The store of a tree, ready to be used.

    Args:
        store: a file (``tasks.jsonl``); a URL (``sqlite:///tasks.db``, ``postgresql://user@host/database``); a store,
            which is used as it is; None: memory.
        root: the id of the tree's root.
        durability: "process": what is kept survives the death of the process. "power": and a loss of power.
        keep: how long what is finished is kept; None: see ``Keep``.
        opened: False: it is made, and not opened, because a lease decides who opens it.

    Raises:
        StoreBusyError: another process has this root open in it.
        StoreError: it cannot be used; says why, and what to do.
    """
    if not isinstance(store, str):
        return MemoryStore(keep) if store is None else store
    if store.endswith(SUFFIX) and ":" not in store:
        if durability == "power":
            raise StoreError(store, "a file does not survive a loss of power. Use sqlite:/// or postgresql://")
        file = JournalFile(store, root=root, keep=keep)
        file.open()
        return file
    made = _sql(store)(store, root=root, durability=durability, keep=keep)
    if opened:
        made.open()
    return made


def _sql(url: str = "sqlite:") -> type[SqlStore]:
    try:
        from trees.store.sql import SqlStore  # noqa: PLC0415 - only here is what the extra `sql` installs needed
    except ModuleNotFoundError as error:
        absent = (error.name or "").partition(".")[0]
        if absent != "sqlalchemy":
            raise
        if not url.startswith(("sqlite", "postgres")):
            what = (
                "is not a known kind of store. Use 'tasks.jsonl', 'sqlite:///tasks.db' or 'postgresql://USER@HOST/DB'"
            )
            raise StoreError(url.partition(":")[0], what) from None
        raise StoreError("sql", f"needs {absent}, which is not installed. {install('sql')}") from error
    return SqlStore


def __getattr__(name: str) -> Any:
    if name == "SqlStore":
        return _sql()
    raise missing(__name__, name)
