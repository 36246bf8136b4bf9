"""Reads what is needed to open a store: all that is not finished, and a row of each task that is.

Comes in: a connection to a root that nobody else writes for. Goes out: a ``JournalIndex`` of it, and what else there is
to
know: which journals are damaged, and how late it is by what is written in them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection

from actors.tasks.model.store_events import JournalDamaged
from actors.tasks.model.task_errors import StoreError
from trees.store import record_reader
from trees.store.journal_index import FinishedStream, JournalIndex

MOST_AHEAD_S: Final = 24 * 3600.0
"""A time that is further ahead than this is no time that a clock has shown, but damage."""


@dataclass(slots=True)
class Loaded:
    """Knowledge of a store after loading, beside its index."""

    numbers: int = 0
    """The largest number of a stream."""
    damaged: list[JournalDamaged] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """The last ones that were written in each journal."""

    def count(self, seq: object) -> None:
        """Count a number of a stream. A value that is none is damage, and harmless."""
        if isinstance(seq, int) and seq > self.numbers:
            self.numbers = seq

    def begins(self, wall: float) -> float:
        """When this process begins, where a clock shows ``wall``: not before what was written by others."""
        return max([wall, *(time for time in self.times if time <= wall + MOST_AHEAD_S)])


def load(connection: Connection, root: str) -> tuple[JournalIndex, Loaded]:
    """Return what there is of a root."""
    index, loaded, wholes = JournalIndex(), Loaded(), list[tuple[str, str]]()
    for found in record_reader.unfinished(connection, root):
        loaded.count(found.seq)
        if isinstance(found.records, StoreError):
            loaded.damaged.append(JournalDamaged(found.owner, found.id, found.records))
            if found.seq:
                index.unreadable[found.id] = found.records
        elif not found.seq:  # holds one record that is replaced
            index.journals[found.id] = found.records
        else:
            index.create(found.id, found.owner, found.records, found.whole)
            loaded.times.append(getattr(found.records[-1], "at", 0.0))
            if found.whole is not None:
                wholes.append((found.id, found.whole))
    finished = record_reader.finished(connection, root)
    index.add_finished(
        # A file of SQLite takes anything.
        (id_, FinishedStream(owner, ended if isinstance(ended, float) else 0.0, last), whole)
        for id_, owner, _, whole, ended, last in finished
    )
    wholes += [(id_, whole) for id_, _, _, whole, _, _ in finished if whole is not None]
    loaded.count(max((seq for _, _, seq, *_ in finished if isinstance(seq, int)), default=0))
    if finished:
        loaded.times.append(index.ends[finished[-1][0]].at)
    index.join_parts(wholes)
    for stream in index.parts_at_hand():
        try:
            index.journals[stream] = record_reader.outline(connection, root, stream)
        except StoreError as error:
            loaded.damaged.append(JournalDamaged(index.ends[stream].owner, stream, error))
    return index, loaded
