"""One attempt: a piece of work that was given to a worker, from the moment it is recorded to the moment its outcome is.

An attempt is a ``Reply``: its worker's crash boundary completes it with a ``Done``, or fails it, exactly once and
whatever happens (an ask always ends). Its outcome then goes to the engine's mailbox. Attempts live in the tree
(``actors.tasks.engine.service``), not in the engine, until their outcome is recorded: so a new engine finds those that
still run, and those that have ended meanwhile.

It is made of three things. Its ``spec`` is frozen (``attempt_spec``). Its ``code_outcome`` is what left the worker's
code, noted once, before it is completed. In between it has a state of its own: where it was put, who runs it and since
when, its last sign of life, what it has used up, and why it was ended from outside. All else that the engine has to
know of it stands in a table of its own (``actors.tasks.engine.attempts``).

Who ends it, and what its error then is:

* the worker's code: what it raised (``code_outcome.caught``), or a ``WorkerCrashedError`` with that as its cause;
* the engine (timeout, cancel, preemption): ``ended_by`` says why; an async one is cancelled, one that has not
  begun is withdrawn, a thread is given up with its incarnation;
* the end of its worker's incarnation, a stop, a restart of the group: any other error. That is nobody's failure.

Locking: ``_lock`` decides between ``begin`` and ``withdraw``: either the worker begins, or it finds that it may not. Of
other fields it guards ``was_given``. Nothing is called while it is held, and only the worker's boundary and the
engine take it: neither is called in between, by a finalizer or a signal handler. What those may call waits for
nobody: ``_turns`` guards what was used up, which is added in turn, and a stream is the one that was there first.
"""

from __future__ import annotations

import itertools
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.concurrency.in_turn import InTurn
from actors.concurrency.shared_fields import first_of
from actors.messaging.envelope import MessageContext, SystemMessage
from actors.messaging.reply import Reply
from actors.model.raised import cause_of
from actors.tasks.execution.adapters import execute_of
from actors.tasks.execution.attempt_spec import UNKNOWN_OUTCOME, AttemptOutcome, AttemptSpec
from actors.tasks.execution.attempt_stream import AttemptStream
from actors.tasks.execution.error_facts import error_facts
from actors.tasks.execution.run_attempt import run_attempt
from actors.tasks.execution.task_tracer import AttemptTrace, tracer_of
from actors.tasks.model.attempt_end import LOST, STOP, AttemptEnded
from actors.tasks.model.task import NO_USAGE, Usage

if TYPE_CHECKING:
    from actors.execution.incarnation import Incarnation
    from actors.execution.timers import Timer
    from actors.messaging.envelope import Address, CurrentMessage
    from actors.messaging.mailbox import Mailbox
    from actors.tasks.execution.detached_call import DetachedCall
    from actors.tasks.model.live_events import SubtaskProgressed


class Attempt(Reply, SystemMessage):
    """One attempt, and its outcome."""

    __slots__ = (
        "_lock", "_timer", "_turns", "asks", "call", "code_outcome", "ended_by", "incarnation", "key", "last_sign",
        "numbers", "overdue", "owner", "priority", "progress", "spec", "started", "stream", "subtask", "task", "trace",
        "unrecorded", "used", "was_given", "was_refused",
    )  # fmt: skip

    def __init__(self, spec: AttemptSpec) -> None:
        super().__init__()
        self._lock = threading.Lock()
        """Between being begun and being withdrawn."""
        self._turns: InTurn | None = None
        """Guard of what it has used up, which any thread may tell; None: nothing yet."""
        self.spec = spec
        self.key, self.owner, self.task, self.subtask = spec.key, spec.owner, spec.task, spec.subtask
        self.priority = spec.priority
        """Priority of its task, as it is now. Written by the engine."""
        self.started: float | None = None
        """When it began to run, on the tree's clock; None: it has not begun."""
        self.last_sign = 0.0
        """Time of its last sign of life, on the tree's clock."""
        self.numbers = itertools.count(1)
        """Numbers of its asks."""
        self.code_outcome: AttemptOutcome = UNKNOWN_OUTCOME
        """Outcome, as far as the worker's code has come. Written by ``note``."""
        self.ended_by: str | None = None
        """Why it was ended from outside: timeout, idle, cancel, preempt, stop. By ``end_for`` and ``withdraw``."""
        self.incarnation: Incarnation | None = None
        """The incarnation that runs it, once it has begun."""
        self.overdue: tuple[str, float] | None = None
        """Code beside its work that took too long, and its limit in seconds. Written by ``LimitedCode``."""
        self.was_given = False
        """True once it was put where it is done. Written by ``give_once``."""
        self.was_refused = False
        """True where it was not even taken."""
        self.progress: SubtaskProgressed | None = None
        """Last word of it on how far it is. Written by ``StreamRelay``."""
        self.stream: AttemptStream | None = None
        """Pieces that it streams; None: it has streamed nothing. Written by ``open_stream``."""
        self.trace: AttemptTrace | None = None
        """Trace of it, once it was given to a worker; None: there is none. Written by ``origin``."""
        self.used: Usage = NO_USAGE
        """Usage so far, by ``context.use``, ``Done`` and a team's report. Written by ``use``."""
        self.unrecorded: Usage = NO_USAGE
        """Part of that usage which no record has yet."""
        self.call: DetachedCall | None = None
        """Call that runs it, where that is no worker."""
        self.asks: set[str] = set()
        """Keys of the asks that it waits in (``context.ask``)."""
        self._timer: Timer | None = None

    def __repr__(self) -> str:
        return f"<Attempt {self.key} on {self.spec.path}>"

    # -- who waits for whom --------------------------------------------------------------------------------

    @property
    def blocked_by(self) -> Address | None:
        """The mailbox where it waits to be begun; another member of the same pool is in nobody's way."""
        return self.target if self.started is None else None

    def above(self) -> set[CurrentMessage]:
        """Return the requests that wait for it now: for its task, or for what it is asked for."""
        return super().above() | self.owner.waits.above(self)

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
            self.owner.post(self)
        return finished

    def watch(self, timer: Timer) -> None:
        """Have a timer see to its end, in place of the one before: that of an orchestrator that is gone, or of a limit.

        It may have ended meanwhile, on another thread. Then it has looked for a timer before this one was there.
        """
        before, self._timer = self._timer, timer
        if before is not None:
            before.cancel()
        if self.done:
            timer.cancel()

    @property
    def gives_way(self) -> bool:
        """True once it was told to give way to something more urgent, and nothing else since."""
        return self.ended_by == "preempt"

    @property
    def error(self) -> BaseException | None:
        """Error that it failed with."""
        return self._error

    @property
    def value(self) -> Any:
        """The ``Done`` that it was completed with."""
        return self._value

    @property
    def is_own_error(self) -> bool:
        """True where the error is what left the worker's code, and not what became of the worker."""
        caught, error = self.code_outcome.caught, self._error
        return caught is not None and error is not None and (error is caught or cause_of(error) is caught)

    def note(self, outcome: AttemptOutcome) -> None:
        """Note the error that has left its code; before it is completed."""
        self.code_outcome = outcome

    def note_crash(self, error: BaseException) -> None:
        """Note that its worker was taken to be hung in it: that is a crash of the code that does it."""
        self.note(AttemptOutcome(error, crashed=True, said=error_facts(error, crashed=True)))

    def fail_as_ended(self) -> None:
        """Fail it with why it was ended from outside. Whoever did that may have noted only the reason by now."""
        self.fail(AttemptEnded(self.ended_by or "cancel"))

    def refuse(self, error: BaseException) -> None:
        """Fail it because nobody took it."""
        self.was_refused = True
        self.fail(error)

    # -- the worker ----------------------------------------------------------------------------------------

    def goes_to(self, box: Mailbox) -> None:
        """Note the mailbox that is kept free for it; that of a team, or of nobody, has none."""
        self.target = box

    def runs_as(self, call: DetachedCall) -> None:
        """Note the call that runs it, in place of a worker."""
        self.call = call

    def give_once(self) -> bool:
        """Note that it is about to be given to its worker; False where it was given before."""
        with self._lock:
            given, self.was_given = self.was_given, True
        return not given

    def begin(self, incarnation: Incarnation, now: float) -> bool:
        """The worker takes it up; False where it was withdrawn."""
        with self._lock:
            if self.done or self.ended_by is not None:
                return False
            self.incarnation = incarnation
            self.last_sign = now  # first: whoever sees that it has started, without the lock, counts from this sign
            if self.started is None:
                self.started = now
        return True

    def shows_life(self, now: float) -> None:
        """Note a sign of life."""
        self.last_sign = now
        incarnation = self.incarnation
        if incarnation is not None and incarnation.pulse is not None:
            incarnation.pulse.beat()

    def open_stream(self) -> AttemptStream:
        """Return where its code streams to. It may have ended meanwhile: then that takes nothing."""
        stream: AttemptStream = self.stream or first_of(self, "stream", AttemptStream(self))
        if self.done:
            stream.close()
        return stream

    def use(self, usage: Usage) -> bool:
        """Add to its usage; True where that may be the first of which no record has it."""
        turns = self._turns or first_of(self, "_turns", InTurn())
        first = turns.get(partial(self._add, usage), None)
        if first is None:  # in the middle of another addition on this thread: it is added after that
            turns.do(partial(self._add, usage))
        return first is not False

    def _add(self, usage: Usage) -> bool:
        first = self.unrecorded is NO_USAGE
        self.used += usage
        self.unrecorded += usage
        return first

    def take_used(self) -> Usage:
        """Take the usage that no record has; whoever takes it records it, and nothing else before that."""
        turns = self._turns
        if turns is None or self.unrecorded is NO_USAGE:
            return NO_USAGE
        return turns.get(self._take, NO_USAGE)

    def _take(self) -> Usage:
        rest, self.unrecorded = self.unrecorded, NO_USAGE
        return rest

    def withdraw(self, why: str) -> bool:
        """Take it back; False where it has begun, or ended."""
        with self._lock:
            if self.done or self.started is not None:
                return False
            self.ended_by = why
        self.fail(AttemptEnded(why))
        return True

    def handle(self, worker: Any) -> Any:
        """Have the worker do it whose mailbox it came from; see ``actors.tasks.execution.run_attempt``."""
        return run_attempt(execute_of(worker), self)

    def end_for(self, why: str) -> None:
        """Note why it is ended from outside, unless that is known."""
        self.ended_by = self.ended_by or why

    def request_cancel(self, why: str) -> bool:
        """Note that it is to be cancelled; False where it is over, or was ended by others already."""
        if self.ended_by is not None or self.done:
            return False
        self.ended_by = why
        return True

    def origin(self, origin_type: type[MessageContext]) -> MessageContext:
        """Return the context that its message carries: those who wait for it, and until when."""
        spec, system = self.spec, self.owner.system
        tracer = tracer_of(system) if system.tracer is not None else None
        if tracer is not None and self.trace is None:
            self.trace = tracer.begin_attempt(self)
        variables = spec.variables if self.trace is None else self.trace.variables
        return origin_type(None, spec.chain, spec.deadline, spec.hops, spec.lineage, variables)


__all__ = ["LOST", "STOP", "Attempt", "AttemptEnded"]
