"""The unfinished tasks of a supervisor as lines of a dump.

Ids and states only: what a task is about may be private, and stands in ``handle.dump``. The same holds here as in
``trees.views.tree_text``: nothing that changes while nothing happens, unless it is ``verbose``. This module must never
import threads or a clock, and never look at a tree itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from actors.tasks.model import SubtaskStatus
from trees.views.snapshot import NOTABLE, SHOWN_TASKS, SubtaskSnapshot, SupervisorSnapshot, TaskSnapshot
from trees.views.table import TableRow, one_line

SHOWN_SUBTASKS: Final = 10
"""Subtasks of one task that are shown."""
PROGRESS_CHARS: Final = 60
_MARK: Final = "◦ "
_ORDER: Final = (
    SubtaskStatus.SUCCEEDED,
    SubtaskStatus.FAILED,
    SubtaskStatus.CANCELLED,
    SubtaskStatus.SKIPPED,
    SubtaskStatus.COMPENSATED,
    SubtaskStatus.WAITING,
    SubtaskStatus.RETRYING,
    SubtaskStatus.RUNNING,
    SubtaskStatus.QUEUED,
    SubtaskStatus.PENDING,
)


def task_rows(node: SupervisorSnapshot, prefix: str, *, verbose: bool) -> Iterator[TableRow]:
    """A few tasks with what runs, failed or waits in them, and how many more there are."""
    tasks = (node.tasks or ())[:SHOWN_TASKS]
    for task in tasks:
        facts = [counted(task.counts)] if task.counts else []
        if task.phase is not None:
            facts.append(task.phase)
        facts += [f"asks {id_}" for id_ in task.escalations]
        if task.best_effort:
            facts.append("best effort")
        if verbose:
            facts.append(f"for {task.age_s:.1f} s")
        yield TableRow(f"{prefix}{_MARK}task {task.id}", "", task.status, facts)
        yield from _subtask_rows(task, f"{prefix}  ", verbose=verbose)
    more = (node.tasks_unfinished or 0) - len(tasks)
    if more > 0:
        yield TableRow(f"{prefix}... and {more:,} more", "", "")


def counted(counts: Mapping[SubtaskStatus, int]) -> str:
    """``succeeded 3, running 1``."""
    return ", ".join(f"{status} {counts[status]}" for status in _ORDER if counts.get(status))


def progress_of(fraction: float, words: str) -> str:
    """``40 % reading``."""
    return f"{fraction:.0%} ".replace("%", " %") + one_line(words, PROGRESS_CHARS)


def _subtask_rows(task: TaskSnapshot, prefix: str, *, verbose: bool) -> Iterator[TableRow]:
    notable = [subtask for subtask in task.subtasks if subtask.status in NOTABLE or subtask.reason]
    for subtask in notable[:SHOWN_SUBTASKS]:
        facts = list(_facts(subtask, verbose=verbose))
        yield TableRow(f"{prefix}{_MARK}{subtask.id}", subtask.worker or "", subtask.status, facts)
    more = len(notable) - SHOWN_SUBTASKS
    if more > 0:
        yield TableRow(f"{prefix}... and {more:,} more", "", "")


def _facts(subtask: SubtaskSnapshot, *, verbose: bool) -> Iterator[str]:
    if subtask.attempt > 1:
        yield f"attempt {subtask.attempt}"
    if subtask.escalation is not None:
        yield f"asks {subtask.escalation}"
    if subtask.reason is not None:
        due = verbose and subtask.probe_in_s is not None
        yield f"{subtask.reason}, probe in {math.ceil(subtask.probe_in_s or 0.0)} s" if due else subtask.reason
    if verbose and subtask.progress is not None:
        yield progress_of(subtask.progress, subtask.doing).rstrip()
    if subtask.streams:
        yield f"says: {one_line(subtask.streams[-PROGRESS_CHARS:], PROGRESS_CHARS)}"
    if verbose and subtask.running_s is not None:
        yield f"for {subtask.running_s:.1f} s"
