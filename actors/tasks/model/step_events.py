"""Events of the steps of a task: planning, reviewing, combining.

A step is code of the user's that may kill its process. That it is about to be called is recorded when its turn has
come, not while it waits for that; an undo has ``Compensating`` for it. So what a process leaves behind says of what it
has perhaps died.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, Final

from actors.model.errors import Problem
from actors.model.event_metadata import LOGGED_ERROR, LOGGED_TIME, UNLOGGED
from actors.model.record import record
from actors.tasks.model.event_base import TaskEvent
from actors.tasks.model.task import NO_USAGE, Plan, Usage

ROLES: Final[dict[str, str]] = {
    "plan": "planner",
    "review": "reviewer",
    "combine": "synthesizer",
    "work": "workers",
}
"""Roles of a task, by the word of a record; an undo is the work of workers, too."""


@record(frozen=True, slots=True)
class StepStarted(TaskEvent):
    """A planner, a reviewer or a synthesizer is about to be called. Recorded before it is."""

    step: str
    """plan, review or combine."""
    number: int


@record(frozen=True, slots=True)
class StepPutBack(TaskEvent):
    """A step, or an undo, that had begun will be called again: it was stopped with its tree, or its process is gone."""

    step: str
    """plan, review, combine or undo."""
    reason: str
    subtask: str = ""
    """Subtask that is undone, of an undo."""


@record(frozen=True, slots=True)
class StepRetrying(TaskEvent):
    """A planner, a reviewer or a synthesizer has failed, and is called again at ``due``."""

    level: ClassVar[str] = "WARNING"
    step: str
    """plan, review or combine."""
    number: int
    """Failures of the present call, this one included."""
    due: float = field(metadata=LOGGED_TIME)
    error: str = field(repr=False, metadata=LOGGED_ERROR)
    usage: Usage = NO_USAGE


@record(frozen=True, slots=True)
class StepFailed(TaskEvent):
    """A reviewer or a synthesizer has failed for good; ``Tasks(on_step_failure=...)`` says what becomes of the task."""

    level: ClassVar[str] = "WARNING"
    step: str
    """review or combine."""
    number: int
    """Failures of the present call, this one included."""
    error: str = field(repr=False, metadata=LOGGED_ERROR)
    usage: Usage = NO_USAGE


@record(frozen=True, slots=True)
class PlanRefused(TaskEvent):
    """A planner failed for good, or made a plan that does not fit; it is told what is wrong."""

    level: ClassVar[str] = "WARNING"
    number: int
    problems: tuple[Problem, ...] = field(metadata=LOGGED_ERROR)
    needed: tuple[str, ...] | None = field(default=None, metadata=LOGGED_ERROR)
    """Capabilities that no worker has, where that is what is wrong."""
    known: tuple[str, ...] = field(default=(), metadata=UNLOGGED)
    usage: Usage = NO_USAGE  # of the step; the same below
    is_last: bool = False
    """No other plan is asked for, whatever ``max_plan_attempts`` says."""


@record(frozen=True, slots=True)
class Planned(TaskEvent):
    """The task has a plan."""

    large: ClassVar[str] = "plan"
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


@record(frozen=True, slots=True)
class Replanning(TaskEvent):
    """Required subtasks have failed for good; the planner is called again with what is done and what failed."""

    level: ClassVar[str] = "WARNING"
    number: int
    failed: tuple[str, ...]
    """Subtasks that failed."""


@record(frozen=True, slots=True)
class ReviewRefused(TaskEvent):
    """A reviewer returned what is no verdict, or one that contradicts itself; it is told, once."""

    level: ClassVar[str] = "WARNING"
    problems: tuple[Problem, ...] = field(metadata=LOGGED_ERROR)
    usage: Usage = NO_USAGE


@record(frozen=True, slots=True)
class Reviewed(TaskEvent):
    """A reviewer has spoken, or a person in its place; or it failed for good, and ``error`` says how."""

    large: ClassVar[str] = "rerun"
    iteration: int
    passed: bool
    rerun: dict[str, str] = field(repr=False)
    """Subtasks that run again, with their feedback."""
    best_effort: bool = False
    """True where it has not passed, and is taken as it is."""
    error: str = field(default="", metadata=LOGGED_ERROR)
    usage: Usage = NO_USAGE
    subtasks: tuple[str, ...] = ()
    """Subtasks whose results were looked at, where a result is reviewed before anything that depends on it."""
    rejected: tuple[str, ...] = ()
    """Subtasks that have not passed and do not run again; an empty id stands for the results as a whole."""
    checks: str = field(default="", repr=False, metadata=LOGGED_ERROR)
    """Checks that have not passed, where nothing runs again for them."""
    undo_first: bool = field(default=False, metadata=UNLOGGED)
    """True: what is void is undone before it runs again (``ReworkBegun``)."""

    @property
    def severity(self) -> str:
        """Level of its log line: a review that says no for good is news."""
        return "WARNING" if self.rejected or self.error else self.level

    @property
    def has_feedback(self) -> bool:
        """True where a review has said no for good."""
        return bool(self.checks)


@record(frozen=True, slots=True)
class ReworkBegun(TaskEvent):
    """All that was void is undone: what was sent back runs again, or another plan is made."""


@record(frozen=True, slots=True)
class Synthesized(TaskEvent):
    """The output; where the synthesizer failed, the results as they are, and ``error`` says how it failed.

    Results that are too large to be held are not in this event (None): the report has them.
    """

    large: ClassVar[str] = "output"
    unfolded: ClassVar[bool] = True
    output: Any = field(repr=False)
    error: str = field(default="", metadata=LOGGED_ERROR)
    usage: Usage = NO_USAGE
