"""Conditions of alerts. Each looks at a tree, and some count its events as well.

A condition is declared once and may be used for several trees: ``begin`` makes the part of it that remembers.
Events are heard on the thread of the bus, looks are taken on that of the alerts. What they share is a deque: one
appends, the other takes away, and each is one step of C.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from actors.model.events import ChildRestarting, Event, LoopBlocked, SupervisorGaveUp, TreeFailed
from actors.model.worker_events import ChildStalled
from actors.tasks.model import LeaseLostError, TaskFinished, TaskStatus
from actors.validation import field_types
from actors.validation.introspection import not_awaited
from actors.validation.spec_model import SpecModel
from trees.ha.roles import RoleLost
from trees.views.snapshot import NodeSnapshot, PoolSnapshot, SupervisorSnapshot, TreeSnapshot, WorkerSnapshot

HOLD_S: Final = 60.0
"""Seconds for which a condition holds that is about something that has happened."""
_MOST: Final = 100_000
"""Events of one condition that are remembered."""


@dataclass(frozen=True, slots=True)
class Look:
    """A tree at one moment."""

    snapshot: TreeSnapshot
    """Pools are folded."""
    queued: int
    """Subtasks that are queued."""
    oldest_question_s: float | None
    """Seconds for which a person was asked and has not answered, at most; None: nobody is asked."""

    @property
    def at(self) -> float:
        """Seconds since 1970, by the tree's clock."""
        return self.snapshot.taken_at


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition of an alert: made by the functions of this module."""

    begin: Callable[[], Seen | Happened]


class _RestartsOver(SpecModel, frozen=True):
    _called: ClassVar[str] = "restarts_over(...)"
    n: field_types.Count
    period_s: field_types.Period


class _QuestionWaiting(SpecModel, frozen=True):
    _called: ClassVar[str] = "question_waiting(...)"
    age_s: field_types.Delay


class _QueueOver(SpecModel, frozen=True):
    _called: ClassVar[str] = "queue_over(...)"
    n: field_types.Count
    for_s: field_types.Delay


class _MailboxOver(SpecModel, frozen=True):
    _called: ClassVar[str] = "mailbox_over(...)"
    n: field_types.Count


class Seen:
    """Something was seen in each look for so long."""

    hears: Final = ()

    def __init__(self, holds: Callable[[Look], object], for_s: float = 0.0) -> None:
        self._holds, self._for_s = holds, for_s
        self._since: float | None = None

    def hear(self, event: Event) -> None:
        """Take no notice: it looks."""

    def holds(self, look: Look) -> bool:
        """Say whether it holds now."""
        if not not_awaited(self._holds(look)):
            self._since = None
            return False
        self._since = look.at if self._since is None else min(self._since, look.at)
        return look.at - self._since >= self._for_s


class Happened:
    """Something of these kinds has happened more than ``most`` times within ``within_s`` seconds."""

    def __init__(
        self,
        *kinds: type[Event],
        is_it: Callable[[Event], object] | None = None,
        most: int = 0,
        within_s: float = HOLD_S,
    ) -> None:
        self.hears = kinds
        self._is_it, self._most, self._within_s = is_it, most, within_s
        self._times: deque[float] = deque(maxlen=_MOST)

    def hear(self, event: Event) -> None:
        """Take an event."""
        if self._is_it is None or self._is_it(event):
            self._times.append(event.at)

    def holds(self, look: Look) -> bool:
        """Say whether it holds now."""
        while self._times and look.at - self._times[0] > self._within_s:
            self._times.popleft()
        return len(self._times) > self._most


def gave_up() -> Condition:
    """Hold for a minute after a supervisor has used up its restart limit."""
    return Condition(lambda: Happened(SupervisorGaveUp))


def parked() -> Condition:
    """Hold while a child is parked."""
    return Condition(lambda: Seen(lambda look: any(_is_parked(node) for node in _nodes(look))))


def restarts_over(n: int, period_s: float) -> Condition:
    """Hold while there were more than ``n`` restarts within ``period_s`` seconds, in the whole tree.

    Raises:
        ConfigError: ``n`` is not a whole number from 0 on, or ``period_s`` not more than 0.
    """
    _RestartsOver(n=n, period_s=period_s)
    return Condition(lambda: Happened(ChildRestarting, most=n, within_s=period_s))


def breaker_open() -> Condition:
    """Hold while the breaker of a worker is open."""
    return Condition(lambda: Seen(lambda look: any(_is_open(node) for node in _nodes(look))))


def question_waiting(age_s: float) -> Condition:
    """Hold while a person was asked ``age_s`` seconds ago, and has not answered.

    Raises:
        ConfigError: ``age_s`` is not a number from 0 on.
    """
    _QuestionWaiting(age_s=age_s)
    return Condition(lambda: Seen(lambda look: look.oldest_question_s is not None and look.oldest_question_s >= age_s))


def task_failed() -> Condition:
    """Hold for a minute after a task has failed."""
    return Condition(lambda: Happened(TaskFinished, is_it=_is_failed_task))


def queue_over(n: int, for_s: float) -> Condition:
    """Hold while more than ``n`` subtasks are queued, and were for ``for_s`` seconds.

    Raises:
        ConfigError: ``n`` is not a whole number from 0 on, or ``for_s`` not a number from 0 on.
    """
    _QueueOver(n=n, for_s=for_s)
    return Condition(lambda: Seen(lambda look: look.queued > n, for_s))


def mailbox_over(n: int) -> Condition:
    """Hold while more than ``n`` messages wait for one worker, or pool.

    Raises:
        ConfigError: ``n`` is not a whole number from 0 on.
    """
    _MailboxOver(n=n)
    return Condition(lambda: Seen(lambda look: any((_mailbox(node) or 0) > n for node in _nodes(look))))


def store_paused() -> Condition:
    """Hold while the store can write nothing."""
    return Condition(lambda: Seen(lambda look: look.snapshot.store_paused_s is not None))


def lease_lost() -> Condition:
    """Hold for a minute after this process has lost its lease."""
    return Condition(lambda: Happened(RoleLost, TreeFailed, is_it=_is_lost_lease))


def stalled() -> Condition:
    """Hold for a minute after a worker, or the event loop, gave no sign of life."""
    return Condition(lambda: Happened(ChildStalled, LoopBlocked, is_it=_is_silent))


def _is_silent(event: Event) -> bool:
    """Return False for a call of the host that has just begun to wait."""
    return not isinstance(event, LoopBlocked) or event.blocked_s > 0


SHIPPED: Final[tuple[Callable[..., Condition], ...]] = (
    gave_up,
    parked,
    restarts_over,
    breaker_open,
    question_waiting,
    task_failed,
    queue_over,
    mailbox_over,
    store_paused,
    lease_lost,
    stalled,
)
"""The functions that make a condition."""


def _is_failed_task(event: Event) -> bool:
    return isinstance(event, TaskFinished) and event.status == TaskStatus.FAILED


def _is_lost_lease(event: Event) -> bool:
    return isinstance(event, RoleLost) or (isinstance(event, TreeFailed) and isinstance(event.error, LeaseLostError))


def _nodes(look: Look) -> Iterator[NodeSnapshot]:
    waiting: list[NodeSnapshot] = [look.snapshot.top]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, SupervisorSnapshot):
            waiting.extend(node.children)


def _is_parked(node: NodeSnapshot) -> bool:
    return "parked" in node.states if isinstance(node, PoolSnapshot) else node.state == "parked"


def _is_open(node: NodeSnapshot) -> bool:
    return node.breaker is not None and node.breaker.state == "open"


def _mailbox(node: NodeSnapshot) -> int | None:
    return node.mailbox if isinstance(node, PoolSnapshot | WorkerSnapshot) else None
