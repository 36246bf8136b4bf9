"""One attempt: a piece of work that was given to a worker, from the moment it is recorded to the moment its outcome is.

An attempt is a ``Reply``: its worker's crash boundary completes it with a ``Done``, or fails it, exactly once and
whatever happens (an ask always ends). Its outcome then goes to the orchestrator's mailbox. Attempts live in the tree
(``actors.tasks.orchestration.task_runtime``), not in the orchestrator, until their outcome is recorded: so a new
incarnation finds those that still run, and those that have ended meanwhile.

Who ends it, and what its error then is:

* the worker's code: what it raised (``caught``), or a ``WorkerCrashedError`` with that as its cause;
* the orchestrator (timeout, cancel, preemption): ``ended_by`` says why; an async one is cancelled, one that has not
  begun is withdrawn, a thread is given up with its incarnation;
* the end of its worker's life, a stop, a restart of the group: any other error. That is nobody's failure.

Locking: ``_lock`` decides between ``begin`` and ``withdraw``: either the worker begins, or it finds that it may not. Of
other fields it guards ``given`` and what was used up. Nothing is called while it is held; the reply itself has no lock.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from actors.messaging.envelope import SystemMessage
from actors.messaging.reply import Reply
from actors.tasks.execution.context import NOTHING_TO_SEE
from actors.tasks.execution.run_attempt import run_attempt
from actors.tasks.model.attempt_end import LOST, STOP, AttemptEnded
from actors.tasks.model.task import NO_USAGE, Budget, Subtask, Usage

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context as Variables

    from pydantic import TypeAdapter

    from actors.execution.incarnation import Incarnation
    from actors.execution.timers import Timer
    from actors.messaging.envelope import MessageContext
    from actors.messaging.mailbox import Mailbox
    from actors.tasks.execution.detached_call import DetachedCall
    from actors.tasks.orchestration.task_runtime import OrchestratorPort


class Attempt(Reply, SystemMessage):
    """One attempt, and its outcome."""

    caught: BaseException | None = None
    """Exception that left the worker's code."""
    crashed = False
    """True where that was a crash of the worker."""
    said: Any = None
    """Meaning of it (``Outcome``), as plain data; None: nothing left the worker's code."""
    ended_by: str | None = None
    """Why it was ended from outside: timeout, idle, cancel, preempt, stop."""
    life: Incarnation | None = None
    """The life that runs it, once it has begun."""
    started: float | None = None
    """When it began to run, on the tree's clock."""
    last_sign = 0.0
    """Time of its last sign of life, on the tree's clock."""
    progress: tuple[float, str] | None = None
    waits: frozenset[str] = frozenset()
    """Keys of its own asks that are open: it holds no slot while it waits. Written by its orchestrator only."""
    hops = 0
    """How many tells and tasks led to it."""
    used: Usage = NO_USAGE
    """Usage so far, by ``context.use``, ``Done`` and a team's report. Written by ``use`` only."""
    unrecorded: Usage = NO_USAGE
    """Part of that usage which no record has yet."""
    tokens: int | None = None
    """Tokens of its result, by the user's counter."""
    token = 0
    """Token of its worker's breaker."""
    counted = False
    """True where its breaker has counted it as a failure."""
    run = 0
    """Which start of the whole task it is."""
    again = False
    """True where it was begun by a process that is gone, and is given once more to the team that has it."""
    adapter: TypeAdapter[Any] | None = None
    call: Callable[..., Any] | None = None
    """Code that is called instead of the worker's own: an undo, a step of the task."""
    form: Callable[[Any], Any] | None = None
    """Function, of a step, that makes the plain form of its return value; None: JSON is made of it."""
    role = "work"
    """work, undo, plan, review or combine."""
    errand: DetachedCall | None = None
    """Call that runs it, where that is no worker."""
    timer: Timer | None = None
    """Timer of the limit that it has now."""
    given = False
    """True once it was put where it is done."""
    budget: Budget | None = None
    """Budget that is left for a team's part of the task."""
    nested = ""
    """Id of the task that it is in a team; of an undo that of the one that was done."""
    done_before = ""
    """Id of the part that the team has done of it before, and that was sent back."""
    undone: list[str] | None = None
    """Subtasks that the members of a team have undone."""
    variables: Variables | None = None
    """Contextvars of the worker that asked for it in ``context.ask``; None: those of its task count."""
    losses = 0
    """How many processes have ended with it."""
    reply_refused = False
    """True where it was not even taken."""
    news = 0
    """How often its member had been heard of when it was put there."""
    preemptible = False
    priority = 0
    """Priority of its task."""
    rank = 0
    """Priority that it was begun with, for what it had waited: what is more urgent than this may interrupt it."""
    arguments: tuple[dict[str, Any], ...] = ()
    """Dicts that a step is called with, beside the values."""

    def __init__(
        self,
        key: str,
        desk: OrchestratorPort,
        task: str,
        subtask: Subtask,
        worker: str,
        path: str,
        *,
        chain: tuple[Any, ...] = (),
        lineage: tuple[str, ...] = (),
        deadline: float | None = None,
        timeout_s: float | None = None,
    ) -> None:
        super().__init__()
        self._lock = threading.Lock()
        """Between being begun and being withdrawn; and of what it has used up, which any thread may tell."""
        self.key = key
        self.desk = desk
        self.task = task
        self.subtask = subtask
        self.worker = worker
        """The id of the worker."""
        self.path = path
        """The path of the worker; ancestry names it."""
        self.chain = chain
        """Addresses of those who wait for it."""
        self.lineage = lineage
        """Instructions that those were given."""
        self.deadline = deadline
        """On the tree's clock."""
        self.timeout_s = timeout_s
        self.member: Mailbox | None = None
        """Where it was put."""
        self.values = NOTHING_TO_SEE
        """Values that its code is to see, by its ``Context``."""
        self.fetched: list[object] = []
        """Holds what was fetched for it, as long as it is needed: others that run at once share that."""

    def __repr__(self) -> str:
        return f"<Attempt {self.key} on {self.path}>"

    # -- its end -------------------------------------------------------------------------------------------

    def _finish(self, value: Any, error: BaseException | None) -> bool:
        finished = super()._finish(value, error)
        if finished:
            if self.timer is not None:
                self.timer.cancel()  # it lets go of all that it would have looked at
            self.desk.post(self)
        return finished

    def watch(self, timer: Timer) -> None:
        """Have a timer see to its end, in place of the one before: that of an orchestrator that is gone, or of a limit.

        It may have ended meanwhile, on another thread. Then it has looked for a timer before this one was there.
        """
        before, self.timer = self.timer, timer
        if before is not None:
            before.cancel()
        if self.done:
            timer.cancel()

    @property
    def error(self) -> BaseException | None:
        """Error that it failed with."""
        return self._error

    @property
    def value(self) -> Any:
        """The ``Done`` that it was completed with."""
        return self._value

    @property
    def needs(self) -> tuple[dict[str, Any], ...]:
        """Dicts with what it is given: a value in them that is only in the store is fetched before it is given."""
        return (*self.values.dicts, *self.arguments)

    @property
    def is_own_error(self) -> bool:
        """True where the error is what left the worker's code, and not what became of the worker."""
        caught, error = self.caught, self._error
        return caught is not None and error is not None and (error is caught or error.__cause__ is caught)

    # -- the worker ----------------------------------------------------------------------------------------

    def give_once(self) -> bool:
        """Note that it is about to be put where it is done; False where it was before."""
        with self._lock:
            given, self.given = self.given, True
        return not given

    def begin(self, life: Incarnation, now: float) -> bool:
        """The worker takes it up; False where it was withdrawn."""
        with self._lock:
            if self.done or self.ended_by is not None:
                return False
            self.life = life
            if self.started is None:
                self.started = now
        self.last_sign = now
        return True

    def use(self, usage: Usage) -> bool:
        """Add to its usage; True where that is the first of which no record has it."""
        with self._lock:
            first = self.unrecorded is NO_USAGE
            self.used += usage
            self.unrecorded += usage
        return first

    def take_used(self) -> Usage:
        """Take the usage that no record has; whoever takes it records it, and nothing else before that."""
        if self.unrecorded is NO_USAGE:
            self.desk.taken = None
            return NO_USAGE
        with self._lock:
            rest, self.unrecorded = self.unrecorded, NO_USAGE
        self.desk.taken = None if rest is NO_USAGE else (self, rest)
        return rest

    def take_back(self, usage: Usage) -> None:
        """Take usage back: it was not recorded, because the orchestrator has died of it."""
        with self._lock:
            self.unrecorded += usage

    def withdraw(self, why: str) -> bool:
        """Take it back; False where it has begun, or ended."""
        with self._lock:
            if self.done or self.started is not None:
                return False
            self.ended_by = why
        self._finish(None, AttemptEnded(why))
        return True

    def handle(self, worker: Any) -> Any:
        """Have the worker that it was put to do it; see ``actors.tasks.execution.run_attempt``."""
        return run_attempt(worker.execute, self)

    def request_cancel(self, why: str) -> bool:
        """Note that it is to be cancelled; False where it is over, or was ended by others already."""
        if self.ended_by is not None or self.done:
            return False
        self.ended_by = why
        return True

    def origin(self, origin_type: type[MessageContext]) -> MessageContext:
        """Return the context that its message carries: those who wait for it, and until when."""
        variables = self.desk.ground.variables_of(self)
        return origin_type(None, self.chain, self.deadline, self.hops, self.lineage, variables)


__all__ = ["LOST", "STOP", "Attempt", "AttemptEnded"]
