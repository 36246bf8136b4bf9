"""One subtask of a running task: where it stands, what was begun for it, and what somebody is asked about it.

Comes in: the changes that ``actors.tasks.journal.task_state`` makes when an event says so. Plain data. This module must
never import threads, a clock or Pykka.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from actors.tasks.journal.effect_record import EffectRecord
from actors.tasks.journal.kept_steps import Holder, KeptStep, KeptSteps, step_key
from actors.tasks.journal.questions import Escalation, KeptState
from actors.tasks.model import task_events
from actors.tasks.model.ladder_position import LadderPosition
from actors.tasks.model.outcome import FailureKind
from actors.tasks.model.policy import Answer, answer_of
from actors.tasks.model.task import NO_USAGE, PENDING, RUNNING, SUCCEEDED, Subtask, SubtaskStatus, Usage, usage_of
from actors.tasks.model.task_ids import part_id

_DONE: Final = frozenset(
    {SUCCEEDED, SubtaskStatus.FAILED, SubtaskStatus.CANCELLED, SubtaskStatus.SKIPPED, SubtaskStatus.COMPENSATED}
)

FRESH: Final = LadderPosition()
"""At the foot of the ladder."""
_NOTHING_USED: Final = NO_USAGE, 0.0
UNWANTED: Final = "nobody waits for it"
"""Why a subtask ends that was asked for."""
LOST: Final = "nothing is known of its attempt"
"""Why one is queued again that was under way when its process ended. That is no failure, and no attempt."""


@dataclass(frozen=True, slots=True)
class RevisionHistory:
    """History of what a subtask was told, by feedback and by answers. Each change makes a new one."""

    number: int = 0
    """How often it was sent back, or what it needs was."""
    feedback: str = ""
    """The present one; empty: none."""
    earlier: tuple[str, ...] = ()
    """Feedbacks before that, the oldest first."""
    answers: tuple[task_events.EscalationAnswered, ...] = ()
    """Answers to all questions about it, the oldest first."""
    approved: tuple[tuple[str | None, str], ...] = ()
    """Questions that a person has approved since it was begun, or sent back: the worker that asked, and the text."""

    def heard(self, feedback: str) -> RevisionHistory:
        """Return it with another feedback, or with none."""
        earlier = (*self.earlier, self.feedback) if self.feedback else self.earlier
        return replace(self, feedback=feedback, earlier=earlier)

    def sent_back(self, feedback: str) -> RevisionHistory:
        """Return it after a review: the result is to be another one, so nothing that was approved holds for it."""
        return replace(self.heard(feedback), number=self.number + 1, approved=())

    def told(self, answer: task_events.EscalationAnswered, asked: tuple[str | None, str] | None) -> RevisionHistory:
        """Return it with an answer; ``asked`` is the question that the worker had raised, where it did."""
        told = self.heard(str(answer.value)) if answer.answer == "respond" else self
        approved = (*self.approved, asked) if asked is not None and answer.answer == "approve" else self.approved
        return replace(told, answers=(*self.answers, answer), approved=approved)


UNREVISED: Final = RevisionHistory()
"""History of a subtask that nobody has said anything about."""


@dataclass(slots=True, eq=False, repr=False)
class SubtaskState:
    """Where one subtask stands."""

    spec: Subtask
    id: str = field(init=False)
    status: SubtaskStatus = PENDING
    missing: int = 0  # dependencies that it still waits for
    dependants: Sequence[SubtaskState] = ()
    wanted: int = 0  # dependants that are not done
    attempt: int = 0
    """The number of the last attempt."""
    made: int = 0  # attempts that count
    act: int = 1
    acts: list[EffectRecord] | None = None
    worker: str | None = None
    first: str | None = None  # whose ladder it climbs: who had it first since it stood at the foot
    value: Any = None
    tokens: int | None = None  # what it is worth, by the user's counter
    summary: str = ""  # of its result, as ``Done`` has it
    importance: float | None = None
    passed: bool = False  # a review has let its present result pass
    error: str = ""
    """Why it failed, was skipped or cancelled; or of the last attempt."""
    kind: str = ""
    revisions: RevisionHistory = UNREVISED  # feedback and answers so far
    kept: KeptState | None = None
    """State that its last question was asked with, until it has a result."""
    steps: KeptSteps | None = None
    standing: LadderPosition = FRESH
    due: float | None = None
    """When the next attempt may start."""
    dropped: bool = False  # another plan does without it
    best_effort: bool = False  # of its team
    preemptions: int = 0
    losses: int = 0  # processes that have ended one after the other with an attempt at it
    reviews: int = 0  # of its results
    queued_at: float = 0.0
    started_at: float = 0.0
    ended_at: float = 0.0
    queued_s: float = 0.0
    running_s: float = 0.0
    usage: Usage = NO_USAGE
    before: tuple[Usage, float] = _NOTHING_USED  # usage and running_s of other work of this id
    parent: str | None = None
    """The subtask that asked for it; None: it is in the plan."""
    ask: str | None = None
    chain: tuple[str, ...] = ()
    """Paths of those who wait for it, where it was asked for by a subtask."""
    lineage: tuple[str, ...] = ()
    escalation: Escalation | None = None
    answered: task_events.EscalationAnswered | task_events.EscalationExpired | None = None
    """Answer to the last question, or its expiry, as long as nothing has followed from it."""
    undo_attempt: int = 0
    run: int = 0  # which start of the whole task its last one was
    undo_error: str = ""
    """Why the undo that a person is asked about has failed."""
    compensating: EffectRecord | None = None
    counted: tuple[str, float] | None = None
    """The last failure that was one for a breaker: whose, and when."""
    asked: dict[str, list[str]] | None = None
    """The subtasks that its attempts have asked for, by the run of each."""

    def __post_init__(self) -> None:
        self.id = self.spec.id

    def __repr__(self) -> str:
        return f"<SubtaskState {self.id} {self.status}>"

    def times(self, ended_at: float) -> tuple[float, float]:
        """Return the seconds for which it stood in line before its present attempt, and for which that has run."""
        if self.status is not RUNNING:
            return 0.0, 0.0
        return max(0.0, self.started_at - self.queued_at), max(0.0, ended_at - self.started_at)

    @property
    def is_new(self) -> bool:
        """True where it has had no result, was never sent back, and keeps no state of a question."""
        return self.revisions is UNREVISED and self.value is None and self.kept is None

    @property
    def total_usage(self) -> Usage:
        """Usage of all attempts at this work together. A team tells itself how long its members ran."""
        used, (before, before_s) = self.usage, self.before
        if before is not NO_USAGE:
            used = usage_of(used.tokens - before.tokens, used.cost - before.cost, used.seconds - before.seconds)
        return used if used.seconds else used + usage_of(0, 0.0, self.running_s - before_s)

    def begins(self, event: task_events.SubtaskStarted, seq: int) -> None:
        """An attempt is about to be given to a worker."""
        self.status = RUNNING
        self.queued_s += event.at - self.queued_at
        self.started_at = event.at
        self.worker, self.attempt, self.run = event.worker, event.attempt, seq
        if self.first is None or self.first in self.standing.rejected:
            self.first = event.worker
        acts = self.acts
        if not acts:
            act = EffectRecord(event.worker, event.act, seq)
            self.acts = [act]
        else:
            act = acts[-1]
            if act.worker != event.worker or act.number != event.act:
                # It may come back to a worker after another one; the last act is always the one that runs.
                act = act_of(self, event.worker, event.act) or EffectRecord(event.worker, event.act, seq)
                acts[:] = [*[each for each in acts if each is not act], act]
        if self.steps is not None:
            self.steps.begins(self.holder)
        act.open, act.attempt, act.undoable = True, event.attempt, event.undoable
        act.part = event.part

    def spends(self, usage: Usage, act: EffectRecord | None) -> None:
        """Something was used up for it, by the attempts of this act."""
        self.usage += usage
        if act is not None:
            act.told += usage

    @property
    def used_in_act(self) -> Usage:
        """Usage that is recorded under its present idempotency key, of whatever worker."""
        acts = self.acts
        if not acts or self.usage is NO_USAGE:
            return NO_USAGE
        return sum((act.told for act in acts if act.number == self.act), NO_USAGE)

    def act_with(self, part: str) -> EffectRecord | None:
        """Return the record of what a team did with this part; of no part: of what a worker did last. None: no such."""
        acts = self.acts or ()
        if part:
            return next((act for act in acts if act.part == part), None)
        return acts[-1] if acts and not acts[-1].part else None

    def runs_again(self, feedback: str) -> None:
        """Begin a new act: it was sent back, or needs what was, whatever it did before."""
        self.status, self.standing, self.due, self.first = PENDING, FRESH, None, None
        self.act += 1
        self.made = 0
        self.kept = None
        self.revisions = self.revisions.sent_back(feedback)

    def state_for(self, worker: str | None, *, undoing: bool = False) -> int | None:
        """Number of the record with the state that this worker gets back; None: there is none for it."""
        kept = self.kept
        return kept.record if kept is not None and (kept.worker, kept.undoing) == (worker, undoing) else None

    def answer_to_state(self, answers: Iterable[task_events.EscalationAnswered]) -> Answer | None:
        """Return the one among these answers to the question that the kept state came with; None: it has none."""
        found = (each for each in answers if self.kept is not None and each.escalation == self.kept.question)
        return next((answer_of(each.answer, each.value) for each in found), None)

    @property
    def holder(self) -> Holder:
        """Attempt that it has now, or had last, for what is kept of it."""
        return self.worker, self.acts[-1].number if self.acts else self.act, self.attempt

    def has_stepped(self, event: task_events.SubtaskStepped, record: int) -> None:
        """A step of its attempt is done, which is in this record."""
        if self.steps is None:
            self.steps = KeptSteps(self.holder)
        key = step_key(event.step, event.number)
        self.steps.by_key[key] = KeptStep(event.fingerprint, record, event.is_of_subtask)
        self.losses = 0

    @property
    def home(self) -> str | None:
        """Worker that goes on where others would begin anew: it has asked with a state, or has steps done."""
        if self.kept is not None and not self.kept.undoing:
            return self.kept.worker
        return self.steps.home if self.steps is not None else None

    def is_told(self, answer: task_events.EscalationAnswered) -> None:
        """A person has answered the question about it."""
        has_asked = self.kind == FailureKind.ESCALATED
        self.revisions = self.revisions.told(answer, (self.worker, self.error) if has_asked else None)

    @property
    def was_undone(self) -> bool:
        """True where all that it did under its present key is undone."""
        acts = [act for act in self.acts or () if act.number == self.act]
        return any(act.undone for act in acts) and not any(act.stands for act in acts)

    def begins_anew(self) -> None:
        """Begin anew after an end: the same act, unless that was undone."""
        if self.was_undone:
            self.act += 1
            self.kept = None
        self.status, self.standing, self.due, self.answered, self.first = PENDING, FRESH, None, None, None
        self.error = self.kind = self.undo_error = ""

    def becomes(self, spec: Subtask) -> None:
        """Begin as another piece of work of the same id: nothing of the former one is about it, but what it has used.

        Its number of an act goes on, so that no key comes back. What the former one had done was undone, or stands.
        """
        fresh = SubtaskState(spec)
        fresh.act = self.act + bool(self.acts)
        fresh.queued_s, fresh.running_s, fresh.usage = self.queued_s, self.running_s, self.usage
        fresh.before = self.usage, self.running_s
        for name in self.__slots__:
            setattr(self, name, getattr(fresh, name))

    def has_asked(self, node: SubtaskState, ask: str) -> None:
        """An attempt has asked for a subtask, for the first time or once more."""
        if self.asked is None:
            self.asked = {}
        if node.ask is not None:
            self.asked[run_of(node.ask)].remove(node.id)
        self.asked.setdefault(run_of(ask), []).append(node.id)
        node.ask = ask

    def asked_before(self, ask: str, spec: Subtask, nodes: dict[str, SubtaskState]) -> SubtaskState | None:
        """Find what an earlier run of the same act had asked for in the same words, and this one not yet.

        That run was lost with its process, or its attempt failed: asking again is the same act, with the same key.
        """
        this = run_of(ask)
        earlier = f"{asker_of(ask).rpartition('.')[0]}."
        for run, ids in (self.asked or {}).items():
            for id_ in ids if run != this and run.startswith(earlier) else ():
                node, old = nodes[id_], nodes[id_].spec
                same_target = (old.worker or old.capability, old.tool) == (spec.worker or spec.capability, spec.tool)
                if same_target and old.instruction == spec.instruction and old.inputs == spec.inputs:
                    return node
        return None

    @property
    def has_begun(self) -> bool:
        """True where an attempt was started and nothing is known of its end: it gave way, or was lost."""
        return bool(self.acts) and self.acts[-1].open  # type: ignore[index]  # there are some

    @property
    def is_done(self) -> bool:
        """True where nothing more happens to it, as long as it is not revised or undone."""
        return self.status in _DONE


def act_of(node: SubtaskState, worker: str, number: int) -> EffectRecord | None:
    """Return the record of what a worker did for a subtask; None: nothing is known of it."""
    return next((act for act in node.acts or () if act.worker == worker and act.number == number), None)


def part_id_of(task: str, node: SubtaskState, act: EffectRecord, ids: int) -> str:
    """The id that the last attempt of an act has as a task of the team that it was given to.

    ``ids`` is the rule that its task was submitted under (``actors.tasks.model.task_ids``).
    """
    if act.part:
        return act.part
    before = sum(each.number == act.number and each.seq < act.seq for each in node.acts or ())
    # The same attempt may go to another team, where the first one is gone: that is another task.
    rest = f"{node.id}:{act.number}.{act.attempt}" + (f".{before + 1}" if before else "")
    return part_id(task, rest, ids)


def next_part(task: str, node: SubtaskState, worker: str, attempt: int, ids: int) -> str:
    """The id of a team's part for the next attempt: the same one again, as long as it is the same act.

    A part whose result was refused above has succeeded: trying it again needs a new one.
    """
    act = act_of(node, worker, node.act)
    if act is not None and node.kind != FailureKind.INVALID:
        return part_id_of(task, node, act, ids)
    before = sum(each.number == node.act and each is not act for each in node.acts or ())
    rest = f"{node.id}:{node.act}.{attempt}" + (f".{before + 1}" if before else "")
    return part_id(task, rest, ids)


def run_of(ask: str) -> str:
    """Which run of which attempt has asked: all of the ask's key but its number."""
    return ask.rpartition(".")[0]


def asker_of(ask: str) -> str:
    """The key of the attempt that has asked."""
    return ask.rpartition(">")[0]


def with_dependants(nodes: Iterable[SubtaskState]) -> list[SubtaskState]:
    """Return these and everything that depends on them, directly or not, each once."""
    found: dict[str, SubtaskState] = {}
    left = list(nodes)
    while left:
        node = left.pop()
        if node.id not in found:
            found[node.id] = node
            left += node.dependants
    return list(found.values())
