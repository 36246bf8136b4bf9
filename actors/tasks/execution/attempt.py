"""One attempt: a piece of work that was given to a worker, from the moment it is recorded to the moment its outcome is.

An attempt is a ``Reply``: its worker's crash boundary completes it with a ``Done``, or fails it, exactly once and
whatever happens. Its outcome then goes to the engine's mailbox. Attempts live in the tree
(``actors.tasks.engine.service``), not in the engine, until their outcome is recorded: so a new engine finds those that
still run, and those that have ended meanwhile.

Who ends it, and what its error then is:

* the worker's code: what it raised (``caught``), or a ``WorkerCrashedError`` with that as its cause;
* the engine (timeout, cancel, preemption): ``ended_by`` says why; an async one is cancelled, one that has not
  begun is withdrawn, a thread is given up with its incarnation;
* the end of its worker's incarnation, a stop, a restart of the group: any other error. That is nobody's failure.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from actors.messaging.envelope import STOP, MessageContext, SystemMessage, own_error
from actors.messaging.reply import Reply
from actors.model.raised import cause_of
from actors.tasks.execution.adapters import execute_of
from actors.tasks.execution.attempt_stream import AttemptStream
from actors.tasks.execution.context import ContextValues
from actors.tasks.execution.error_facts import NEUTRAL, Outcome, error_facts
from actors.tasks.execution.run_attempt import run_attempt
from actors.tasks.journal.unit import KeptStep
from actors.tasks.model import NO_USAGE, NONE, AttemptEnded, LeaseLostError, Subtask, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from contextvars import Context as Variables

    from pydantic import TypeAdapter

    from actors.execution.incarnation import Incarnation
    from actors.execution.timers import Timer
    from actors.tasks.engine.scope import Scope
    from actors.tasks.execution.attempt_steps import StepCall
    from actors.tasks.execution.context import AskedWork
    from actors.tasks.execution.detached_call import DetachedCall
    from actors.tasks.model import StreamKind, SubtaskProgressed, ToolInfo
    from actors.tasks.scheduling.worker_registry import RegistryEntry


Role: TypeAlias = Literal["work", "undo", "plan", "review", "combine"]


class AttemptSpec(NamedTuple):
    """Facts about an attempt that are settled before it begins."""

    key: str
    """Unique in its tree, and in every engine the same."""
    owner: Scope
    """Scope that it belongs to."""
    task: str
    """Id of its task."""
    subtask: Subtask
    worker: str
    """Id of the worker."""
    path: str
    """Path of the worker; ancestry names it."""
    values: ContextValues
    """Values that its code is to see, by its ``Context``."""
    chain: tuple[Any, ...] = ()
    """Addresses of those who wait for it."""
    lineage: tuple[str, ...] = ()
    """Instructions that those were given."""
    deadline: float | None = None
    """On the tree's clock; None: none."""
    timeout_s: float | None = None
    """Seconds that it may run."""
    idle_timeout_s: float | None = None
    """Seconds for which it may be silent."""
    role: Role = "work"
    start_number: int = 0
    """Which start of the whole task it is."""
    hops: int = 0
    """How many tells and tasks led to it."""
    priority: int = 0
    """Priority of its task when it was made."""
    preemptible: bool = False
    unit: str = ""
    """Path of its subtask in the task; of a planner, reviewer or synthesizer that of its team, or empty."""
    adapter: TypeAdapter[Any] | None = None
    """Type that its result must fit; None: any JSON."""
    form: Callable[[Any], Any] | None = None
    """Function, of a step, that makes the plain form of its return value; None: JSON is made of it."""
    variables: Variables | None = None
    """Contextvars that its code is to see: of the worker that asked for it in ``context.ask``, else of its task; None:
    its task was resumed, or nobody had set any."""
    steps: Mapping[str, KeptStep] = NONE
    """By key, steps of it that an earlier process, or an earlier run of it, has done."""
    was_put_off: bool = False
    """True if these steps are those of an attempt that was put off. If it takes another way, it begins anew."""


class Attempt(Reply, SystemMessage):
    """One attempt, and its outcome."""

    # No slots: most attempts set few of these fields, and have the defaults of the class for the others.
    error: BaseException | None = Reply._error  # type: ignore[misc]  # noqa: SLF001 - the same slot
    """Error that it failed with."""
    value: Any = Reply._value  # type: ignore[misc]  # noqa: SLF001 - the same slot
    """The ``Done`` that it was completed with."""
    lock = threading.RLock()
    """Decides between being begun and being withdrawn; guards what was used up. One for all attempts: it is held for a
    few assignments, and nothing is called under it."""
    started: float | None = None
    """When it began to run, on the tree's clock; None: it has not begun."""
    last_sign = 0.0
    """Time of its last sign of life, on the tree's clock."""
    caught: BaseException | None = None
    """Exception that left the worker's code. Written, as ``said``, before the attempt is completed."""
    said: Outcome = NEUTRAL
    """What that exception means, as plain data."""
    ended_by: str | None = None
    """Why it was ended from outside: timeout, idle, cancel, preempt, stop."""
    incarnation: Incarnation | None = None
    """The incarnation that runs it, once it has begun."""
    was_given = False
    """True once it was put where it is done."""
    progress: SubtaskProgressed | None = None
    """Last word of it on how far it is. Written by ``StreamRelay``."""
    stream: AttemptStream | None = None
    """Pieces that it streams; None: it has streamed nothing."""
    trace: Any = None
    """Trace of it (``trees.agents.telemetry_spans``), once it was given to a worker; None: there is none."""
    used: Usage = NO_USAGE
    """Usage so far, by ``context.use``, ``Done`` and a team's report."""
    unrecorded: Usage = NO_USAGE
    """Part of that usage which no record has yet."""
    call: DetachedCall | None = None
    """Call that runs it, if that is no worker."""
    _timer: Timer | None = None

    # Written by the engine alone, and anew by each engine that takes it over.
    entry: RegistryEntry | None = None
    """The worker that does it; None: its own code, of a planner and the like, does it."""
    rank = 0
    """Its priority when it began, with what it had waited."""
    has_slot = True
    """False while it waits for what it has asked for."""

    def __init__(self, spec: AttemptSpec) -> None:
        super().__init__()
        self.spec = spec
        self.key, self.owner, self.task, self.subtask = spec.key, spec.owner, spec.task, spec.subtask
        self.priority = spec.priority
        """Priority of its task, as it is now. Written by the engine."""
        self.is_work = spec.role == "work"
        """False for a call of a planner, reviewer or synthesizer, and for an undo."""
        self.numbers = itertools.count(1)
        """Numbers of its asks."""
        self.asks: set[Any] = set()
        """The asks that it waits in (``context.ask``), and its waits for tasks."""

    def __repr__(self) -> str:
        return f"<Attempt {self.key} on {self.spec.path}>"

    # -- its end -------------------------------------------------------------------------------------------

    def complete(self, value: Any = None, *, error: BaseException | None = None) -> bool:
        """Answer with a value, or with an error; False when it was answered already."""
        finished = super().complete(value, error=error)
        if finished:
            if self._timer is not None:
                self._timer.cancel()  # it lets go of all that it would have looked at
            if self.stream is not None:
                self.stream.close()
            if self.trace is not None:
                self.trace.end(self)
            self.owner.port.tell(self)
        return finished

    def watch(self, timer: Timer) -> None:
        """Have a timer see to its end, in place of the one before."""
        before, self._timer = self._timer, timer
        if before is not None:
            before.cancel()
        if self.done:  # on another thread, which may have looked for a timer before this one was there
            timer.cancel()

    @property
    def is_own_error(self) -> bool:
        """True if the error is what left the worker's code, and not what became of the worker."""
        caught, error = self.caught, self.error
        return caught is not None and error is not None and (error is caught or cause_of(error) is caught)

    def note_caught(self, error: BaseException, *, crashed: bool) -> None:
        """Note what has left the worker's code, as plain data, before the attempt is completed."""
        self.said = error_facts(error, crashed=crashed)
        self.caught = error

    def note_crash(self, error: BaseException) -> None:
        """Note that its worker was taken to be hung in it: that is a crash of the code that does it."""
        self.note_caught(error, crashed=True)

    def end_for(self, why: str) -> None:
        """Note why it is ended from outside, unless that is known."""
        self.ended_by = self.ended_by or why

    def request_cancel(self, why: str) -> bool:
        """Note that it is to be cancelled; False if it is over, or was ended by others already."""
        if self.ended_by is not None or self.done:
            return False
        self.ended_by = why
        return True

    def withdraw(self, why: str) -> bool:
        """Take it back; False if it has begun, or ended."""
        with self.lock:
            if self.done or self.started is not None:
                return False
            self.ended_by = why
        self.fail(AttemptEnded(why))
        return True

    # -- the worker ----------------------------------------------------------------------------------------

    def give_once(self) -> bool:
        """Note that it is about to be given to its worker; False if it was given before."""
        with self.lock:
            given, self.was_given = self.was_given, True
        return not given

    def handle(self, worker: Any) -> Any:
        """Have the worker do it whose mailbox it came from; see ``actors.tasks.execution.run_attempt``."""
        return run_attempt(execute_of(worker), self)

    def origin(self, origin_type: type[MessageContext]) -> MessageContext:
        """Return the context that its message carries: those who wait for it, and until when."""
        spec, tracer = self.spec, self.owner.system.tracer
        if tracer is not None and self.trace is None:
            self.trace = tracer.begin_attempt(self)
        variables = spec.variables if self.trace is None else self.trace.variables
        return origin_type(None, spec.chain, spec.deadline, spec.hops, spec.lineage, variables)

    # -- what its code says or asks for. In another process: ``AttemptElsewhere`` ---------------------------

    @property
    def context_tokens(self) -> int:
        """Tokens that a prompt may have."""
        return self.owner.settings.context_tokens

    @property
    def remaining_s(self) -> float | None:
        """Seconds that it has left, on the tree's clock; None: no limit."""
        spec = self.spec
        limits = [] if spec.deadline is None else [spec.deadline]
        if spec.timeout_s is not None and self.started is not None:
            limits.append(self.started + spec.timeout_s)
        return max(0.0, min(limits) - self.owner.system.now()) if limits else None

    def token(self) -> int:
        """Return the fencing token.

        Raises:
            LeaseLostError: this process leads no more.
        """
        try:
            return self.owner.service.token
        except LeaseLostError as error:
            raise own_error(error) from None

    def shows_life(self) -> None:
        """Note a sign of life."""
        self.last_sign = self.owner.system.now()
        incarnation = self.incarnation
        if incarnation is not None and incarnation.pulse is not None:
            incarnation.pulse.beat()

    def tell_progress(self, fraction: float, text: str) -> None:
        """Tell how far it is, after what it has said before."""
        if self.stream is not None:
            self.stream.flush()
        self.shows_life()
        self.owner.service.streams.tell_progress(self, fraction, text)

    def tell_stream(self, text: str, kind: StreamKind) -> None:
        """Take a piece of what its code streams; once it has ended, nothing is taken."""
        self.shows_life()
        if not text:
            return
        with self.lock:
            stream = self.stream = self.stream or AttemptStream(self)
        if self.done:
            stream.close()
        stream.add(kind, text)

    def tools(self, of: str) -> tuple[ToolInfo, ...]:
        """Return the tools of a worker that has several."""
        return self.owner.tools(self, of)

    def delegate(self, asked: AskedWork, limit: float | None) -> Reply:
        """Have somebody else do something."""
        return self.owner.delegate(self, asked, limit)

    def count(self, usage: Usage) -> None:
        """Add to its usage, and tell that."""
        self.use(usage)
        self.owner.look_at(self)

    def use(self, usage: Usage) -> None:
        """Add to its usage."""
        with self.lock:
            self.used += usage
            self.unrecorded += usage

    def take_used(self) -> Usage:
        """Take the usage that no record has; whoever takes it records it, and nothing else before that."""
        with self.lock:
            rest, self.unrecorded = self.unrecorded, NO_USAGE
        return rest

    # -- steps of its code. In another process: ``AttemptElsewhere`` ----------------------------------------

    def ask_leave(self, name: str) -> None:
        """Refuse a step if none may be made any more.

        Raises:
            LeaseLostError: this process leads no more.
            AttemptEnded: the attempt was ended.
        """
        if not self.owner.service.may_start():
            self.token()
            raise AttemptEnded(STOP)
        if self.done or self.ended_by is not None:
            what = f"the attempt was ended ({self.ended_by or 'it is over'}): step {name!r} is not made"
            raise AttemptEnded(what)
        self.shows_life()

    def keep_step(self, call: StepCall, value: Any) -> Reply | None:
        """Have a step recorded. None: it is kept; else what is returned is completed when it is."""
        self.shows_life()
        if self.spec.role == "work":
            return self.owner.keep_step(self, call, value)
        self.tell_usage()
        return None  # an undo is called whole

    def tell_usage(self) -> None:
        """Tell what was used up, if no record has it."""
        if self.unrecorded is not NO_USAGE:
            self.owner.look_at(self)

    def step_trace(self, name: str) -> AbstractContextManager[object] | None:
        """Return the trace of a step, if the attempt is traced."""
        return None if self.trace is None else self.trace.step(name)
