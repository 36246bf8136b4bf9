"""View of one run, alike for a task that runs and for the report of one that has ended.

Comes in: a task, which its orchestrator may be changing. Goes out: a ``RunView``. Each fact is read once, so that no
picture contradicts itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from actors.tasks.journal.view import Escalation, TaskPhase, TaskView, UnitView, usage_by_role
from actors.tasks.model import SubtaskReport, TaskStatus, Usage

_OF_REPORT = tuple(each.name for each in dataclasses.fields(SubtaskReport))


@dataclass(frozen=True)
class RunView:
    """One run, at one moment."""

    id: str
    path: str
    goal: str
    status: TaskStatus
    elapsed_s: float
    usage: Usage
    usage_by_role: dict[str, Usage]
    iterations: int
    replans: int
    best_effort: bool
    subtasks: tuple[UnitView, ...]
    notes: tuple[str, ...]
    undo_errors: dict[str, str]
    compensated: list[str]
    results: dict[str, Any]
    """Results that are held; the journal has them all."""
    output: Any
    error_text: str
    """Why it cannot succeed."""
    undone: frozenset[str] = frozenset()
    """Its subtasks whose work is undone."""
    phase: TaskPhase | None = None
    escalations: tuple[Escalation, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, RunView] = field(default_factory=dict)
    """Runs of what teams have of it, by the subtask that a team was given."""

    children: Mapping[str | None, list[UnitView]] = field(init=False, repr=False, compare=False)
    """Under None the subtasks of the plan, under an id those that this one asked for."""

    def __post_init__(self) -> None:
        found: dict[str | None, list[UnitView]] = {}
        for each in self.subtasks:
            found.setdefault(each.parent, []).append(each)
        object.__setattr__(self, "children", found)

    def everything(self) -> dict[str, Any]:
        """As plain values, by name."""
        return {
            "task_id": self.id,
            "path": self.path,
            "goal": self.goal,
            "metadata": dict(self.metadata),
            "status": self.status,
            "phase": self.phase,
            "elapsed_s": self.elapsed_s,
            "usage": self.usage.model_dump(),
            "usage_by_role": {role: used.model_dump() for role, used in self.usage_by_role.items()},
            "iterations": self.iterations,
            "replans": self.replans,
            "best_effort": self.best_effort,
            "subtasks": [self._everything_of(each) for each in self.subtasks],
            "escalations": [
                {name: getattr(each, name) for name in ("id", "subtask", "question", "error", "undoing", "answers")}
                for each in self.escalations
            ],
            "results": self.results,
            "output": self.output,
            "compensated": self.compensated,
            "undo_errors": self.undo_errors,
            "notes": self.notes,
            "error": self.error_text or None,
        }

    def _everything_of(self, each: UnitView) -> dict[str, Any]:
        return {name: getattr(each, name) for name in _OF_REPORT} | {
            "usage": each.usage.model_dump(),
            "progress": each.progress and each.progress.fraction,
            "progress_text": each.progress and each.progress.text,
            "retry_in_s": each.retry_in_s,
            "waits": each.reason or None,
            "part": self.parts[each.id].everything() if each.id in self.parts else None,
        }


def view_of(task: TaskView, now: float, *, deep: bool = False) -> RunView:
    """View a task as it stands now.

    Args:
        task: that runs, or has ended.
        now: in seconds since 1970, by the tree's clock.
        deep: also what its teams have of it, and their teams.
    """
    view = _of_task(task, now)
    if not deep:
        return view
    parts = {id_: view_of(part, now, deep=True) for id_, part in task.parts().items()}
    return dataclasses.replace(view, parts=parts)


def _of_task(task: TaskView, now: float) -> RunView:
    state, course, report = task.state, task.course, task.report()
    notes, output, error = task.notes(now), course.output, task.error
    if report is not None:
        notes, output, error = report.notes, report.output, str(report.error or "")
    return RunView(
        id=task.id,
        path=course.scope,
        goal=state.task.goal,
        metadata=state.task.metadata,
        status=task.status,
        elapsed_s=max(0.0, (task.finished_at or now) - course.unit.started_at),
        usage=task.usage,
        usage_by_role=usage_by_role(state),
        iterations=course.iterations,
        replans=course.replans,
        best_effort=course.best_effort,
        subtasks=tuple(task.units(now)),
        notes=notes,
        undo_errors=state.undo_errors(),
        compensated=list(state.undone),
        undone=frozenset(id_ for id_ in list(course.units) if course.path_of(id_) in state.undone),
        results=course.results(),
        output=output,
        error_text=error,
        phase=task.phase,
        escalations=tuple(task.questions),
    )
