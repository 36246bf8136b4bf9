"""Numbers of the events of tasks: each record has one, ``event.seq``, by which ``handle.events(after=n)`` goes on.

The rules:

* A task and all its teams' parts share one row of numbers, in the order in which their records are made. So a deep
  stream is ordered by them, and a shallow one has gaps. A part that was pruned leaves a gap.
* A number is written with its record: it is the same for every reader, in every process. It never comes twice.
* ``TaskSubmitted`` has 1. A process that goes on with a task of an earlier one begins at the next million. Between them
  may be records that a reader has seen, and that were lost with their process before they were kept: what follows must
  not have their numbers.
* ``SubtaskProgressed`` is in no journal, and has the number of the record before it.
* Journals of older versions have no numbers: their records count as 1, 2, 3 ... where they are read.

Threads: numbers are given on the event loop of the tree, where all orchestrators run; but for the first one of a task,
which nobody else knows at that moment. Others only look: each operation on the table is one step of C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.tasks.model.event_base import TaskEvent, give_seq
from actors.tasks.model.task_ids import MARK, whole_of

if TYPE_CHECKING:
    from actors.tasks.orchestration.task_runtime import TaskRuntime

FIRST: Final = 1
STRIDE: Final = 1_000_000
"""Numbers that a process has for a task before those of the next one begin; a few more are no harm."""


def first_after(last: int) -> int:
    """Return the first number that the next process gives, when the last one that is kept of a task is ``last``.

    At least half a stride lies between them: so many records of one task are never lost with a process.
    """
    return ((last + STRIDE // 2) // STRIDE + 1) * STRIDE


class EventNumbers:
    """The numbers of the tasks of one tree."""

    def __init__(self, runtime: TaskRuntime) -> None:
        self._runtime = runtime
        self._last: dict[str, int] = {}
        """Number that was given last, by task; of those that go on."""

    def begun(self, task: str) -> None:
        """Note that a new task is kept, whose first record has the first number."""
        self._last[task] = FIRST

    def give(self, record: TaskEvent, parent: str | None) -> None:
        """Number a record that is about to be kept; ``parent`` is that of its task, where it is a team's part."""
        task = record.task
        whole = task if parent is None and MARK not in task else self.whole(task, parent)
        last = self._last.get(whole)
        number = self._last[whole] = last + 1 if last is not None else self._first_here(whole, task)
        give_seq(record, number)

    def whole(self, task: str, parent: str | None = None) -> str:
        """Return the task of a user that this one is a part of, or is itself."""
        store = self._runtime.store
        return whole_of(task, parent, lambda id_: store.standing(id_) is not None) or task

    def latest(self, whole: str) -> int:
        """Return a number that no record has which is yet to be made, and none that there is exceeds."""
        last = self._last.get(whole)
        return last if last is not None else self._first_here(whole, whole) - 1

    def latest_of(self, task: str) -> int:
        """Return the number of the last record of a task that goes on, for what is in no journal."""
        whole = task if MARK not in task else whole_of(task) or task
        return self._last.get(whole, 0)

    def before(self, whole: str) -> int:
        """Return a number that all records of earlier processes have at most, and none of this one."""
        runtime = self._runtime
        records = runtime.outline(whole)
        unfinished = runtime.before.get(whole)
        if unfinished is None:
            old = bool(records) and isinstance(records[-1], TaskEvent) and records[-1].at < runtime.opened_at
            unfinished = len(records) if old else 0
        return first_after(_seq_of(records[unfinished - 1])) - 1 if unfinished else 0

    def forget(self, task: str) -> None:
        """Note that a task has ended, and that this is kept. A part that goes on all the same begins a new stride."""
        self._last.pop(task, None)

    def _first_here(self, whole: str, task: str) -> int:
        store = self._runtime.store
        known = [store.last(each) for each in {whole, task}]
        return first_after(max((_seq_of(each) for each in known), default=0))


def _seq_of(record: object) -> int:
    return record.seq if isinstance(record, TaskEvent) else 0
