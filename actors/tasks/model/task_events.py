"""Events of tasks: the records that a task's journal is made of, and that everybody may subscribe to.

A task's state is a fold over these (``actors.tasks.journal.task_state``), so each carries all that the fold needs. What
may be large or private (goals, results, answers) has no place in a repr, and none in a log line. ``at`` is in seconds
since 1970 by the tree's clock. Only ``SubtaskProgressed`` and ``SubtaskStreamed`` are not kept in the journal.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

from actors.model.event_metadata import LOGGED_ERROR, LOGGED_PLACE, LOGGED_TIME, NO_CONTENT, UNLOGGED, out_of
from actors.model.record import record
from actors.tasks.model.breaker_events import BreakerChanged, BreakerClosed, BreakerHalfOpened, BreakerOpened
from actors.tasks.model.event_base import AttemptEvent, SubtaskEvent, TaskEvent
from actors.tasks.model.ladder_position import LadderPosition
from actors.tasks.model.live_events import SubtaskProgressed, SubtaskStreamed
from actors.tasks.model.question_events import (
    EscalationAnswered,
    EscalationExpired,
    EscalationRaised,
    StepAnswered,
    StepEscalated,
    StepUnanswered,
)
from actors.tasks.model.step_events import (
    Planned,
    PlanRefused,
    Replanning,
    Reviewed,
    ReviewRefused,
    ReworkBegun,
    StepFailed,
    StepPutBack,
    StepRetrying,
    StepStarted,
    Synthesized,
)
from actors.tasks.model.task import NO_USAGE, Subtask, Task, TaskStatus, Usage
from actors.tasks.model.task_ids import OLD_IDS

__all__ = [
    "BreakerChanged",
    "BreakerClosed",
    "BreakerHalfOpened",
    "BreakerOpened",
    "EscalationAnswered",
    "EscalationExpired",
    "EscalationRaised",
    "LadderPosition",
    "PlanRefused",
    "Planned",
    "Replanning",
    "ReviewRefused",
    "Reviewed",
    "ReworkBegun",
    "StepAnswered",
    "StepEscalated",
    "StepFailed",
    "StepPutBack",
    "StepRetrying",
    "StepStarted",
    "StepUnanswered",
    "SubtaskEvent",
    "SubtaskProgressed",
    "SubtaskStreamed",
    "Synthesized",
    "TaskEvent",
]
"""Told by the same names as those that are declared here."""


# -- the task ------------------------------------------------------------------------------------------------


@record(frozen=True, slots=True)
class TaskSubmitted(TaskEvent):
    """The task is in the journal, and will be looked at."""

    begins: ClassVar[str] = "task"
    large: ClassVar[str] = "spec"
    spec: Task = field(repr=False)
    deadline: float | None = field(metadata=LOGGED_TIME)
    """Seconds since 1970."""
    chain: tuple[str, ...] = ()
    """Paths of those who wait for it: a task that one of them would have to do again is refused."""
    lineage: tuple[str, ...] = field(default=(), repr=False)
    """Instructions that those were given."""
    parent: str | None = None
    """The attempt of another task that it stands for: it is a team's part of it."""
    hops: int = 0
    ids: int = OLD_IDS
    """The rule that the ids of its parts follow: see ``actors.tasks.model.task_ids``."""
    trace: str = field(default="", repr=False, metadata=NO_CONTENT)
    """Name of its trace, as W3C's ``traceparent``, where the process that took it traces; else empty."""


@record(frozen=True, slots=True)
class TaskJoined(TaskEvent):
    """A worker waits for the end of the task that it had submitted."""

    chain: tuple[str, ...]
    lineage: tuple[str, ...] = field(repr=False)


@record(frozen=True, slots=True)
class TaskPriorityChanged(TaskEvent):
    """The task has another priority now, which counts for what waits and for what runs."""

    priority: int


@record(frozen=True, slots=True)
class UsageTold(TaskEvent):
    """Something was used up, by an attempt that goes on, or by one of whose end there is no other record."""

    usage: Usage
    subtask: str = ""
    """Empty: a step of the task itself, its planner, reviewer or synthesizer."""
    step: str = ""
    """plan, review or combine, where it is a step. Empty in older journals: the step that was begun."""
    part: str = ""
    """Id of the part that a team has used it up for, be it in undoing that."""
    worker: str = field(default="", repr=False, metadata=NO_CONTENT)
    """Worker that has used it up; empty: a step of the task, or a record of an older version."""


@record(frozen=True, slots=True)
class TaskPaused(TaskEvent):
    """The team gives way to something more urgent; what is done stays."""


@record(frozen=True, slots=True)
class TaskResumed(TaskEvent):
    """The part goes on: it had given way, or whoever wants it has another time than before."""

    deadline: float | None = field(default=None, metadata=LOGGED_TIME)
    """Seconds since 1970; the time of a pause is not taken from what it may run."""


@record(frozen=True, slots=True)
class TaskReopened(TaskSubmitted):
    """A team's part that had ended is tried again by the ladder above: what it had done stays done."""

    refused_stay: bool = field(default=False, repr=False, metadata=UNLOGGED)
    """True: what a person has refused in it, or what is in doubt, is not begun again. Older versions began it again."""


@record(frozen=True, slots=True)
class TaskEnding(TaskEvent):
    """The task cannot succeed any more: nothing new is started, and work is undone where that is declared."""

    status: TaskStatus
    kind: str
    """Why: subtask, recursion (of a subtask), plan, step, review, denied (a step, by a person), undo, budget,
    deadline, cancel, team."""
    error: str = field(repr=False, metadata=LOGGED_ERROR)
    parent: str | None = None
    """The attempt that has it undone, where it had succeeded already."""

    @property
    def severity(self) -> str:
        """Level of its log line."""
        return "WARNING" if self.status is TaskStatus.FAILED else self.level

    @property
    def has_question(self) -> bool:
        """True where the reason may be what a person has said; of a subtask its own line says why."""
        return self.kind not in {"plan", "budget", "deadline", "recursion", "internal"}


@record(frozen=True, slots=True)
class TaskFinished(TaskEvent):
    """The end; nothing of it happens any more."""

    ends: ClassVar[str] = "task"
    level: ClassVar[str] = "DEBUG"
    status: TaskStatus
    best_effort: bool = False


# -- subtasks ------------------------------------------------------------------------------------------------


@record(frozen=True, slots=True)
class SubtaskQueued(SubtaskEvent):
    """The subtask can run once there is a worker and a slot; ``reason`` says why, where it is not the first time."""

    ends: ClassVar[str] = "attempt"
    reason: str = ""
    usage: Usage = NO_USAGE
    """Usage of an attempt that was put back, in journals of older versions."""


@record(frozen=True, slots=True)
class SubtaskPutBack(SubtaskQueued):
    """An attempt has ended for reasons of others, and the subtask is queued again. No attempt is counted."""

    worker: str = ""
    ended_at: float = field(default=0.0, repr=False, metadata=NO_CONTENT)
    """When its process was last heard of, in seconds since 1970, where it was lost with that; else 0."""


@record(frozen=True, slots=True)
class SubtaskStarted(SubtaskEvent):
    """An attempt is about to be given to a worker. Recorded before it is."""

    begins: ClassVar[str] = "attempt"
    worker: str  # its id
    attempt: int  # 1 is the first
    act: int
    """Counts what is to have its effect once: a revision, or the answer of a person, is a new one."""
    undoable: bool = False
    """True where its worker declares an undo: so that this is known where the worker is not there any more."""
    part: str = ""
    """Id of its part, of a team. Empty in older journals, where it is made of the attempt's number."""


@record(frozen=True, slots=True)
class SubtaskStepped(SubtaskEvent):
    """A step of the attempt is done, and this is its result: see ``Context.step``."""

    large: ClassVar[str] = "value"
    unfolded: ClassVar[bool] = True
    worker: str
    attempt: int
    step: str  # its name
    number: int = field(metadata=UNLOGGED)
    """How often the name has come in the attempt, with this one."""
    fingerprint: str = field(repr=False, metadata=NO_CONTENT)
    """Fingerprint of its arguments."""
    value: Any = field(repr=False)
    is_of_subtask: bool = field(default=False, repr=False, metadata=NO_CONTENT)
    """True where other attempts of the subtask have it, too."""


@record(frozen=True, slots=True)
class SubtaskSucceeded(AttemptEvent):
    """Here is its result."""

    ends: ClassVar[str] = "attempt"
    large: ClassVar[str] = "value"
    unfolded: ClassVar[bool] = True
    worker: str
    attempt: int
    value: Any = field(repr=False)
    usage: Usage = NO_USAGE
    tokens: int | None = field(default=None, repr=False, metadata=NO_CONTENT)
    """Tokens of the value, by the user's counter; None: not counted."""
    best_effort: bool = False
    """True where a team has returned its best effort: its review has not passed, or could not be made."""
    summary: str = field(default="", repr=False, metadata=NO_CONTENT)
    """As ``Done(value, summary=...)`` has it."""
    importance: float | None = field(default=None, repr=False, metadata=NO_CONTENT)


@record(frozen=True, slots=True)
class SubtaskRetrying(AttemptEvent):
    """An attempt failed, or was put off, and there will be another one at ``due``."""

    ends: ClassVar[str] = "attempt"
    level: ClassVar[str] = "WARNING"
    worker: str | None
    attempt: int = field(metadata=out_of("max_attempts"))
    kind: str
    error: str = field(repr=False, metadata=LOGGED_ERROR)
    due: float = field(metadata=LOGGED_TIME)
    standing: LadderPosition = field(metadata=UNLOGGED)
    usage: Usage = NO_USAGE
    feedback: str = field(default="", repr=False)
    counted: bool = field(default=False, metadata=UNLOGGED)
    """The breaker of its worker has counted it, or would have, if it had one. The same below."""
    max_attempts: int = field(default=0, repr=False, metadata=NO_CONTENT)
    """Number of the last attempt that the present rung of its ladder allows; 0: nothing is known of it."""
    keeps_steps: bool = field(default=False, metadata=UNLOGGED)
    """True where it was put off and its steps stand: the next attempt of the same worker goes on after them."""
    where: str = field(default="", repr=False, compare=False, metadata=LOGGED_PLACE)
    """File and line of the user's code that raised it, where it is known. No journal keeps it."""


@record(frozen=True, slots=True)
class SubtaskFailed(AttemptEvent):
    """Everything on its ladder was tried."""

    ends: ClassVar[str] = "attempt"
    level: ClassVar[str] = "WARNING"
    worker: str | None
    attempt: int = field(metadata=out_of("max_attempts"))
    kind: str
    error: str = field(repr=False, metadata=LOGGED_ERROR)
    usage: Usage = NO_USAGE
    counted: bool = field(default=False, metadata=UNLOGGED)
    max_attempts: int = field(default=0, repr=False, metadata=NO_CONTENT)
    """Number of the last attempt that the last rung of its ladder would have allowed; 0: nothing is known of it."""
    where: str = field(default="", repr=False, compare=False, metadata=LOGGED_PLACE)
    """File and line of the user's code that raised it, where it is known. No journal keeps it."""


@record(frozen=True, slots=True)
class SubtaskPreempted(AttemptEvent):
    """The subtask gave way to something more urgent, and is queued again. No attempt is counted."""

    ends: ClassVar[str] = "attempt"
    worker: str
    usage: Usage = NO_USAGE


@record(frozen=True, slots=True)
class SubtaskSkipped(SubtaskEvent):
    """The subtask will not run."""

    reason: str


@record(frozen=True, slots=True)
class SubtaskCancelled(AttemptEvent):
    """The task ended while its subtask ran, waited or was tried again."""

    ends: ClassVar[str] = "attempt"
    reason: str
    unknown: bool
    """True where it may have had its effect."""
    usage: Usage = NO_USAGE
    worker: str = field(default="", repr=False, metadata=NO_CONTENT)
    """Worker of the attempt that was ended; empty: none ran."""


@record(frozen=True, slots=True)
class SubtaskDelegated(SubtaskEvent):
    """A running subtask asked for something more, and waits for it; or asked once more, which is the same subtask."""

    large: ClassVar[str] = "spec"
    parent: str
    """The subtask that asked."""
    spec: Subtask = field(repr=False)
    ask: str
    """The reply is found by this."""
    chain: tuple[str, ...]
    """Paths of those who wait for it."""
    lineage: tuple[str, ...] = field(repr=False)
    anew: bool = False
    """True where it had failed, or was cut short, for an earlier attempt: it is tried anew, under its old key."""


# -- compensation --------------------------------------------------------------------------------------------


@record(frozen=True, slots=True)
class Compensating(SubtaskEvent):
    """An undo is about to be called."""

    worker: str
    act: int
    attempt: int


@record(frozen=True, slots=True)
class CompensationRetrying(SubtaskEvent):
    """The undo failed and will be called again at ``due``."""

    level: ClassVar[str] = "WARNING"
    worker: str
    act: int
    attempt: int
    due: float = field(metadata=LOGGED_TIME)
    error: str = field(repr=False, metadata=LOGGED_ERROR)


@record(frozen=True, slots=True)
class Compensated(SubtaskEvent):
    """An undo has ended; with an ``error`` it could not be undone."""

    worker: str
    act: int
    error: str = field(default="", repr=False)  # with what a person has said
    nothing: bool = False
    """True where there was nothing to undo: a team none of whose members had done anything that can be undone."""

    @property
    def severity(self) -> str:
        """Level of its log line."""
        return "WARNING" if self.error else self.level
