"""The store that outlives its process: in a file of SQLite, or in PostgreSQL.

Unfinished tasks are held in memory (``MemoryStore``), so a caller on an event loop waits for nothing. Each change is
made there, and queued for the one thread that writes (``trees.store.writer``). Finished tasks are in the database only
once their end is kept: ``read`` waits there.

Locking: ``_lock`` guards the journals in memory, and that changes are queued in the order in which they are made there.
A change is queued before it is made: a Ctrl-C in between leaves a record that may be carried out, and no gap. Only who
goes on with a finished task waits under the lock, for its records.

In the child of a fork a store is of no use: its writer is in the parent. The child lets go of the parent's lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection

from actors.concurrency import collector
from actors.concurrency.thread_state import after_fork
from actors.messaging.reply import Reply
from actors.model.clock import Clock, SystemClock, monotonic
from actors.model.events import Event, InternalError
from actors.tasks.journal.codec import encode, to_json
from actors.tasks.journal.store import DurableStore, RemoteCommand, StreamState
from actors.tasks.model import DamagedJournalError, JournalDamaged, StoreError
from trees.store import records
from trees.store.database import Database
from trees.store.memory import MemoryStore, Stream
from trees.store.reader import StoreReader
from trees.store.retention import Durability, Keep
from trees.store.session import WritingSession
from trees.store.statements import BEGIN, END, LEFT, ORDER_DONE, RECORD, Change
from trees.store.writer import CLOSE_S, POLL_S, Writer

SHORT: Final = 8 * 1024
"""Characters of a last record up to which it is kept with the end of its stream."""
MOST_AHEAD_S: Final = 24 * 3600.0
"""A time that is further ahead than this is no time that a clock has shown, but damage."""


class SqlStore(MemoryStore, DurableStore):
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
        super().__init__(keep)
        self.database = Database(url, durability)
        self._root = root
        self._clock = clock or SystemClock()
        self._session = WritingSession(self.database, root)
        self._writer: Writer | None = None
        self._number = 0
        """Of the stream that was created last."""
        self._epoch = self._clock.wall() - self._clock.now()
        """Difference between seconds since 1970 and the clock of this process."""
        self._damaged: dict[str, StoreError] = {}
        """Streams that are not finished and cannot be read. They are not listed: nobody can go on with them."""
        self._untold: list[JournalDamaged] = []
        self._taken: set[int] = set()
        """Ids of commands that the listener was given, and that are not done."""
        self._looks: list[Reply] = []
        """Completed once the listener was given all commands that had been left before."""
        self._next_poll = 0.0
        self._is_ending = False

    @property
    def token(self) -> int:
        """The fencing token: larger than that of every process that had this root open before."""
        return self._session.token

    @property
    def name(self) -> str:
        """Name in errors: the URL, without a password."""
        return self.database.name

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
        if self._writer is not None:
            raise StoreError(self.name, "was opened before. Make another SqlStore")
        self._session.open(token)
        try:
            with collector.paused():
                self.database.read(self._load)
            writer = Writer(self._session, self._root, self.name, self)
            writer.start()
        except BaseException:
            self._session.close()
            self.database.close()
            raise
        self._writer = writer
        after_fork(self)

    def _load(self, connection: Connection) -> None:
        wall = self._clock.wall() if self._clock.manual else self.database.now(connection)
        now, latest = self._clock.now(), wall
        for stream, owner, number, found in records.unfinished(connection, self._root):
            self._number = max(self._number, number)
            if isinstance(found, StoreError):
                self._damaged[stream] = found
                self._untold.append(JournalDamaged(owner, stream, found))
                continue
            self._unfinished[stream] = Stream(owner, found)
            latest = _later(latest, found[-1].at, wall)
        ended = records.finished(connection, self._root)
        self._finished = {stream: Stream(owner, None, at, last) for stream, owner, _, at, last in ended}
        latest = _later(latest, ended[-1][3], wall) if ended else latest
        self._number = max([self._number, *(row[2] for row in ended)])
        if not self._clock.manual:
            self._epoch = latest - now

    def time(self) -> float:
        """Seconds since 1970 by the store's clock, as it stood when this was opened; it goes on evenly from there.

        It never says less than what the journals were told before, as long as that is not more than a day ahead.
        """
        return self._epoch + self._clock.now()

    def close(self, within_s: float = CLOSE_S) -> None:
        """Write what is not written yet, and let go of the root. It can be read all the same.

        Waits at most ``within_s`` seconds for a database that hangs. What cannot be written now is not kept: nobody was
        told that it is.
        """
        self._is_ending = True
        if self._writer is not None:
            self._writer.close(within_s)
        self.database.close()

    def forked(self) -> None:
        """In the child of a fork: the lock of the root is the parent's."""
        self._session.forked()

    def _writes(self) -> Writer:
        if self._writer is None:
            raise StoreError(self.name, "is not open. Call open() first")
        return self._writer

    @property
    def paused_s(self) -> float | None:
        """Seconds for which nothing could be written so far; None: it writes, or is not open."""
        return None if self._writer is None else self._writer.paused_s

    # -- changes -------------------------------------------------------------------------------------------

    def create(self, stream: str, owner: str, record: Event) -> bool:
        """Begin a stream; False where it exists already."""
        return bool(self.create_all([(stream, owner, record)]))

    def create_all(self, firsts: Iterable[tuple[str, str, Event]]) -> list[str]:
        """Begin many streams, in one transaction; returns those that did not exist."""
        writer, made, changes = self._writes(), dict[str, Stream](), list[Change]()
        with self._lock:
            for stream, owner, record in firsts:
                if stream in made or self.standing(stream) is not None:
                    continue
                self._number += 1
                made[stream] = Stream(owner, [record])
                changes.append(Change(BEGIN, stream, (self._root, stream, owner, self._number, None, None)))
                changes.append(self._record(stream, 0, record))
            writer.put(*changes)
            for stream, begun in made.items():
                self._unfinished[stream] = begun
        return list(made)

    def _record(self, stream: str, number: int, record: Event) -> Change:
        return Change(RECORD, stream, (self._root, stream, number, *encode(record)))

    def withdraw_all(self, streams: Collection[str]) -> bool:
        """Take back streams that were created together and are not being written yet: all of them, or none."""
        writer, names = self._writes(), set(streams)
        with self._lock:
            if any(len(self.read(name)) != 1 for name in names & self._unfinished.keys()):
                return False
            is_withdrawn = writer.withdraw(names)
            for name in names if is_withdrawn else ():
                super()._forget(name)
        return is_withdrawn

    def append(self, stream: str, *records: Event) -> None:
        """Add records; a stream that was finished goes on.

        Raises:
            KeyError: there is no such stream.
            StoreError: it is damaged, or was finished and cannot be read now.
        """
        writer = self._writes()
        with self._lock:
            found = self._find(stream)
            if found is None:
                raise KeyError(stream)
            if found.records is None:
                found.records = list(self.read(stream))
            changes = [self._record(stream, at, record) for at, record in enumerate(records, len(found.records))]
            if stream in self._finished:
                changes.insert(0, Change(END, stream, (None, None, self._root, stream)))
            writer.put(*changes)
            super().append(stream, *records)

    def _end(self, stream: str, ended: Stream) -> float:
        at, last = self.time(), (ended.records or self.read(stream))[-1]
        kind, body = encode(last)
        text = f"{kind} {body}" if len(body) <= SHORT else None
        ended.last = last if text else None
        row = (at, text, self._root, stream)
        self._writes().put(Change(END, stream, row, partial(self._end_kept, stream, ended, at)))
        return at

    def _forget(self, stream: str) -> None:
        super()._forget(stream)
        self._damaged.pop(stream, None)
        self._writes().put(Change(None, stream, (self._root, stream)))

    def flush(self) -> Reply | None:
        """None: everything is kept. Else it is being written."""
        return self._writes().flush()

    # -- what the writer tells, on its own thread ----------------------------------------------------------

    def _end_kept(self, stream: str, found: Stream, at: float) -> None:
        """Let go of what has ended."""
        with self._lock:
            if self._finished.get(stream) is found and found.ended_at == at:
                found.records = None

    def spare_time(self) -> None:
        """Look for commands of other processes, and for what is too old."""
        now = monotonic()
        if now >= self._next_poll or self._looks:
            with self._lock:
                self._prune(self.time())
            self._hear()
            self._next_poll = now + POLL_S / 2

    def _hear(self) -> None:
        listener, looks = self.listener, len(self._looks)
        if listener is not None:
            while self._untold:
                listener.publish(self._untold.pop(0))
        for order in self._session.waiting(self._taken):
            if listener is not None and not self._is_ending:
                self._taken.add(order.id)
                try:
                    listener.order(order)
                except Exception as error:  # noqa: BLE001 - a listener must not end the writer
                    self.publish(InternalError(self._root, error))
        for look in self._looks[:looks]:
            look.complete()
        del self._looks[:looks]

    # -- commands of other processes -----------------------------------------------------------------------

    def heard_orders(self) -> Reply:
        """Completed when the listener was given every command that had been posted before this call."""
        reply, writer = Reply(), self._writes()
        self._looks.append(reply)
        writer.wake()
        return reply

    def order_done(self, order: RemoteCommand) -> None:
        """Note that a command of another process is done, or cannot be done."""
        done = partial(self._taken.discard, order.id)
        self._writes().put(Change(ORDER_DONE, "", (self._root, order.id), done))

    def leave_order(self, task: str, kind: str, body: dict[str, Any], at: float) -> bool:
        """Keep an order for the process that goes on; this one hears of no more. False while nothing can be written."""
        self._is_ending = True
        if self.paused_s is not None:
            return False
        self._writes().put(Change(LEFT, task, (self._root, task, kind, to_json(body), at)))
        return True

    # -- telling -------------------------------------------------------------------------------------------

    def committed(self, seconds: float) -> None:
        """Tell the listener of a commit."""
        if self.listener is not None:
            self.listener.committed(seconds)

    def publish(self, event: Event) -> None:
        """Something has happened."""
        if self.listener is not None:
            self.listener.publish(event)

    def lost(self, error: StoreError) -> None:
        """Nothing more will be written."""
        for look in self._looks:
            look.fail(error)
        if self.listener is not None:
            self.listener.lost(error)

    # -- reading -------------------------------------------------------------------------------------------

    def read(self, stream: str, start: int = 0) -> Sequence[Event]:
        """The records from the ``start``-th on, oldest first.

        Raises:
            StoreError: they are damaged; or it is finished, and the database cannot be read.
        """
        if stream in self._damaged:
            raise self._damaged[stream]
        found = self._find(stream)
        at_hand = found.records if found is not None else []
        if at_hand is not None:
            return tuple(at_hand[start:])
        try:
            return tuple(self.database.read(partial(records.read, root=self._root, stream=stream, start=start)))
        except DamagedJournalError:
            if self._find(stream) is None:  # it was removed meanwhile
                return ()
            raise

    def firsts(self, streams: Iterable[str]) -> dict[str, Event]:
        """The first record of each of these streams, in this order; of one that is gone or damaged there is none."""
        names = list(streams)
        found = {name: each.records[0] for name in names if (each := self._find(name)) is not None and each.records}
        rest = [name for name in names if name not in found and self._find(name) is not None]
        if rest:
            found |= self.database.read(partial(records.firsts, root=self._root, names=rest))
        return {name: found[name] for name in names if name in found}

    def last(self, stream: str) -> Event | None:
        """The last record of a stream, finished or not."""
        found = self._find(stream)
        if found is None:
            return None
        at_hand = found.records
        if at_hand:
            return at_hand[-1]
        if isinstance(found.last, str):
            found.last = records.decoded_last(found.last)
        if found.last is None:
            found.last = self.database.read(partial(records.last, root=self._root, stream=stream))
        return found.last

    def standing(self, stream: str) -> StreamState | None:
        """How a task's stream stands; at hand. None: there is none."""
        return StreamState("", "damaged") if stream in self._damaged else super().standing(stream)


def _later(latest: float, at: float, wall: float) -> float:
    return max(latest, at) if at <= wall + MOST_AHEAD_S else latest
