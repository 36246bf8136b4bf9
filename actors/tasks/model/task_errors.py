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
  AttemptTimeoutError      an attempt: .phase tells which wait was too long
  AttemptLostError         an attempt: its process ended with it, too often
  EscalationError          no such escalation, or no such answer
  UnknownTaskError         no task of this id
  StoreError               the store cannot take or give something
    StoreBusyError         another process has it; .holder
    LeaseLostError         another process has taken it over: this one writes nothing any more
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, TypeAlias

from actors.model.errors import ActorsError, Failed, Problem

if TYPE_CHECKING:
    from actors.tasks.model.report import Report

TimeoutPhase: TypeAlias = Literal["running", "idle", "step"]


class TaskError(ActorsError):
    """Base of the errors of tasks."""

    report: Report | None = None
    """Report of the task, if the task has ended."""


class TaskFailedError(TaskError):
    """The task has failed; ``report`` has what was done."""

    private_text = True

    def __init__(self, task: str, why: str) -> None:
        super().__init__(f"task {task}: failed: {why}")
        self.task = task
        self.why = why
        self.kind = ""
        """Kind of its end (``TaskEnding``): what has failed because of a ``recursion`` is never tried again."""


class PlanError(TaskFailedError):
    """No plan was accepted; ``problems`` holds everything that was wrong with the last one."""

    def __init__(self, task: str, problems: tuple[Problem, ...], attempts: int = 1) -> None:
        lines = f" {problems[0]}" if len(problems) == 1 else "".join(f"\n  {problem}" for problem in problems)
        super().__init__(task, f"no plan after {attempts} attempt{'s' * (attempts != 1)}:{lines}")
        self.problems = problems
        self.attempts = attempts


class NoCapableWorkerError(PlanError):
    """No worker of the supervisor can do it.

    A planner may raise it with the capability alone: ``NoCapableWorkerError("sql")``. The task, and the workers that
    are known, are filled in when the error is recorded.

    Args:
        needed: a capability, or several.
        known: ids or capabilities of the workers that there are.
        task: id of the task.
        hint: what to do about it. Empty: names those that are known.
    """

    def __init__(
        self, needed: str | Iterable[str] = (), known: Iterable[str] = (), *, task: str = "", hint: str = ""
    ) -> None:
        self.needed = (needed,) if isinstance(needed, str) else tuple(needed)
        self.known = tuple(known)
        self.hint = hint
        wanted = " and ".join(map(repr, self.needed)) or "this goal"
        problem = Problem(f"task {task or '?'}", f"no worker can do {wanted}", hint or self.advice(self.known))
        super().__init__(task, (problem,))
        self.args = (str(problem),)

    @staticmethod
    def advice(known: Iterable[str]) -> str:
        """Return what to do if nothing is known but the workers that there are."""
        known = ", ".join(known)
        if known:
            return f"Known: {known}. Add one, or change the goal."
        return "Known: nothing. None of its children takes tasks now: write WorkerSpec(id=..., execute=...) for one."


class BudgetExceededError(TaskFailedError):
    """The task used up its budget; what was done by then is in ``report``."""


class TaskDeadlineError(TaskFailedError):
    """The task's deadline passed; what was done by then is in ``report``."""


class TaskCancelledError(TaskError):
    """The task was cancelled; what was done by then is in ``report``."""

    private_text = True

    def __init__(self, task: str, why: str = "") -> None:
        super().__init__(f"task {task}: cancelled" + (f": {why}" if why else ""))
        self.task = task
        self.why = why


class TaskTimeoutError(TaskError, TimeoutError):
    """The task has not ended in the time that the caller wanted to wait. It goes on."""

    def __init__(self, task: str, timeout_s: float, waits: str = "") -> None:
        goes_on = waits or "It goes on; wait longer, or cancel it."
        super().__init__(f"task {task}: has not ended within {timeout_s:.3g} s. {goes_on}")
        self.task = task
        self.timeout_s = timeout_s


class SubtaskFailedError(TaskError):
    """A subtask that was asked for has failed, after all that could be tried."""

    private_text = True

    def __init__(self, task: str, subtask: str, error: str, kind: str = "") -> None:
        super().__init__(f"task {task}, subtask {subtask!r}: {error}")
        self.task = task
        self.subtask = subtask
        self.error = error
        self.kind = kind
        """How its last attempt ended (``FailureKind``). ``recursion``, ``denied``, ``in_doubt``: never tried again."""


class AttemptTimeoutError(TaskError, TimeoutError):
    """An attempt was too long at something: running, idle (no sign of life), or a step of the task."""

    def __init__(self, subtask: str, attempt: int, phase: TimeoutPhase, limit_s: float) -> None:
        said = {"running": "ran longer than", "idle": "gave no sign of life for", "step": "took longer than"}[phase]
        super().__init__(f"subtask {subtask!r}: attempt {attempt} {said} {limit_s:.3g} s")
        self.subtask = subtask
        self.attempt = attempt
        self.phase: TimeoutPhase = phase
        self.limit_s = limit_s


class AttemptLostError(TaskError):
    """An attempt whose process ended with it, as often as is allowed: perhaps because of it.

    ``what`` is "subtask", "step" or "undo of subtask"; of a step ``subtask`` is plan, review or combine.
    """

    def __init__(self, subtask: str, losses: int, what: str = "subtask") -> None:
        super().__init__(f"{what} {subtask!r}: {losses} processes one after the other have ended while it ran")
        self.subtask = subtask
        self.losses = losses
        self.what = what


class EscalationError(TaskError):
    """No such question is open, or this is no answer to it: then ``is_unfit``, and another one may be given."""

    private_text = True

    def __init__(self, escalation: str, what: str, *, is_unfit: bool = False) -> None:
        super().__init__(f"escalation {escalation!r}: {what}")
        self.escalation = escalation
        self.what = what
        self.is_unfit = is_unfit


class UnknownTaskError(TaskError):
    """No task of this id is known here."""

    def __init__(self, task: str) -> None:
        super().__init__(f"task {task}: not known here. See tree.tasks() for those that are.")
        self.task = task


class StoreError(TaskError):
    """The store cannot take or give something."""

    may_be_taken = False
    """True, of a submission, if the task may be in the store all the same, and will run then."""

    def __init__(self, store: str, what: str) -> None:
        super().__init__(f"store {store}: {what}")
        self.store = store
        self.what = what


class DamagedJournalError(StoreError):
    """A journal lacks something, or has what cannot be read: it is the end of that task, and of nothing else."""


class StoreBusyError(StoreError):
    """Another process has this root open in the same store."""

    def __init__(self, store: str, root: str, holder: str) -> None:
        super().__init__(
            store,
            f"{root!r} is in use by {holder}. One process at a time leads a tree. "
            "Stop that one, use another store, or start both with ha=HA()",
        )
        self.root = root
        self.holder = holder


class LeaseLostError(StoreError):
    """The process may not write for this root any more: another one has taken it over, or may have."""

    def __init__(self, store: str, root: str, holder: str, why: str = "") -> None:
        what = why or f"{holder} has taken over {root!r}"
        super().__init__(store, f"{what}. Nothing more of this process is written there, and its tree is stopped")
        self.root = root
        self.holder = holder
        self.why = why


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
