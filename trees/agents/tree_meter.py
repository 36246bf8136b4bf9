"""Metrics of a tree, made of its events: one table of names for Prometheus and for OpenTelemetry.

A ``TreeMeter`` hears the events and tells a ``Sink`` what they count for. Gauges look at the tree when they are asked.

Labels are paths of children, ids of workers, reasons and states: nothing that a task is about. Members of a pool count
as the pool, and children of a crowd as one (``Measures.label``, ``worker_label``): 100,000 are no 100,000 series.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import add
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, get_args

from actors.messaging.handled import waited_s
from actors.messaging.pool_address import PoolAddress
from actors.model.child_state import State
from actors.model.events import ChildExited, ChildRestarting, DeadLetter, Event, kinds, metric_of
from actors.tasks.model import task_events
from actors.tasks.model.breaker_events import BreakerOpened
from actors.tasks.model.event_base import TaskEvent
from actors.tasks.model.outcome import UNCOUNTED
from actors.tasks.model.store_events import StorePaused
from actors.tasks.model.task import SubtaskStatus, TaskStatus
from actors.tasks.model.task_ids import MARK
from actors.tasks.orchestration.task_runtime import task_runtime_of

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
    "queue_wait": "Seconds that subtasks stood in line, by worker",
    "task": "Seconds from submitting a task to its end, by status",
    "commit": "Seconds that a commit of the store took",
}
"""Each is a metric ``regrow_..._seconds``, and what it tells."""
Labels: TypeAlias = "tuple[tuple[str, str], ...]"
"""Labels of one series of a counter or histogram, as pairs: a key as they are."""
Value: TypeAlias = "tuple[dict[str, str], float]"
"""Value of a gauge, with its labels."""
_MOST_OPEN: Final = 100_000
"""Tasks that go on and are measured; of more the oldest is only counted."""
_BREAKERS: Final = {"closed": 0, "half_open": 1, "open": 2}
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


class Sink(Protocol):
    """Library that metrics are told to."""

    def count(self, name: str, amount: float, labels: Labels) -> None:
        """Add to a counter of ``COUNTERS``."""

    def measure(self, name: str, seconds: float, labels: Labels) -> None:
        """Add to a histogram of ``HISTOGRAMS``."""


def _measure_commits(system: System, sink: Sink) -> Callable[[], None]:
    """Have the sink told of each commit; returns how to end that."""
    watching, key = task_runtime_of(system).commits, object()
    watching[key] = lambda seconds: sink.measure("commit", seconds, ())

    def end() -> None:
        watching.pop(key, None)

    return end


class TreeMeter:
    """Counts the events of one tree. ``hear`` runs on one thread.

    Each event is counted on a thread that shares the interpreter with the workers. So what an event needs is found out
    once for its kind, and kinds that count for nothing are not even delivered (``wants``).

    ``attempts``: attempts are measured by their events; else by somebody else.
    """

    def __init__(self, system: System, sink: Sink, *, attempts: bool) -> None:
        self._count, self._measure = sink.count, sink.measure
        self._attempts = attempts
        measures = system.reports.measures
        self._label, self._worker_label = measures.label, measures.worker_label
        measures.on = True
        self._open: dict[str, _OpenTask] = {}
        """Tasks that go on, by id."""
        self.end = _measure_commits(system, sink)
        """Measures no more commits: they are no events."""
        self._counting: dict[type[Event], Callable[[Any], None] | None] = {}
        """By kind, what counts an event of it; found once for each."""

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
        table: list[tuple[type[Event], Callable[[Any], None]]] = [
            (ChildExited, self._exited),
            (ChildRestarting, lambda event: count("child_restarts", 1, (("path", self._label(event.path)),))),
            (DeadLetter, lambda event: count("dead_letters", 1, (("reason", str(event.reason)),))),
            (BreakerOpened, self._breaker_opened),
            (StorePaused, lambda _: count("store_pauses", 1, ())),
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
        found = next((each for base, each in table if issubclass(kind, base)), None)
        return self._used if found is None and issubclass(kind, TaskEvent) and hasattr(kind, "usage") else found

    # -- children ------------------------------------------------------------------------------------------

    def _exited(self, event: ChildExited) -> None:
        self._count("child_exits", 1, (("path", self._label(event.path)), ("reason", str(event.reason))))

    def _breaker_opened(self, event: BreakerOpened) -> None:
        self._count("breaker_opened", 1, (("worker", self._worker_label(event.path.rpartition("/")[2])),))

    # -- tasks ---------------------------------------------------------------------------------------------

    def _submitted(self, event: task_events.TaskSubmitted) -> None:
        if len(self._open) >= _MOST_OPEN:
            del self._open[next(iter(self._open))]  # its end may have been among the events that were lost
        self._open[event.task] = _OpenTask(event.at)

    def _finished(self, event: task_events.TaskFinished) -> None:
        task = self._open.pop(event.task, None)
        if MARK not in event.task:  # a team's part is no task of its own
            labels = (("status", str(event.status)),)
            self._count("tasks", 1, labels)
            if task is not None:
                self._measure("task", max(0.0, event.at - task.began), labels)

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
                waited = event.at - queued
                labels = (("worker", self._worker_label(event.worker)),)
                self._measure("queue_wait", waited if waited > 0 else 0.0, labels)
            task.workers[event.subtask] = event.worker

    def _subtask_ended(self, event: Any) -> None:
        kind = type(event)
        worker = self._worker_of(event)
        self._count("subtasks", 1, (("worker", worker), ("status", _STATUS[kind])))
        if kind is not task_events.SubtaskSkipped:  # nothing of it has run
            self._spent(event, worker)

    def _retrying(self, event: task_events.SubtaskRetrying) -> None:
        worker = self._worker_of(event)
        self._count("retries", 1, (("worker", worker),))
        self._spent(event, worker)

    def _spent(self, event: Any, worker: str) -> None:
        """Measure an attempt that has ended, and count what it has used up."""
        if self._attempts and (ran_s := getattr(event, "ran_s", 0.0)):
            kind = getattr(event, "kind", "")
            ended = "succeeded" if type(event) is task_events.SubtaskSucceeded else "failed"
            status = kind if kind in UNCOUNTED else ended
            self._measure("attempt", ran_s, (("worker", worker), ("status", status)))
        self._used(event)

    def _asked(self, event: task_events.EscalationRaised) -> None:
        self._count("escalations", 1, ())
        self._used(event)

    def _used(self, event: Any) -> None:
        """Count what an event says was used up."""
        usage = event.usage
        if usage is None or not (usage.tokens or usage.cost):
            return
        if MARK in event.task:  # what a part has used comes once more with its team's subtask
            return
        labels = (("worker", self._worker_of(event)),)
        for name, amount in (("tokens", usage.tokens), ("cost", usage.cost)):
            if amount:
                self._count(name, amount, labels)

    def _worker_of(self, event: Any) -> str:
        """Return the label of the worker that an event is about: a step of the task has the name of the step."""
        worker: str | None = getattr(event, "worker", None)
        if not worker:
            task = self._open.get(event.task)
            if task is not None:
                worker = task.workers.get(getattr(event, "subtask", ""))
        return self._worker_label(worker or str(getattr(event, "step", "")))


# -- gauges ------------------------------------------------------------------------------------------------------


# A series that was told once goes on as 0, as long as its child is there: one that disappears is no number to what
# reads it, so an alert on it neither holds nor ends. Of states, all are told from the beginning.


def _children(system: System) -> Iterable[Value]:
    counts = Counter(dict.fromkeys(get_args(State), 0))
    counts.update(str(child.state) for child in list(system.children.values()))
    return [({"state": state}, count) for state, count in counts.items()]


def _told_before(system: System) -> Iterator[str]:
    """Yield the labels of children and pools that are there, as far as they have one already."""
    for label in system.reports.measures.labels():
        if label.endswith("*") or label in system.children or isinstance(system.boxes.get(label), PoolAddress):
            yield label


def _mailboxes(system: System) -> Iterable[Value]:
    label, depths = system.reports.measures.label, Counter(dict.fromkeys(_told_before(system), 0))
    for path, box in system.boxes.copy().items():
        depth = getattr(box, "depth", 0)
        if depth and (path in system.children or isinstance(box, PoolAddress)):
            depths[label(path)] += depth
    return [({"path": path}, depth) for path, depth in depths.items()]


def _oldest_messages(system: System) -> Iterable[Value]:
    now, label = system.now(), system.reports.measures.label
    ages = {whole: 0.0 for whole in _told_before(system) if whole not in system.supervisors}
    for path, box in system.boxes.copy().items():
        if box.depth and (path in system.children or isinstance(box, PoolAddress)) and path not in system.supervisors:
            whole = label(path)
            ages[whole] = max(ages.get(whole, 0.0), waited_s(box, now))
    return [({"path": path}, age) for path, age in ages.items()]


def _unfinished(system: System) -> Iterable[Value]:
    return [({"path": port.path}, len(port.states)) for port in list(task_runtime_of(system).ports.values())]


def _task_statuses(system: System) -> Iterable[Value]:
    ports = list(task_runtime_of(system).ports.values())
    counts = Counter(str(state.status) for port in ports for state in list(port.states.values()))
    return [({"status": str(status)}, counts[str(status)]) for status in TaskStatus if not status.is_final]


def _subtasks(system: System) -> Iterable[Value]:
    counts = Counter({str(status): 0 for status in SubtaskStatus})
    for port in list(task_runtime_of(system).ports.values()):
        for state in list(port.states.values()):
            counts.update(str(node.status) for node in list(state.nodes.values()))
    return [({"status": status}, count) for status, count in counts.items()]


def _oldest_subtask(system: System) -> Iterable[Value]:
    for port in list(task_runtime_of(system).ports.values()):
        nodes = (node for state in list(port.states.values()) for node in list(state.nodes.values()))
        since = min((node.queued_at for node in nodes if node.status is SubtaskStatus.QUEUED), default=None)
        yield {"path": port.path}, 0.0 if since is None else max(0.0, port.time() - since)


def _breakers(system: System) -> Iterable[Value]:
    label, worst = system.reports.measures.worker_label, dict[str, int]()
    for port in list(task_runtime_of(system).ports.values()):
        for row in port.rows():
            if row.breaker is not None:
                worker = label(row.id)
                worst[worker] = max(worst.get(worker, 0), _BREAKERS[row.breaker])
    return [({"worker": worker}, state) for worker, state in worst.items()]


def busy_workers(system: System) -> int:
    """Count the workers that are running code now."""
    incarnations = [child.incarnation for child in list(system.children.values())]
    return sum(each is not None and each.running_on is not None for each in incarnations)


def _abandoned(system: System) -> Iterable[Value]:
    return [({}, sum(dict(system.abandoned_by_path).values()))]


def _role(system: System) -> Iterable[Value]:
    role = "leader" if system.role is None else system.role()
    return [({"role": each}, float(each == role)) for each in ("leader", "standby")]


def _restarts_left(system: System) -> Iterable[Value]:
    now = system.now()
    for path, supervisor in system.supervisors.copy().items():
        window = supervisor.restarts.window
        yield {"path": path}, max(0, window.limit.max_restarts - window.count(now))


Combine: TypeAlias = "Callable[[float, float], float]"
"""How two values of one series become one, where trees of a process share its labels."""

GAUGES: Final[Mapping[str, tuple[str, Callable[[System], Iterable[Value]], Combine]]] = {
    "regrow_children": ("Children by state", _children, add),
    "regrow_mailbox_depth": ("Messages that wait, by the path of a worker or pool", _mailboxes, add),
    "regrow_oldest_message_seconds": (
        "Seconds for which the oldest message has waited at least, by the path of a worker or pool",
        _oldest_messages,
        max,
    ),
    "regrow_busy_threads": ("Workers that are running code now", lambda system: [({}, busy_workers(system))], add),
    "regrow_abandoned": ("Incarnations that were left to themselves and still run", _abandoned, add),
    "regrow_tasks_unfinished": ("Tasks that go on, by the path of their supervisor", _unfinished, add),
    "regrow_tasks_by_status": ("Tasks that go on, by status", _task_statuses, add),
    "regrow_subtasks_unfinished": ("Subtasks of tasks that go on, by status", _subtasks, add),
    "regrow_oldest_queued_seconds": ("Age of the subtask that is queued for longest", _oldest_subtask, max),
    "regrow_breaker_state": ("Breaker of a worker: 0 closed, 1 half open, 2 open", _breakers, max),
    "regrow_role": ("1 for the part that this process plays: leader, or standby", _role, max),
    "regrow_restarts_left": ("Restarts that a supervisor has left in its period", _restarts_left, min),
}
"""By the name of a gauge: what it tells, a look at a tree for it, and how several trees are one: what is counted is
added, of a state and of an age the worst is told."""


def combined(
    look: Callable[[System], Iterable[Value]], combine: Combine, systems: Iterable[System]
) -> dict[Labels, float]:
    """Return the series of a gauge, of several trees."""
    values: dict[Labels, float] = {}
    for system in systems:
        for labels, value in look(system):
            key = tuple(labels.copy().items())
            values[key] = combine(values[key], value) if key in values else value
    return values
