"""Events: one stream of frozen records (delivered by ``actors.runtime.event_bus``), and the kinds that there are.

Records carry paths, types, numbers and the exception itself while it is delivered; never a message's body.

A kind says all that others need to know of it in its class: the level and the advice of its log line, whether a journal
keeps it, which of its fields may be large, what it measures, and which span it begins or ends. Declaring the class
registers it (``kinds``): log, journal, metrics and traces know a new kind without a table of their own. The name of a
class is what a journal writes: two journalled kinds of one name are refused when the second is declared.
"""

from __future__ import annotations

import re
from dataclasses import field
from types import TracebackType
from typing import Any, ClassVar, Final, Literal

from actors.model.event_dict import ErrorTexts, to_dict
from actors.model.event_metadata import IN_BRIEF, LOGGED_ERROR, MEASURED, NO_CONTENT, SECONDS, UNLOGGED, out_of
from actors.model.event_time import Published
from actors.model.record import is_unfrozen, record
from actors.model.spec import Reason

_KINDS: Final[dict[tuple[str, str], type[Event]]] = {}
"""Classes of events by module and qualified name. A dataclass with slots is made twice: the second one counts."""
_JOURNALLED: Final[dict[str, type[Event]]] = {}
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _register(cls: type[Event]) -> None:
    if is_unfrozen(cls):
        return
    own = vars(cls).get("__annotations__", {})
    if "name" not in own:
        cls.name = _HUMP.sub("_", cls.__name__).lower()
    elif "ClassVar" not in str(own["name"]):
        raise TypeError(f"{cls.__qualname__}.name: each event has a name, that of its kind. Call this field otherwise")
    if "at" in own:
        cls.has_own_time = True
    cls.may_weigh = cls.weighs and ("error" in own or hasattr(cls, "error") or bool(cls.bulk))
    if vars(cls).get("is_base", False):
        return
    known = _JOURNALLED.get(cls.__name__) if cls.journalled else None
    if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        message = (
            f"{cls.__module__}.{cls.__qualname__}: journals know a kind of the name {cls.__name__!r} already, that of "
            f"{known.__module__}. A record is read back by this name: give the new kind another one"
        )
        raise TypeError(message)
    _KINDS[cls.__module__, cls.__qualname__] = cls
    if cls.journalled:
        _JOURNALLED[cls.__name__] = cls


@record
class Event(Published):
    """Something that happened at ``path``."""

    name: ClassVar[str] = "event"
    """Stable name of the kind: that of its class in snake case, such as ``child_exited``."""
    weighs: ClassVar[bool] = True
    """False: an error that it has was told by an event before it, which weighs for both while they wait."""
    has_own_time: ClassVar[bool] = False
    """True of kinds with a field ``at``, which their maker fills in. Set when the kind is declared."""
    may_weigh: ClassVar[bool] = False
    """True of kinds whose ``error`` or ``bulk`` weighs while they wait. Set when the kind is declared."""
    level: ClassVar[str] = "TRACE"
    """Level of its log line, where no other is given."""
    advice: ClassVar[str] = ""
    """Advice to a person, for the log line: a format of its fields."""
    is_base: ClassVar[bool] = True
    """True of a class that only other kinds are derived from. Not inherited: nothing else says it."""
    journalled: ClassVar[bool] = False
    """True: stores keep its records. A store refuses a record of any other kind when it is to be written."""
    bulk: ClassVar[str] = ""
    """Name of the one field whose text weighs while a record waits for a subscriber."""
    metric: ClassVar[str] = ""
    """Text of the counter ``regrow_NAME_total``, with ``name``, to which each record adds 1; empty: there is none."""
    begins: ClassVar[str] = ""
    """Name of the span that begins with it: "incarnation", "task" or "attempt"."""
    ends: ClassVar[str] = ""
    """Name of the span that ends with it, where one is open at its path (for tasks: with its task, and subtask)."""

    path: str
    """Where: a child's path; the root's for the whole tree."""

    def __init_subclass__(cls) -> None:
        _register(cls)

    @property
    def subject(self) -> str:
        """Path that its log line begins with: that of the worker, where it is about one."""
        return self.path

    @property
    def severity(self) -> str:
        """Level of the log line of this record."""
        return self.level

    @property
    def has_question(self) -> bool:
        """True if the error of this event is a question to a person, which is in no log line."""
        return False

    @property
    def has_feedback(self) -> bool:
        """True if the error of this event is what a reviewer has said: a log line has it, elsewhere it is content."""
        return False

    def as_dict(self, *, content: bool = False, errors: ErrorTexts = "text") -> dict[str, Any]:
        """Everything that may be told of it, as plain values for JSON.

        It has ``version`` (1), ``name``, ``at`` and ``path``, then the fields of its kind. An exception is its type and
        its text, with ``..._type`` beside it.

        Args:
            content: with goals, inputs, plans, results, feedback, questions and answers, which are left out otherwise.
            errors: ``"type"``: without the texts of errors, which may hold private data.
        """
        return to_dict(self, content=content, errors=errors)


@record
class TreeStarted(Event):
    """Every on_start has succeeded."""


@record
class TreeStopped(Event):
    """Nothing of the tree runs any more."""

    gave_up: bool
    """True where nobody had asked for it: the root had used up its restart limit, or see ``TreeFailed``."""

    @property
    def severity(self) -> str:
        """Level of its log line: nothing worse can happen than an end that nobody asked for."""
        return "CRITICAL" if self.gave_up else self.level


@record
class TreeLeftRunning(Event):
    """The program ends and nobody has stopped the tree: it is stopped now, with a few seconds for all of it."""

    level = "WARNING"
    advice = "Write 'with start(TREE) as tree:', or call tree.stop(), so that it can end in order."


@record
class TreeFailed(Event):
    """The tree cannot go on and is being ended, for a reason that is none of its workers': it has lost its store."""

    level = "CRITICAL"
    error: BaseException


@record
class ChildStarted(Event):
    """An incarnation is up."""

    begins = "incarnation"
    incarnation: int


@record
class ChildExited(Event):
    """An incarnation ended, or a start failed. Exactly one per end."""

    ends = "incarnation"
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
    output: tuple[str, ...] = field(default=(), repr=False, metadata=UNLOGGED)
    """Last lines that a command has written, the newest last."""
    lasted_s: float = field(default=0.0, repr=False, compare=False, metadata=NO_CONTENT | SECONDS)
    """Seconds for which it was up. 0: it had not come up."""
    at: float = field(default=0.0, repr=False, compare=False, metadata=NO_CONTENT)
    """When it ended: the time that ``LastExit`` has, in seconds since 1970. So both are known to be one end."""

    @property
    def severity(self) -> str:
        """Level of its log line: a clean end is no news."""
        return self.level if self.reason.clean else "WARNING"


@record
class ChildRestarting(Event):
    """A restart was decided."""

    level = "WARNING"
    weighs = False
    attempt: int
    """1 for the first of a row of restarts."""
    delay_s: float = field(metadata=SECONDS)
    """Backoff before it."""
    restarts: int = field(default=0, repr=False, metadata=NO_CONTENT | out_of("max_restarts"))
    """Restarts that count now, with this one; 0: this one does not count."""
    max_restarts: int = field(default=0, repr=False, metadata=NO_CONTENT)
    """One more within the period, and its supervisor gives up, or it is parked."""
    error: BaseException | None = field(default=None, repr=False, metadata=IN_BRIEF)
    """Error that the last incarnation ended with."""
    detail: str = field(default="", repr=False, metadata=LOGGED_ERROR)
    """Description of its end, where there is no error to tell."""


@record
class ChildStopAbnormal(Event):
    """A child that was being stopped ended otherwise than it should, or one of its last hooks raised."""

    level = "WARNING"
    reason: Reason
    detail: str = field(metadata=LOGGED_ERROR)
    error: BaseException | None = field(default=None, repr=False, metadata=IN_BRIEF)


@record
class ChildParked(Event):
    """A child used up its own restart limit and stays down until restart_child."""

    level = "ERROR"
    advice = "It stays down until somebody starts it: tree.restart_child({path!r})."
    weighs = False
    restarts: int
    error: BaseException | None = field(default=None, repr=False, metadata=IN_BRIEF)
    detail: str = field(default="", repr=False, metadata=LOGGED_ERROR)


@record
class ChildAbandoned(Event):
    """A worker could not be ended in time and was left to itself; its thread counts until it ends."""

    level = "ERROR"
    advice = "In long code sleep with actors.sleep(seconds), and end when actors.stopping() is true."
    abandoned: int
    """How many of this path there are now."""


@record
class SupervisorGaveUp(Event):
    """A supervisor restarted more often than its limit allows, and stops."""

    level = "ERROR"
    weighs = False
    metric = "Supervisors that had used up their restart limit"
    child: str
    restarts: int
    limit: int
    period_s: float
    root: bool
    error: BaseException | None = field(default=None, repr=False, metadata=IN_BRIEF)
    """Error that the last incarnation of the child ended with."""
    detail: str = field(default="", repr=False, metadata=LOGGED_ERROR)

    @property
    def severity(self) -> str:
        """Level of its log line: with the root the tree has ended."""
        return "CRITICAL" if self.root else self.level


@record
class DeadLetter(Event):
    """A message that nobody will handle."""

    level = "DEBUG"
    reason: str
    message_type: str
    sender: str | None


@record
class RequestFailed(Event):
    """A handler answered with an error and lives.

    The error is ``Failed``, of an expected type, what its own ask failed with, or any ``Exception`` of a function in an
    ask. So does code that belongs to no worker: a planner, reviewer, synthesizer or undo. Its log line says where it
    raised.
    """

    level = "DEBUG"
    error: BaseException
    asked: bool
    """False: it was a tell, and nobody heard the error."""

    @property
    def reason(self) -> str:
        """Type of the error, as metrics and tables group requests that failed."""
        return type(self.error).__name__


@record
class RecursionRefused(Event):
    """A request whose target waits for it, or an ask, a task or a tell that comes after too many tells."""

    level = "WARNING"
    chain: tuple[str, ...]
    hops: int = field(metadata=out_of("max_hops"))
    """How many tells and tasks had led to it."""
    max_hops: int | None = None
    """The hop limit, where that has refused it; None: its target waits for it."""


@record
class RecursionSuspected(Event):
    """Many tells have led to each other in a row: ``max_hops`` of them, and at each doubling. This one is delivered."""

    level = "WARNING"
    advice = "If these workers are meant to tell each other for ever, use tell(..., detached=True)."
    chain: tuple[str, ...]
    """Addresses of the last tells, the oldest first."""
    hops: int
    """How many tells and tasks have led to it, with this one."""
    max_hops: int


@record
class LoopBlocked(Event):
    """A handler holds up the event loop; or the host does, where async workers run on its (``loop="host"``).

    Also a call in an ``async def`` of the host that waits for the tree, and so blocks the loop that runs it: once for
    each line of code, as soon as it is called.
    """

    level = "WARNING"
    blocked_s: float = field(metadata=SECONDS)
    """For how long by then. 0: a call in the host's code begins to wait."""
    stack: str
    """Where that code stands, or the line of the host's code and what to write there."""
    loop: Literal["tree", "host"] = "tree"


@record
class PoolNearCap(Event):
    """The pool has almost as many threads as it may have."""

    level = "WARNING"
    threads: int = field(metadata={MEASURED: "threads"})
    max_threads: int


@record
class SubscriberDropped(Event):
    """A subscriber raised, and gets no more events."""

    level = "ERROR"
    subscriber: str
    error: BaseException


@record
class CallbackRaised(Event):
    """A done callback that somebody had added to a reply of the worker at ``path`` raised."""

    level = "ERROR"
    error: BaseException


@record
class EventsLost(Event):
    """To a subscriber that is too slow: so many events before this one were lost."""

    level = "WARNING"
    count: int = field(metadata={MEASURED: "events"})


@record
class InternalError(Event):
    """A bug of this library. Please report it."""

    level = "CRITICAL"
    error: BaseException


def kinds() -> tuple[type[Event], ...]:
    """Every kind of event whose module is loaded, but for the classes that kinds are only derived from."""
    return tuple(_KINDS.values())


def journalled_kind(name: str) -> type[Event] | None:
    """The kind whose records have this name in a journal; None: there is none."""
    return _JOURNALLED.get(name)


def require_journalled(record: Event) -> None:
    """Refuse a record that could not be read back by its name.

    Raises:
        TypeError: its kind is not declared to be journalled: a bug.
    """
    cls = type(record)
    if _JOURNALLED.get(cls.__name__) is not cls:
        message = (
            f"a {cls.__module__}.{cls.__qualname__} is of no kind that a journal can read back. "
            "Derive it from a journalled kind, or write 'journalled = True' in its class"
        )
        raise TypeError(message)


def metric_of(kind: type[Event]) -> str:
    """The name of the counter of a kind: ``ChildRestarting`` is counted by ``child_restarting``."""
    return kind.name
