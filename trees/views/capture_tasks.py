"""Looking at the tasks of a supervisor.

Comes in: its tasks. Goes out: what a snapshot says of them. It is read in the caller's thread from single reads, as
in ``trees.views.capture``: its orchestrator is not asked, so it may be busy, restarting or down.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from actors.tasks.journal.view import SupervisorTasks, TaskView, UnitView
from actors.tasks.model import SubtaskStatus
from trees.views.snapshot import NOTABLE, SHOWN_TASKS, SubtaskSnapshot, TaskSnapshot

MAX_CHARS = 200
"""Length of what an attempt says that it is doing."""


def capture_tasks(tasks: SupervisorTasks | None, *, fold: bool, streams: bool = False) -> dict[str, Any]:
    """Fields of a ``SupervisorSnapshot`` on tasks; ``streams``: with the last line that each attempt has streamed."""
    if tasks is None:
        return {}
    unfinished = [task for task in tasks.tasks() if task.ended is None]
    now, shown = tasks.now(), unfinished[:SHOWN_TASKS] if fold else unfinished
    return {
        "tasks": tuple(_task(task, now, fold=fold, streams=streams) for task in shown),
        "tasks_unfinished": len(unfinished),
        "tasks_finished": tasks.finished,
    }


def _task(task: TaskView, now: float, *, fold: bool, streams: bool) -> TaskSnapshot:
    units = task.units(now)  # looked at once, so that the counts and the lines never contradict
    return TaskSnapshot(
        id=task.id,
        status=task.status,
        phase=task.phase,
        escalations=tuple(each.id for each in task.questions if each.step),
        best_effort=task.course.best_effort,
        age_s=max(0.0, now - task.course.unit.started_at),
        counts=Counter(unit.status for unit in units),
        subtasks=tuple(
            _subtask(unit, now, streams=streams) for unit in units if not fold or unit.status in NOTABLE or unit.waits
        ),
    )


def _subtask(unit: UnitView, now: float, *, streams: bool) -> SubtaskSnapshot:
    progress = unit.progress
    return SubtaskSnapshot(
        id=unit.id,
        status=unit.status,
        worker=unit.worker,
        attempt=unit.attempts,
        running_s=max(0.0, now - unit.started_at) if unit.status is SubtaskStatus.RUNNING else None,
        progress=None if progress is None else progress.fraction,
        doing=_text("" if progress is None else progress.text),
        escalation=unit.question,
        reason=unit.waits or None,
        probe_in_s=unit.probe_in_s,
        streams=_text(unit.streams) if streams and unit.streams is not None else None,
    )


def _text(words: object) -> str:
    """Return what a worker says of itself, which may be anything: as much as a line holds, and as UTF-8."""
    return words[:MAX_CHARS].encode(errors="backslashreplace").decode() if isinstance(words, str) else ""
