"""Processes that die of what they run, one after the other: without processes.

A process dies as soon as something that is deadly is begun: what had been recorded by then is all that is left, and a
fresh tree goes on from there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from tests.tasks.resuming import NotingStore
from trees import SupervisorSpec, Task, start

SLOW_S = 0.15


class Deadly:
    """Runs tasks in one process after another."""

    def __init__(self, spec: Callable[[Deadly], SupervisorSpec], tasks: Sequence[Task] = (Task("go", id="t"),)) -> None:
        self._spec = spec
        self._tasks = tasks
        self._lock = threading.Lock()
        self._died = threading.Event()
        self._cut: list[Any] = []
        self.store = NotingStore()
        self.deaths = 0
        self.begun: list[str] = []

    def dies(self) -> None:
        """The process dies here."""
        with self._lock:
            if not self._died.is_set():
                self._cut = list(self.store.changes)
                self._died.set()

    def takes_long(self) -> None:
        """Something harmless that is still under way when the process dies of something else."""
        self._died.wait(SLOW_S)

    def execute(self, task: Any, context: Any) -> str:
        """A worker's code: what it does depends on the id of the subtask."""
        self.begun.append(task.id)
        if task.id.startswith("poison"):
            self.dies()
            return "never kept"
        if task.id.startswith("slow"):
            self.takes_long()
        return "done"

    def run(self, most: int) -> dict[str, Any] | None:
        """Processes until all tasks have ended, or wait for a person; None: so many were not enough.

        The reports, or open questions, by the task's id.
        """
        for _ in range(most):
            self._died.clear()
            with start(self._spec(self), store=self.store) as tree:
                handles = [tree.submit(task) for task in self._tasks]
                while not self._died.is_set() and not all(_is_over(each) for each in handles):
                    threading.Event().wait(0.005)
                if not self._died.is_set():
                    return {each.id: each.report or each.escalations for each in handles}
            self.deaths += 1
            self.store = NotingStore(self._cut)
        return None

    def run_one(self, most: int) -> Any:
        """The same of the first task."""
        return (self.run(most) or {}).get(self._tasks[0].id or "")


def _is_over(handle: Any) -> bool:
    return handle.report is not None or bool(handle.escalations)
