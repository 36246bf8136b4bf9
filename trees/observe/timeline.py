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

So a subtask has at most one open bar of each of two lanes: its work, and its undo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from actors.tasks.model import task_events as told
from actors.tasks.model.outcome import UNCOUNTED
from actors.tasks.model.step_events import ROLES
from actors.tasks.model.task_events import TaskEvent

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

    def take(self, event: TaskEvent) -> None:
        """Take the next record."""
        for kind in type(event).__mro__:
            act = _ACTS.get(kind)
            if act is not None:
                act(self, event)
                return
        if isinstance(event, told.TaskFinished):
            for subtask, lane in list(self._open):
                self._close(subtask, event.at, str(event.status), lane=lane)

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

    def _close(
        self, subtask: str, at: float, status: str, error: str | None = None, *, lane: str = "work"
    ) -> Bar | None:
        bar = self._open.pop((subtask, lane), None)
        if bar is not None:
            bar["to"], bar["status"], bar["error"] = at, status, error
        return bar

    # -- one kind of record each ---------------------------------------------------------------------------

    def queued(self, event: told.SubtaskQueued) -> None:
        """Begin to wait for a worker."""
        last = self._close(event.subtask, event.at, "queued again" if event.reason else "done")
        attempt = last["attempt"] if last is not None else 0
        self.begin(event.subtask, event.at, "queued", attempt=attempt)

    def started(self, event: told.SubtaskStarted) -> None:
        """An attempt begins."""
        self._close(event.subtask, event.at, "done")
        self.begin(event.subtask, event.at, "running", worker=event.worker, attempt=event.attempt)

    def succeeded(self, event: told.SubtaskSucceeded) -> None:
        """An attempt has succeeded."""
        self._close(event.subtask, event.at, "succeeded")

    def retrying(self, event: told.SubtaskRetrying) -> None:
        """An attempt has failed, or was put off or refused, which is no failure; another follows."""
        if event.kind in UNCOUNTED:
            self._close(event.subtask, event.at, event.kind)
        else:
            self._close(event.subtask, event.at, "failed", error_type(event.error, event.kind))
        wait = self.begin(event.subtask, event.at, "retry_wait", worker=event.worker, attempt=event.attempt)
        wait["due"] = event.due

    def failed(self, event: told.SubtaskFailed) -> None:
        """No attempt follows."""
        self._close(event.subtask, event.at, "failed", error_type(event.error, event.kind))

    def preempted(self, event: told.SubtaskPreempted) -> None:
        """End an attempt that gives way."""
        bar = self._close(event.subtask, event.at, "preempted")
        self.begin(event.subtask, event.at, "queued", attempt=bar["attempt"] if bar is not None else 0)

    def cancelled(self, event: told.SubtaskCancelled) -> None:
        """End what is broken off."""
        self._close(event.subtask, event.at, "cancelled")

    def skipped(self, event: told.SubtaskSkipped) -> None:
        """End what never runs."""
        self._close(event.subtask, event.at, "skipped")

    def asks(self, event: told.EscalationRaised) -> None:
        """A person is asked."""
        step = event.step if isinstance(event, told.StepEscalated) else ""
        place, lane = (_step(step), "work") if step else (event.subtask, "undo" if event.undoing else "work")
        error = event.kind if event.has_question else error_type(event.error, event.kind)
        bar = self._close(place, event.at, "asks", error or None)
        if lane == "undo":
            self._close(place, event.at, "failed", lane=lane)
        attempt = bar["attempt"] if bar is not None else 0
        self.begin(place, event.at, "person", worker=event.worker, attempt=attempt, lane=f"asks {event.escalation}")

    def answered(self, event: told.EscalationAnswered) -> None:
        """A person has answered."""
        self._asked(event.escalation, event.at, event.answer)

    def expired(self, event: told.EscalationExpired) -> None:
        """End the wait for a person: the time is up."""
        self._asked(event.escalation, event.at, "expired")

    def _asked(self, id_: str, at: float, status: str) -> None:
        lane = f"asks {id_}"
        for subtask, open_lane in list(self._open):
            if open_lane == lane:
                self._close(subtask, at, status, lane=lane)

    def undoes(self, event: told.Compensating) -> None:
        """An undo begins."""
        self._close(event.subtask, event.at, "failed", lane="undo")
        self.begin(event.subtask, event.at, "undo", worker=event.worker, attempt=event.attempt, lane="undo")

    def undo_retries(self, event: told.CompensationRetrying) -> None:
        """An undo has failed; it is called again."""
        self._close(event.subtask, event.at, "failed", error_type(event.error, "undo"), lane="undo")

    def undone(self, event: told.Compensated) -> None:
        """An undo has ended."""
        error = error_type(event.error, "undo") if event.error else None
        self._close(event.subtask, event.at, "failed" if error else "undone", error, lane="undo")

    def step(self, event: told.StepStarted) -> None:
        """A planner, a reviewer or a synthesizer begins."""
        place = _step(event.step)
        self._close(place, event.at, "done")
        kind = "review" if event.step == "review" else "running"
        self.begin(place, event.at, kind, worker=ROLES.get(event.step, event.step), attempt=event.number)

    def step_over(self, event: told.StepRetrying | told.StepFailed) -> None:
        """One of them has failed."""
        self._close(_step(event.step), event.at, "failed", error_type(event.error, event.step))

    def step_back(self, event: told.StepPutBack) -> None:
        """One of them will be called again."""
        self._close(_step(event.step), event.at, "put back")

    def planned(self, event: told.Planned) -> None:
        """End the planner's turn: here is its plan."""
        self._close(_step("plan"), event.at, "succeeded")

    def plan_refused(self, event: told.PlanRefused) -> None:
        """The plan does not fit."""
        self._close(_step("plan"), event.at, "failed", "PlanError")

    def reviewed(self, event: told.Reviewed) -> None:
        """The reviewer has spoken."""
        self._close(_step("review"), event.at, "accepted" if event.passed else "sent back")

    def review_refused(self, event: told.ReviewRefused) -> None:
        """The reviewer has said what is no verdict."""
        self._close(_step("review"), event.at, "failed", "ReviewError")

    def combined(self, event: told.Synthesized) -> None:
        """End the synthesizer's turn: here is its output."""
        self._close(_step("combine"), event.at, "failed" if event.error else "succeeded")


def _step(step: str) -> str:
    """Name of a row of the timeline that is no subtask: no id of a subtask has a bracket at its beginning."""
    return f"({ROLES.get(step, step)})"


_ACTS: Final[dict[type, Callable[[_Timeline, Any], None]]] = {
    told.SubtaskQueued: _Timeline.queued,
    told.SubtaskStarted: _Timeline.started,
    told.SubtaskSucceeded: _Timeline.succeeded,
    told.SubtaskRetrying: _Timeline.retrying,
    told.SubtaskFailed: _Timeline.failed,
    told.SubtaskPreempted: _Timeline.preempted,
    told.SubtaskCancelled: _Timeline.cancelled,
    told.SubtaskSkipped: _Timeline.skipped,
    told.EscalationRaised: _Timeline.asks,
    told.EscalationAnswered: _Timeline.answered,
    told.EscalationExpired: _Timeline.expired,
    told.Compensating: _Timeline.undoes,
    told.CompensationRetrying: _Timeline.undo_retries,
    told.Compensated: _Timeline.undone,
    told.StepStarted: _Timeline.step,
    told.StepRetrying: _Timeline.step_over,
    told.StepFailed: _Timeline.step_over,
    told.StepPutBack: _Timeline.step_back,
    told.Planned: _Timeline.planned,
    told.PlanRefused: _Timeline.plan_refused,
    told.Reviewed: _Timeline.reviewed,
    told.ReviewRefused: _Timeline.review_refused,
    told.Synthesized: _Timeline.combined,
}
