"""Events of tasks: the kinds of records that the journal of a task is made of, and that everybody may subscribe to.

The state of a task is a fold over these (``actors.tasks.journal.fold``), so each carries all that the fold needs. What
may be large or private (goals, results, answers) has no place in a repr, and none in a log line. ``at`` is in seconds
since 1970 by the tree's clock. ``SubtaskProgressed`` and ``SubtaskStreamed`` (``live_events``) are in no journal.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from actors.model.errors import Problem
from actors.model.event_metadata import LOGGED_ERROR, LOGGED_PLACE, LOGGED_TIME, UNLOGGED
from actors.model.record import record
from actors.tasks.model.event_base import AttemptEvent, CourseEvent, SubtaskEvent, TaskEvent
from actors.tasks.model.policy import LadderPosition
from actors.tasks.model.task import Plan, Subtask, Task, TaskStatus
from actors.tasks.model.usage import NO_USAGE, Usage

# -- the task ------------------------------------------------------------------------------------------------


@record
class TaskSubmitted(TaskEvent):
    """The task is in the journal, and will be looked at."""

    begins = "task"
    spec: Task = field(repr=False)
    deadline: float | None = field(default=None, metadata=LOGGED_TIME)
    """Seconds since 1970."""
    chain: tuple[str, ...] = ()
    """Paths of those who wait for it: a task that one of them would have to do again is refused."""
    lineage: tuple[str, ...] = field(default=(), repr=False)
    """Instructions that those were given."""
    hops: int = 0
    """How many tells and tasks led to it."""
    trace: str = field(default="", metadata=UNLOGGED)
    """Name of its trace, as W3C's ``traceparent``, where the process that took it traces; else empty."""


@record
class TaskJoined(TaskEvent):
    """A worker waits for the end of the task that it had submitted."""

    chain: tuple[str, ...]
    lineage: tuple[str, ...] = field(repr=False)


@record
class TaskPriorityChanged(TaskEvent):
    """The task has another priority now, which counts for what waits and for what runs."""

    priority: int


@record
class TaskRetried(TaskEvent):
    """The task had failed, or was cancelled, and is tried again: what is done is kept, all else begins anew."""

    deadline: float | None = field(default=None, metadata=LOGGED_TIME)
    """Seconds since 1970."""


@record
class TaskEnding(CourseEvent):
    """The task, or a team's part of it, cannot succeed any more.

    Nothing new is started, and work is undone where that is declared.
    """

    status: TaskStatus
    kind: str
    """Why: subtask, recursion (of a subtask), plan, step, review, denied (a step, by a person), undo, budget,
    deadline, timeout, idle, cancel, internal."""
    error: str = field(repr=False, metadata=LOGGED_ERROR)

    @property
    def severity(self) -> str:
        """Level of its log line."""
        return "WARNING" if self.status is TaskStatus.FAILED else self.level

    @property
    def has_question(self) -> bool:
        """True where the reason may be what a person has said; of a subtask its own line says why."""
        return self.kind not in {"plan", "budget", "deadline", "recursion", "internal"}


@record
class TaskFinished(TaskEvent):
    """The end; nothing of it happens any more, unless somebody has it tried again."""

    ends = "task"
    level = "DEBUG"
    status: TaskStatus
    best_effort: bool = False


# -- plans ---------------------------------------------------------------------------------------------------


@record
class Planned(CourseEvent):
    """The task, or the team, has a plan."""

    plan: Plan = field(repr=False)
    """All of it: also what an earlier plan has done and this one keeps."""
    warnings: tuple[str, ...] = field(default=(), metadata=LOGGED_ERROR)
    usage: Usage = NO_USAGE
    review: str = ""
    """each: a result is reviewed before anything that depends on it starts. Empty: at the end."""
    replan: int = 0
    """How many plans were made before because a required subtask had failed."""
    kept: tuple[str, ...] = field(default=(), metadata=UNLOGGED)
    """Subtasks that are done, and do not run again."""


@record
class PlanRefused(CourseEvent):
    """A planner made a plan that does not fit, or says that there is none; it is told what is wrong."""

    level = "WARNING"
    number: int
    problems: tuple[Problem, ...] = field(metadata=LOGGED_ERROR)
    needed: tuple[str, ...] | None = field(default=None, metadata=LOGGED_ERROR)
    """Capabilities that no worker has, where that is what is wrong."""
    known: tuple[str, ...] = field(default=(), metadata=UNLOGGED)
    usage: Usage = NO_USAGE
    is_last: bool = False
    """No other plan is asked for, whatever ``max_plan_attempts`` says."""


@record
class Replanning(CourseEvent):
    """Required subtasks have failed for good; the planner is called again with what is done and what failed."""

    level = "WARNING"
    number: int
    failed: tuple[str, ...]
    """Subtasks that failed."""


# -- subtasks ------------------------------------------------------------------------------------------------


@record
class SubtaskQueued(SubtaskEvent):
    """The subtask can run once there is a worker and a slot; ``reason`` says why, where it is not the first time."""

    reason: str = ""


@record
class SubtaskStarted(SubtaskEvent):
    """An attempt is about to be given to a worker, or a team begins. Recorded before that happens."""

    begins = "attempt"
    worker: str  # its id
    attempt: int  # 1 is the first
    act: int
    """The epoch: counts what is to have its effect once. A revision, or the answer of a person, begins a new one."""
    undoable: bool = False
    """True where its worker declares an undo: so that this is known where the worker is not there any more."""
    is_team: bool = False
    due: float | None = field(default=None, metadata=UNLOGGED)
    """When the time of a team is up, in seconds since 1970."""


@record
class SubtaskRequeued(AttemptEvent):
    """An attempt has ended for reasons of others, and will run once more. No attempt is counted."""

    ends = "attempt"
    reason: str
    """preempted, withdrawn (it had not begun), lost (with its process) or stopped."""
    worker: str = ""
    ended_at: float = field(default=0.0, metadata=UNLOGGED)
    """When its process was last heard of, in seconds since 1970, where it was lost with that; else 0."""


@record
class SubtaskStepped(SubtaskEvent):
    """A step of the attempt is done, and this is its result: see ``Context.step``."""

    worker: str
    attempt: int
    step: str  # its name
    number: int = field(metadata=UNLOGGED)
    """How often the name has come in the attempt, with this one."""
    fingerprint: str = field(metadata=UNLOGGED)
    """Fingerprint of its arguments."""
    value: Any = field(repr=False)
    is_of_subtask: bool = field(default=False, metadata=UNLOGGED)
    """True where other attempts of the subtask have it, too."""
    usage: Usage = NO_USAGE


@record
class SubtaskDelegated(SubtaskEvent):
    """A running subtask asked for something more, and waits for it; or asked once more, which is the same subtask."""

    parent: str
    """Path of the subtask that asked."""
    spec: Subtask = field(repr=False)
    ask: int
    """How often the attempt had asked by then, with this one: the reply is found by this."""
    attempt: int = 0
    """Attempt of the parent that has asked."""
    chain: tuple[str, ...] = ()
    """Paths of those who wait for it."""
    lineage: tuple[str, ...] = field(default=(), repr=False)
    anew: bool = False
    """True where it had failed, or was cut short, for an earlier attempt: it is tried anew, under its old key."""


@record
class FailedAttempt(AttemptEvent):
    """An attempt has failed."""

    is_base = True
    ends = "attempt"
    level = "WARNING"
    worker: str | None
    attempt: int
    kind: str
    error: str = field(repr=False, metadata=LOGGED_ERROR)
    at_fault: bool = field(default=False, kw_only=True, metadata=UNLOGGED)
    """It says something of its worker, and not only of the request."""
    where: str = field(default="", kw_only=True, repr=False, compare=False, metadata=LOGGED_PLACE)
    """File and line of the user's code that raised it, if they are known. No journal keeps it."""


@record
class SubtaskRetrying(FailedAttempt):
    """An attempt failed, or was put off, and there will be another one at ``due``."""

    due: float = field(metadata=LOGGED_TIME)
    standing: LadderPosition = field(metadata=UNLOGGED)
    feedback: str = field(default="", repr=False)
    keeps_steps: bool = field(default=False, metadata=UNLOGGED)
    """True if it was put off and its steps stand: the next attempt of the same worker goes on after them."""


@record
class SubtaskSucceeded(AttemptEvent):
    """Here is its result."""

    ends = "attempt"
    worker: str
    attempt: int
    value: Any = field(repr=False)
    best_effort: bool = False
    """True where a team has returned its best effort: its review has not passed, or could not be made."""
    summary: str = field(default="", repr=False)
    """As ``Done(value, summary=...)`` has it."""
    importance: float | None = field(default=None, metadata=UNLOGGED)


@record
class SubtaskFailed(FailedAttempt):
    """Everything on its ladder was tried.

    Of a planner it is a ``PlanError``. Of a reviewer or a synthesizer ``on_step_failure`` decides what follows.
    """


@record
class SubtaskSkipped(SubtaskEvent):
    """The subtask will not run."""

    reason: str


@record
class SubtaskCancelled(AttemptEvent):
    """The task ended while its subtask ran, waited or was tried again."""

    ends = "attempt"
    reason: str
    unknown: bool
    """True where it may have had its effect."""
    worker: str = field(default="", metadata=UNLOGGED)
    """Worker of the attempt that was ended; empty: none ran."""


@record
class UsageTold(SubtaskEvent):
    """Something was used up, by an attempt that goes on, or by one of whose end there is no other record."""

    usage: Usage
    worker: str = field(default="", metadata=UNLOGGED)
    """Worker that has used it up; empty: a step of the task."""


# -- people --------------------------------------------------------------------------------------------------


@record
class EscalationRaised(AttemptEvent):
    """A person is asked: see ``handle.questions()``."""

    ends = "attempt"
    level = "ERROR"
    advice = "Answer it: tree.respond({escalation!r}, ...) or 'regrow tasks respond {escalation} ...'."
    escalation: str  # its id
    question: str = field(repr=False)
    error: str = field(repr=False, metadata=LOGGED_ERROR)
    due: float | None = field(metadata=LOGGED_TIME)
    standing: LadderPosition = field(metadata=UNLOGGED)
    """Where it goes on if nobody answers."""
    kind: str = ""
    worker: str | None = None
    at_fault: bool = field(default=False, metadata=UNLOGGED)
    state: Any = field(default=None, repr=False, metadata=UNLOGGED)
    """JSON that the worker that has asked wants back after the answer."""
    resumes: bool = field(default=False, metadata=UNLOGGED)
    """True where it goes on from that with every answer."""
    subtasks: tuple[str, ...] = ()
    """Of a review: subtasks that have not passed."""

    @property
    def undoing(self) -> bool:
        """True where it is about an undo that failed."""
        return self.role == "undo"

    @property
    def step(self) -> str:
        """plan, review or combine, where it is about such a step; else empty."""
        return self.role if self.role in {"plan", "review", "combine"} else ""

    @property
    def has_feedback(self) -> bool:
        """True where a review has said no, and nothing has failed."""
        return bool(self.subtasks)


@record
class EscalationAnswered(SubtaskEvent):
    """A person answered."""

    escalation: str
    answer: str
    """approve, edit, respond or reject."""
    value: Any = field(repr=False)
    """Result of an edit, text of a respond, reason of a reject."""


@record
class EscalationExpired(SubtaskEvent):
    """No answer came in time."""

    level = "WARNING"
    escalation: str


# -- quality -------------------------------------------------------------------------------------------------


@record
class Reviewed(CourseEvent):
    """A reviewer has spoken, or a person in its place; or it failed for good, and ``error`` says how."""

    iteration: int
    passed: bool
    rerun: dict[str, str] = field(repr=False)
    """Subtasks that run again, with their feedback, once what is void is undone (``SentBack``)."""
    best_effort: bool = False
    """True where it has not passed, and is taken as it is."""
    error: str = field(default="", metadata=LOGGED_ERROR)
    usage: Usage = NO_USAGE
    subtasks: tuple[str, ...] = ()
    """Subtasks whose results were looked at."""
    rejected: tuple[str, ...] = ()
    """Subtasks that have not passed and do not run again; an empty id where there are no results."""
    checks: str = field(default="", repr=False, metadata=LOGGED_ERROR)
    """Checks that have not passed, where nothing runs again for them."""
    problems: str = field(default="", repr=False, metadata=LOGGED_ERROR)
    """What is wrong with the verdict, which is handed back to the reviewer; nothing else follows from it."""

    @property
    def severity(self) -> str:
        """Level of its log line: a review that says no for good is news."""
        return "WARNING" if self.rejected or self.error or self.problems else self.level

    @property
    def has_feedback(self) -> bool:
        """True where a review has said no for good."""
        return bool(self.checks)


@record
class SentBack(CourseEvent):
    """All that was void is undone: these run again with their feedback, and what had used their results."""

    rerun: dict[str, str] = field(repr=False)


@record
class Synthesized(CourseEvent):
    """The output; where the synthesizer failed, the results as they are, and ``error`` says how it failed."""

    output: Any = field(repr=False)
    error: str = field(default="", metadata=LOGGED_ERROR)
    usage: Usage = NO_USAGE


# -- compensation --------------------------------------------------------------------------------------------


@record
class Compensating(SubtaskEvent):
    """An undo is about to be called."""

    worker: str
    act: int
    attempt: int


@record
class Compensated(SubtaskEvent):
    """An undo has ended; with an ``error`` it could not be undone."""

    worker: str
    act: int
    error: str = field(default="", repr=False)  # with what a person has said

    @property
    def severity(self) -> str:
        """Level of its log line."""
        return "WARNING" if self.error else self.level
