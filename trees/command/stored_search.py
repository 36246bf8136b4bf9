"""Search for finished tasks of a store by status and text, without reading their journals.

How a task ended stands in its last record, what it is about in its first. One query reads those of hundreds of tasks.
Only what is found is then read whole. The newest ``MOST_LOOKS`` are looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from actors.tasks.model.task import TaskStatus
from actors.tasks.model.task_events import TaskFinished, TaskSubmitted

if TYPE_CHECKING:
    from trees.store.reader import StoredTask, StoreReader

MOST_LOOKS: Final = 5000
"""Finished tasks that a search looks at, the newest first."""
_AT_ONCE: Final = 500
"""Tasks of which one query reads a record."""


class StoredSearch:
    """Search in one store."""

    def __init__(self, store: StoreReader) -> None:
        self._store = store
        self._statuses: dict[StoredTask, str] = {}
        """How finished tasks have ended. Each change is one step of C; who counts at the same time reads one twice."""

    def found(
        self, newest: Sequence[StoredTask], status: str | None, text: str, limit: int
    ) -> tuple[list[StoredTask], bool]:
        """Look for finished tasks.

        Args:
            newest: all of them, the newest first.
            status: how they ended. None: no matter how.
            text: a part of the id or the goal, in any case; empty: whatever they are about.
            limit: of those that are found.

        Returns:
            The newest that fit, and whether there may be more.
        """
        if status is not None and not TaskStatus(status).is_final:
            return [], False
        found: list[StoredTask] = []
        for some in _parts(newest[:MOST_LOOKS]):
            found += self._fitting(some, status, text.casefold())
            if len(found) > limit:
                return found[:limit], True
        return found, len(newest) > MOST_LOOKS

    def statuses(self, tasks: Sequence[StoredTask]) -> Counter[str]:
        """Count finished tasks by how they ended."""
        for some in _parts([task for task in tasks if task not in self._statuses]):
            ends = self._store.ends(some)
            self._statuses.update((task, str(end.status)) for task, end in ends if isinstance(end, TaskFinished))
        return Counter(self._statuses.get(task, "damaged") for task in tasks)

    def _fitting(self, tasks: Sequence[StoredTask], status: str | None, text: str) -> list[StoredTask]:
        if status is not None:
            ends = self._store.ends(tasks)
            tasks = [task for task, end in ends if isinstance(end, TaskFinished) and str(end.status) == status]
        if not text:
            return list(tasks)
        firsts = self._store.firsts([task for task in tasks if text not in task.id.casefold()])
        goals = {task: first.spec.goal for task, first in firsts if isinstance(first, TaskSubmitted)}
        return [task for task in tasks if text in task.id.casefold() or text in goals.get(task, "").casefold()]


def _parts(tasks: Sequence[StoredTask]) -> Iterator[Sequence[StoredTask]]:
    return (tasks[at : at + _AT_ONCE] for at in range(0, len(tasks), _AT_ONCE))
