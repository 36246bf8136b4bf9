"""Timeline of a task: a bar for each stretch of each subtask, from the records of its journal. Pure.

Comes in: records in order, of a task or of a team's part of one. Goes out: bars. What each kind of record does::

    SubtaskQueued                       queued begins
    SubtaskStarted                      running begins, which ends queued
    Succeeded, Failed, Cancelled, ...   running ends
    SubtaskRetrying                     running ends, retry_wait begins (until it is due, or the next attempt)
    EscalationRaised                    running ends, person begins, until an answer or the time is up
    Compensating                        undo begins
    StepStarted                         review begins; of a planner or a synthesizer, running
    TaskFinished                        all that is open ends

So a subtask has at most one open bar of each of two lanes: its work, and its undo. The bar of an attempt, step or undo
that was lost with its process ends with the last record of that process, as the report counts it: nothing ran in
between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import actors
from actors import TaskEvent
from actors.tasks.journal.view import LOST, ROLES, UNCOUNTED

Bar = dict[str, Any]
_MOST_TYPE: Final = 100


def bars_of(records: Iterable[object], prefix: str = "") -> list[Bar]:
    """Return the bars of a task; ``prefix`` stands before the ids of its subtasks, of a team's part."""
    timeline = _Timeline(prefix)
    for record in records:
        if isinstance(record, TaskEvent):
            timeline.take(record)
    return timeline.bars


def error_type(text: str, kind: str) -> str:
    """Return the type of an error, as far as its text begins with one; else the kind of the failure."""
    word, colon, _ = text.partition(":")
    is_type = word.isidentifier() and (bool(colon) or word.endswith(("Error", "Exception")))
    return word[:_MOST_TYPE] if is_type else kind


class _Timeline:
    """Bars so far, and those that are open."""

    def __init__(self, prefix: str) -> None:
        self.bars: list[Bar] = []
        self._prefix = prefix
        self._open: dict[tuple[str, str], Bar] = {}
        """By subtask and lane."""
        self._last_at = 0.0
        """Time of the record before."""

    def take(self, event: TaskEvent) -> None:
        """Take the next record."""
        act = next((_ACTS[kind] for kind in type(event).__mro__ if kind in _ACTS), None)
        if act is not None:
            act(self, event)
        self._last_at = event.at

    def begin(
        self, subtask: str, at: float, kind: str, *, worker: str | None = None, attempt: int = 0, lane: str = "work"
    ) -> Bar:
        """Open a bar."""
        bar: Bar = {
            "subtask": f"{self._prefix}{subtask}",
            "attempt": attempt,
            "worker": worker,
            "kind": kind,
            "from": at,
            "to": None,
            "status": kind,
            "error": None,
        }
        self.bars.append(bar)
        self._open[subtask, lane] = bar
        return bar

    def close(
        self, subtask: str, at: float, status: str, error: str | None = None, *, lane: str = "work"
    ) -> Bar | None:
        """Close the bar that a lane of a subtask has open, if any."""
        bar = self._open.pop((subtask, lane), None)
        if bar is not None:
            bar["to"], bar["status"], bar["error"] = at, status, error
        return bar

    def failed(self, subtask: str, event: Any, kind: str, *, lane: str = "work") -> None:
        """Close a bar with the error of an event."""
        self.close(
            subtask, self._end_of(subtask, event.at, kind, lane), "failed", error_type(event.error, kind), lane=lane
        )

    def _end_of(self, subtask: str, at: float, why: str, lane: str = "work") -> float:
        """Return when that has ended of which it is recorded now that it has."""
        bar = self._open.get((subtask, lane))
        was_running = bar is not None and bar["kind"] in {"running", "review", "undo"}
        return self._last_at if was_running and why == LOST else at

    # -- kinds of records that do more than to close a bar --------------------------------------------------

    def queued(self, event: actors.SubtaskQueued) -> None:
        """Begin to wait for a worker."""
        ended_at = getattr(event, "ended_at", 0.0) or self._end_of(event.subtask, event.at, event.reason)
        last = self.close(event.subtask, ended_at, "queued again" if event.reason else "done")
        self.begin(event.subtask, event.at, "queued", attempt=_attempt_of(last))

    def started(self, event: actors.SubtaskStarted) -> None:
        """An attempt begins."""
        if event.role != "work":
            self.step(event)
            return
        self.close(event.subtask, event.at, "done")
        self.begin(event.subtask, event.at, "running", worker=event.worker, attempt=event.attempt)

    def retrying(self, event: actors.SubtaskRetrying) -> None:
        """An attempt has failed, or was put off or refused, which is no failure; another follows."""
        if event.role != "work":
            self.failed(*_place_of(event), lane=_lane_of(event))
            return
        if event.kind in UNCOUNTED:
            self.close(event.subtask, event.at, event.kind)
        else:
            self.failed(event.subtask, event, event.kind)
        wait = self.begin(event.subtask, event.at, "retry_wait", worker=event.worker, attempt=event.attempt)
        wait["due"] = event.due

    def requeued(self, event: actors.SubtaskRequeued) -> None:
        """End an attempt that gives way, or was broken off; a step, or an undo, will be called again."""
        if event.role != "work":
            place, lane = (event.subtask, "undo") if event.role == "undo" else (_step(event.role), "work")
            self.close(place, self._end_of(place, event.at, event.reason, lane), "put back", lane=lane)
        elif event.reason == "preempted":
            bar = self.close(event.subtask, event.at, "preempted")
            self.begin(event.subtask, event.at, "queued", attempt=_attempt_of(bar))
        else:
            self.begin(event.subtask, event.at, "queued")

    def asks(self, event: actors.EscalationRaised) -> None:
        """A person is asked."""
        step = event.step
        place, lane = (_step(step), "work") if step else (event.subtask, "undo" if event.undoing else "work")
        error = event.kind if event.has_question else error_type(event.error, event.kind)
        bar = self.close(place, event.at, "asks", error or None)
        if lane == "undo":
            self.close(place, event.at, "failed", lane=lane)
        lane = f"asks {event.escalation}"
        self.begin(place, event.at, "person", worker=event.worker, attempt=_attempt_of(bar), lane=lane)

    def asked(self, id_: str, at: float, status: str) -> None:
        """End the wait for a person."""
        lane = f"asks {id_}"
        for subtask, open_lane in list(self._open):
            if open_lane == lane:
                self.close(subtask, at, status, lane=lane)

    def undoes(self, event: actors.Compensating) -> None:
        """An undo begins."""
        self.close(event.subtask, event.at, "failed", lane="undo")
        self.begin(event.subtask, event.at, "undo", worker=event.worker, attempt=event.attempt, lane="undo")

    def undone(self, event: actors.Compensated) -> None:
        """An undo has ended."""
        error = error_type(event.error, "undo") if event.error else None
        self.close(event.subtask, event.at, "failed" if error else "undone", error, lane="undo")

    def step(self, event: actors.SubtaskStarted) -> None:
        """A planner, a reviewer or a synthesizer begins."""
        place = _step(event.role)
        self.close(place, event.at, "done")
        kind = "review" if event.role == "review" else "running"
        self.begin(place, event.at, kind, worker=ROLES.get(event.role, event.role), attempt=event.attempt)

    def reviewed(self, event: actors.Reviewed) -> None:
        """A review has ended."""
        if event.problems:
            self.close(_step("review"), event.at, "failed", "ReviewError")
        else:
            self.close(_step("review"), event.at, "accepted" if event.passed else "sent back")

    def finished(self, event: actors.TaskFinished) -> None:
        """End all that is open."""
        for subtask, lane in list(self._open):
            self.close(subtask, event.at, str(event.status), lane=lane)


def _place_of(event: Any) -> tuple[str, Any, str]:
    if event.role in {"plan", "review", "combine"}:
        return _step(event.role), event, event.role
    return event.subtask, event, "undo" if event.role == "undo" else event.kind


def _lane_of(event: Any) -> str:
    return "undo" if event.role == "undo" else "work"


def _attempt_of(bar: Bar | None) -> int:
    return bar["attempt"] if bar is not None else 0


def _step(step: str) -> str:
    """Name of a row of the timeline that is no subtask: no id of a subtask has a bracket at its beginning."""
    return f"({ROLES.get(step, step)})"


_ACTS: Final[dict[type, Callable[[_Timeline, Any], object]]] = {
    actors.SubtaskQueued: _Timeline.queued,
    actors.SubtaskRequeued: _Timeline.requeued,
    actors.SubtaskStarted: _Timeline.started,
    actors.SubtaskSucceeded: lambda to, event: to.close(event.subtask, event.at, "succeeded"),
    actors.SubtaskRetrying: _Timeline.retrying,
    actors.SubtaskFailed: lambda to, event: to.failed(*_place_of(event), lane=_lane_of(event)),
    actors.SubtaskCancelled: lambda to, event: to.close(event.subtask, event.at, "cancelled"),
    actors.SubtaskSkipped: lambda to, event: to.close(event.subtask, event.at, "skipped"),
    actors.EscalationRaised: _Timeline.asks,
    actors.EscalationAnswered: lambda to, event: to.asked(event.escalation, event.at, event.answer),
    actors.EscalationExpired: lambda to, event: to.asked(event.escalation, event.at, "expired"),
    actors.Compensating: _Timeline.undoes,
    actors.Compensated: _Timeline.undone,
    actors.Planned: lambda to, event: to.close(_step("plan"), event.at, "succeeded"),
    actors.PlanRefused: lambda to, event: to.close(_step("plan"), event.at, "failed", "PlanError"),
    actors.Reviewed: _Timeline.reviewed,
    actors.Synthesized: lambda to, event: to.close(
        _step("combine"), event.at, "failed" if event.error else "succeeded"
    ),
    actors.TaskFinished: _Timeline.finished,
}
