"""Client of a store that another process has open: reads, and leaves commands (``regrow tasks``).

It takes no lock and no token, reads what is committed, and writes nothing but commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection

from actors.model.events import Event
from actors.tasks.journal.store import RemoteCommand
from actors.tasks.model import DamagedJournalError, StoreError
from trees.store import commands, records
from trees.store.database import Database
from trees.store.lock import is_file_locked, is_locked_in_session
from trees.store.schema import require_version, run


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A task that is in a store."""

    root: str
    id: str
    owner: str
    """The path of its supervisor."""
    number: int
    """The later one of a root has the larger one."""
    finished_at: float | None
    """Seconds since 1970; None: it is not finished."""


_TASKS: Final = "SELECT root, id, owner, seq, finished_at FROM regrow_streams"


def all_tasks(connection: Connection, root: str | None = None) -> list[StoredTask]:
    """Every task of a root, or of all of them, oldest first."""
    wanted = f"{_TASKS} ORDER BY root, seq" if root is None else f"{_TASKS} WHERE root = :root ORDER BY seq"
    return [StoredTask(*row) for row in run(connection, wanted, root=root)]


def _records(connection: Connection, root: str, stream: str, start: int = 0) -> list[Event]:
    """The records of a stream, none where there is none: its tree may forget it at any moment."""
    try:
        return records.read(connection, root, stream, start)
    except DamagedJournalError:
        if not _is_there(connection, root, stream):
            return []
        raise


def _is_there(connection: Connection, root: str, stream: str) -> bool:
    found = run(connection, f"{_TASKS} WHERE root = :root AND id = :stream", root=root, stream=stream)
    return found.first() is not None


class StoreReader:
    """A database of stores, seen from outside of them."""

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        try:
            self._database.read(lambda connection: require_version(connection, self._database.name))
        except BaseException:
            self._database.close()
            raise

    def __repr__(self) -> str:
        return f"<StoreReader at {self._database.name}>"

    def all_tasks(self, root: str | None = None) -> list[StoredTask]:
        """Every task of a root, or of all, finished or not, oldest first."""
        return self._database.read(lambda connection: all_tasks(connection, root))

    @property
    def name(self) -> str:
        """Name of the store, without its secrets."""
        return self._database.name

    def roots(self) -> list[StoredRoot]:
        """Every tree of the store, and who leads it."""
        return self._database.read(lambda connection: stored_roots(connection, self._database))

    def mark(self) -> int:
        """Return a number that changes with what is in the store."""
        return self._database.read(mark)

    def read(self, stream: str, start: int = 0, *, root: str | None = None) -> Sequence[Event]:
        """The records of a task from the ``start``-th on; none where there is no such task, or none any more.

        Raises:
            StoreError: they are damaged; or there is a task of this id in several roots, and none was named.
        """

        def look(connection: Connection) -> list[Event]:
            found = run(connection, f"{_TASKS} WHERE id = :stream", stream=stream).scalars().all()
            if root is None and len(found) > 1:
                what = f"has a task {stream!r} in each of {', '.join(sorted(found))}. Say which root"
                raise StoreError(self._database.name, what)
            of = root if root is not None else next(iter(found), "")
            return _records(connection, of, stream, start)

        return self._database.read(look)

    def firsts(self, tasks: Sequence[StoredTask]) -> list[tuple[StoredTask, Event | None]]:
        """The first record of each of these tasks; None of one that is damaged, or that its tree has forgotten."""
        return self._one_of_each(records.firsts, tasks)

    def ends(self, tasks: Sequence[StoredTask]) -> list[tuple[StoredTask, Event | None]]:
        """The last record of each of these that are finished; None of one that is damaged, or was forgotten."""
        return self._one_of_each(records.ends, tasks)

    def _one_of_each(
        self, look: Callable[[Connection, str, Sequence[str]], dict[str, Event]], tasks: Sequence[StoredTask]
    ) -> list[tuple[StoredTask, Event | None]]:
        found: dict[tuple[str, str], Event] = {}
        with self._database.reading() as connection:
            for root in dict.fromkeys(task.root for task in tasks):
                names = [task.id for task in tasks if task.root == root]
                found |= {(root, id_): record for id_, record in look(connection, root, names).items()}
        return [(task, found.get((task.root, task.id))) for task in tasks]

    def journals(self, tasks: Iterable[StoredTask]) -> Iterator[tuple[StoredTask, Sequence[Event] | StoreError]]:
        """The records of many tasks, through one connection; of one that is damaged, what is wrong with it.

        Whoever listed them did so before: one that its tree has forgotten since is left out.
        """
        with self._database.reading() as connection:
            for task in tasks:
                try:
                    if found := _records(connection, task.root, task.id):
                        yield task, found
                except StoreError as error:
                    yield task, error

    def post_command(self, root: str, task: str, kind: str, body: Mapping[str, Any]) -> int | None:
        """Leave a command for the tree of this root: it is taken within a second, or when that tree comes up.

        Returns its id, for ``is_waiting``; None where there is no such task any more, and nothing is left: it would be
        about the next one of this id.

        ``kind`` is cancel, respond or remove; of ``body`` JSON can be made.
        """
        with self._database.transaction() as connection:
            if not _is_there(connection, root, task):
                return None
            return commands.post(connection, root, task, kind, body, self._database.now(connection))

    def waiting(self, root: str) -> list[RemoteCommand]:
        """Return the commands that are still to be carried out, the oldest first; of those that can be read."""
        return self._database.read(lambda connection: commands.waiting(connection, root))

    def is_waiting(self, root: str, order: int) -> bool:
        """True if a command is still to be carried out."""
        return any(each.id == order for each in self.waiting(root))

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()


@dataclass(frozen=True, slots=True)
class StoredRoot:
    """One tree of a store."""

    root: str
    holder: str
    """Name of whoever leads it, or has led it last; empty: nobody ever has."""
    token: int
    left_s: float | None
    """Seconds until its lease is over; None: it has none, as a tree without ``ha=``."""
    led: bool | None
    """True while it is led; None: that cannot be seen from here."""
    unfinished: int
    """Tasks that are not finished, without the parts of teams."""
    finished: int


_COUNTS: Final = "SELECT root, count(*), count(finished_at) FROM regrow_streams WHERE id NOT LIKE '%@%' GROUP BY root"
_LEASES: Final = "SELECT root, holder, token, expires_at FROM regrow_leases ORDER BY root"
_MARKS: Final = (
    "SELECT count(*), count(finished_at), max(finished_at) FROM regrow_streams",
    "SELECT root, holder, token FROM regrow_leases ORDER BY root",
    "SELECT count(*), max(id) FROM regrow_orders",
    (
        "SELECT r.root, r.stream, max(r.n) FROM regrow_records AS r JOIN regrow_streams AS s"
        " ON s.root = r.root AND s.id = r.stream WHERE s.finished_at IS NULL"
        " GROUP BY r.root, r.stream ORDER BY r.root, r.stream"
    ),
)


def stored_roots(connection: Connection, database: Database) -> list[StoredRoot]:
    """Every root of a store, by name: a fleet seen from outside. Nothing is locked or written.

    A tree with ``ha=`` is led while its lease has time left, by the store's clock. One without has no lease: it is led
    while a process has its lock (``trees.store.lock``), and only the holder's name is in the store.
    """
    counts = {root: (every - ended, ended) for root, every, ended in run(connection, _COUNTS)}
    held = {root: (holder, token, ends) for root, holder, token, ends in run(connection, _LEASES)}
    now = database.now(connection)
    found = []
    for root in sorted({*counts, *held}):
        holder, token, ends = held.get(root, ("", 0, None))
        left_s = None if ends is None else ends - now
        led = left_s > 0 if left_s is not None else token > 0 and _is_locked(connection, database, root)
        found.append(StoredRoot(root, holder, token, left_s, led, *counts.get(root, (0, 0))))
    return found


def mark(connection: Connection) -> int:
    """Return a number that changes with what is in a store, as far as somebody who looks at its tasks sees it."""
    return hash(tuple(tuple(tuple(row) for row in run(connection, each)) for each in _MARKS))


def _is_locked(connection: Connection, database: Database, root: str) -> bool | None:
    if database.file is not None:
        return is_file_locked(database.file, root)
    return is_locked_in_session(connection, root)
