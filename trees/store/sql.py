"""The store that outlives its process: in a file of SQLite, or in PostgreSQL.

Unfinished tasks are held in memory (``MemoryStore``), so a caller on an event loop waits for nothing. Each change is
made there, and queued for the one thread that writes (``trees.store.writer``). Finished tasks, and large values that
are kept, are in the database only: ``read`` waits there, ``fetch`` reads on a thread of its own.

Locking: ``_lock`` guards the journals in memory, and that changes are queued in the order in which they are made there.
A change is queued before it is made: a Ctrl-C in between leaves a record that may be carried out, and no gap. Nothing
is waited for under the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection

from actors.concurrency import collector
from actors.concurrency.thread_state import after_fork, in_background
from actors.messaging.reply import Reply
from actors.model.clock import Clock, SystemClock, monotonic
from actors.model.events import Event, InternalError, require_journalled
from actors.tasks.journal.codec import encode, to_json
from actors.tasks.journal.dropped import dropped_of, without_large
from actors.tasks.journal.store import DurableStore, RemoteCommand, StreamState
from actors.tasks.model.live_events import JournalDamaged, OrderDamaged
from actors.tasks.model.task_errors import DamagedJournalError, StoreError
from trees.store import records
from trees.store.database import Database
from trees.store.memory import MemoryStore, Stream
from trees.store.reader import StoredTask, StoreReader, all_tasks
from trees.store.retention import Durability, Keep
from trees.store.session import WritingSession
from trees.store.statements import BEGIN, END, LEFT, ORDER_DONE, RECORD, Change
from trees.store.writer import CLOSE_S, FIRST_S, LONGEST_S, POLL_S, Writer

SHORT: Final = 8 * 1024
"""Characters of a last record up to which it is kept with the end of its stream."""
SHRINK_S: Final = 30.0
"""How often a file shrinks by what was deleted, at most."""
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
        self._database = Database(url, durability)
        self._root = root
        self._clock = clock or SystemClock()
        self._session = WritingSession(self._database, root)
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
        self._next_poll = self._next_shrink = 0.0
        self._has_gaps = False
        """True where something was deleted and a file has yet to shrink."""
        self._is_ending = self._is_forked = False
        self._fetching = threading.Lock()

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
            raise StoreError(self.name, "was opened before. Make another SqlStore")
        self._session.open(token)
        try:
            with collector.paused():
                self._database.read(self._load)
            writer = Writer(self._session, self._root, self.name, self)
            writer.start()
        except BaseException as error:
            self._session.close()
            self._database.close()
            if isinstance(error, RuntimeError):
                raise StoreError(self.name, f"no thread could be started ({error})") from error
            raise
        self._writer = writer
        after_fork(self)

    def _load(self, connection: Connection) -> None:
        wall = self._clock.wall() if self._clock.manual else self._database.now(connection)
        now, latest = self._clock.now(), wall
        self._unfinished, self._finished, self._damaged = {}, {}, {}
        self._untold = []
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
        if self._is_forked:
            return
        self._is_ending = True
        if self._writer is not None:
            for change in self._writer.close(within_s):
                if change.statement is LEFT:
                    what = f"could not keep an order about {change.stream} when the tree ended. Order it again"
                    self.publish(OrderDamaged(self._root, change.stream, StoreError(self.name, what)))
        self._database.close()

    def forked(self) -> None:
        """In the child of a fork: there is no writer here, and the lock of the root is the parent's."""
        self._is_forked, self._lock = True, threading.RLock()
        self._session.forked()
        self._database.forked()

    def _require_ours(self) -> None:
        if self._is_forked:
            what = "was opened by the process that this one is a fork of. Open a store of its own here"
            raise StoreError(self.name, f"{what}, for another root")

    def _writes(self) -> Writer:
        self._require_ours()
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
        kind, body = encode(record)
        then = partial(self._large_kept, stream, number, record) if len(body) > records.LARGE and record.large else None
        return Change(RECORD, stream, (self._root, stream, number, kind, body), then)

    def withdraw(self, stream: str) -> bool:
        """Take back a stream of one record that is not being written yet."""
        return self.withdraw_all((stream,))

    def withdraw_all(self, streams: Iterable[str]) -> bool:
        """Take back streams that were created together and are not being written yet: all of them, or none."""
        writer, names = self._writes(), set(streams)
        with self._lock:
            if any(len(self.outline(name)) != 1 for name in names & self._unfinished.keys()):
                return False
            is_withdrawn = writer.withdraw(names)
            for name in names if is_withdrawn else ():
                super()._forget(name)
        return is_withdrawn

    def append(self, stream: str, record: Event) -> None:
        """Add a record; a stream that was finished goes on.

        Raises:
            KeyError: there is no such stream.
            StoreError: it is damaged, or was finished and cannot be read now.
        """
        require_journalled(record)
        writer, found = self._writes(), self._find(stream)
        before = self._from_database(stream) if found is not None and found.records is None else ()
        with self._lock:
            found = self._find(stream)
            if found is None:
                raise KeyError(stream)
            records_ = found.records = found.records or list(before)
            if records_:
                if stream in self._finished:
                    writer.put(Change(END, stream, (None, None, self._root, stream)))
                    self._go_on(stream)
                writer.put(self._record(stream, len(records_), record))
                records_.append(record)
                return
        self.append(stream, record)  # its end was kept a moment ago: it has to be read

    def finish(self, stream: str) -> None:
        """Nothing more comes."""
        self._writes()
        super().finish(stream)

    def _finish(self, stream: str) -> Stream | None:
        """With the lock: queue the end before memory has it, and what is forgotten for it after."""
        found = self._unfinished.get(stream)
        if found is None or not found.records:
            return None
        last = found.records[-1]
        kind, body = ("", "") if dropped_of(last) is not None else encode(last)
        text = f"{kind} {body}" if kind and len(body) <= SHORT else None
        found.ended_at = self.time()
        row = (found.ended_at, text, self._root, stream)
        self._writes().put(Change(END, stream, row, partial(self._end_kept, stream, found, found.ended_at)))
        found.last = last if text else None
        return super()._finish(stream)

    def _end_of(self, ended: Stream) -> float:
        return ended.ended_at

    def remove(self, stream: str) -> None:
        """Delete a stream, whatever is in it."""
        self._writes()
        super().remove(stream)

    def _forget(self, stream: str) -> None:
        super()._forget(stream)
        self._damaged.pop(stream, None)
        self._writes().put(Change(None, stream, (self._root, stream)))
        self._has_gaps = True

    def flush(self) -> Reply | None:
        """None: everything is kept. Else it is being written."""
        return self._writes().flush()

    # -- what the writer tells, on its own thread ----------------------------------------------------------

    def _large_kept(self, stream: str, number: int, record: Event) -> None:
        """Let go of a large value: it is read when it is needed."""
        with self._lock:
            found = self._find(stream)
            if found is not None and found.records and number < len(found.records) and found.records[number] is record:
                found.records[number] = without_large(record, stream, number)

    def _end_kept(self, stream: str, found: Stream, at: float) -> None:
        """Let go of what has ended."""
        with self._lock:
            if self._finished.get(stream) is found and found.ended_at == at:
                found.records = None

    def spare_time(self) -> None:
        """Look for commands of other processes, and for what is too old."""
        now = monotonic()
        with self._lock:
            self._prune(self.time())
        if self._has_gaps and now >= self._next_shrink:
            self._has_gaps, self._next_shrink = False, now + SHRINK_S
            self._session.give_back()
        if now >= self._next_poll or self._looks:
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
        """Keep an order for the process that goes on; this one hears of no more."""
        self._is_ending = True
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
            StoreError: they are damaged; or what is not at hand cannot be read from the database.
        """
        found = self.outline(stream, start)
        numbers = range(start, start + len(found))
        return tuple(self._some(stream, numbers).values()) if any(map(dropped_of, found)) else found

    def outline(self, stream: str, start: int = 0) -> Sequence[Event]:
        """The records, perhaps without what is large: at hand where the stream is not finished.

        Raises:
            StoreError: they are damaged; or it is finished, and the database cannot be read.
        """
        self._require_ours()
        if stream in self._damaged:
            raise self._damaged[stream]
        found = self._find(stream)
        if found is None:
            return ()
        at_hand = found.records
        return tuple(at_hand[start:]) if at_hand is not None else self._from_database(stream, start)

    def _from_database(self, stream: str, start: int = 0) -> Sequence[Event]:
        """The records of a stream that is finished; none of one that was removed meanwhile."""
        try:
            return tuple(self._database.read(partial(records.read, root=self._root, stream=stream, start=start)))
        except DamagedJournalError:
            if self._find(stream) is None:
                return ()
            raise

    def _some(self, stream: str, numbers: Collection[int]) -> dict[int, Event]:
        """Whole records: those that are at hand, and the rest from the database."""
        found = self._find(stream)
        at_hand = dict(enumerate(found.records or ())) if found is not None else {}
        rest = [number for number in numbers if number not in at_hand or dropped_of(at_hand[number])]
        look = partial(records.some, root=self._root, stream=stream, numbers=rest)
        at_hand |= self._database.read(look) if rest else {}
        return {number: at_hand[number] for number in numbers}

    def fetch(self, stream: str, numbers: Collection[int]) -> Reply:
        """Read whole records by their numbers, on a thread of this store; a database that is away is waited for."""
        self._require_ours()
        reply = Reply()
        in_background(f"{self._root}-store-reads", partial(self._fetch, stream, numbers, reply))
        return reply

    def _fetch(self, stream: str, numbers: Collection[int], reply: Reply) -> None:
        with self._fetching:
            delay_s = FIRST_S
            while not reply.done:
                try:
                    reply.complete(self._some(stream, numbers))
                except Exception as error:  # noqa: BLE001 - a bug must not leave anybody waiting for ever
                    if self._is_ending or type(error) is not StoreError:
                        reply.fail(error)
                    threading.Event().wait(delay_s)
                    delay_s = min(2 * delay_s, LONGEST_S)

    def firsts(self, streams: Iterable[str]) -> dict[str, Event]:
        """The first record of each of these streams, in outline; of one that is gone or damaged there is none."""
        self._require_ours()
        names = list(streams)
        found = {name: each.records[0] for name in names if (each := self._find(name)) is not None and each.records}
        rest = [name for name in names if name not in found and self._find(name) is not None]
        if rest:
            found |= self._database.read(partial(records.firsts, root=self._root, names=rest))
        return {name: found[name] for name in names if name in found}

    def last(self, stream: str) -> Event | None:
        """The last record of a stream, finished or not."""
        self._require_ours()
        found = self._find(stream)
        if found is None:
            return None
        at_hand = found.records
        if at_hand:
            return at_hand[-1]
        if isinstance(found.last, str):
            found.last = records.decoded_last(found.last)
        if found.last is None:
            found.last = self._database.read(partial(records.last, root=self._root, stream=stream))
        return found.last

    def owners(self) -> dict[str, str]:
        """The streams that are not finished, oldest first, and whose each is."""
        self._require_ours()
        return super().owners()

    def standing(self, stream: str) -> StreamState | None:
        """How a task's stream stands; at hand. None: there is none."""
        return StreamState("", "damaged") if stream in self._damaged else super().standing(stream)

    def all_tasks(self) -> list[StoredTask]:
        """Every task in the database, finished or not, oldest first. Waits for the database."""
        self._require_ours()
        return self._database.read(partial(all_tasks, root=self._root))


def _later(latest: float, at: float, wall: float) -> float:
    return max(latest, at) if at <= wall + MOST_AHEAD_S else latest
