"""The errors of tasks, for the owner of the task. What raises them to a waiter carries the ``report``.

TaskError
  TaskFailedError          the task has failed; .report has what is done
    PlanError              no plan was accepted; .problems of the last one
      NoCapableWorkerError nobody can do it; .known
    BudgetExceededError    it used up what it was given
    TaskDeadlineError      its time was up
  TaskCancelledError       somebody cancelled it
  TaskTimeoutError         somebody would not wait longer; it goes on
  SubtaskFailedError       what a context.ask raises
  BreakerOpenError         an attempt: nobody admits it
  AttemptTimeoutError      an attempt: .phase tells which wait was too long
  AttemptLostError         an attempt: its process ended with it, too often
  EscalationError          no such escalation, or no such answer
  UnknownTaskError         no task of this id
  StoreError               the store cannot take or give something
    StoreBusyError         another process has it; .holder
    LeaseLostError         another process has taken it over: this one writes nothing any more
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from actors.model.errors import ActorsError, Failed, Problem

if TYPE_CHECKING:
    from actors.tasks.model.report import Report

TimeoutPhase: TypeAlias = Literal["queue", "running", "idle", "step"]


class TaskError(ActorsError):
    """The base of them all."""

    report: Report | None = None
    """Report of the task, where it has ended."""


class TaskFailedError(TaskError):
    """The task has failed; ``report`` has what was done."""

    private_text = True

    def __init__(self, task: str, why: str) -> None:
        super().__init__(task, why)
        self.task = task
        self.why = why
        self.kind = ""
        """Kind of its end (``TaskEnding``): what has failed because of a ``recursion`` is never tried again."""

    def __str__(self) -> str:
        return f"task {self.task}: failed: {self.why}"


class TeamFailedError(Failed):
    """A team's part of a task has failed; it has undone what it had done."""

    private_text = True

    def __init__(self, why: str, *, kind: str = "", retryable: bool = True, counts: bool = True) -> None:
        super().__init__(why, retryable=retryable)
        self.kind = kind
        self.counts = counts and retryable
        """True where it says something of the team, and not only of the request."""


_NO_WORKER: Final = (
    "Known: nothing. None of its children takes tasks now: write WorkerSpec(id=..., execute=...) for one."
)


class PlanError(TaskFailedError):
    """No plan was accepted; ``problems`` holds everything that was wrong with the last one."""

    def __init__(self, task: str, problems: tuple[Problem, ...], attempts: int = 1) -> None:
        lines = "".join(f"\n  {problem}" for problem in problems) if len(problems) != 1 else f" {problems[0]}"
        super().__init__(task, f"no plan after {attempts} attempt{'s' * (attempts != 1)}:{lines}")
        self.problems = problems
        self.attempts = attempts

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.task, self.problems, self.attempts))


class NoCapableWorkerError(PlanError):
    """No worker of the supervisor can do it.

    A planner of a user's may raise it with the capability alone: ``NoCapableWorkerError("sql")``. Its task, and who is
    known, are filled in where it is recorded.

    Args:
        needed: a capability, or several. (With ``known`` before it, as the second of three, the first is the task.)
        known: who or what there is.
        task: id of the task.
        hint: what to do about it. Empty: says who is known.
    """

    def __init__(self, *args: object, task: str = "", known: Iterable[str] = (), hint: str = "") -> None:
        if len(args) == 3:  # noqa: PLR2004 - task, needed, known
            task, args = str(args[0]), args[1:]
        needed = _names(args[0]) if args else ()
        known = _names(args[1]) if len(args) > 1 else _names(known)
        wanted = " and ".join(repr(one) for one in needed) if needed else "this goal"
        said = (hint or self.advice(known)).removesuffix(".") + "."
        super().__init__(task, (Problem(f"task {task or '?'}", f"no worker can do {wanted}", said),))
        self.needed = needed
        self.known = known
        self.hint = hint

    @staticmethod
    def advice(known: Sequence[str]) -> str:
        """Return what to do about it where nothing else is known than who there is."""
        return f"Known: {', '.join(known)}. Add one, or change the goal." if known else _NO_WORKER

    def __str__(self) -> str:
        return str(self.problems[0])  # of a plan, or of one subtask

    def __reduce__(self) -> tuple[object, ...]:
        return (_no_capable_worker, (type(self), self.needed, self.known, self.task, self.hint))


def _names(said: object) -> tuple[str, ...]:
    """Return one name or several."""
    if isinstance(said, str):
        return (said,)
    return tuple(map(str, said)) if isinstance(said, Iterable) else (str(said),)


def _no_capable_worker(
    cls: type[NoCapableWorkerError], needed: tuple[str, ...], known: tuple[str, ...], task: str, hint: str
) -> NoCapableWorkerError:
    return cls(needed, known, task=task, hint=hint)


class BudgetExceededError(TaskFailedError):
    """The task used up its budget; what was done by then is in ``report``."""


class TaskDeadlineError(TaskFailedError):
    """The task's deadline passed; what was done by then is in ``report``."""


class TaskCancelledError(TaskError):
    """The task was cancelled; what was done by then is in ``report``."""

    private_text = True

    def __init__(self, task: str, why: str = "") -> None:
        super().__init__(task, why)
        self.task = task
        self.why = why

    def __str__(self) -> str:
        return f"task {self.task}: cancelled" + (f": {self.why}" if self.why else "")


class TaskTimeoutError(TaskError, TimeoutError):
    """The task has not ended in the time that somebody wanted to wait. It goes on."""

    def __init__(self, task: str, timeout_s: float) -> None:
        super().__init__(task, timeout_s)
        self.task = task
        self.timeout_s = timeout_s

    def __str__(self) -> str:
        return f"task {self.task}: has not ended within {self.timeout_s:.3g} s. It goes on; wait longer, or cancel it."


class SubtaskFailedError(TaskError):
    """A delegated subtask has failed, after all that could be tried."""

    private_text = True

    def __init__(self, task: str, subtask: str, error: str, kind: str = "") -> None:
        super().__init__(task, subtask, error, kind)
        self.task = task
        self.subtask = subtask
        self.error = error
        self.kind = kind
        """How its last attempt ended (``FailureKind``). ``recursion``, ``denied``, ``in_doubt``: never tried again."""

    def __str__(self) -> str:
        return f"task {self.task}, subtask {self.subtask!r}: {self.error}"


class BreakerOpenError(TaskError):
    """No candidate admits work: their breakers are open."""

    def __init__(self, subtask: str, workers: tuple[str, ...], retry_in_s: float) -> None:
        super().__init__(subtask, workers, retry_in_s)
        self.subtask = subtask
        self.workers = workers
        self.retry_in_s = retry_in_s

    def __str__(self) -> str:
        who = ", ".join(self.workers)
        return f"subtask {self.subtask!r}: the breaker of {who} is open, for {self.retry_in_s:.3g} s more"


class AttemptTimeoutError(TaskError, TimeoutError):
    """An attempt was too long at something: running, idle (no sign of life), in the queue, or a step of the task."""

    def __init__(self, subtask: str, attempt: int, phase: TimeoutPhase, limit_s: float, what: str = "") -> None:
        super().__init__(subtask, attempt)
        self.subtask = subtask
        self.attempt = attempt
        self.phase: TimeoutPhase = phase
        self.limit_s = limit_s
        self.what = what
        """Code of the user's beside the work of the attempt that took so long, such as ``output=``; empty: none did."""

    def __reduce__(self) -> tuple[object, ...]:
        # A TimeoutError keeps only two.
        return (type(self), (self.subtask, self.attempt, self.phase, self.limit_s, self.what))

    def __str__(self) -> str:
        said = {
            "running": f"ran longer than {self.limit_s:.3g} s",
            "idle": f"gave no sign of life for {self.limit_s:.3g} s",
            "queue": f"waited {self.limit_s:.3g} s in the queue and never ran. The worker is busy, not slow",
            "step": f"{self.what and f'was ended: its {self.what} '}took longer than {self.limit_s:.3g} s",
        }[self.phase]
        return f"subtask {self.subtask!r}: attempt {self.attempt} {said}{' (step_timeout_s)' if self.what else ''}"


class AttemptLostError(TaskError):
    """An attempt whose process ended with it, as often as is allowed: perhaps because of it."""

    def __init__(self, subtask: str, losses: int, what: str = "subtask") -> None:
        super().__init__(subtask, losses, what)
        self.subtask = subtask
        """Id of the subtask; of a step of the task: plan, review or combine."""
        self.losses = losses
        self.what = what
        """subtask, step, or undo of subtask."""

    def __str__(self) -> str:
        return f"{self.what} {self.subtask!r}: {self.losses} processes one after the other have ended while it ran"


class EscalationError(TaskError):
    """No such question is open, or this is no answer to it."""

    private_text = True

    def __init__(self, escalation: str, what: str, *, is_unfit: bool = False) -> None:
        super().__init__(escalation, what)
        self.escalation = escalation
        self.what = what
        self.is_unfit = is_unfit
        """True where the question is open, and this is no answer to it: another one may be given."""

    def __str__(self) -> str:
        return f"escalation {self.escalation!r}: {self.what}"


class UnknownTaskError(TaskError):
    """No task of this id is known here."""

    def __init__(self, task: str) -> None:
        super().__init__(task)
        self.task = task

    def __str__(self) -> str:
        return f"task {self.task}: not known here. See tree.tasks() for those that are."


class StoreError(TaskError):
    """The store cannot take or give something."""

    may_be_taken = False
    """True, of a submission, where the task may be in the store all the same, and will run then."""

    def __init__(self, store: str, what: str) -> None:
        super().__init__(store, what)
        self.store = store
        self.what = what

    def __str__(self) -> str:
        return f"store {self.store}: {self.what}"


class DamagedJournalError(StoreError):
    """A journal lacks something, or has what nobody can read: it is the end of that task, and of nothing else."""


class StoreBusyError(StoreError):
    """Another process has this root open in the same store."""

    def __init__(self, store: str, root: str, holder: str) -> None:
        what = (
            f"{root!r} is in use by {holder}. One process at a time leads a tree. "
            f"Stop that one, use another store, or start both with ha=HA()"
        )
        super().__init__(store, what)
        self.args = (store, root, holder)
        self.root = root
        self.holder = holder


class StepMismatchError(Failed):
    """A step was called with other arguments than those that it is recorded with: its attempt cannot go on from there.

    The attempt is not tried again. Code that has changed under a subtask that is under way does that, and so does code
    whose steps come in another order, or whose arguments hold a time or a random number.
    """

    def __init__(self, subtask: str, step: str, number: int, recorded: str, given: str) -> None:
        super().__init__(
            f"{subtask}: step {step!r}, call {number} of that name: it is recorded with arguments of the fingerprint "
            f"{recorded}, and is called with {given} now. Steps come in the same order, with the same arguments, when "
            "their attempt runs again: keep times and random numbers out of them, or give the step another name",
            retryable=False,
        )
        self.subtask, self.step, self.number = subtask, step, number
        self.recorded, self.given = recorded, given

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.subtask, self.step, self.number, self.recorded, self.given)


class LeaseLostError(StoreError):
    """The process may not write for this root any more: another one has taken it over, or may have."""

    def __init__(self, store: str, root: str, holder: str, why: str = "") -> None:
        what = why or f"{holder} has taken over {root!r}"
        super().__init__(store, f"{what}. Nothing more of this process is written there, and its tree is stopped")
        self.args = (store, root, holder, why)
        self.root = root
        self.holder = holder
        self.why = why
