"""Incarnation of a child: its states, the order to end, and the end.

The states, each left once and never entered again::

    STARTING --started--> UP --an order, a crash, a return--> ENDING --> OVER
        |                 |                                              ^
        +---- raised -----+--------------------- killed -----------------+

* An **order** tells an incarnation to end, and with which reason: ``SHUTDOWN`` (its supervisor, or somebody's Ref),
  ``NORMAL`` (itself) or ``KILLED``. It is looked at before each message, so it overtakes the mailbox.
* The end is one test-and-set (``_end``) under the mailbox's lock: whoever wins reports, once, to the owner. Late acts
  of an incarnation that is over change nothing: its late reply is dropped because a reply is completed once.
* The report comes first. What the incarnation leaves (its object, its contextvars, the message it was handling) may
  have finalizers of users, which may block for ever. So it is let go of after the report, and elsewhere (``_let_go``).

A worker's incarnation runs user code (``actors.execution.crash_boundary``); a supervisor's never does
(``actors.supervision.supervisor_incarnation``).

Locking: ``phase``, ``order``, ``current``, ``running_on`` and the signals are guarded by the mailbox's lock.
"""

from __future__ import annotations

import asyncio
import contextvars
from dataclasses import fields
from enum import IntEnum
from operator import attrgetter
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from actors.concurrency.failed_frames import Frames
from actors.concurrency.thread_state import soon
from actors.messaging.envelope import SystemMessage
from actors.messaging.message_errors import ActorStoppedError
from actors.messaging.reply import Reply
from actors.model.errors import StalledError
from actors.model.process_errors import ProcessDiedError
from actors.model.raised import is_a
from actors.model.record import record
from actors.model.spec import ChildSpec, Reason
from actors.validation.introspection import type_name

if TYPE_CHECKING:
    from actors.concurrency.wakeup import Wakeup
    from actors.execution.handling_times import BatchTimes
    from actors.execution.incarnation_ports import IncarnationHost, IncarnationOwner, RestartCount
    from actors.messaging.envelope import Envelope, Home
    from actors.messaging.mailbox import Mailbox
    from actors.messaging.pulse import Pulse


class IncarnationPhase(IntEnum):
    """Phase of an incarnation."""

    STARTING = 0
    UP = 1
    ENDING = 2
    """In its last hook."""
    OVER = 3


STARTING: Final = IncarnationPhase.STARTING
OVER: Final = IncarnationPhase.OVER
"""Members by names of their own, for what runs with every message: a member is found slowly by its class."""


@record
class Exit:
    """End of an incarnation."""

    reason: Reason
    error: BaseException | None = None
    """Error that it died of, if any. Let go of soon: it holds frames."""
    what: str = ""
    """Description of what happened, where there is no error to tell."""
    lost: int = 0
    """Messages that were being handled and are lost with it."""
    ignored: bool = False
    """True where it raised ``Ignore`` in on_start."""
    frames: TracebackType | None = None
    """Where the error was born: its traceback as it left the worker, before any asker raised it again."""
    output: tuple[str, ...] = ()
    """Last lines of a command."""
    excused: bool = False
    """True where an item of a batch, or one task, was at fault: its restart counts in no window, and waits for no
    backoff."""
    renews: bool = False
    """True where the next incarnation is to take its place, whatever its restart type: it has not ended by itself."""
    is_last: bool = False
    """True where no incarnation is to follow, whatever its restart type: its tree ends, or its supervisor stops."""

    @property
    def detail(self) -> str:
        """The type of the error, or what happened; never a text that may hold payloads."""
        if is_a(self.error, ProcessDiedError):
            return self.error.exit_detail
        return type_name(type(self.error)) if self.error is not None else self.what

    def __str__(self) -> str:
        return f"{self.reason} {self.detail}".rstrip()


_OTHERS: Final = tuple(each.name for each in fields(Exit) if each.name != "lost")
_others: Final = attrgetter(*_OTHERS)


@record
class Started:
    """To the owner: this incarnation has started."""

    incarnation: Incarnation


@record
class Stopping:
    """To the owner: this incarnation is in its last hook by itself; give it the limit of a stop."""

    incarnation: Incarnation


@record
class Registered:
    """To the owner: this incarnation is something else for others now than its spec says."""

    incarnation: Incarnation
    registration: Any
    """In place of ``ChildSpec.registration``."""


@record
class Exited:
    """To the owner: this incarnation is over."""

    incarnation: Incarnation
    exit: Exit


class Incarnation:
    """One incarnation of a worker."""

    __slots__ = (
        "_context",
        "_ended",
        "_stopped",
        "abandoned",
        "actor",
        "came_up",
        "crash",
        "current",
        "excused",
        "gate",
        "held",
        "home",
        "in_users_code",
        "is_over",
        "mailbox",
        "order",
        "owner",
        "phase",
        "program_pid",
        "pulse",
        "remains",
        "restart_of",
        "running_on",
        "since",
        "spec",
        "system",
        "task",
        "times",
    )

    urgent = is_elsewhere = False

    def __init__(self, system: IncarnationHost, spec: ChildSpec, mailbox: Mailbox, owner: IncarnationOwner) -> None:
        self.system = system
        self.spec = spec
        self.mailbox = mailbox
        self.owner = owner
        """The mailbox of the supervisor that is told of the end."""
        self.actor: Any = None
        self.phase = IncarnationPhase.STARTING
        self.is_over = False
        """True after the end: its phase is ``OVER``."""
        self.came_up = False
        """True once it was up."""
        self.restart_of: RestartCount | None = None
        """Where it is counted once it is up; None: it is no restart that counts."""
        self.order: Reason | None = None
        self.crash: Exit | None = None
        """Set while on_failure runs: how it ends, also where that takes too long and it has to be killed."""
        self.excused = False
        """True where its crash is to count in no restart window: whoever runs in it bounds its crashes by itself."""
        self.current: Envelope | None = None
        """The envelope being handled."""
        self.since = 0.0
        """When that began, on the tree's clock."""
        self.running_on: int | None = None
        """The thread that is in ``drive`` now, or None."""
        self.program_pid: int | None = None
        """Number of a process that works for its worker (an MCP server), while that runs; its worker tells it."""
        self.held = False
        """True during a run of it. The mailbox's."""
        self.in_users_code = False
        """True while code of its user runs on a thread: see ``actors.concurrency.thread_state``."""
        self.abandoned = False
        self.home: Home | None = None
        """The contextvar's value for messages from outside; built with the first run."""
        self._context: contextvars.Context | None = None
        self._stopped: Reply | None = None
        self._ended: Reply | None = None
        self.task: asyncio.Task[bool] | None = None
        self.remains: list[Any] | None = None
        """Objects that its own pinned thread is to let go of when it ends."""
        self.gate: Wakeup | None = None
        self.times: BatchTimes | None = None
        """Times of the present batch, or of the last one; None: nobody measured it."""
        self.pulse: Pulse | None = None
        """Signs of life; None: nobody looks for any."""

    def __repr__(self) -> str:
        return f"<Incarnation of {self.mailbox.path} {self.phase.name}>"

    @property
    def was_killed(self) -> bool:
        """True once it was to be killed."""
        return self.order is Reason.KILLED

    @property
    def must_stop(self) -> bool:
        """True once it was asked to end."""
        return self.order is not None

    @property
    def is_starting(self) -> bool:
        """True while its start is under way, which an order to stop does not cut short."""
        return self.phase is STARTING

    @property
    def is_handling_here(self) -> bool:
        """True in its handler, on the thread or in the task that runs it; not in a task of its own making."""
        if self.task is None:
            return self.running_on == get_ident()
        return self.running_on == get_ident() and asyncio.current_task() is self.task

    def _comes_up(self) -> None:
        """Mark the incarnation as up. With the mailbox's lock held, or before it is attached.

        Counted here, where it is true first: whoever has an answer of it finds it counted.
        """
        self.phase = IncarnationPhase.UP
        self.came_up = True
        self.mailbox.incarnation += 1
        if self.restart_of is not None:
            self.restart_of.restarts += 1
        if self.pulse is not None:
            self.pulse.beat()

    @property
    def pid(self) -> int | None:
        """Number of the process that it is, or that works for it; None: there is none."""
        return self.program_pid

    @property
    def node(self) -> str | None:
        """Node of a cluster that it runs on; None: it runs on this host, or has not begun."""
        return None

    @property
    def resource(self) -> Any:
        """Resource that a lifespan has yielded; None: it has none."""
        return None

    def register(self, registration: Any) -> None:
        """Say what it is for others from now on, in place of ``ChildSpec.registration``. On any thread."""
        self.owner.post(Registered(self, registration))

    # -- what every kind of incarnation can do --------------------------------------------------------------------

    def start(self) -> bool:
        """Begin; True when it is up already. Otherwise ``Started`` or ``Exited`` will be told."""
        raise NotImplementedError

    def stop(self) -> Exit | None:
        """Order it, as its supervisor, to end after the message it is handling; its Exit if it ended on the spot."""
        raise NotImplementedError

    def kill(self, what: str = "") -> Exit | None:
        """End it without any hook. Its Exit if it is over now; otherwise ``Exited`` will be told."""
        raise NotImplementedError

    def abandon(self, what: str = "") -> Exit | None:
        """Leave it to itself after a kill that did not end it. Its Exit if it is over now."""
        raise NotImplementedError

    def wake(self) -> None:
        """Have it run. May be done once too often: a run that finds nothing to do does nothing."""
        raise NotImplementedError

    def _order(self, reason: Reason) -> bool:
        """Give the order to end; True when the incarnation was idle, and is now the caller's to wake or to end."""
        raise NotImplementedError

    # -- asked to end by others ----------------------------------------------------------------------------

    def request_stop(self, reason: Reason) -> Reply:
        """Ask it to end: from itself (NORMAL) or a Ref (SHUTDOWN). Completed when it is over."""
        over = self.when_over()
        if self._order(reason):
            self.wake()
        elif reason is Reason.SHUTDOWN and not self.is_over:
            self.owner.post(Stopping(self))  # it is busy, and has no longer for that than its supervisor would give it
        return over

    def when_over(self) -> Reply:
        """Completed when it is over."""
        with self.mailbox.lock:
            if self._ended is None:
                self._ended = Reply()
            ended, over = self._ended, self.phase is IncarnationPhase.OVER
        if over:
            ended.complete()
        return ended

    def stop_signal(self) -> Reply:
        """Completed once the incarnation was asked to end."""
        with self.mailbox.lock:
            if self._stopped is None:
                self._stopped = Reply()
            signal = self._stopped
            asked = self.order is not None
        if asked:
            signal.complete()
        return signal

    # -- the end -------------------------------------------------------------------------------------------

    def _take_idleness(self) -> bool:
        return self.mailbox.take_idleness(self)

    def _end(self, exit_: Exit, *, abandon: bool = False, tell: bool = False) -> Exit | None:
        """End it, by one test-and-set; None when it was over already. ``tell`` reports it to the owner."""
        box = self.mailbox
        with box.lock:
            if self.phase is IncarnationPhase.OVER:
                return None
            self.phase, self.is_over = IncarnationPhase.OVER, True
            if self.times is not None:
                self.times.is_over = True
            self.order = self.order or exit_.reason
            current, self.current = self.current, None
            crash, self.crash = self.crash, None
            if crash is not None and exit_.reason is Reason.KILLED:
                exit_ = crash
            abandon = abandon and self.running_on is not None  # it may have come back just before this
            if abandon:
                self.abandoned = True
                box.abandoned += 1
            signals = (self._stopped, self._ended, *box.detach(self, abandon=abandon))
        box.left()
        if current is not None and not _is_answered(current, box.path, exit_):
            exit_ = Exit(lost=1, **dict(zip(_OTHERS, _others(exit_), strict=True)))
        remains: list[Any] = [Frames(exit_.frames), current]
        current = None
        if abandon:
            self.system.strays.add(self)
        else:
            remains += self._objects()
        if tell:
            with soon():  # this thread cannot block any more: it may keep the supervisor's job for itself
                self.owner.post(Exited(self, exit_))
        for signal in signals:  # after the report: whoever waited for the end finds that the supervisor knows of it
            if signal is not None:
                signal.complete()
        self._let_go(remains)
        return exit_

    def _objects(self) -> list[Any]:
        """Give up its object and what belongs to it: the caller hands the list to ``_let_go``."""
        objects = [self.actor, self.home, self._context]
        self.actor = self.home = self._context = None
        return objects

    def _let_go(self, remains: list[Any]) -> None:
        """Empty the list where finalizers of users may run. A supervisor's incarnation has none."""
        remains.clear()


def _is_answered(envelope: Envelope, path: str, exit_: Exit) -> bool:
    """Answer whoever waits for the message that was being handled; True where it was just answered: nothing is lost."""
    body, reply, _ = envelope
    stalled = exit_.error if is_a(exit_.error, StalledError) else None
    if stalled is not None and issubclass(type(body), SystemMessage):
        body.note_crash(stalled)
    error = stalled or ActorStoppedError(path, "ended while it handled this message")
    is_late = reply is not None and not reply.fail(error)
    return is_late and (stalled is not None or exit_.reason is Reason.KILLED)
