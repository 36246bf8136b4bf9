"""The store that lives as long as its tree: outside of every orchestrator, so it survives them all.

Records are kept as they are. Finished tasks stay as ``Keep`` says. The stores that outlive their process derive from
this one: each of their changes is made here and written as well.

Locking: ``_lock`` guards all of it; nothing is waited for under it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from actors.messaging.reply import Reply
from actors.model.events import Event, require_journalled
from actors.tasks.journal.store import Store, StreamState
from trees.store.retention import Keep

MOST_FORGOTTEN: Final = 256
"""Finished tasks that are forgotten at a time, so that nobody waits for long."""


@dataclass(slots=True, eq=False)
class Stream:
    """A stream that a store knows."""

    owner: str
    records: list[Event] | None
    """None: they are in the database only."""
    ended_at: float = 0.0
    last: Event | str | None = None
    """Where there are no records at hand: the last one, or its text."""


class MemoryStore(Store):
    """Journals in memory.

    Args:
        keep: how long finished tasks stay, or how many of them. None: ``Keep()``.
    """

    def __init__(self, keep: Keep | int | None = None) -> None:
        self._keep = Keep(age_s=None, count=keep) if isinstance(keep, int) else keep or Keep()
        self._lock = threading.RLock()
        self._unfinished: dict[str, Stream] = {}
        self._finished: dict[str, Stream] = {}
        """The first that finished first."""

    def _find(self, stream: str) -> Stream | None:
        with self._lock:
            return self._unfinished.get(stream) or self._finished.get(stream)

    def create(self, stream: str, owner: str, record: Event) -> bool:
        """Begin a stream; False where it exists already."""
        require_journalled(record)
        with self._lock:
            if self._find(stream) is not None:
                return False
            self._unfinished[stream] = Stream(owner, [record])
        return True

    def create_all(self, firsts: Iterable[tuple[str, str, Event]]) -> list[str]:
        """Begin many streams, one after the other; returns those that did not exist."""
        return [stream for stream, owner, record in firsts if self.create(stream, owner, record)]

    def withdraw_all(self, streams: Collection[str]) -> bool:  # noqa: ARG002 - what is created is kept
        """Too late: they are kept."""
        return False

    def append(self, stream: str, *records: Event) -> None:
        """Add records; a stream that was finished goes on.

        Raises:
            KeyError: there is no such stream.
        """
        for record in records:
            require_journalled(record)
        with self._lock:
            if stream in self._finished:
                self._unfinished[stream] = self._finished.pop(stream)
            found = self._unfinished[stream]
            if found.records is None:
                raise KeyError(stream)
            found.records.extend(records)

    def flush(self) -> Reply | None:
        """Everything is kept already."""
        return None

    def read(self, stream: str, start: int = 0) -> Sequence[Event]:
        """The records from the ``start``-th on, oldest first."""
        found = self._find(stream)
        return tuple(found.records[start:]) if found is not None and found.records is not None else ()

    def firsts(self, streams: Iterable[str]) -> dict[str, Event]:
        """The first record of each of these streams; of one that is gone there is none."""
        return {stream: record for stream in streams for record in self.read(stream)[:1]}

    def last(self, stream: str) -> Event | None:
        """The last record of a stream."""
        found = self._find(stream)
        return found.records[-1] if found is not None and found.records else None

    def owners(self) -> dict[str, str]:
        """The streams that are not finished, each with its owner."""
        with self._lock:
            return {name: each.owner for name, each in self._unfinished.items()}

    def finished(self, owner: str) -> list[str]:
        """The finished streams of an owner that are still there, the first that finished first."""
        with self._lock:
            return [name for name, each in self._finished.items() if each.owner == owner]

    def standing(self, stream: str) -> StreamState | None:
        """How a task's stream stands; None: there is none."""
        found = self._find(stream)
        if found is None:
            return None
        return StreamState(found.owner, "unfinished" if stream in self._unfinished else "finished")

    def finish(self, stream: str) -> None:
        """Note that nothing more comes, and let go of what need not be kept any longer."""
        with self._lock:
            found = self._unfinished.get(stream)
            if found is not None:
                found.ended_at = self._end(stream, found)
                self._finished[stream] = self._unfinished.pop(stream)
                self._prune(found.ended_at)

    def _end(self, stream: str, ended: Stream) -> float:  # noqa: ARG002 - for the stores that write it
        """With the lock: when it has ended."""
        return ended.records[-1].at if ended.records else 0.0

    def _prune(self, now: float) -> None:
        """Forget finished tasks that need not be kept any longer."""
        keep = self._keep
        for _ in range(MOST_FORGOTTEN):
            oldest = next(iter(self._finished), None)
            if oldest is None:
                return
            too_many = keep.count is not None and len(self._finished) > keep.count
            too_old = keep.age_s is not None and now - self._finished[oldest].ended_at > keep.age_s
            if not too_many and not too_old:
                return
            self._forget(oldest)

    def remove(self, stream: str) -> None:
        """Forget a stream."""
        with self._lock:
            self._forget(stream)

    def _forget(self, stream: str) -> None:
        self._unfinished.pop(stream, None)
        self._finished.pop(stream, None)
