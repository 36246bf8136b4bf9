"""Metrics of a tree for OpenTelemetry, made of its events: counters, histograms, and gauges that look at the tree.

Labels are paths of children, ids of workers, reasons and states: nothing that a task is about. Members of a pool count
as the pool: 100,000 of them are one series.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from actors.model.events import ChildExited, ChildRestarting, DeadLetter, Event, SupervisorGaveUp
from actors.tasks.model import task_events
from actors.tasks.model.breaker_events import BreakerOpened
from actors.tasks.model.event_base import TaskEvent
from actors.tasks.model.store_events import StorePaused
from actors.tasks.model.task_ids import MARK
from actors.tasks.orchestration.task_runtime import task_runtime_of

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

    from actors.runtime.system import System

COUNTERS: Final = (
    "child_exits",
    "child_restarts",
    "dead_letters",
    "supervisor_gave_up",
    "tasks",
    "subtasks",
    "retries",
    "breaker_opened",
    "tokens",
    "cost",
    "escalations",
    "store_pauses",
)
"""Each is a metric ``regrow_..._total``."""
_MOST_OPEN: Final = 100_000
"""Tasks that go on and are measured; of more only the counters go on."""
_STATUS: Final[dict[type[Event], str]] = {
    task_events.SubtaskSucceeded: "succeeded",
    task_events.SubtaskFailed: "failed",
    task_events.SubtaskCancelled: "cancelled",
    task_events.SubtaskSkipped: "skipped",
}


class _OpenTask:
    """Task that goes on, as far as it is measured."""

    __slots__ = ("began", "queued", "workers")

    def __init__(self, began: float) -> None:
        self.began = began
        self.queued: dict[str, float] = {}
        """Since when subtasks are queued."""
        self.workers: dict[str, str] = {}
        """Worker that each subtask was last given to."""


class TreeMetrics:
    """Metrics of one tree. ``hear`` runs on one thread; ``attempt_ended`` on any."""

    def __init__(self, system: System, provider: MeterProvider | None) -> None:
        self._system = system
        meter = metrics.get_meter("regrow", meter_provider=provider)
        self._counters = {name: meter.create_counter(f"regrow_{name}_total") for name in COUNTERS}
        self._attempts = meter.create_histogram("regrow_attempt_seconds", unit="s")
        self._waits = meter.create_histogram("regrow_queue_wait_seconds", unit="s")
        self._tasks = meter.create_histogram("regrow_task_seconds", unit="s")
        self._open: dict[str, _OpenTask] = {}
        """Tasks that go on, by id."""
        self._counting: dict[type[Event], Callable[[Any], None] | None] = {}
        """By kind, what counts an event of it; found once for each."""
        meter.create_observable_gauge("regrow_children", [self._children])
        meter.create_observable_gauge("regrow_mailbox_depth", [self._mailboxes])
        meter.create_observable_gauge("regrow_tasks_unfinished", [self._unfinished])

    def attempt_ended(self, worker: str, status: str, seconds: float) -> None:
        """Measure an attempt."""
        self._attempts.record(seconds, {"worker": worker, "status": status})

    def hear(self, event: Event) -> None:
        """Count an event."""
        kind = type(event)
        try:
            count = self._counting[kind]
        except KeyError:
            count = self._counting[kind] = self._counter_of(kind)
        if count is not None:
            count(event)

    def _counter_of(self, kind: type[Event]) -> Callable[[Any], None] | None:
        table: list[tuple[type[Event], Callable[[Any], None]]] = [
            (ChildExited, self._exited),
            (ChildRestarting, lambda event: self._add("child_restarts", path=self._folded(event.path))),
            (DeadLetter, lambda event: self._add("dead_letters", reason=str(event.reason))),
            (SupervisorGaveUp, lambda _: self._add("supervisor_gave_up")),
            (BreakerOpened, lambda event: self._add("breaker_opened", worker=event.path.rpartition("/")[2])),
            (StorePaused, lambda _: self._add("store_pauses")),
            (task_events.TaskReopened, lambda _: None),
            (task_events.TaskSubmitted, self._submitted),
            (task_events.TaskFinished, self._finished),
            (task_events.SubtaskQueued, self._queued),
            (task_events.SubtaskStarted, self._started),
            (task_events.SubtaskSucceeded, self._subtask_ended),
            (task_events.SubtaskFailed, self._subtask_ended),
            (task_events.SubtaskCancelled, self._subtask_ended),
            (task_events.SubtaskSkipped, self._subtask_ended),
            (task_events.SubtaskRetrying, self._retrying),
            (task_events.EscalationRaised, self._asked),
        ]
        found = next((count for each, count in table if issubclass(kind, each)), None)
        return self._used if found is None and issubclass(kind, TaskEvent) and hasattr(kind, "usage") else found

    # -- children ------------------------------------------------------------------------------------------

    def _exited(self, event: ChildExited) -> None:
        self._add("child_exits", path=self._folded(event.path), reason=str(event.reason))

    def _folded(self, path: str) -> str:
        """Return the path of a pool for that of a member."""
        pool, mark, _ = path.rpartition("#")
        return pool if mark and pool in self._system.boxes else path

    # -- tasks ---------------------------------------------------------------------------------------------

    def _submitted(self, event: task_events.TaskSubmitted) -> None:
        if len(self._open) < _MOST_OPEN:
            self._open[event.task] = _OpenTask(event.at)

    def _finished(self, event: task_events.TaskFinished) -> None:
        task = self._open.pop(event.task, None)
        if MARK not in event.task:  # a team's part is no task of its own
            self._add("tasks", status=str(event.status))
            if task is not None:
                self._tasks.record(max(0.0, event.at - task.began), {"status": str(event.status)})

    def _queued(self, event: task_events.SubtaskQueued) -> None:
        task = self._open.get(event.task)
        if task is not None:
            task.queued[event.subtask] = event.at
        self._used(event)

    def _started(self, event: task_events.SubtaskStarted) -> None:
        task = self._open.get(event.task)
        if task is not None:
            queued = task.queued.pop(event.subtask, None)
            if queued is not None:
                self._waits.record(max(0.0, event.at - queued), {"worker": event.worker})
            task.workers[event.subtask] = event.worker

    def _subtask_ended(self, event: Any) -> None:
        self._add("subtasks", worker=self._worker_of(event), status=_STATUS[type(event)])
        self._used(event)

    def _retrying(self, event: task_events.SubtaskRetrying) -> None:
        self._add("retries", worker=self._worker_of(event))
        self._used(event)

    def _asked(self, event: task_events.EscalationRaised) -> None:
        self._add("escalations")
        self._used(event)

    def _used(self, event: Any) -> None:
        """Count what an event says was used up."""
        usage = getattr(event, "usage", None)
        if usage is None or MARK in event.task:  # what a part has used comes once more with its team's subtask
            return
        for name, amount in (("tokens", usage.tokens), ("cost", usage.cost)):
            if amount:
                self._counters[name].add(amount, {"worker": self._worker_of(event)})

    def _worker_of(self, event: Any) -> str:
        """Return the worker that an event is about: a step of the task has the name of the step."""
        worker = getattr(event, "worker", None)
        task = self._open.get(event.task)
        if not worker and task is not None:
            worker = task.workers.get(getattr(event, "subtask", ""))
        return str(worker or getattr(event, "step", ""))

    def _add(self, name: str, **labels: str) -> None:
        self._counters[name].add(1, labels)

    # -- gauges --------------------------------------------------------------------------------------------

    def _children(self, _: CallbackOptions) -> Iterable[Observation]:
        counts = Counter(str(child.state) for child in list(self._system.children.values()))
        return [Observation(count, {"state": state}) for state, count in counts.items()]

    def _mailboxes(self, _: CallbackOptions) -> Iterable[Observation]:
        depths = Counter[str]()
        for path, box in self._system.boxes.copy().items():
            depth = getattr(box, "depth", 0)
            if depth and path in self._system.children:
                depths[self._folded(path)] += depth
        return [Observation(depth, {"path": path}) for path, depth in depths.items()]

    def _unfinished(self, _: CallbackOptions) -> Iterable[Observation]:
        ports = list(task_runtime_of(self._system).ports.values())
        return [Observation(len(port.states), {"path": port.path}) for port in ports]
