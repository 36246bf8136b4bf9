"""Ledger of a soak of tasks: what was run, and whether the journal of each task explains all of it.

Workers note when their code begins and when it is done, under the key of the act (``task/subtask/act``). When a task
has ended its journal is read, and these must hold:

1. it ends with one ``TaskFinished``, and with the status that its report has and its plan asks for;
2. nothing is started after its result is recorded, and no result is recorded twice;
3. the same act never runs in two places at once (an incarnation that is over, an abandoned thread, counts no more);
4. an act is begun no more often than the journal has started it;
5. an act is *done* twice only where the journal says that an attempt ended badly, or was put back: nothing twice
   without need. (A thread that was given up and comes to its end all the same is counted apart.)
6. where the task has not succeeded each payment that was made is refunded, once; where it has, none is.

What was looked at is forgotten, so the ledger stays as small as what is under way.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from actors import Context
from actors.messaging.envelope import CURRENT
from actors.tasks.model import task_events as records
from trees import TaskStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.tasks.model import TaskEvent
    from trees import Report

PAYS = "pay"
_BAD_ENDS = (
    records.SubtaskRetrying,
    records.SubtaskFailed,
    records.SubtaskRequeued,
    records.SubtaskCancelled,
    records.EscalationRaised,
)


@dataclass
class Acts:
    """What was done under one key."""

    begun: int = 0
    done: int = 0
    late: int = 0
    """Done by threads that were given up."""
    inside: list[Any] = field(default_factory=list)
    """Incarnations that are in it now."""


class Ledger:
    """What all workers of a soak have done, and what was wrong."""

    def __init__(self) -> None:
        self.violations: Counter[str] = Counter()
        self.examples: list[str] = []
        """The first violations, with all that is known of them."""
        self.kills: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        """Tasks by their status."""
        self.repeated = 0
        """Acts that were done more than once, each with a reason."""
        self.rejected: set[str] = set()
        """Tasks of which a person has said no."""
        self._acts: defaultdict[str, dict[str, Acts]] = defaultdict(dict)
        """By task, or part of one, and then by key."""
        self._lock = threading.Lock()

    def __deepcopy__(self, _: object) -> Ledger:
        return self

    @contextmanager
    def act(self, context: Context, what: str = "") -> Iterator[None]:
        """An act, from its beginning to its effect, which is the last thing in it."""
        key = f"{what}{context.idempotency_key}"
        current = CURRENT.get()
        assert current is not None
        incarnation: Any = current.incarnation
        with self._lock:
            acts = self._acts[_task_of(context.idempotency_key)].setdefault(key, Acts())
            acts.begun += 1
            twice = [other for other in acts.inside if not other.is_over]
            acts.inside.append(incarnation)
        if twice:
            self.wrong("the same act runs in two places at once", key)
        try:
            yield
            with self._lock:
                if incarnation.is_over:
                    acts.late += 1
                else:
                    acts.done += 1
        finally:
            with self._lock:
                acts.inside.remove(incarnation)

    def wrong(self, what: str, about: str) -> None:
        """Note a violation."""
        with self._lock:
            self.violations[what] += 1
            if len(self.examples) < 10:
                self.examples.append(f"{what}: {about}")

    # -- when a task has ended -----------------------------------------------------------------------------

    def audit(self, report: Report, events: Sequence[TaskEvent], expected: set[TaskStatus]) -> None:
        """Compare what was done for a task with its journal, and forget it."""
        id_ = report.task_id
        self.ends[str(report.status)] += 1
        if id_ in self.rejected:
            expected = expected | {TaskStatus.FAILED}
            self.rejected.discard(id_)
        ends = [event for event in events if isinstance(event, records.TaskFinished) and event.task == id_]
        if len(ends) != 1 or events[-1] is not ends[0] or ends[0].status is not report.status:
            self.wrong("it does not end with one TaskFinished of its status", _told(events))
        if report.status not in expected:
            self.wrong(f"{report.status} where its plan says {' or '.join(sorted(expected))}", _told(events))
        parts: defaultdict[tuple[str, str], list[TaskEvent]] = defaultdict(list)
        for event in events:
            if isinstance(event, records.SubtaskEvent):
                parts[event.task, event.subtask].append(event)
        for (task, subtask), own in parts.items():
            self._audit_subtask(task, subtask, own, paid=report.status is not TaskStatus.SUCCEEDED and task == id_)
        with self._lock:
            for task in {id_, *(task for task, _ in parts)}:
                self._acts.pop(task, None)

    def _audit_subtask(self, task: str, subtask: str, own: Sequence[TaskEvent], *, paid: bool) -> None:
        started = [event for event in own if isinstance(event, records.SubtaskStarted)]
        succeeded = [at for at, event in enumerate(own) if isinstance(event, records.SubtaskSucceeded)]
        about = f"{task}/{subtask}: {_told(own)}"
        if len(succeeded) > 1:
            self.wrong("two results of one subtask are recorded", about)
        if succeeded and any(isinstance(event, records.SubtaskStarted) for event in own[succeeded[0] :]):
            self.wrong("it was started again after its result was recorded", about)
        bad = sum(isinstance(event, _BAD_ENDS) for event in own)
        by_act = Counter(event.act for event in started)
        for act, times in by_act.items():
            acts = self._acts.get(task, {}).get(f"{task}@{subtask}:{act}", Acts())
            if acts.begun > times:
                self.wrong("an act was begun more often than the journal has started it", f"{acts} {about}")
            if acts.done > 1 + bad:
                self.wrong("an act was done twice without need", f"{acts} {about}")
            self.repeated += max(0, acts.done + acts.late - 1)
        if subtask.startswith(PAYS):
            self._audit_payment(task, subtask, own, paid=paid and bool(succeeded), about=about)

    def _audit_payment(self, task: str, subtask: str, own: Sequence[TaskEvent], *, paid: bool, about: str) -> None:
        undone = sum(isinstance(event, records.Compensated) for event in own)
        tries = sum(isinstance(event, records.SubtaskRetrying) and event.role == "undo" for event in own)
        refunds = [
            acts for key, acts in self._acts.get(task, {}).items() if key.startswith(f"refund {task}@{subtask}/")
        ]
        if paid and undone != 1:
            self.wrong("a payment of a task that has not succeeded was not refunded once", about)
        if sum(acts.done for acts in refunds) > undone + tries:
            self.wrong("a refund was made twice without need", about)


def _task_of(key: str) -> str:
    return key.split("@", 1)[0]


def _told(events: Sequence[TaskEvent]) -> str:
    """The journal in short, for a person."""
    return " ".join(f"{type(event).__name__}({_facts(event)})" for event in events[-40:])


def _facts(event: TaskEvent) -> str:
    facts = {name: getattr(event, name, "") for name in ("subtask", "kind", "reason", "error", "attempt", "act")}
    return ", ".join(f"{value}" for value in facts.values() if value)
