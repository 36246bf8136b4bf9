"""Looking at the tasks of a supervisor.

Comes in: its port. Goes out: what a snapshot says of its tasks. It is read in the caller's thread from single reads, as
in ``trees.views.capture``: its orchestrator is not asked, so it may be busy, restarting or down. Tasks that no
orchestrator has looked at yet are not among them; the order to do so waits at the port.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeAlias

from actors.tasks.journal.person_waits import status_of, subtask_status_of
from actors.tasks.journal.subtask_state import SubtaskState
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model.task import SubtaskStatus
from actors.tasks.orchestration.task_runtime import OrchestratorPort
from actors.tasks.scheduling.ready_queue import LaneKey
from actors.tasks.scheduling.selection import lane_of, put_off_by
from trees.views.snapshot import NOTABLE, SHOWN_TASKS, SubtaskSnapshot, TaskPhase, TaskSnapshot

_Reasons: TypeAlias = "dict[LaneKey, tuple[str, float | None]]"
MAX_CHARS = 200
"""Length of what an attempt says that it is doing."""


def capture_tasks(port: OrchestratorPort | None, *, fold: bool, streams: bool = False) -> dict[str, Any]:
    """Fields of a ``SupervisorSnapshot`` on tasks; ``streams``: with the last line that each attempt has streamed."""
    if port is None:
        return {}
    # Copied in one step each: its orchestrator changes them meanwhile.
    unfinished = [state for state in list(port.states.values()) if state.final is None]
    now, reviews = port.time(), port.settings.reviewer is not None
    shown = unfinished[:SHOWN_TASKS] if fold else unfinished
    queue: _Reasons = {}
    return {
        "tasks": tuple(_task(state, now, port, queue, fold=fold, reviews=reviews, streams=streams) for state in shown),
        "tasks_unfinished": len(unfinished),
        "tasks_finished": port.finished,
    }


def phase_of(state: TaskState, *, reviews: bool) -> TaskPhase | None:
    """Return the phase of an unfinished task beside its subtasks; ``reviews`` where it has a reviewer."""
    if state.final is not None:
        return None
    if state.phase == "undoing" or state.undoing is not None:
        return "undoing"
    if state.ending is not None:
        return "ending"
    if state.paused:
        return "paused"
    if state.phase == "replanning":
        return "replanning"
    return _step_of(state, reviews=reviews) if state.phase == "running" else None


def _step_of(state: TaskState, *, reviews: bool) -> TaskPhase | None:
    """Return what is done with results: they are reviewed or combined; with ``review="each"`` also while others run."""
    is_reviewed = not state.review.waiting if state.review.each else state.reviewed or not reviews
    if state.open:
        return "reviewing" if state.review.waiting else None
    return "combining" if is_reviewed else "reviewing"


def _reason(
    state: TaskState, node: SubtaskState, now: float, port: OrchestratorPort, queue: _Reasons
) -> tuple[str, float | None]:
    """Why a queued subtask waits: the same for all of its lane."""
    key = lane_of(state, node, port.path)
    if key not in queue:
        queue[key] = put_off_by(port.workers, key, now)
    return queue[key]


def _task(
    state: TaskState, now: float, port: OrchestratorPort, queue: _Reasons, *, fold: bool, reviews: bool, streams: bool
) -> TaskSnapshot:
    # Each status is read once, so that the counts and the lines never contradict.
    part_of = port.runtime.part_of
    nodes = [(node, subtask_status_of(state, node, part_of)) for node in list(state.nodes.values())]
    reasons = {
        node.id: _reason(state, node, now, port, queue) for node, status in nodes if status is SubtaskStatus.QUEUED
    }
    put_off = {id_ for id_, (why, _) in reasons.items() if why}
    return TaskSnapshot(
        id=state.id,
        status=status_of(state, part_of),
        phase=phase_of(state, reviews=reviews),
        escalations=tuple(each.id for each in list(state.escalations.values()) if each.step),
        best_effort=state.best_effort,
        age_s=max(0.0, now - state.submitted_at),
        counts=Counter(status for _, status in nodes),
        subtasks=tuple(
            _subtask(port, state, node, status, now, *reasons.get(node.id, ("", None)), streams=streams)
            for node, status in nodes
            if not fold or status in NOTABLE or node.id in put_off
        ),
    )


def _subtask(
    port: OrchestratorPort,
    state: TaskState,
    node: SubtaskState,
    status: SubtaskStatus,
    now: float,
    reason: str,
    probe_in_s: float | None,
    *,
    streams: bool,
) -> SubtaskSnapshot:
    runs = status is SubtaskStatus.RUNNING
    escalation, live = node.escalation, port.runtime.attempt_at(state, node) if runs else None
    progress = live.progress if live is not None else None
    fraction, words = (progress.fraction, progress.text) if progress is not None else (None, "")
    return SubtaskSnapshot(
        id=node.id,
        status=status,
        worker=node.worker,
        attempt=node.attempt,
        running_s=max(0.0, now - node.started_at) if runs else None,
        progress=fraction,
        doing=_text(words),
        escalation=escalation.id if escalation is not None else None,
        reason=reason or None,
        probe_in_s=probe_in_s,
        streams=_text(live.stream.last_line) if streams and live is not None and live.stream is not None else None,
    )


def _text(words: object) -> str:
    """Return what a worker says of itself, which may be anything: as much as a line holds, and as UTF-8."""
    return words[:MAX_CHARS].encode(errors="backslashreplace").decode() if isinstance(words, str) else ""
