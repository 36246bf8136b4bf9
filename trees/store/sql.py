"""The store that outlives its process: in a file of SQLite, or in PostgreSQL.

Unfinished tasks are held in memory (``journal_index``), so that a caller on an event loop waits for nothing. Each
change is made there, and queued for the one thread that writes (``writer``) through the one connection that may
(``fenced_connection``). Finished tasks, and large values that are kept, are in the database only: ``read`` waits there,
``fetch`` reads in a thread of its own (``value_reader``).

Events for its tree, and commands of other processes, are the business of ``store_listener``.

Locking: ``_lock`` guards the index, and that changes are queued in the order in which they are made there. Under it
only the writer's own lock is taken, in ``Writer.put`` and ``withdraw``; nothing under it waits for a disk or a network.
A finalizer or a signal handler may run at any step under it. It may look at the tree: so nobody walks through a dict of
the index under it, but through a copy, which is made in one step of C. What it wants to change is refused, and so is
what it wants to wait for: the thread that writes needs this lock (``actors.concurrency.change_lock``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import Final

from sqlalchemy import Connection

from actors.concurrency import collector
from actors.concurrency.change_lock import ChangeLock
from actors.concurrency.thread_state import after_fork
from actors.messaging.reply import Reply
from actors.model.clock import Clock, SystemClock, monotonic
from actors.model.events import Event, require_journalled
from actors.tasks.journal.dropped import dropped_of
from actors.tasks.journal.store import DurableStore, StreamState
from actors.tasks.model.task_errors import StoreError
from actors.tasks.model.task_ids import whole_of
from trees.store.batches import Batch, Change, ChangeKind
from trees.store.database import Database
from trees.store.fenced_connection import FencedConnection
from trees.store.journal_index import FinishedStream, JournalIndex
from trees.store.loading import Loaded, load
from trees.store.reader import StoredTask, StoreReader, all_tasks
from trees.store.reading_side import ReadingSide
from trees.store.retention import Durability, Keep
from trees.store.store_listener import ListenerSide
from trees.store.value_reader import ValueReader
from trees.store.writer import CLOSE_S, Writer

PRUNED_AT_ONCE: Final = 256
"""Finished tasks in one transaction; so many too many there may be before that happens while there is other work."""
AGE_LOOK_S: Final = 30.0
"""How often it looks for what is too old."""


class SqlStore(ListenerSide, ReadingSide, DurableStore):
    """Journals in a database. Open it before anything else, and close it at the end."""

    def __init__(
        self,
        url: str,
        *,
        root: str,
        durability: Durability = "process",
        keep: Keep | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(root)
        self._database = Database(url, durability)
        self._keep = keep or Keep()
        self._clock = clock or SystemClock()
        self._lock = ChangeLock(root)
        self._index = JournalIndex()
        self._numbers = 0
        self._session = FencedConnection(self._database, root)
        self._writer: Writer | None = None
        self._values = ValueReader(root, self._some)
        self._epoch = self._clock.wall() - self._clock.now()
        """Difference between seconds since 1970 and the clock of this process."""
        self._leaving: list[str] = []
        """Streams that are being deleted: they do not go on any more."""
        self._next_age_look = 0.0
        self._forked = False

    def __repr__(self) -> str:
        return f"<SqlStore {self._database.name} of {self._root!r}>"

    @property
    def token(self) -> int:
        """The fencing token: larger than that of every process that had this root open before."""
        return self._session.token

    @property
    def name(self) -> str:
        """Name in errors: the URL, without a password."""
        return self._database.name

    @property
    def database(self) -> Database:
        """Where it is."""
        return self._database

    # -- opening and closing -------------------------------------------------------------------------------

    @staticmethod
    def look(url: str) -> StoreReader:
        """Open the database for reading only, whatever process has it open."""
        return StoreReader(url)

    def open(self, token: int | None = None) -> None:
        """Take the root for this process, and read what is unfinished. Waits for the database.

        Args:
            token: the one that was taken with the lease of this root; None: take the next one.

        Raises:
            StoreBusyError: another process has this root open.
            LeaseLostError: the token is not the one that counts any more.
            StoreError: the database cannot be used; it says why, and what to do.
        """
        self._require_ours()
        if self._writer is not None:
            raise StoreError(self._database.name, "was opened before. Make another SqlStore")
        self._session.open(token)
        try:
            self._load()
            self._writer = Writer(self._session, self._root, self._database.name, self)
            self._writer.start()
        except BaseException as error:
            self._writer = None
            self._session.close()
            self._database.close()
            if isinstance(error, RuntimeError):
                raise StoreError(self._database.name, f"no thread could be started ({error})") from error
            raise
        after_fork(self)

    def _load(self) -> None:
        def read(connection: Connection) -> tuple[float, float, JournalIndex, Loaded]:
            wall = self._clock.wall() if self._clock.manual else self._database.now(connection)
            return wall, self._clock.now(), *load(connection, self._root)  # which takes its time

        with collector.paused():
            wall, now, self._index, loaded = self._database.read_much(read)
        self._numbers, self._damaged = loaded.numbers, loaded.damaged
        if not self._clock.manual:
            self._epoch = loaded.begins(wall) - now

    def time(self) -> float:
        """Seconds since 1970 by the store's clock, as it stood when this was opened; it goes on evenly from there.

        It never says less than what the journals were told before, as long as that is not more than a day ahead: so a
        clock that was set back, or that of another machine, does not make anybody wait for an hour.
        """
        return self._epoch + self._clock.now()

    def close(self, within_s: float = CLOSE_S) -> None:
        """Write what is not written yet, and let go of the root. What is finished can be read all the same.

        Waits at most ``within_s`` seconds for a database that hangs. What cannot be written now is not kept: nobody was
        told that it is.
        """
        if self._forked:
            return
        try:
            if self._writer is not None:
                self._writer.close(within_s)
                self._post_left()
        finally:
            self._values.close(within_s)
            self._database.close()

    def _require_ours(self) -> None:
        if self._forked:
            what = (
                "was opened by the process that this one is a fork of. Open a store of its own here, for another root"
            )
            raise StoreError(self._database.name, what)

    def _writes(self) -> Writer:
        self._require_ours()
        if self._writer is None:
            raise StoreError(self._database.name, "is not open. Call open() first")
        return self._writer

    @property
    def paused_s(self) -> float | None:
        """Seconds for which nothing could be written so far; None: it writes, or is not open."""
        writer = self._writer
        return None if writer is None else writer.paused_s

    # -- what a Store does ---------------------------------------------------------------------------------

    def create(self, stream: str, owner: str, record: Event) -> bool:
        """Begin a stream; False where it exists already."""
        return bool(self.create_all([(stream, owner, record)]))

    def create_all(self, firsts: Iterable[tuple[str, str, Event]]) -> list[str]:
        """Begin many streams, in one transaction; returns those that did not exist."""
        return self._lock.change(partial(self._create, self._writes(), tuple(firsts)))

    def _create(self, writer: Writer, firsts: Iterable[tuple[str, str, Event]]) -> list[str]:
        changes: list[Change] = []
        for stream, owner, record in firsts:
            require_journalled(record)
            if not self._index.knows(stream):
                changes.append(self._created(stream, owner, record, follows=bool(changes)))
        writer.put(*changes)
        return [change.stream for change in changes]

    def _created(self, stream: str, owner: str, record: Event, *, follows: bool) -> Change:
        self._numbers += 1
        whole = whole_of(stream, getattr(record, "parent", None), self._index.knows)
        self._index.create(stream, owner, [record], whole)
        change = Change(ChangeKind.CREATED, stream, number=self._numbers, owner=owner, whole=whole, record=record)
        change.lane, change.follows = self._index.lane(stream), follows
        return change

    def withdraw(self, stream: str) -> bool:
        """Take back a stream of one record that is not being written yet."""
        return self.withdraw_all((stream,))

    def withdraw_all(self, streams: Iterable[str]) -> bool:
        """Take back streams of one record that are not being written yet: all of them, or none."""
        return self._lock.change(partial(self._withdraw, self._writes(), set(streams)))

    def _withdraw(self, writer: Writer, names: set[str]) -> bool:
        are_new = all(len(self._index.journals.get(stream, ())) == 1 for stream in names)
        if not are_new or not writer.withdraw(*names):
            return False
        for stream in names:
            self._index.withdraw(stream)
        return True

    def append(self, stream: str, record: Event) -> None:
        """Add a record; a stream that was finished goes on.

        Raises:
            KeyError: there is no such stream.
            StoreError: it is damaged.
        """
        require_journalled(record)
        writer = self._writes()
        if not self._lock.change(partial(self._append, writer, stream, record)):
            end = self._index.ends.get(stream)
            found = list(self.outline(stream))
            self._lock.change(partial(self._go_on, writer, stream, record, end, found))

    def _append(self, writer: Writer, stream: str, record: Event) -> bool:
        """Add it; False where the stream is finished, or not there."""
        if stream not in self._index.owners:
            return False
        records = self._index.journals[stream]
        writer.put(Change(ChangeKind.ADDED, stream, number=len(records), record=record, lane=self._index.lane(stream)))
        records.append(record)
        return True

    def _go_on(
        self, writer: Writer, stream: str, record: Event, end: FinishedStream | None, found: list[Event]
    ) -> None:
        """Add it to one that was finished when ``end`` was looked up, and whose records were these."""
        if stream not in self._index.owners:  # else somebody else was here
            if end is None or self._index.ends.get(stream) is not end or stream in self._leaving:
                raise KeyError(stream)
            self._index.reopen(stream, self._index.journals.get(stream, found))
            writer.put(Change(ChangeKind.REOPENED, stream, lane=self._index.lane(stream)))
        self._append(writer, stream, record)

    def flush(self) -> Reply | None:
        """None: everything is kept. Else it is being written."""
        return self._writes().flush()

    def flush_streams(self, streams: Collection[str]) -> Reply | None:
        """None: what these streams have by now is kept. Else it is being written."""
        return self._writes().flush({self._index.lane(stream) for stream in streams})

    def standing(self, stream: str) -> StreamState | None:
        """How a task's stream stands; at hand. None: there is none."""
        self._require_ours()
        return self._lock.look(partial(self._index.standing, stream))

    def remove(self, stream: str) -> None:
        """Delete a stream, whatever is in it, and its parts that do not go on by themselves."""
        self._lock.change(partial(self._remove, self._writes(), stream))

    def _remove(self, writer: Writer, stream: str) -> None:
        lane = self._index.lane(stream)
        for name in self._index.remove(stream, self._goes_on):
            writer.put(Change(ChangeKind.REMOVED, name, lane=lane))

    def streams(self, owner: str) -> list[str]:
        """The streams of an owner that are not finished, oldest first."""
        self._require_ours()
        owners = self._lock.look(self._index.owners.copy)
        return [name for name, of in owners.items() if of == owner]

    def owners(self) -> dict[str, str]:
        """The streams that are not finished, oldest first, and whose each is."""
        self._require_ours()
        return self._lock.look(self._index.owners.copy)

    def finished(self, owner: str) -> list[str]:
        """Return the finished streams, the first that finished first."""
        self._require_ours()
        ends = self._lock.look(self._index.ends.copy)
        return [name for name, end in ends.items() if end.owner == owner]

    def finish(self, stream: str) -> None:
        """Nothing more comes."""
        self._lock.change(partial(self._finish, self._writes(), stream))

    def _finish(self, writer: Writer, stream: str) -> None:
        owner = self._index.owners.get(stream)
        if owner is None:
            return
        last, lane = self._index.last(stream), self._index.lane(stream)
        last = None if last is None or dropped_of(last) is not None else last
        change = Change(ChangeKind.FINISHED, stream, record=last, at=self.time(), lane=lane)
        self._index.finish(stream, FinishedStream(owner, change.at, change.record, change))
        writer.put(change)

    def all_tasks(self) -> list[StoredTask]:
        """Every task in the database, finished or not, oldest first. Waits for the database."""
        self._require_ours()
        return self._database.read(lambda connection: all_tasks(connection, self._root))

    # -- what the writer tells, in its own thread ----------------------------------------------------------

    def kept(self, batch: Batch) -> None:
        """Note that this is written: what has ended need not be at hand any more."""
        if batch.ends or batch.large:
            self._lock.change(partial(self._kept, batch))
        self._done(batch.orders)

    def _kept(self, batch: Batch) -> None:
        for stream, number, record in batch.large:
            self._index.large_kept(stream, number, record)
        for stream, change in batch.ends.items():
            self._index.end_kept(stream, change)

    def spare_time(self, *, idle: bool) -> None:
        """Look for commands of other processes, and for what is too old."""
        now = monotonic()
        self._listen(now)
        excess = self._lock.look(partial(self._index.excess, self._keep))
        if excess > (0 if idle else PRUNED_AT_ONCE) or (idle and now >= self._next_age_look):
            self._prune()
            self._next_age_look = now + AGE_LOOK_S

    def _prune(self) -> None:
        self._lock.change(self._leave)
        if self._leaving:
            self._session.prune(self._leaving)
            self._lock.change(self._left)

    def _leave(self) -> None:
        found = self._index.surplus(self._keep, self.time(), PRUNED_AT_ONCE)
        self._leaving = self._index.with_parts(found, self._goes_on)

    def _left(self) -> None:
        self._index.forget(self._leaving)
        self._leaving = []

    # -- in the child of a fork ----------------------------------------------------------------------------

    def forked(self) -> None:
        """Adapt to the child of a fork: there is no writer here, and the guard is the parent's."""
        self._forked = True
        self._lock = ChangeLock(self._root)
        self._session.forked()
        self._database.forked()
