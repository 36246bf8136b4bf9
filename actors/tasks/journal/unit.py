"""``Unit``: one unit of work of a task, as the journal says where it stands.

A task is a tree of units. The root is the task itself. A unit of the role ``work`` is a subtask; one that a team has
is composite: it has a ``Course`` with units of its own, as the root has. A call of a planner, a reviewer or a
synthesizer is a unit of its course; an undo is a unit of what it undoes. They differ in what is called, and in little
else: there is one ladder, one kind of question, one kind of attempt.

Plain data, and the changes that an event makes to one unit (``actors.tasks.journal.fold`` says which). This module must
never import threads, a clock or Pykka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from actors.tasks.model import (
    FOR_GOOD,
    NO_USAGE,
    NONE,
    PENDING,
    RUNNING,
    Answer,
    EscalationRaised,
    FailureKind,
    LadderPosition,
    Subtask,
    SubtaskStatus,
    Usage,
    answer_of,
    usage_of,
)

if TYPE_CHECKING:
    from actors.tasks.journal.course import Course
    from actors.tasks.model import EscalationAnswered, EscalationExpired, Role, SubtaskStarted

FRESH: Final = LadderPosition()
LOST: Final = "lost"
"""Why an attempt is queued again whose process ended with it."""
STAGES: Final = ("plan", "review", "combine")
"""Roles of the calls of a course."""
GONE: Final = frozenset({SubtaskStatus.FAILED, SubtaskStatus.SKIPPED, SubtaskStatus.CANCELLED})
"""Ends without a result."""
HAVE_RESULT: Final = frozenset({SubtaskStatus.SUCCEEDED, SubtaskStatus.COMPENSATED})
DONE: Final = GONE | HAVE_RESULT


@dataclass(frozen=True, slots=True)
class Remarks:
    """What was said about a unit so far: by reviewers, and by people."""

    number: int = 0
    """How often it was sent back, or what it needs was."""
    feedback: str = ""
    earlier: tuple[str, ...] = ()
    """Feedbacks before that, the oldest first."""
    answers: tuple[EscalationAnswered, ...] = ()
    """Answers to all questions about it, the oldest first."""
    approved: tuple[tuple[str | None, str], ...] = ()
    """Questions that a person has approved since it was begun, or sent back: the worker that asked, and the text."""

    def heard(self, feedback: str) -> Remarks:
        """Return it with another feedback, or with none."""
        earlier = (*self.earlier, self.feedback) if self.feedback else self.earlier
        return replace(self, feedback=feedback, earlier=earlier)

    def sent_back(self, feedback: str) -> Remarks:
        """Return it after a review: the result is to be another one, so nothing that was approved holds for it."""
        return replace(self.heard(feedback), number=self.number + 1, approved=())


NO_REMARKS: Final = Remarks()


class Ask(NamedTuple):
    """How somebody has asked for a unit."""

    number: int = 0
    """Number of the ask in the attempt of the asker."""
    attempt: int = 0
    """Which start of the whole task that attempt was."""
    epoch: int = 1
    """Epoch of the asker."""
    chain: tuple[str, ...] = ()
    """Paths of those who wait for it."""
    lineage: tuple[str, ...] = ()
    """Instructions that those were given."""


NO_ASK: Final = Ask()


@dataclass(slots=True, eq=False, repr=False)
class Unit:
    """Where one unit stands."""

    path: str
    """In its task; of the task itself empty. ``research``, ``team/research``, ``research/@1`` (it asked for it)."""
    role: Role
    above: Unit | None
    """The unit whose course it is in, or that it undoes."""
    spec: Subtask
    scope: str
    """Path of the supervisor whose workers do it."""
    status: SubtaskStatus = PENDING
    missing: int = 0  # dependencies that it still waits for
    dependants: Sequence[Unit] = ()
    attempt: int = 0
    """Number of the last attempt."""
    made: int = 0  # attempts that count
    epoch: int = 1
    seq: int = 0  # which start of the whole task its last one was
    worker: str | None = None
    first: str | None = None  # whose ladder it climbs: who had it first since it stood at the foot
    value: Any = None
    error: str = ""
    """Why it failed, was skipped or cancelled; or of the last attempt."""
    kind: str = ""
    summary: str = ""
    importance: float | None = None
    passed: bool = False  # a review has let its present result pass
    standing: LadderPosition = FRESH
    due: float | None = None
    """When the next attempt may start; of a team that runs, when its time is up."""
    question: Escalation | None = None
    answered: EscalationAnswered | EscalationExpired | None = None
    """Answer to the last question, or its expiry, as long as nothing has followed from it."""
    remarks: Remarks = NO_REMARKS
    kept: KeptState | None = None
    """State that its last question was asked with, until it has a result."""
    steps: dict[str, KeptStep] = NONE
    """Recorded steps of the present attempt, or of one that was broken off, by their keys; and those of the subtask,
    which all of its attempts have."""
    was_put_off: bool = False
    """True if its last attempt was put off, and the next one goes on after the steps of that."""
    effects: dict[tuple[str, int], Effect] = NONE
    """By worker and epoch."""
    effect: Effect | None = None  # that of the present attempt, or of the last one
    undo: Unit | None = None
    undoes: Effect | None = None  # of an undo
    course: Course | None = None  # of the task, and of what a team has had
    best_effort: bool = False  # of its team
    dropped: bool = False  # another plan does without it
    preemptions: int = 0
    losses: int = 0  # processes that have ended one after the other with an attempt at it
    reviews: int = 0  # of its results
    at_fault: bool = False  # its last failure says something of its worker, and not only of the request
    queued_at: float = 0.0
    started_at: float = 0.0
    ended_at: float = 0.0
    queued_s: float = 0.0
    running_s: float = 0.0
    told: Usage = NO_USAGE  # as far as executors have told it
    untold_s: float = 0.0  # seconds of running beside that
    before: Usage = NO_USAGE  # of other work of this id, or before it was tried again: it has its budget anew
    asker: Unit | None = None
    """The unit that asked for it; None: it is in the plan."""
    ask: Ask = NO_ASK
    """How it was asked for the last time."""
    asked: list[Unit] | None = None
    """Units that it has asked for."""
    asks: int = 0
    """How many it has asked for so far: names the next one."""
    id: str = ""
    """Id of its subtask in the plan; of what was asked for ``research/@1``."""
    subject: str = ""
    """Path that events about it have: of an undo that of what it undoes, of a step of a course that of the team."""
    over: tuple[Unit, ...] = ()
    """The unit above, the one above that, and so on, up to the task."""
    line: tuple[Unit, ...] = ()
    """The unit itself, and those above."""
    metadata: Mapping[str, Any] = NONE
    """Metadata of its task, and over it that of the subtasks down to this one."""

    def __post_init__(self) -> None:
        above = self.above
        self.id = self.spec.id
        self.subject = self.path if above is None or self.role == "work" else above.path
        self.over = () if above is None else above.line
        self.line = (self, *self.over)
        self.takes(self.spec)

    def __repr__(self) -> str:
        return f"<Unit {self.role} {self.path!r} {self.status}>"

    # -- where it is ---------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        """True where nothing more happens to it, as long as it is not revised or undone."""
        return self.status in DONE

    @property
    def is_composite(self) -> bool:
        """True where a team has it, or had it last: it has units of its own. So has the task."""
        return self.course is not None and (self.effect is None or self.effect.is_team)

    def below(self) -> Iterator[Unit]:
        """Yield all subtasks below it, in all teams."""
        for unit in list(self.course.units.values()) if self.course is not None else ():
            yield unit
            if unit.course is not None:
                yield from unit.below()

    @property
    def is_ending(self) -> bool:
        """True where a task or a team that it belongs to cannot succeed any more."""
        for each in self.line:  # noqa: SIM110 - looked at for every event: a generator costs twice as much
            if each.course is not None and each.course.ending is not None:
                return True
        return False

    # -- attempts ------------------------------------------------------------------------------------------

    def begins(self, event: SubtaskStarted, seq: int) -> None:
        """An attempt is about to be given to a worker."""
        self.status = RUNNING
        self.queued_s += max(0.0, event.at - self.queued_at) if self.queued_at else 0.0
        self.started_at = event.at
        if event.worker != self.worker:
            self.forget_steps()
        self.worker, self.attempt, self.seq = event.worker, event.attempt, seq
        self.due = event.due
        if self.first is None or self.first in self.standing.rejected:
            self.first = event.worker
        if self.role != "work":
            return
        if not self.effects:
            self.effects = {}
        key = event.worker, event.act
        effect = self.effect = self.effects.setdefault(key, Effect(self, *key))
        effect.undoable = event.undoable or self.spec.undo is not None
        effect.is_team, effect.seq = event.is_team, seq

    def times(self, ended_at: float) -> tuple[float, float]:
        """Return the seconds for which it stood in line before its present attempt, and for which that has run."""
        if self.status is not RUNNING:
            return 0.0, 0.0
        return max(0.0, self.started_at - self.queued_at), max(0.0, ended_at - self.started_at)

    def forget_steps(self, *, keeps: bool = False) -> None:
        """Forget the steps of an attempt that has come to an end of its own, unless the next one goes on after them.

        An attempt that was preempted, or lost with its process, is made once more: its steps stay.
        """
        self.was_put_off = keeps
        if self.steps and not keeps:
            self.steps = {key: step for key, step in self.steps.items() if step.is_of_subtask}

    @property
    def home(self) -> str | None:
        """Worker that goes on where others would begin anew: it has asked with a state, or has steps done."""
        if self.kept is not None:
            return self.kept.worker
        has_own = self.steps and any(not step.is_of_subtask for step in self.steps.values())
        return self.worker if has_own else None

    @property
    def usage(self) -> Usage:
        """What it has used up."""
        return self.told + usage_of(0, 0.0, self.untold_s) if self.untold_s else self.told

    @property
    def total_usage(self) -> Usage:
        """Usage of all attempts at this work together."""
        return self.usage - self.before

    def takes(self, spec: Subtask) -> None:
        """This is what it is to do."""
        self.spec = spec
        if self.above is not None:
            before = self.above.metadata
            self.metadata = {**before, **spec.metadata} if spec.metadata else before

    # -- begun anew ----------------------------------------------------------------------------------------

    def next_epoch(self) -> None:
        """What follows is to have its effect once more: it has another idempotency key."""
        self.epoch += 1

    def begins_anew(self, *, is_new: bool = False) -> None:
        """Begin once more at the foot of the ladder.

        It is the same epoch, under its old key, unless ``is_new``, or what it did is undone, or is being undone.
        """
        if is_new or self.was_undone or self.undo is not None:
            self.next_epoch()
            self.made, self.preemptions, self.kept = 0, 0, None
        self.status, self.standing, self.due, self.answered, self.first = PENDING, FRESH, None, None, None
        self.losses, self.error, self.kind = 0, "", ""

    def is_retried(self) -> None:
        """Begin as a new epoch, because the failed task is tried again; so do members of a team that are not done."""
        self.begins_anew(is_new=True)
        self.remarks = NO_REMARKS  # answers of people, too: they are asked again
        self.has_budget_anew()
        if self.course is not None:
            self.course.reopen(retried=True)

    def is_void(self) -> None:
        """Begin as a new epoch, whatever it did before; a team is planned anew."""
        self.begins_anew(is_new=True)
        if self.course is not None:
            self.course.plan = None

    def becomes(self, spec: Subtask) -> None:
        """Begin as another piece of work of the same id: nothing of the former one counts, but what it has used."""
        self.is_void()
        self.takes(spec)
        self.value, self.remarks, self.steps, self.reviews = None, NO_REMARKS, NONE, 0
        self.has_budget_anew()

    def has_budget_anew(self) -> None:
        """What was used up so far does not count for its budget any more."""
        self.before = self.usage

    @property
    def was_undone(self) -> bool:
        """True where all that it did under its present key is undone, or what it had asked for.

        Of a team, where a member's work is.
        """
        effects = [each for each in self.effects.values() if each.epoch == self.epoch]
        if any(each.was_undone and not each.is_in_vain for each in self.asked or ()):
            return True
        return any(each.undone for each in effects) and not any(each.stands for each in effects)

    @property
    def is_in_vain(self) -> bool:
        """True if its asker has ended without it: the last attempt did not ask for it, or stopped waiting for it."""
        asker, ask = self.asker, self.ask
        if asker is None or not asker.is_done:
            return False
        return self.status is SubtaskStatus.CANCELLED or (ask.attempt, ask.epoch) != (asker.seq, asker.epoch)

    @property
    def can_be_undone(self) -> bool:
        """True if something that it did stands, and there is a way to undo it."""
        return any(each.needs_undo for each in self.effects.values())

    @property
    def stays_ended(self) -> bool:
        """True for what nobody does again, because of how it failed, unless it was undone."""
        return self.status is SubtaskStatus.FAILED and self.kind in FOR_GOOD and not self.was_undone

    # -- people --------------------------------------------------------------------------------------------

    def is_told(self, answer: EscalationAnswered) -> None:
        """A person has answered the question about it."""
        said, is_approved = self.remarks, answer.answer == "approve" and self.kind == FailureKind.ESCALATED
        if answer.answer == "respond":
            said = said.heard(str(answer.value))
        approved = (*said.approved, (self.worker, self.error)) if is_approved else said.approved
        self.remarks = replace(said, answers=(*said.answers, answer), approved=approved)

    @property
    def is_vouched(self) -> bool:
        """True if a person vouches for the results: should the reviewer fail once more, they are taken as they are."""
        answers = self.remarks.answers
        return bool(answers) and answers[-1].answer == "approve"

    def state_for(self, worker: str | None) -> Any:
        """Return the state that this worker gets back; None: there is none for it."""
        kept = self.kept
        return kept.value if kept is not None and kept.worker == worker else None

    @property
    def answer_to_state(self) -> Answer | None:
        """Return the answer to the question that the kept state came with; None: it has none."""
        kept = self.kept
        found = (each for each in self.remarks.answers if kept is not None and each.escalation == kept.question)
        return next((answer_of(each.answer, each.value) for each in found), None)

    @property
    def is_new(self) -> bool:
        """True where it has had no result, was never sent back, and keeps no state of a question."""
        return self.remarks is NO_REMARKS and self.value is None and self.kept is None


def with_dependants(units: Iterable[Unit]) -> list[Unit]:
    """Return these and everything that depends on them, directly or not, each once."""
    found: dict[str, Unit] = {}
    left = list(units)
    while left:
        unit = left.pop()
        if unit.path not in found:
            found[unit.path] = unit
            left += unit.dependants
    return list(found.values())


class KeptStep(NamedTuple):
    """One step that is recorded."""

    fingerprint: str
    """Fingerprint of its arguments."""
    value: Any
    is_of_subtask: bool
    """True where other attempts have it, too."""


def step_key(name: str, number: int) -> str:
    """Key of a step within its unit."""
    return f"{name}#{number}"


WITHDRAWN: Final = "withdrawn"
"""Why an attempt is queued again that nobody had begun: it had no effect for sure."""


@dataclass(slots=True, eq=False)
class Effect:
    """What one worker did, or began, for one epoch of a unit: what would have to be undone."""

    unit: Unit
    worker: str
    epoch: int
    seq: int = 0
    """Grows with the starts of the whole task."""
    undoable: bool = False
    """True if its worker, or its subtask, declares an undo."""
    is_team: bool = False
    acted: bool = False
    """True if an attempt has had its effect, or may have had it: it was broken off, or nobody knows how it ended. An
    attempt after that one which did nothing for sure does not change this."""
    result: Any = None
    """Its result. None also if nobody knows what it did."""
    undone: bool = False
    stands: str = ""
    """Why its undo was given up: it is not called again, and its effect stands, or may. Empty: it was not."""

    @property
    def needs_undo(self) -> bool:
        """True if it is to be undone, and it is known how."""
        return self.acted and self.undoable and not self.undone and not self.stands


class Escalation:
    """An open question to a person. Equal to the same question, however often it is read, and in whatever process."""

    def __init__(self, event: EscalationRaised) -> None:
        self.id = event.escalation
        self.task = event.task
        self.about = event.subtask
        """Path of the unit that it is about; of a step that of its task or team."""
        self.question = event.question
        self.error = event.error
        self.is_content = event.has_question or event.has_feedback
        """True where that is no error, but a question, or what a reviewer has said."""
        self.raised_at = event.at
        self.due = event.due
        """When it is too late for an answer, in seconds since 1970; None: never."""
        self.role = event.role
        """work, plan, review, combine or undo."""
        self.undoing = event.undoing
        """True where it is about an undo that failed."""
        self.step = event.step
        """Step that it is about, plan, review or combine; empty: a subtask."""
        self.subtasks: tuple[str, ...] = event.subtasks if event.step else (event.subtask,)
        """Subtasks that it is about."""
        only = self.subtasks[0] if event.step and len(self.subtasks) == 1 else ""
        self.subtask = "/".join(part for part in (self.about, only) if part)
        """Path in the task of the subtask that it is about; of a step that is about all of a task empty."""

    answers = ("approve", "edit", "respond", "reject")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Escalation) and (self.id, self.raised_at) == (other.id, other.raised_at)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        """Show the question: whoever prints the open questions is about to answer them."""
        what = "the undo of " if self.undoing else ""
        error = f" ({self.error})" if self.error and self.error != self.question else ""
        return f"<Escalation {self.id!r} about {what}{self.subtask or self.role!r}: {self.question}{error}>"


class KeptState(NamedTuple):
    """State that a worker has asked with, and wants back."""

    worker: str | None
    value: Any
    question: str
    """Id of the question that it was asked with."""
    goes_on_at: LadderPosition | None = None
    """Where it stood on its ladder when it asked, and stands after every answer; None: the answer decides."""
