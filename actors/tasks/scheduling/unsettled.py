"""Tasks with a large result that is being written: nobody is kept for what follows from it before that is kept.

What follows cannot be given out before (record before act), and that takes seconds. A worker that was chosen at once
would stand idle for that time, and small tasks would wait for it::

    large result recorded -> begin -> what is ready waits here -> written -> end -> it is queued again, where it was

Only the orchestrator touches this, so there is no lock. Its next incarnation begins without any: what it starts waits
for the same records all the same, with its worker.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

SubtaskT = TypeVar("SubtaskT")


class Unsettled(Generic[SubtaskT]):
    """Tasks of one orchestrator that have such a result."""

    def __init__(self) -> None:
        self._results: dict[str, int] = {}
        """By task, how many large results are being written."""
        self._put_off: dict[str, dict[SubtaskT, None]] = {}
        """By task, its subtasks that wait for that."""

    def begin(self, task: str) -> None:
        """A task has one more large result that is yet to be written."""
        self._results[task] = self._results.get(task, 0) + 1

    def must_wait(self, task: str, subtask: SubtaskT) -> bool:
        """True where a subtask that could start has to wait; then ``end`` returns it when it need not."""
        if task not in self._results:
            return False
        self._put_off.setdefault(task, {})[subtask] = None
        return True

    def has(self, subtask: SubtaskT) -> bool:
        """True where it waits here."""
        return any(subtask in waiting for waiting in self._put_off.values())

    def end(self, task: str) -> Collection[SubtaskT]:
        """One of them is kept. Returns the subtasks that need not wait any longer."""
        left = self._results.pop(task, 0) - 1
        if left > 0:
            self._results[task] = left
            return ()
        return self._put_off.pop(task, {})
