"""Tasks, the plans that they become, their subtasks, and the states that these go through.

Comes in: what a user or a planner writes. Goes out: frozen records, each right by itself; whether a plan fits the tree
is found by ``actors.tasks.planning.check``. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, Final, Self, TypeAlias

from pydantic import BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema

from actors.model.errors import ConfigError, Problem
from actors.tasks.model.policy import Ladder, LadderField
from actors.tasks.model.shared_values import is_small
from actors.tasks.model.usage import Budget
from actors.validation import field_types
from actors.validation.json_form import NotJsonError, json_form, require_size
from actors.validation.spec_model import SpecModel
from actors.validation.validation_messages import not_json_phrase, validation_error


class TaskStatus(StrEnum):
    """Where a task stands."""

    PENDING = "pending"
    """In the journal; its orchestrator has not looked at it yet."""
    PLANNING = "planning"
    RUNNING = "running"
    WAITING = "waiting"
    """Nothing runs, and somebody is asked: it goes on with the answer, or when the time for that is up."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """True for succeeded, failed and cancelled."""
        return self in {"succeeded", "failed", "cancelled"}


class SubtaskStatus(StrEnum):
    """Where a subtask stands."""

    PENDING = "pending"
    """Waits for others that it depends on."""
    QUEUED = "queued"
    """Could run, and waits for a worker or a slot."""
    RUNNING = "running"
    RETRYING = "retrying"
    """An attempt failed; the next one waits for its time."""
    WAITING = "waiting"
    """A person is asked what to do."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    """Never ran: something that it needs failed, or its task ended before."""
    COMPENSATED = "compensated"
    """Was done, and is undone."""


PENDING: Final = SubtaskStatus.PENDING
QUEUED: Final = SubtaskStatus.QUEUED
RUNNING: Final = SubtaskStatus.RUNNING
SUCCEEDED: Final = SubtaskStatus.SUCCEEDED
"""Members by names of their own, for what runs for every subtask: a member is found slowly by its class."""


_OF_JSON: Final = "Use dicts, lists, str, numbers, dates, models: what JSON can be made of."


def _as_json(value: object) -> object:
    """Return inputs in the form in which they are kept and given to workers."""
    if not isinstance(value, dict):
        return value
    try:
        return json_form(value)
    except (ValueError, RecursionError) as error:
        place, hint = getattr(error, "place", ""), getattr(error, "hint", _OF_JSON)
        wrong, cause = (error.value, error.error) if isinstance(error, NotJsonError) else (value, error)
        raise validation_error(f"{not_json_phrase(wrong, cause)} cannot be kept as JSON", hint, place) from error


def _as_inputs(value: object) -> object:
    """Inputs in the form in which they are kept, each small enough for that."""
    found = _as_json(value)
    if isinstance(found, dict) and not is_small(found):
        for name, each in found.items():
            try:
                require_size(each)
            except ValueError as error:
                raise validation_error(f"[{name!r}] cannot be kept: {error}", "") from None
    return found


Inputs: TypeAlias = Annotated[dict[str, Any], BeforeValidator(_as_inputs)]

METADATA_CHARS: Final = 4_096
"""Limit of metadata, in characters of JSON: each event of a task carries it."""


def _as_metadata(value: object) -> object:
    """Metadata in the form in which it is kept, if it is small."""
    found = _as_json(value)
    if isinstance(found, dict) and (size := len(json.dumps(found))) > METADATA_CHARS:
        what = f"is {size:,} characters of JSON, more than {METADATA_CHARS:,}"
        raise validation_error(what, "It is for small facts to search and to group by; inputs= takes what is large.")
    return found


Metadata: TypeAlias = Annotated[dict[str, Any], BeforeValidator(_as_metadata)]


class Subtask(SpecModel, frozen=True, kw_only=False):
    """One node of a plan. ``str(subtask)`` is its instruction."""

    id: field_types.Id
    """Unique in its plan."""
    instruction: str = ""
    """The work, in words. Empty: the goal of the task."""
    worker: str | None = None
    """The id of its worker. Without this and ``capability``: the worker that is called like the subtask."""
    capability: str | None = None
    """An ability that its worker must have."""
    depends_on: Annotated[list[str], Field(strict=False)] = Field(default_factory=list)
    """Ids of subtasks whose results it needs."""
    inputs: Inputs = Field(default_factory=dict)
    """JSON, on top of the task's."""
    timeout_s: field_types.StartTimeout = None
    """Seconds that one attempt may run. Time in the queue does not count. ``None``: its worker's."""
    idle_timeout_s: field_types.StartTimeout = None
    """Seconds that an attempt may go without a sign of life. ``None``: its worker's."""
    required: bool = True
    """``False``: the task may succeed without it."""
    preemptible: bool = True
    """``True``: it may be interrupted for something more urgent. Not given: ``False`` where an undo is declared."""
    undo: str | None = None
    """Undoes it if the task fails: the id of a worker, or ``"module:attr"``. ``None``: its worker's."""
    budget: Budget | None = None
    """Limit of its usage, all attempts together. ``None``: no limit of its own."""
    estimate: Budget | None = None
    """Probable usage of one attempt. ``None``: its worker's."""
    on_failure: SkipJsonSchema[LadderField | None] = None
    """The ladder when an attempt fails. ``None``: its task's, its worker's or its supervisor's, the first there is."""
    metadata: Metadata = Field(default_factory=dict)
    """Small JSON, over that of the task: its attempts see it, and its events carry it."""
    tool: str | None = None
    """The tool of its worker that is to be called, where that has several, as an MCP server has."""

    def __str__(self) -> str:
        return self.instruction


class Plan(SpecModel, frozen=True, kw_only=False):
    """Subtasks and what they wait for: a graph without cycles."""

    subtasks: Annotated[list[Subtask], Field(strict=False)]
    warnings: SkipJsonSchema[Annotated[list[str], Field(strict=False)]] = Field(default_factory=list, repr=False)
    """Doubts of its planner, in sentences. The report has them; they refuse nothing."""


class Task(SpecModel, frozen=True, kw_only=False):
    """A goal, with what it may take.

    Raises ``ConfigError`` with every problem of it.
    """

    goal: Annotated[str, Field(min_length=1)]
    """The goal, in words."""
    inputs: Inputs = Field(default_factory=dict)
    """JSON. All its subtasks see it."""
    priority: int = 0
    """Smaller is sooner."""
    deadline_s: field_types.StartTimeout = None
    """Seconds from its submission. Everything that it causes inherits it. ``None``: no limit."""
    budget: Budget | None = None
    """Limit of its usage, all attempts together. ``None``: no limit."""
    id: field_types.TaskId | None = None
    """Submitting an id that is known gives its handle, with ``is_known``, and starts nothing. ``None``: a new one."""
    plan: Plan | None = None
    """Plan of its own. ``None``: the planner of its supervisor makes one."""
    on_failure: SkipJsonSchema[LadderField | None] = None
    """The ladder of all its subtasks that have none of their own, whatever their workers have. ``None``: theirs."""
    metadata: Metadata = Field(default_factory=dict)
    """Small JSON, at most 4,096 characters. All its attempts see it, its events carry it, and tasks are found by it."""


def same_instruction(instruction: str, inputs: dict[str, Any]) -> str:
    """Key that two delegations share when they ask for the same thing: words and inputs, not spaces or case."""
    words = " ".join(instruction.casefold().split())
    return f"{words} {json.dumps(inputs, sort_keys=True, default=repr)}" if inputs else words


MARK: Final = "@"
"""In keys that the library makes of ids and paths, and in no id of a user."""


def require_own(id_: str | None) -> None:
    """A user may give this id to a task.

    Raises:
        ConfigError: the keys that the library makes of it would not be told apart.
    """
    if id_ is not None and MARK in id_:
        hint = "Leave the @ out. Keys of effects are TASK@SUBTASK:EPOCH."
        raise ConfigError((Problem("Task.id", f"{id_!r} has an {MARK}, which no id of a user may have", hint),))


class Work(str):  # noqa: SLOT000 - it has a dict, so that it costs one copy of that of its subtask
    """Work: a ``str`` that is the instruction, with the fields of the ``Subtask`` as attributes.

    Everything that takes a text takes it. No attribute has the name of a method of ``str``.

    In a test: ``execute(Work("Find otters", inputs={"n": 3}), context)``.

    Args:
        instruction: the text.
        fields: the attributes; those that are left out are as in a ``Subtask``.
    """

    id: str
    instruction: str
    inputs: dict[str, Any]
    """Inputs of the subtask alone; ``context.inputs`` has those of the task, too."""
    metadata: dict[str, Any]
    worker: str | None
    capability: str | None
    depends_on: list[str]
    timeout_s: float | None
    idle_timeout_s: float | None
    required: bool
    preemptible: bool
    undo: str | None
    budget: Budget | None
    estimate: Budget | None
    on_failure: Ladder | None
    tool: str | None

    def __new__(cls, instruction: str = "", /, **fields: Any) -> Self:
        """Make one; see the class."""
        return cls.of(Subtask(**{"id": "work", **fields, "instruction": instruction}))

    @classmethod
    def of(cls, subtask: Subtask, goal: str = "") -> Self:
        """Return a subtask as work, which is to do what the whole task is about where it says nothing else."""
        instruction = subtask.instruction or goal
        work = super().__new__(cls, instruction)
        vars(work).update(vars(subtask))
        work.instruction = instruction
        return work
