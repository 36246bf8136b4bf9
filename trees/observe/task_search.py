"""Search for finished tasks by status and text, in a live tree and in a store, without reading their journals.

How a task ended stands in its last record, what it is about in its first. One query reads those of hundreds of tasks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

from actors.model.events import Event
from actors.tasks.model.task import TaskStatus
from actors.tasks.model.task_events import TaskFinished, TaskSubmitted
from trees.observe.source import SourceError

MOST_LOOKS: Final = 5000
"""Tasks that a search looks at, the newest first."""
AT_ONCE: Final = 500
"""Tasks of which one query reads a record."""

TaskT = TypeVar("TaskT")
Records: TypeAlias = Callable[[Sequence[TaskT]], Iterable[tuple[TaskT, Event | None]]]
"""Reads one record of each of these tasks."""


def require_status(status: str | None) -> None:
    """Refuse what is no status of a task."""
    if status is not None and status not in set(TaskStatus):
        raise SourceError(400, f"There is no status {status[:40]!r}; there are {', '.join(TaskStatus)}.")


def matching(
    newest: Iterable[TaskT],
    status: str | None,
    text: str,
    id_of: Callable[[TaskT], str],
    ends: Records[TaskT],
    firsts: Records[TaskT],
) -> Iterator[TaskT]:
    """Yield those of the finished tasks that are looked for, in their order.

    Args:
        newest: finished tasks, the newest first; ``MOST_LOOKS`` are looked at.
        status: how they ended. None: no matter how.
        text: a part of the id or the goal, in any case; empty: whatever they are about.
        id_of: the id of a task.
        ends: reads last records.
        firsts: reads first records.
    """
    if status is not None and not TaskStatus(status).is_final:
        return
    wanted, left = text.casefold(), itertools.islice(newest, MOST_LOOKS)
    while some := list(itertools.islice(left, AT_ONCE)):
        if status is not None:
            some = [task for task, end in ends(some) if isinstance(end, TaskFinished) and end.status == status]
        named = {task for task in some if wanted in id_of(task).casefold()}
        for task, first in firsts([task for task in some if task not in named]):
            if isinstance(first, TaskSubmitted) and wanted in first.spec.goal.casefold():
                named.add(task)
        yield from (task for task in some if task in named)
