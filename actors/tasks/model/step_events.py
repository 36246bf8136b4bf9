"""Events of the steps of a task: planning, reviewing, combining.

A step is code of the user's that may kill its process. That it is about to be called is recorded when its turn has
come, not while it waits for that; an undo has ``Compensating`` for it. So what a process leaves behind says of what it
has perhaps died.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from actors.model.errors import Problem
from actors.model.events import LOGGED_ERROR, UNLOGGED
from actors.tasks.model.event_base import TaskEvent
from actors.tasks.model.task import NO_USAGE, Plan, Usage


@dataclass(frozen=True, slots=True)
class StepStarted(TaskEvent):
    """A planner, a reviewer or a synthesizer is about to be called. Recorded before it is."""

    step: str
    """plan, review or combine."""
    number: int


@dataclass(frozen=True, slots=True)
class StepPutBack(TaskEvent):
    """A step, or an undo, that had begun will be called again: it was stopped with its tree, or its process is gone."""

    step: str
    """plan, review, combine or undo."""
    reason: str
    subtask: str = ""
    """Subtask that is undone, of an undo."""


@dataclass(frozen=True, slots=True)
class PlanRefused(TaskEvent):
    """A planner failed, or made a plan that does not fit; it is told what is wrong."""

    level: ClassVar[str] = "WARNING"
    number: int
    problems: tuple[Problem, ...] = field(metadata=LOGGED_ERROR)
    needed: tuple[str, ...] | None = field(default=None, metadata=LOGGED_ERROR)
    """Capabilities that no worker has, where that is what is wrong."""
    known: tuple[str, ...] = field(default=(), metadata=UNLOGGED)
    usage: Usage = NO_USAGE  # of the step; the same below
    is_last: bool = False
    """No other plan is asked for, whatever ``max_plan_attempts`` says."""


@dataclass(frozen=True, slots=True)
class Planned(TaskEvent):
    """The task has a plan."""

    large: ClassVar[str] = "plan"
    plan: Plan = field(repr=False)
    warnings: tuple[str, ...] = field(default=(), metadata=LOGGED_ERROR)
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class Reviewed(TaskEvent):
    """A reviewer has spoken, or failed: then ``error`` says how."""

    large: ClassVar[str] = "rerun"
    iteration: int
    passed: bool
    rerun: dict[str, str] = field(repr=False)
    """Subtasks that run again, with their feedback."""
    best_effort: bool = False
    """True where it has not passed, and is taken as it is."""
    error: str = field(default="", metadata=LOGGED_ERROR)
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class Synthesized(TaskEvent):
    """The output; where the synthesizer failed, the results as they are, and ``error`` says how it failed.

    Results that are too large to be held are not in this event (None): the report has them.
    """

    large: ClassVar[str] = "output"
    unfolded: ClassVar[bool] = True
    output: Any = field(repr=False)
    error: str = field(default="", metadata=LOGGED_ERROR)
    usage: Usage = NO_USAGE
