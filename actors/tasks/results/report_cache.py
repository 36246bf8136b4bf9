"""Reports of finished tasks that are at hand: as many as fit, the newest ones.

A report that is not at hand is made again from the journal, so this may let go of any of them at any time. The results
in a report are what costs memory: ``context_tokens`` bounds them here as it does for a task that runs.

Each operation is one step of C on a dict, or is made by the orchestrator only (``add``): no lock is needed. This module
must never import threads, a clock or Pykka.
"""

from __future__ import annotations

from typing import Any, Final

from actors.tasks.model.report import Report
from actors.tasks.results.tokens import tokens_of, tokens_of_short

MOST: Final = 1000
"""Reports that are at hand, however small they are."""


class ReportCache:
    """The newest reports of one orchestrator, by the id of their task."""

    def __init__(self, most_tokens: int) -> None:
        self._most_tokens = most_tokens
        self._reports: dict[str, Report] = {}
        """The oldest first."""
        self._weights: dict[str, int] = {}
        """Tokens of the results in each; 0 for one that is not held. Only ``add`` changes it."""
        self._forgotten: set[str] = set()
        """Entries of ``_weights`` that stand for a former task of that id."""
        self.tokens = 0
        """Tokens of the reports that are held, together."""

    def __len__(self) -> int:
        return len(self._reports)

    def __contains__(self, task: str) -> bool:
        return task in self._reports

    def get(self, task: str) -> Report | None:
        """The report of a task; None where it is not at hand."""
        return self._reports.get(task)

    def forget(self, task: str) -> None:
        """Forget a report: there is none of this id any more, or it may be another one."""
        if task in self._weights:
            self._forgotten.add(task)
        self._reports.pop(task, None)

    def add(self, report: Report) -> bool:
        """Have a report at hand, if it is worth no more than what all of them may be; the oldest go for it.

        Returns:
            False where a report of this task was added before, whether it is still at hand or not; the last ``MOST``
            are remembered.
        """
        task = report.task_id
        new = task not in self._weights or task in self._forgotten
        self._let_go(task)
        weight = _tokens(report.results) + _tokens(report.output)
        is_held = weight <= self._most_tokens
        self._weights[task] = weight if is_held else 0
        if is_held:
            self.tokens += weight
            self._reports[task] = report
        while len(self._weights) > MOST:
            self._let_go(next(iter(self._weights)))
        while self.tokens > self._most_tokens:
            oldest = next(iter(self._reports), None)
            if oldest is None:
                break
            self._put_away(oldest)
        return new

    def _put_away(self, task: str) -> None:
        """Hold its report no longer; its name stays."""
        self._reports.pop(task, None)
        self.tokens -= self._weights.get(task, 0)
        if task in self._weights:
            self._weights[task] = 0

    def _let_go(self, task: str) -> None:
        """Know nothing of it any longer."""
        self._put_away(task)
        self._weights.pop(task, None)
        self._forgotten.discard(task)


def _tokens(value: Any) -> int:
    short = tokens_of_short(value) if type(value) is dict else None
    return tokens_of(value) if short is None else short
