"""Reports of finished tasks that are at hand: the newest ones with small results.

A report that is not at hand is made again from the journal.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from actors.tasks.model.report import Report
from actors.tasks.model.shared_values import is_small

MOST: Final = 1000
"""Tasks that are remembered."""


class ReportCache:
    """The newest reports of one orchestrator, by the id of their task. Only ``add`` is for one thread at a time."""

    def __init__(self) -> None:
        self._reports: dict[str, Report | None] = {}
        """The oldest first; None: its results are not small."""

    def __contains__(self, task: str) -> bool:
        return self._reports.get(task) is not None

    def get(self, task: str) -> Report | None:
        """The report of a task; None where it is not at hand."""
        return self._reports.get(task)

    def forget(self, task: str) -> None:
        """Forget a report: there is none of this id any more, or it may be another one."""
        self._reports.pop(task, None)

    def add(self, report: Report) -> bool:
        """Have a report at hand.

        Returns:
            False where a report of this task was added before, whether it is still at hand or not.
        """
        new = report.task_id not in self._reports
        self._reports.pop(report.task_id, None)
        self._reports[report.task_id] = report if is_small(report.results) and is_small(report.output) else None
        while len(self._reports) > MOST:
            with suppress(RuntimeError):  # another thread has forgotten one in between
                self._reports.pop(next(iter(self._reports)), None)
        return new
