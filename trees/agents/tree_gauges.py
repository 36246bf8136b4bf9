"""Gauges of a tree, which look at it when they are asked: one table of names for Prometheus and for OpenTelemetry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import add
from typing import TYPE_CHECKING, Final, TypeAlias, get_args

from actors.messaging.handled import waited_s
from actors.messaging.pool_address import PoolAddress
from actors.model.child_state import State
from actors.tasks.journal.view import tasks_of
from actors.tasks.model import SubtaskStatus, TaskStatus

if TYPE_CHECKING:
    from actors.runtime.system import System
    from trees.agents.tree_meter import Labels

Value: TypeAlias = "tuple[dict[str, str], float]"
"""Value of a gauge, with its labels."""
_BREAKERS: Final = {"closed": 0, "half_open": 1, "open": 2}

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
    return [({"path": path}, len(found.tasks())) for path, found in tasks_of(system).items()]


def _task_statuses(system: System) -> Iterable[Value]:
    counts = Counter(str(task.status) for found in tasks_of(system).values() for task in found.tasks())
    return [({"status": str(status)}, counts[str(status)]) for status in TaskStatus if not status.is_final]


def _subtasks(system: System) -> Iterable[Value]:
    counts = Counter(dict.fromkeys(SubtaskStatus, 0))
    for found in tasks_of(system).values():
        for task in found.tasks():
            counts.update(task.counts())
    return [({"status": str(status)}, count) for status, count in counts.items()]


def _oldest_subtask(system: System) -> Iterable[Value]:
    return [({"path": path}, max(found.queued_s(), default=0.0)) for path, found in tasks_of(system).items()]


def _breakers(system: System) -> Iterable[Value]:
    label, worst = system.reports.measures.worker_label, dict[str, int]()
    for found in tasks_of(system).values():
        for id_, state in found.breakers().items():
            worker = label(id_)
            worst[worker] = max(worst.get(worker, 0), _BREAKERS[state])
    return [({"worker": worker}, value) for worker, value in worst.items()]


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
