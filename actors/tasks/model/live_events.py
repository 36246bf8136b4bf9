"""Events that are in no journal: progress and streams of attempts, turns of breakers, and what a store says."""

from __future__ import annotations

from dataclasses import field
from typing import Final, Literal, TypeAlias, get_args

from actors.model.event_metadata import LOGGED_TIME, NO_CONTENT, SECONDS, UNLOGGED
from actors.model.events import Event
from actors.model.record import record
from actors.tasks.model.event_base import SubtaskEvent
from actors.tasks.model.task_errors import StoreError

# -- running attempts ----------------------------------------------------------------------------------------

StreamKind: TypeAlias = Literal["text", "tool_call", "tool_result"]
STREAM_KINDS: Final = get_args(StreamKind)


@record
class LiveEvent(SubtaskEvent):
    """Something that a running attempt tells."""

    is_base = True
    journalled = False
    number: int = field(default=0, kw_only=True, repr=False, compare=False, metadata=NO_CONTENT)
    """Number of the event among all of both kinds that were told in this process."""


@record
class SubtaskProgressed(LiveEvent):
    """The attempt says how far it is."""

    fraction: float
    text: str = field(repr=False, metadata=NO_CONTENT)


@record
class SubtaskStreamed(LiveEvent):
    """The attempt streams: what it has said within some 50 ms, in one piece. See ``context.stream``.

    A piece of a later attempt has a larger ``attempt``.
    """

    bulk = "text"
    kind: StreamKind
    """text, tool_call or tool_result."""
    text: str = field(repr=False)
    worker: str = ""
    attempt: int = 0
    lost: int = 0
    """Characters that were dropped before this text, because they came faster than they were read."""


# -- breakers ------------------------------------------------------------------------------------------------


@record
class BreakerChanged(Event):
    """The breaker of the worker at ``path`` has turned."""

    is_base = True
    at: float = field(metadata=UNLOGGED)
    state: str
    """closed, open or half_open."""
    failures: tuple[float, ...] = field(metadata=UNLOGGED)
    """When, within the window, in seconds since 1970."""
    opened_at: float | None = field(metadata=LOGGED_TIME)


@record
class BreakerOpened(BreakerChanged):
    """A worker failed too often: it gets no work until its cooldown is over."""

    level = "WARNING"


@record
class BreakerHalfOpened(BreakerChanged):
    """One probe is let through."""


@record
class BreakerClosed(BreakerChanged):
    """The worker works again."""


# -- stores --------------------------------------------------------------------------------------------------


@record
class StorePaused(Event):
    """The store cannot be written to. It tries again until it can; meanwhile nothing new is begun, and all waits."""

    level = "ERROR"
    error: StoreError


@record
class StoreResumed(Event):
    """The store can be written again, and what has waited is kept."""

    level = "WARNING"
    after_s: float = field(metadata=SECONDS)


@record
class JournalDamaged(Event):
    """The journal of a task (of the supervisor at ``path``) cannot be read: it stays as it is, and nothing happens."""

    level = "ERROR"
    task: str
    error: StoreError


@record
class OrderDamaged(Event):
    """An order about a task is lost, and nothing follows from it: order it again.

    One that a tree that ends could not keep for the next one, or of which incarnation after incarnation of its
    orchestrator has died.
    """

    level = "ERROR"
    task: str
    error: StoreError


@record
class TaskStranded(Event):
    """A task is not finished, and its supervisor (at ``path``), or a worker that it needs there, is gone: it waits.

    It goes on in the process whose declaration has them, or once they are added. The dump of the task names the worker.
    """

    level = "ERROR"
    task: str


@record
class TaskKnownOtherwise(Event):
    """A task was submitted whose id is known, with another goal or other inputs: nothing was started for it.

    The submitter got the handle of the known task, whose report is about the goal and the inputs of that one.
    """

    level = "WARNING"
    task: str
    differs: str
    """What is not the same: goal, inputs, or both."""
