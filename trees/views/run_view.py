"""View of one run, alike for a task that runs and for the report of one that has ended.

Comes in: a state, which its orchestrator may be changing, or a report. Goes out: a ``RunView``. Each fact is read once,
so that no picture contradicts itself. This module must never import threads or a clock, and never ask anybody.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from actors.tasks.journal.dropped import NotHeld
from actors.tasks.journal.person_waits import PartOf, no_part, status_of, subtask_status_of
from actors.tasks.journal.questions import Escalation
from actors.tasks.journal.reporting import graph_of, usage_by_role
from actors.tasks.journal.subtask_state import SubtaskState
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model.report import Report, SubtaskReport
from actors.tasks.model.task import SubtaskStatus, TaskStatus, Usage
from trees.views.capture_tasks import phase_of
from trees.views.snapshot import TaskPhase

Progress = Mapping[str, tuple[float, str]]


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
    subtasks: tuple[SubtaskReport, ...]
    notes: tuple[str, ...]
    undo_errors: dict[str, str]
    compensated: list[str]
    results: dict[str, Any]
    """Results that are held; the journal has them all."""
    output: Any
    error_text: str
    """Why it cannot succeed."""
    phase: TaskPhase | None = None
    escalations: tuple[Escalation, ...] = ()
    progress: Progress = field(default_factory=dict)
    wanted: Mapping[str, str] = field(default_factory=dict)
    """Worker, or [capability], that is to do what has not begun yet."""
    retry_in_s: Mapping[str, float] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    waits: Mapping[str, str] = field(default_factory=dict)
    """Why queued subtasks wait though nobody who could do them is busy."""
    parts: Mapping[str, RunView] = field(default_factory=dict)
    """Runs of what teams have of it, by the subtask that a team was given."""

    children: Mapping[str | None, list[SubtaskReport]] = field(init=False, repr=False, compare=False)
    """Under None the subtasks of the plan, under an id those that this one asked for."""

    def __post_init__(self) -> None:
        found: dict[str | None, list[SubtaskReport]] = {}
        for each in self.subtasks:
            found.setdefault(each.parent, []).append(each)
        object.__setattr__(self, "children", found)

    def who(self, subtask: SubtaskReport) -> str:
        """The worker that has it, or is to have it; a [capability] where that is open."""
        return subtask.worker or self.wanted.get(subtask.id, "")

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

    def _everything_of(self, each: SubtaskReport) -> dict[str, Any]:
        facts = {named.name: getattr(each, named.name) for named in dataclasses.fields(each)}
        fraction, text = self.progress.get(each.id, (None, None))
        return facts | {
            "usage": each.usage.model_dump(),
            "progress": fraction,
            "progress_text": text,
            "retry_in_s": self.retry_in_s.get(each.id),
            "waits": self.waits.get(each.id) or None,
            "part": self.parts[each.id].everything() if each.id in self.parts else None,
        }


def view_of(
    run: TaskState | Report,
    now: float,
    progress: Progress = MappingProxyType({}),
    waits: Mapping[str, str] = MappingProxyType({}),
    *,
    reviews: bool = False,
    part_of: PartOf = no_part,
) -> RunView:
    """Build the view of a task that runs, or has ended.

    Args:
        run: of which task.
        now: in seconds since 1970, by the tree's clock.
        progress: what running subtasks say of themselves, by their ids.
        waits: why queued subtasks wait though nobody who could do them is busy, by their ids.
        reviews: it has a reviewer.
        part_of: finds what a team has of a subtask.
    """
    if isinstance(run, Report):
        return _of_report(run)
    return _of_state(run, now, progress, waits, reviews=reviews, part_of=part_of)


def _of_report(report: Report) -> RunView:
    return RunView(
        id=report.task_id,
        path=report.path,
        goal=report.goal,
        metadata=report.metadata,
        status=report.status,
        elapsed_s=report.timings["total"],
        usage=report.usage,
        usage_by_role=report.usage_by_role,
        iterations=report.iterations,
        replans=report.replans,
        best_effort=report.best_effort,
        subtasks=report.graph,
        notes=report.notes,
        undo_errors=report.undo_errors,
        compensated=report.compensated,
        results=report.results,
        output=report.output,
        error_text="" if report.error is None else str(report.error),
    )


def _of_state(
    state: TaskState, now: float, progress: Progress, waits: Mapping[str, str], *, reviews: bool, part_of: PartOf
) -> RunView:
    graph = graph_of(state)
    nodes = dict(state.nodes)  # after the graph, so that it has all of them
    runs = {each.id for each in graph if each.status is SubtaskStatus.RUNNING}
    waiting = {id_ for id_ in runs if subtask_status_of(state, nodes[id_], part_of) is SubtaskStatus.WAITING}
    subtasks = tuple(_until(each, nodes[each.id], now, waits=each.id in waiting) for each in graph)
    dues = {each.id: nodes[each.id].due for each in subtasks if each.status is SubtaskStatus.RETRYING}
    refusal, ending = state.refusal, state.ending
    refused = [str(problem) for problem in refusal.problems] if refusal is not None and state.plan is None else []
    return RunView(
        id=state.id,
        path=state.path,
        goal=state.task.goal,
        metadata=state.task.metadata,
        status=status_of(state, part_of),
        elapsed_s=max(0.0, (state.finished_at if state.final is not None else now) - state.submitted_at),
        usage=state.usage,
        usage_by_role=usage_by_role(state),
        iterations=state.iterations,
        replans=state.replans,
        best_effort=state.best_effort,
        subtasks=subtasks,
        notes=(*state.notes, *state.warnings, *(f"plan refused: {text}" for text in refused), *_failing(state, now)),
        undo_errors=dict(state.undo_errors),
        compensated=list(state.compensated),
        results={
            id_: node.value
            for id_, node in nodes.items()
            if node.status is SubtaskStatus.SUCCEEDED and node.parent is None and not isinstance(node.value, NotHeld)
        },
        output=None if isinstance(state.output, NotHeld) else state.output,
        error_text="" if ending is None else ending.error,
        phase=phase_of(state, reviews=reviews),
        escalations=tuple(state.escalations.values()),
        progress={id_: said for id_, said in progress.items() if id_ in runs},
        wanted={id_: node.spec.worker or f"[{node.spec.capability}]" for id_, node in nodes.items()},
        retry_in_s={id_: max(0.0, due - now) for id_, due in dues.items() if due is not None},
        waits=waits,
    )


def _failing(state: TaskState, now: float) -> Iterator[str]:
    """Say which step has failed, and when it is called again."""
    stage, due = state.stage, state.stage.due
    if due is not None:
        yield f"{stage.step} failed {stage.tries} times, next in {max(0.0, due - now):.1f} s: {stage.error}"


def _until(each: SubtaskReport, node: SubtaskState, now: float, *, waits: bool) -> SubtaskReport:
    """With the time that it waits or runs at this moment; ``waits``: a team has it, which only waits for a person."""
    if each.status is SubtaskStatus.RUNNING:
        status = SubtaskStatus.WAITING if waits else each.status
        return dataclasses.replace(each, status=status, running_s=each.running_s + max(0.0, now - node.started_at))
    if each.status is SubtaskStatus.QUEUED:
        return dataclasses.replace(each, queued_s=each.queued_s + max(0.0, now - node.queued_at))
    return each
