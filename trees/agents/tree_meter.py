"""Metrics of a tree, made of its events: one table of names for Prometheus and for OpenTelemetry.

A ``TreeMeter`` hears the events and tells a ``Sink`` what they count for. Gauges are in ``trees.agents.tree_gauges``.

Labels are paths of children, ids of workers, reasons and states: nothing that a task is about. Members of a pool count
as the pool, and children of a crowd as one (``Measures.label``, ``worker_label``): 100,000 are no 100,000 series.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import actors
from actors.model.events import ChildExited, ChildRestarting, DeadLetter, Event, kinds, metric_of
from actors.tasks.journal.view import UNCOUNTED, service_of
from actors.tasks.model import NO_USAGE, StorePaused

if TYPE_CHECKING:
    from actors.runtime.system import System

_COUNTED: Final = {metric_of(kind): kind.metric for kind in kinds() if kind.metric}
"""Counters that a kind of event declares itself."""
COUNTERS: Final = {
    "child_exits": "Ends of children, by path and reason",
    "child_restarts": "Restarts of children, by path",
    "dead_letters": "Messages that nobody handled, by reason",
    "tasks": "Tasks that have ended, by status",
    "subtasks": "Subtasks that have ended, by worker and status",
    "retries": "Attempts that are made again, by worker",
    "breaker_opened": "Breakers that have opened, by worker",
    "tokens": "Tokens that were used, by worker",
    "cost": "Cost of what was used, by worker",
    "escalations": "Questions to people",
    "store_pauses": "Times that the store could not write",
    **_COUNTED,
}
"""Each is a metric ``regrow_..._total``, and what it tells."""
UNLABELLED: Final = ("escalations", "store_pauses", *_COUNTED)
"""Counters without labels. They are told as 0 from the beginning: what reads counters computes differences, so of one
that appears with 1 the first event would be lost."""
HANDLING: Final = "handling"
"""Histogram that the mailboxes have; nobody is told of each message. See ``Measures``."""
HISTOGRAMS: Final = {
    HANDLING: "Seconds that workers took for a message, by path",
    "attempt": "Seconds that attempts ran, by worker and status",
    "queue_wait": "Seconds that subtasks stood in line before attempts that have ended, by worker",
    "task": "Seconds from submitting a task to its end, by status",
    "commit": "Seconds that a commit of the store took",
}
"""Each is a metric ``regrow_..._seconds``, and what it tells."""
Labels: TypeAlias = "tuple[tuple[str, str], ...]"
"""Labels of one series of a counter or histogram, as pairs: a key as they are."""
Add: TypeAlias = "Callable[[float], object]"
"""Adds to one series."""
_MOST_OPEN: Final = 100_000
"""Tasks that go on and are measured; of more the oldest is only counted."""
_STATUS: Final[dict[type[Event], str]] = {
    actors.SubtaskSucceeded: "succeeded",
    actors.SubtaskFailed: "failed",
    actors.SubtaskCancelled: "cancelled",
    actors.SubtaskSkipped: "skipped",
}


class Sink(Protocol):
    """Library that metrics are told to."""

    def counter(self, name: str, labels: Labels) -> Add:
        """Return what adds to a series of a counter of ``COUNTERS``."""

    def histogram(self, name: str, labels: Labels) -> Add:
        """Return what adds seconds to a series of a histogram of ``HISTOGRAMS``."""


class TreeMeter:
    """Counts the events of one tree. ``hear`` runs on one thread.

    Each event is counted on a thread that shares the interpreter with the workers. So what an event needs is found out
    once for its kind, and kinds that count for nothing are not even delivered (``wants``).

    ``attempts``: attempts are measured by their events; else by somebody else.
    """

    def __init__(self, system: System, sink: Sink, *, attempts: bool) -> None:
        self._sink, self._attempts = sink, attempts
        measures = system.reports.measures
        self._label, self._worker_label = measures.label, measures.worker_label
        measures.on = True
        self._open: dict[str, float] = {}
        """When tasks that go on were submitted, by id."""
        self._counters: dict[tuple[str, Labels], Add] = {}
        """By name and labels of a series, what adds to it: found once."""
        self._successes: dict[str, tuple[Add, Add, Add]] = {}
        """By label of a worker, what adds to its subtasks that have succeeded, to the times that those have run, and to
        those in line. Nearly every subtask does: it is found once."""
        commits = service_of(system).commits
        commits[self] = lambda seconds: self._measure("commit", seconds, ())
        self.end = partial(commits.pop, self, None)
        """Measures no more commits: they are no events."""
        self._counting: dict[type[Event], Callable[[Any], None] | None] = {}
        """By kind, what counts an event of it; found once for each."""

    def _count(self, name: str, amount: float, labels: Labels) -> None:
        add = self._counters.get((name, labels))
        if add is None:
            add = self._counters[name, labels] = self._sink.counter(name, labels)
        add(amount)

    def _measure(self, name: str, seconds: float, labels: Labels) -> None:
        self._sink.histogram(name, labels)(seconds)

    def hear(self, event: Event) -> None:
        """Count an event."""
        kind = type(event)
        try:
            count = self._counting[kind]
        except KeyError:
            count = self._counting[kind] = self._counter_of(kind)
        if count is not None:
            count(event)

    def wants(self, kind: type[Event]) -> bool:
        """Say whether events of a kind count for anything."""
        return self._counter_of(kind) is not None

    def _counter_of(self, kind: type[Event]) -> Callable[[Any], None] | None:
        count, name = self._count, metric_of(kind)
        if name in _COUNTED:
            return lambda _: count(name, 1, ())
        table: list[tuple[type[Event], Callable[[Any], None] | None]] = [
            (ChildExited, self._exited),
            (ChildRestarting, lambda event: count("child_restarts", 1, (("path", self._label(event.path)),))),
            (DeadLetter, lambda event: count("dead_letters", 1, (("reason", str(event.reason)),))),
            (actors.BreakerOpened, self._breaker_opened),
            (StorePaused, lambda _: count("store_pauses", 1, ())),
            (actors.TaskSubmitted, self._submitted),
            (actors.TaskFinished, self._finished),
            (actors.SubtaskSucceeded, self._succeeded),
            (actors.SubtaskFailed, self._subtask_ended),
            (actors.SubtaskCancelled, self._subtask_ended),
            (actors.SubtaskSkipped, self._subtask_ended),
            (actors.SubtaskRetrying, self._retrying),
            (actors.EscalationRaised, self._asked),
            (actors.SubtaskRequeued, self._requeued),
            (actors.SubtaskQueued, None),  # a plain one ends nothing
        ]
        for base, found in table:
            if issubclass(kind, base):
                return found
        return self._used if issubclass(kind, actors.TaskEvent) and hasattr(kind, "usage") else None

    # -- children ------------------------------------------------------------------------------------------

    def _exited(self, event: ChildExited) -> None:
        self._count("child_exits", 1, (("path", self._label(event.path)), ("reason", str(event.reason))))

    def _breaker_opened(self, event: actors.BreakerOpened) -> None:
        self._count("breaker_opened", 1, (("worker", self._worker_label(event.path.rpartition("/")[2])),))

    # -- tasks ---------------------------------------------------------------------------------------------

    def _submitted(self, event: actors.TaskSubmitted) -> None:
        if len(self._open) >= _MOST_OPEN:
            del self._open[next(iter(self._open))]  # its end may have been among the events that were lost
        self._open[event.task] = event.at

    def _finished(self, event: actors.TaskFinished) -> None:
        began = self._open.pop(event.task, None)
        labels = (("status", str(event.status)),)
        self._count("tasks", 1, labels)
        if began is not None:
            self._measure("task", max(0.0, event.at - began), labels)

    def _succeeded(self, event: actors.SubtaskSucceeded) -> None:
        worker, ran_s = event.worker, event.ran_s
        succeeded, ran, queued = self._successes.get(worker) or self._successes_of(self._worker_label(worker))
        succeeded(1)
        if ran_s:
            queued(event.queued_s)
            if self._attempts:
                ran(ran_s)
        if event.usage is not NO_USAGE:
            self._used(event)

    def _successes_of(self, label: str) -> tuple[Add, Add, Add]:
        found = self._successes.get(label)
        if found is None:
            sink, labels = self._sink, (("worker", label), ("status", "succeeded"))
            measured = sink.histogram("attempt", labels), sink.histogram("queue_wait", labels[:1])
            found = self._successes[label] = sink.counter("subtasks", labels), *measured
        return found

    def _subtask_ended(self, event: Any) -> None:
        worker = self._worker_of(event)
        self._count("subtasks", 1, (("worker", worker), ("status", _STATUS[type(event)])))
        self._spent(event)

    def _retrying(self, event: actors.SubtaskRetrying) -> None:
        self._count("retries", 1, (("worker", self._worker_of(event)),))
        self._spent(event)

    def _spent(self, event: Any) -> None:
        """Measure an attempt that has ended, and count what it has used up."""
        ran_s = getattr(event, "ran_s", 0.0)
        if ran_s:
            labels = (("worker", self._worker_of(event)),)
            self._measure("queue_wait", event.queued_s, labels)
            if self._attempts:
                self._measure("attempt", ran_s, (*labels, ("status", _end_of(event))))
        self._used(event)

    def _requeued(self, event: actors.SubtaskRequeued) -> None:
        if event.reason == "preempted":
            self._spent(event)
        else:
            self._used(event)

    def _asked(self, event: actors.EscalationRaised) -> None:
        self._count("escalations", 1, ())
        self._spent(event)

    def _used(self, event: Any) -> None:
        """Count what an event says was used up."""
        usage = getattr(event, "usage", None)
        if usage is None or not (usage.tokens or usage.cost):
            return
        labels = (("worker", self._worker_of(event)),)
        for name, amount in (("tokens", usage.tokens), ("cost", usage.cost)):
            if amount:
                self._count(name, amount, labels)

    def _worker_of(self, event: Any) -> str:
        """Return the label of the worker that an event is about: a step of the task has the name of the step."""
        return self._worker_label(getattr(event, "worker", None) or _role_of(event))


def _role_of(event: Any) -> str:
    role = str(getattr(event, "role", ""))
    return role if role != "work" else ""


def _end_of(event: Any) -> str:
    """Return how an attempt has ended: a status of its own, where that is no failure."""
    kind = getattr(event, "kind", "")
    if isinstance(event, actors.SubtaskRequeued):
        return event.reason
    has_asked = isinstance(event, actors.EscalationRaised) and kind == "escalated"
    return kind if has_asked or kind in UNCOUNTED else _STATUS.get(type(event), "failed")
