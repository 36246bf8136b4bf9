"""The store that lives as long as its tree: outside of every orchestrator, so that it survives them all.

Records are kept as they are; nothing is written down. It is bounded: finished tasks stay as ``Keep`` says, and go with
their parts. A part that is finished stays as long as its task: what a team has done may have to be undone.

Locking: ``_lock`` keeps other threads out of changes of more than one of its dicts. It is re-entrant, because a
finalizer or a signal handler may run at any step under it and call the store again. What it would wait for there is
refused (``actors.concurrency.change_lock``): whoever is to reply may need this lock. So:

* a stream that is there goes on to be in ``_owners`` or in ``_finished`` when it changes from one to the other; for a
  moment it is in both, and then it is not finished. It leaves ``_streams`` last;
* nobody walks through a dict that such a call may change, but through a copy, which is made in one step of C;
* records are carried out of the lock, and let go of after it.

Appending to a stream that exists takes no lock: a list's own append is one step of C, and only one orchestrator appends
to a stream. Nor does a look at one stream, but where it is met while it changes from one dict to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from actors.concurrency.change_lock import LookLock
from actors.messaging.reply import Reply
from actors.model.events import Event, require_journalled
from actors.tasks.journal.store import Store, StreamState
from actors.tasks.model.task_events import TaskFinished
from actors.tasks.model.task_ids import whole_of
from trees.store.retention import Keep


class MemoryStore(Store):
    """Journals in memory.

    Args:
        keep: how long finished tasks stay, or how many of them. None: ``Keep()``.
    """

    def __init__(self, keep: Keep | int | None = None) -> None:
        self._keep = Keep(age_s=None, count=keep) if isinstance(keep, int) else keep or Keep()
        self._lock = LookLock()
        self._streams: dict[str, list[Event]] = {}
        self._owners: dict[str, str] = {}
        """Records of the streams that are not finished."""
        self._finished: dict[str, str] = {}
        """Records of the streams that are finished, the oldest first."""
        self._tops: dict[str, None] = {}
        """Finished streams that are no part of one that is there: they are counted, the first that finished first."""
        self._parts: dict[str, list[str]] = {}
        """Parts, by what they are a part of."""

    def __repr__(self) -> str:
        return f"<MemoryStore {len(self._owners)} unfinished, {len(self._finished)} finished>"

    def create(self, stream: str, owner: str, record: Event) -> bool:
        """Begin a stream; False where it exists already."""
        require_journalled(record)
        return self._lock.look(partial(self._create, stream, owner, record))

    def _create(self, stream: str, owner: str, record: Event) -> bool:
        records = [record]
        if self._streams.setdefault(stream, records) is not records:
            return False
        self._owners[stream] = owner
        whole = self._whole_of(stream)
        if whole is not None:
            self._parts.setdefault(whole, []).append(stream)
        return True

    def _whole_of(self, stream: str) -> str | None:
        """Return the stream that this is a part of, as long as that is there."""
        whole = whole_of(stream)
        return whole if whole in self._streams else None

    def withdraw(self, stream: str) -> bool:  # noqa: ARG002 - what is created is kept
        """Take back a stream: too late, it is kept."""
        return False

    def append(self, stream: str, record: Event) -> None:
        """Add a record; a stream that was finished goes on.

        Raises:
            KeyError: there is no such stream.
        """
        if not record.journalled:
            require_journalled(record)  # which says so; of each other kind its declaration has looked at the name
        self._streams[stream].append(record)
        if stream in self._finished:
            self._lock.look(partial(self._go_on, stream))

    def _go_on(self, stream: str) -> None:
        owner = self._finished.get(stream)
        if owner is not None:
            self._owners[stream] = owner
            self._tops.pop(stream, None)
            self._finished.pop(stream, None)
            if stream not in self._streams:  # a call in between has removed it
                self._owners.pop(stream, None)

    def flush(self) -> Reply | None:
        """Everything is kept already."""
        return None

    def read(self, stream: str, start: int = 0) -> Sequence[Event]:
        """The records from the ``start``-th on, oldest first."""
        return tuple(self._streams.get(stream, ())[start:])

    def last(self, stream: str) -> Event | None:
        """The last record of a stream."""
        records = self._streams.get(stream)
        return records[-1] if records else None

    def streams(self, owner: str) -> list[str]:
        """The streams of an owner that are not finished, oldest first."""
        owners = self._lock.look(self._owners.copy)
        return [name for name, of in owners.items() if of == owner]

    def finished(self, owner: str) -> list[str]:
        """The finished streams of an owner that are still there, the first that finished first."""
        finished = self._lock.look(self._finished.copy)
        return [name for name, of in finished.items() if of == owner]

    def owners(self) -> dict[str, str]:
        """The streams that are not finished, each with its owner."""
        return self._lock.look(self._owners.copy)

    def standing(self, stream: str) -> StreamState | None:
        """How a task's stream stands; None: there is none."""
        found = self._standing(stream)
        if found is not None or stream not in self._streams:
            return found
        return self._lock.look(partial(self._standing, stream))  # it was begun, or went on, between two steps of that

    def _standing(self, stream: str) -> StreamState | None:
        owner = self._owners.get(stream)
        if owner is not None:
            return StreamState(owner, "unfinished")
        owner = self._finished.get(stream)
        return StreamState(owner, "finished") if owner is not None else None

    def remove(self, stream: str) -> None:
        """Forget a stream, and its parts."""
        gone = self._lock.look(partial(self._remove, stream))
        del gone  # after the lock

    def _remove(self, stream: str) -> list[list[Event] | None]:
        # The whole may have ended, and be removed, before the orchestrator of a part has come to finish that.
        names = [stream, *(part for part in self._parts.pop(stream, ()) if self._is_over(part))]
        for each in names:
            self._owners.pop(each, None)
            self._tops.pop(each, None)
            self._finished.pop(each, None)
        return [self._streams.pop(each, None) for each in names]

    def _is_over(self, stream: str) -> bool:
        return stream in self._finished or isinstance(self.last(stream), TaskFinished)

    def finish(self, stream: str) -> None:
        """Note that nothing more comes, and let go of what need not be kept any longer."""
        gone = self._lock.look(partial(self._finish, stream))
        del gone  # after the lock

    def _finish(self, stream: str) -> list[list[Event] | None]:
        gone = list[list[Event] | None]()
        owner = self._owners.get(stream)
        if owner is None:
            return gone
        self._finished[stream] = owner
        if self._whole_of(stream) is None:
            self._tops[stream] = None
        self._owners.pop(stream, None)
        last = self.last(stream)
        while last is not None and (oldest := self._surplus(last.at)) is not None:
            self._tops.pop(oldest, None)
            if self._finished.pop(oldest, None) is not None:  # else a call in between goes on with it
                gone.append(self._streams.pop(oldest, None))
                parts = (part for part in self._parts.pop(oldest, ()) if self._finished.pop(part, None) is not None)
                gone += [self._streams.pop(part, None) for part in parts]
        return gone

    def _surplus(self, now: float) -> str | None:
        """Return the oldest of the finished tasks, if that need not be kept any longer."""
        keep, oldest = self._keep, None
        while oldest is None and self._tops:
            with suppress(RuntimeError):  # it was changed by a call in between
                oldest = next(iter(self._tops), None)
        if oldest is None or (keep.count is not None and len(self._tops) > keep.count):
            return oldest
        ended = self.last(oldest)
        is_old = ended is not None and keep.age_s is not None and now - ended.at > keep.age_s
        return oldest if is_old else None
