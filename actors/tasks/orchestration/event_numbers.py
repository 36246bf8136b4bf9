"""Numbers of the events of tasks: each record has one, ``event.seq``, by which ``handle.events(after=n)`` goes on.

The rules:

* A task and all its teams' parts share one row of numbers, in the order in which their records are made. So a deep
  stream is ordered by them, and a shallow one has gaps. A part that was pruned leaves a gap.
* A number is written with its record: it is the same for every reader, in every process. It never comes twice.
* ``TaskSubmitted`` has 1. A process that goes on with a task of an earlier one begins at the next million. Between them
  may be records that a reader has seen, and that were lost with their process before they were kept: what follows must
  not have their numbers.
* ``SubtaskProgressed`` and ``SubtaskStreamed`` are in no journal, and have the number of the record before them.
* Journals of older versions have no numbers: their records count as 1, 2, 3 ... where they are read.

Threads: numbers are given on the event loop of the tree, where all orchestrators run; but for the first one of a task,
which nobody else knows at that moment. Others only look: each operation on the table is one step of C.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from actors.model.events import Event
from actors.tasks.model.event_base import TaskEvent, give_seq
from actors.tasks.model.task_errors import StoreError
from actors.tasks.model.task_events import SubtaskStarted
from actors.tasks.model.task_ids import MARK, whole_of

if TYPE_CHECKING:
    from actors.tasks.orchestration.task_runtime import TaskRuntime

FIRST: Final = 1
_NONE: Final = -1
STRIDE: Final = 1_000_000
"""Numbers that a process has for a task before those of the next one begin; a few more are no harm."""


def first_after(last: int) -> int:
    """Return the first number that the next process gives, when the last one that is kept of a task is ``last``.

    At least half a stride lies between them: so many records of one task are never lost with a process.
    """
    return ((last + STRIDE // 2) // STRIDE + 1) * STRIDE


class _Row:
    """Row of the numbers of one task, which its parts share."""

    __slots__ = ("last", "parts")

    def __init__(self, last: int) -> None:
        self.last = last
        """Number that was given last."""
        self.parts: set[str] | None = None
        """Parts that have it, too, as they go on; None: it has had none, as most tasks."""


class EventNumbers:
    """The numbers of the tasks of one tree."""

    def __init__(self, runtime: TaskRuntime) -> None:
        self._runtime = runtime
        self._rows: dict[str, _Row] = {}
        """By id, of tasks and of parts that go on: found once for each, not for each record."""

    def begun(self, task: str) -> None:
        """Note that a new task is kept, whose first record has the first number."""
        self._rows[task] = _Row(FIRST)

    def give(self, record: TaskEvent, parent: str | None) -> None:
        """Number a record that is about to be kept; ``parent`` is that of its task, where it is a team's part."""
        row = self._rows.get(record.task) or self._enter(record.task, parent)
        row.last += 1
        give_seq(record, row.last)

    def _enter(self, task: str, parent: str | None) -> _Row:
        """Return the row of one that has had no number here yet, or none since that was forgotten."""
        whole = task if parent is None and MARK not in task else self.whole(task, parent)
        row = self._rows.get(whole)
        if row is None:
            row = self._rows[whole] = _Row(self._first_here(whole, task) - 1)
        if task != whole:
            self._rows[task] = row
            row.parts = row.parts or set()
            row.parts.add(task)
        return row

    def whole(self, task: str, parent: str | None = None) -> str:
        """Return the task of a user that this one is a part of, or is itself."""
        store = self._runtime.store
        return whole_of(task, parent, lambda id_: store.standing(id_) is not None) or task

    def latest(self, whole: str) -> int:
        """Return a number that no record has which is yet to be made, and none that there is exceeds."""
        row = self._rows.get(whole)
        return row.last if row is not None else self._first_here(whole, whole) - 1

    def latest_of(self, task: str) -> int:
        """Return the number of the last record of a task that goes on, for what is in no journal."""
        row = self._rows.get(task) or self._rows.get(whole_of(task) or task)
        return row.last if row is not None else 0

    def before(self, whole: str) -> int:
        """Return a number that all records of earlier processes have at most, and none of this one."""
        last = max(map(self._last_before, self._family(whole)), default=_NONE)
        return first_after(last) - 1 if last != _NONE else 0

    def forget(self, task: str) -> None:
        """Note that a task has ended, and that this is kept. A part that goes on all the same begins a new stride."""
        row = self._rows.pop(task, None)
        if row is None or row.parts is None:
            return
        if task in row.parts:
            row.parts.remove(task)
        else:
            for part in row.parts:
                del self._rows[part]

    def _first_here(self, whole: str, task: str) -> int:
        store = self._runtime.store
        standing = store.standing(whole)
        # A task that has ended is not at hand, and nothing more is recorded of it; of a part of it there may be.
        known = self._family(whole) if standing is not None and standing.is_ == "unfinished" else {whole}
        return first_after(max(_seq_of(store.last(each)) for each in {*known, task}))

    def _family(self, whole: str) -> set[str]:
        """Return the ids of a task and of all parts that its teams have had, of which its journals tell."""
        found, left = {whole}, [whole]
        while left:
            parts = {each.part for each in self._records(left.pop()) if isinstance(each, SubtaskStarted) and each.part}
            left += parts - found
            found |= parts
        return found

    def _records(self, task: str) -> Sequence[Event]:
        try:
            return self._runtime.outline(task)
        except StoreError:
            return ()  # it is damaged: nothing goes on with it

    def _last_before(self, task: str) -> int:
        """Return the number of the last record of a task that earlier processes have made; ``_NONE``: none."""
        records, opened_at = self._records(task), self._runtime.opened_at
        unfinished = self._runtime.before.get(task)
        if unfinished is not None:
            records = records[:unfinished]
        old = (each for each in reversed(records) if unfinished is not None or _is_before(each, opened_at))
        return next(map(_seq_of, old), _NONE)


def _seq_of(record: object) -> int:
    return record.seq if isinstance(record, TaskEvent) else 0


def _is_before(record: object, opened_at: float) -> bool:
    return isinstance(record, TaskEvent) and record.at < opened_at
