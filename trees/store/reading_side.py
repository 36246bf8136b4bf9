"""Part of ``SqlStore`` that reads: from the index where something is at hand, else from the database.

Comes in: names of streams. Goes out: records, whole (``read``, ``fetch``) or in outline, without what is large
(``actors.tasks.journal.dropped``). ``outline`` and ``fetch`` wait for no database where a stream is not finished: what
``fetch`` has to read it reads in a thread of its own (``trees.store.value_reader``).

Locking: ``SqlStore._lock``, in each look at the index. No query is made under it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TypeAlias

from actors.concurrency.change_lock import ChangeLock
from actors.messaging.reply import Reply
from actors.model.events import Event
from actors.tasks.journal.dropped import dropped_of
from actors.tasks.model.task_errors import DamagedJournalError
from trees.store import record_reader
from trees.store.database import Database
from trees.store.journal_index import JournalIndex
from trees.store.value_reader import ValueReader

_Reader: TypeAlias = Callable[..., Sequence[Event]]


class ReadingSide:
    """The part of a ``SqlStore`` that has readers."""

    _root: str
    _database: Database
    _index: JournalIndex
    _leaving: list[str]
    _lock: ChangeLock
    _values: ValueReader

    def _require_ours(self) -> None:
        raise NotImplementedError

    def read(self, stream: str, start: int = 0) -> Sequence[Event]:
        """The records from the ``start``-th on, oldest first.

        Raises:
            StoreError: they are damaged; or what is not at hand cannot be read from the database.
        """
        found, is_whole = self._found(stream, start, record_reader.read)
        if is_whole:
            return found
        lacking = [number for number, record in enumerate(found, start) if dropped_of(record) is not None]
        if not lacking:
            return found
        whole = self._some(stream, lacking)
        return tuple(whole.get(number, record) for number, record in enumerate(found, start))

    def outline(self, stream: str, start: int = 0) -> Sequence[Event]:
        """The records without what is large, as far as they are kept: at hand where the stream is not finished.

        Raises:
            StoreError: they are damaged; or it is finished, and the database cannot be read.
        """
        return self._found(stream, start, record_reader.outline)[0]

    def _found(self, stream: str, start: int, reader: _Reader) -> tuple[Sequence[Event], bool]:
        """Return the records that are at hand; or else, and True, what the reader finds in the database.

        A stream may be removed after it was looked for, and another one of its name begun. That is no damage.
        """
        while (found := self._at_hand(stream, start)) is None:
            end = self._index.ends.get(stream)
            look = partial(reader, root=self._root, stream=stream, start=start)
            try:
                return tuple(self._database.read(look)), True
            except DamagedJournalError:
                if stream in self._leaving:
                    return (), True
                if end is not None and self._index.ends.get(stream) is end:
                    raise
        return found, False

    def _at_hand(self, stream: str, start: int) -> Sequence[Event] | None:
        self._require_ours()
        return self._lock.look(partial(self._index.at_hand, stream, start))

    def fetch(self, stream: str, numbers: Collection[int]) -> Reply:
        """Read whole records by their numbers, in a thread of this store."""
        self._require_ours()
        return self._values.fetch(stream, numbers)

    def _some(self, stream: str, numbers: Collection[int]) -> dict[int, Event]:
        journal = self._index.journals.get(stream)
        at_hand = enumerate(self._at_hand(stream, 0) or ())
        found = {number: record for number, record in at_hand if number in numbers and dropped_of(record) is None}
        try:
            rest = {*numbers} - found.keys()
            return found | self._database.read(
                lambda connection: record_reader.some(connection, self._root, stream, rest)
            )
        except DamagedJournalError as error:
            if self._index.journals.get(stream) is journal:  # else it may be another one of that name by now
                self._lock.look(partial(self._index.found_damaged, stream, error))
            raise

    def firsts(self, streams: Iterable[str]) -> dict[str, Event]:
        """The first record of each of these streams, in outline; of one that is gone or damaged there is none."""
        self._require_ours()
        wanted = list(streams)
        journals = self._index.journals

        def look() -> dict[str, Event]:
            return {each: records[0] for each in wanted if (records := journals.get(each))}

        at_hand = self._lock.look(look)
        rest = [each for each in wanted if each not in at_hand]
        if rest:
            at_hand |= self._database.read(lambda connection: record_reader.firsts(connection, self._root, rest))
        return {each: at_hand[each] for each in wanted if each in at_hand}

    def last(self, stream: str) -> Event | None:
        """The last record of a stream, finished or not."""
        self._require_ours()
        found, end = self._index.last(stream), self._index.ends.get(stream)
        if found is None and end is not None:
            found = end.last = self._database.read(
                lambda connection: record_reader.last(connection, self._root, stream)
            )
        return found
