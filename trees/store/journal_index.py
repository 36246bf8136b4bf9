"""Index of the journals of a durable store: all that is not finished, and what else there is by name.

Of what is not finished no large value is at hand once it is kept (``actors.tasks.journal.dropped``): so what the index
takes grows with the number of records, and not with what they hold.

Comes in: what was read when the store was opened, and each change. Goes out: answers, without a query. A stream leaves
when its end is kept; one that is a *part* of another (``actors.tasks.model.task_ids``) stays until that one leaves,
because its supervisor may look at it again before. Of what was finished before, no more than a row each is at hand; its
last record is read when somebody asks for it.

Nothing here waits, writes or locks: ``trees.store.sql`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from actors.model.events import Event
from actors.tasks.journal.codec import decode
from actors.tasks.journal.dropped import without_large
from actors.tasks.journal.store import StreamState
from actors.tasks.model.task_errors import StoreError
from actors.tasks.model.task_events import TaskFinished
from actors.tasks.model.task_ids import MARK, whole_of
from trees.store.retention import Keep


@dataclass(slots=True)
class FinishedStream:
    """Entry of a stream that is finished."""

    owner: str
    at: float
    """Seconds since 1970."""
    last: Event | str | None
    """Last record, or kind and body of it; None: it has to be read."""
    mark: object = None
    """Write under way that says so; None: it is kept."""


class JournalIndex:
    """The streams of one root."""

    def __init__(self) -> None:
        self.journals: dict[str, list[Event]] = {}
        """Streams that are at hand."""
        self.owners: dict[str, str] = {}
        """Numbers of the streams that are not finished, the oldest first."""
        self.ends: dict[str, FinishedStream] = {}
        """Numbers of the streams that are finished; the first that finished first."""
        self.unreadable: dict[str, StoreError] = {}
        """Not finished, and damaged: what is wrong. What was so when it was opened is not listed: nobody stumbles over
        it."""
        self._wholes: dict[str, str] = {}
        """By part: what it is a part of."""
        self._parts: dict[str, list[str]] = {}
        """Parts, by what they are a part of."""
        self._lanes: dict[str, str] = {}
        """By part whose name does not say what it is a part of: that. It stays that as long as there is the part."""
        self._tops: dict[str, None] = {}
        """Streams that are finished and no part of anything known: those that are counted, first finished first."""

    def knows(self, stream: str) -> bool:
        """True if there is such a stream, at hand or not."""
        return any(stream in each for each in (self.owners, self.ends, self.journals, self.unreadable))

    def lane(self, stream: str) -> str:
        """The streams whose changes must not overtake each other: the task of a user and all its parts, by its id.

        Nothing: such a stream belongs to no task.
        """
        if MARK in stream:
            return whole_of(stream) or ""
        return self._lanes.get(stream, stream)

    def standing(self, stream: str) -> StreamState | None:
        """How a task's stream stands; None: there is none."""
        if stream in self.unreadable:
            return StreamState("", "damaged")
        end = self.ends.get(stream)
        if end is not None:
            return StreamState(end.owner, "finished")
        owner = self.owners.get(stream)
        return StreamState(owner, "unfinished") if owner is not None else None

    def at_hand(self, stream: str, start: int = 0) -> Sequence[Event] | None:
        """The records from the ``start``-th on; None: they are in the database only.

        Raises:
            StoreError: they are damaged.
        """
        if stream in self.unreadable:
            raise self.unreadable[stream]
        records = self.journals.get(stream)
        if records is not None:
            return tuple(records[start:])
        return None if stream in self.ends else ()

    def last(self, stream: str) -> Event | None:
        """The last record of a stream."""
        records = self.journals.get(stream)
        if records:
            return records[-1]
        end = self.ends.get(stream)
        if end is not None and isinstance(end.last, str):
            kind, _, body = end.last.partition(" ")
            try:
                end.last = decode(kind, body)
            except StoreError:
                end.last = None
        return end.last if end is not None else None  # type: ignore[return-value]

    # -- changes -------------------------------------------------------------------------------------------

    def create(self, stream: str, owner: str, records: list[Event], whole: str | None = None) -> None:
        """A stream that is not finished; ``whole`` is what it is a part of, where its name does not say so."""
        self.journals[stream] = records
        self.owners[stream] = owner
        self._join(stream, whole)

    def withdraw(self, stream: str) -> None:
        """Forget a stream that was never there."""
        del self.journals[stream], self.owners[stream]
        self._lanes.pop(stream, None)
        self._part(stream)

    def large_kept(self, stream: str, number: int, record: Event) -> None:
        """Note that a record with a large value is written: that value need not be at hand any more."""
        records = self.journals.get(stream, ())
        if number < len(records) and records[number] is record:  # else it is another one of that name by now
            records[number] = without_large(record, stream, number)  # type: ignore[index]  # it is no empty tuple

    def found_damaged(self, stream: str, error: StoreError) -> None:
        """Note that a value of a stream that goes on is gone: it stays listed, so whoever goes on with it says so."""
        if stream in self.owners:
            self.unreadable[stream] = error

    def finish(self, stream: str, end: FinishedStream) -> None:
        """Nothing more comes. It stays at hand until ``end_kept``."""
        self.owners.pop(stream, None)
        self.ends[stream] = end
        if stream not in self._wholes:
            self._tops[stream] = None

    def reopen(self, stream: str, records: list[Event]) -> None:
        """One that was finished goes on."""
        self.owners[stream] = self.ends.pop(stream).owner
        self._tops.pop(stream, None)
        self.journals[stream] = records

    def add_finished(self, found: Iterable[tuple[str, FinishedStream, str | None]]) -> None:
        """Add those that have a row only, each with what it is a part of, where its name does not say so.

        Those that are not finished must be known before.
        """
        ends, tops = self.ends, self._tops
        for stream, end, whole in found:
            ends[stream] = end
            if whole is not None or MARK in stream:  # else it is a part of nothing, as almost all are
                self._join(stream, whole)
                if stream in self._wholes:
                    continue
            tops[stream] = None

    def join_parts(self, wholes: Iterable[tuple[str, str]]) -> None:
        """Parts that were known before what they are parts of."""
        for part, whole in wholes:
            if part not in self._wholes and self.knows(whole):
                self._join(part, whole)
                self._tops.pop(part, None)

    def remove(self, stream: str, goes_on: Callable[[str], bool]) -> list[str]:
        """One is deleted, however it stands, with its parts that do not go on by themselves; returns all of them.

        ``goes_on`` says whether there is somebody who goes on with the streams of an owner.
        """
        # The whole may have ended, and be removed, before the orchestrator of a part has come to finish that.
        parts = [p for p in self._parts.get(stream, ()) if p in self.ends or isinstance(self.last(p), TaskFinished)]
        names = [stream, *parts, *self._left_behind([stream], goes_on)]
        self.forget(names)
        return names

    def end_kept(self, stream: str, mark: object) -> None:
        """Note that the end of a stream is written: it need not be at hand any more, unless what it is a part of is."""
        end = self.ends.get(stream)
        if end is None or end.mark is not mark:
            return  # it went on meanwhile
        end.mark = None
        if self._wholes.get(stream) in self.journals:
            return
        self.journals.pop(stream, None)
        for part in self._parts.get(stream, ()):
            its_end = self.ends.get(part)
            if its_end is not None and its_end.mark is None:
                self.journals.pop(part, None)

    def parts_at_hand(self) -> list[str]:
        """Streams that are finished and a part of something that is not."""
        return [part for part, whole in self._wholes.copy().items() if part in self.ends and whole in self.owners]

    # -- what is too old -------------------------------------------------------------------------------------

    def surplus(self, keep: Keep, now: float, most: int) -> list[str]:
        """At most ``most`` tasks that need not be kept any longer, the oldest first."""
        over = 0 if keep.count is None else max(0, len(self._tops) - keep.count)
        found = list(islice(self._forgettable(), min(over, most)))
        if keep.age_s is not None and len(found) == over:
            for stream in islice(self._forgettable(), len(found), most):
                if now - self.ends[stream].at <= keep.age_s:
                    break
                found.append(stream)
        return found

    def excess(self, keep: Keep) -> int:
        """How many there are too many of."""
        return 0 if keep.count is None else len(self._tops) - keep.count

    def with_parts(self, streams: Sequence[str], goes_on: Callable[[str], bool]) -> list[str]:
        """Return these and all that are parts of them, as far as those are finished, or nobody goes on with them."""
        found = [
            each for stream in streams for each in (stream, *self._parts.get(stream, ())) if self._is_forgettable(each)
        ]
        return [*found, *self._left_behind(streams, goes_on)]

    def _left_behind(self, wholes: Sequence[str], goes_on: Callable[[str], bool]) -> list[str]:
        """Parts of these that are not finished, and never will be: damaged, or of a team that the tree has no more."""
        parts = (part for whole in wholes for part in self._parts.get(whole, ()) if part not in self.unreadable)
        stranded = [part for part in parts if part in self.owners and not goes_on(self.owners[part])]
        return [*stranded, *(part for part in self.unreadable.copy() if whole_of(part) in wholes)]

    def forget(self, streams: Iterable[str]) -> None:
        """Note that these are deleted."""
        for stream in streams:
            self.unreadable.pop(stream, None)
            self.owners.pop(stream, None)
            self.ends.pop(stream, None)
            self._tops.pop(stream, None)
            self.journals.pop(stream, None)
            self._lanes.pop(stream, None)
            self._part(stream)
            for part in self._parts.pop(stream, ()):
                self._wholes.pop(part, None)
                if part in self.ends:
                    self._tops[part] = None

    # -- parts -----------------------------------------------------------------------------------------------

    def _forgettable(self) -> Iterator[str]:
        return (stream for stream in self._tops.copy() if self._is_forgettable(stream))

    def _is_forgettable(self, stream: str) -> bool:
        end = self.ends.get(stream)
        return end is not None and end.mark is None

    def _join(self, stream: str, whole: str | None) -> None:
        """Remember what it is a part of."""
        if whole is None and MARK not in stream:
            return
        whole = whole if whole is not None else whole_of(stream)
        if whole is not None and self.knows(whole):
            self._wholes[stream] = whole
            if MARK not in stream:
                self._lanes[stream] = whole
            self._parts.setdefault(whole, []).append(stream)

    def _part(self, stream: str) -> None:
        whole = self._wholes.pop(stream, None)
        if whole in self._parts:
            self._parts[whole].remove(stream)
