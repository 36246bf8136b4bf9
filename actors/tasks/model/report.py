"""Report of a task that has ended: its fields. It is made in ``actors.tasks.journal.reporting``.

``results`` and ``output`` are JSON; ``report.result(id, as_=Model)`` gives a model back.
"""

from __future__ import annotations

from dataclasses import field
from reprlib import Repr
from typing import Any, Final, TypeVar, overload

from pydantic import TypeAdapter

from actors.model.record import record
from actors.tasks.model.task import SubtaskStatus, TaskStatus
from actors.tasks.model.task_errors import TaskError
from actors.tasks.model.usage import NO_USAGE, Usage

T = TypeVar("T")
_SHORT: Final = Repr()
_SHORT.maxdict, _SHORT.maxstring, _SHORT.maxother, _SHORT.maxlong = 10, 80, 80, 80


@record
class SubtaskReport:
    """One line of the graph of a run."""

    id: str
    status: SubtaskStatus
    worker: str | None
    depends_on: tuple[str, ...]
    parent: str | None
    """The subtask that asked for it; None: it is in the plan."""
    attempts: int
    queued_s: float
    running_s: float
    note: str
    """Why it failed or did not run."""
    instruction: str = field(repr=False, default="")
    usage: Usage = NO_USAGE
    started_at: float = 0.0
    ended_at: float = 0.0


@record
class Report:
    """Report: how a task has ended."""

    task_id: str
    goal: str = field(repr=False)
    status: TaskStatus
    output: Any = field(repr=False)
    """Output of the synthesizer; by default the results."""
    results: dict[str, Any] = field(repr=False)
    """By subtask."""
    failed: dict[str, str]
    """Subtasks that failed, and why."""
    skipped: dict[str, str]
    """Subtasks that did not run, or were cut short, and why."""
    compensated: list[str]
    """Subtasks that were undone, in the order in which that happened."""
    undo_errors: dict[str, str]
    """Subtasks that could not be undone, and why."""
    iterations: int
    """Reviews; with ``review="each"`` the most that one result had."""
    best_effort: bool
    """True where it is not all that was wanted: a review did not pass, a reviewer or synthesizer failed."""
    usage: Usage
    timings: dict[str, float]
    """Seconds: planned, queued, running (sums over the subtasks), total; ``graph`` has those of each subtask."""
    graph: tuple[SubtaskReport, ...] = field(repr=False)
    """Every subtask as it ended."""
    notes: tuple[str, ...] = ()
    """Notes on what went wrong beside the subtasks, and on what was odd about the plan."""
    path: str = ""
    """Path of the supervisor that had it."""
    metadata: dict[str, Any] = field(default_factory=dict, repr=False)
    """Metadata of the task."""
    replans: int = 0
    """Further plans, made after a required subtask had failed."""
    usage_by_role: dict[str, Usage] = field(default_factory=dict)
    """Usage by who has used it up: ``planner``, ``reviewer``, ``synthesizer``, ``workers``; only those that
    have used anything."""
    error: TaskError | None = field(default=None, compare=False)
    """Error that ``handle.result()`` raises; None where it has succeeded."""

    def __repr__(self) -> str:
        """Show the results, each cut: whoever prints a report wants to see them."""
        told = {name: getattr(self, name) for name in ("results", "failed", "skipped", "compensated", "undo_errors")}
        shown = "".join(f", {name}={_SHORT.repr(value)}" for name, value in told.items() if value)
        return f"Report(task_id={self.task_id!r}, status={str(self.status)!r}{shown})"

    @overload
    def result(self, id: str, *, as_: type[T]) -> T: ...
    @overload
    def result(self, id: str, *, as_: None = None) -> Any: ...
    def result(self, id: str, *, as_: Any = None) -> Any:
        """The result of a subtask; with ``as_`` as a model, a dataclass, or whatever pydantic can make of it.

        Raises:
            KeyError: it has none.
        """
        value = self.results[id]
        return value if as_ is None else TypeAdapter(as_).validate_python(value)
