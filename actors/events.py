"""Everything that happens, as one stream of frozen records (delivered by ``actors.bus``).

Records carry paths, types, numbers and the exception itself while it is delivered; never a message's body.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType
from typing import ClassVar, Final

from actors.spec import Reason

SHOWN: Final = "in log lines"
"""How a field is shown there, in its metadata: see ``actors.event_log``."""
UNLOGGED: Final = {SHOWN: "never"}
"""Metadata of a field that is for programs."""
LOGGED_TIME: Final = {SHOWN: "time of day"}
"""Metadata of a field in seconds since 1970."""
LOGGED_ERROR: Final = {SHOWN: "error"}
"""Metadata of a field with the text of an error, also where it is in no repr."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at ``path``."""

    level: ClassVar[str] = "TRACE"
    """Level of its log line, where no other is given."""
    advice: ClassVar[str] = ""
    """Advice to a person, for the log line: a format of its fields."""

    path: str
    """Where: a child's path; the root's for the whole tree."""

    @property
    def has_question(self) -> bool:
        """True if the error of this event is a question to a person, which is in no log line."""
        return False


@dataclass(frozen=True, slots=True)
class TreeStarted(Event):
    """Every on_start has succeeded."""


@dataclass(frozen=True, slots=True)
class TreeStopped(Event):
    """Nothing of the tree runs any more."""

    gave_up: bool
    """True where nobody had asked for it: the root had used up its restart limit, or see ``TreeFailed``."""


@dataclass(frozen=True, slots=True)
class TreeFailed(Event):
    """The tree cannot go on and is being ended, for a reason that is none of its workers': it has lost its store."""

    level: ClassVar[str] = "CRITICAL"
    error: BaseException


@dataclass(frozen=True, slots=True)
class ChildStarted(Event):
    """An incarnation is up."""

    incarnation: int


@dataclass(frozen=True, slots=True)
class ChildExited(Event):
    """An incarnation ended, or a start failed. Exactly one per end."""

    reason: Reason
    incarnation: int
    """Number of the incarnation that ended; for a start that failed, of the one that it would have been."""
    error: BaseException | None
    frames: TracebackType | None
    """Where the error was born. Its own traceback grows with each asker that it is raised in again."""
    started: bool
    """False: it had not come up yet."""
    lost: int
    """Messages that were being handled and are lost with it: 0 or 1."""
    detail: str = field(default="", metadata=LOGGED_ERROR)
    """Description of what happened, where there is no error to tell."""


@dataclass(frozen=True, slots=True)
class ChildRestarting(Event):
    """A restart was decided."""

    attempt: int
    """1 for the first of a row of restarts."""
    delay_s: float
    """Backoff before it."""


@dataclass(frozen=True, slots=True)
class ChildStopAbnormal(Event):
    """A child that was being stopped ended otherwise than it should, or one of its last hooks raised."""

    reason: Reason
    detail: str = field(metadata=LOGGED_ERROR)


@dataclass(frozen=True, slots=True)
class ChildParked(Event):
    """A child used up its own restart limit and stays down until restart_child."""

    restarts: int


@dataclass(frozen=True, slots=True)
class ChildAbandoned(Event):
    """A worker could not be ended in time and was left to itself; its thread counts until it ends."""

    abandoned: int
    """How many of this path there are now."""


@dataclass(frozen=True, slots=True)
class SupervisorGaveUp(Event):
    """A supervisor restarted more often than its limit allows, and stops."""

    child: str
    restarts: int
    limit: int
    period_s: float
    root: bool


@dataclass(frozen=True, slots=True)
class DeadLetter(Event):
    """A message that nobody will handle."""

    reason: str
    message_type: str
    sender: str | None


@dataclass(frozen=True, slots=True)
class RequestFailed(Event):
    """A handler answered with an error and lives: Failed, an expected type, or what its own ask failed with."""

    error: BaseException
    asked: bool
    """False: it was a tell, and nobody heard the error."""


@dataclass(frozen=True, slots=True)
class RecursionRefused(Event):
    """A request whose target waits for it, or a tell after too many tells."""

    chain: tuple[str, ...]
    hops: int


@dataclass(frozen=True, slots=True)
class LoopBlocked(Event):
    """A handler holds up the event loop."""

    blocked_s: float
    stack: str


@dataclass(frozen=True, slots=True)
class PoolNearCap(Event):
    """The pool has almost as many threads as it may have."""

    threads: int
    max_threads: int


@dataclass(frozen=True, slots=True)
class SubscriberDropped(Event):
    """A subscriber raised, and gets no more events."""

    subscriber: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class CallbackRaised(Event):
    """A done callback that somebody had added to a reply of the worker at ``path`` raised."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class EventsLost(Event):
    """To a subscriber that is too slow: so many events before this one were lost."""

    count: int


@dataclass(frozen=True, slots=True)
class InternalError(Event):
    """A bug of this library. Please report it."""

    error: BaseException
