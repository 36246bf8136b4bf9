"""Events of the store of a tree. They are told to everybody who subscribes, and are in no journal."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from actors.model.event_metadata import SECONDS
from actors.model.events import Event
from actors.model.record import record
from actors.tasks.model.task_errors import StoreError


@record(frozen=True, slots=True)
class StorePaused(Event):
    """The store cannot be written to. It tries again until it can; meanwhile nothing new is begun, and all waits."""

    level: ClassVar[str] = "ERROR"
    error: StoreError


@record(frozen=True, slots=True)
class StoreResumed(Event):
    """The store can be written again, and what has waited is kept."""

    level: ClassVar[str] = "WARNING"
    after_s: float = field(metadata=SECONDS)


@record(frozen=True, slots=True)
class JournalDamaged(Event):
    """The journal of a task (of the supervisor at ``path``) cannot be read: it stays as it is, and nothing happens."""

    level: ClassVar[str] = "ERROR"
    task: str
    error: StoreError


@record(frozen=True, slots=True)
class OrderDamaged(Event):
    """An order about a task is lost, and nothing follows from it: order it again.

    One that a tree that ends could not keep for the next one, or of which incarnation after incarnation of its
    orchestrator has died.
    """

    level: ClassVar[str] = "ERROR"
    task: str
    error: StoreError


@record(frozen=True, slots=True)
class TaskStranded(Event):
    """A task is not finished, and its supervisor (at ``path``) is not in the tree any more: it waits until it is."""

    level: ClassVar[str] = "ERROR"
    task: str


@record(frozen=True, slots=True)
class TaskKnownOtherwise(Event):
    """A task was submitted whose id is known, with another goal or other inputs: nothing was started for it.

    The submitter got the handle of the known task, whose report is about the goal and the inputs of that one.
    """

    level: ClassVar[str] = "WARNING"
    task: str
    differs: str
    """What is not the same: goal, inputs, or both."""
