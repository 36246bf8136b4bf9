"""The record that the end of an attempt without a result makes: it counts for nothing, or the ladder is climbed.

Comes in: where the unit stands, how its attempt has ended (``actors.tasks.engine.attempts`` says what that means), and
what is known of workers. Goes out: the one record that this makes. It is the same for a subtask, for a team whose part
of the task has failed, for a planner, a reviewer and a synthesizer, and for an undo.

The same for the answer of a person. No answer in time is an outcome of its own, never a denial.

What a rung of the ladder does is its own (``actors.tasks.model.policy.Rung.next``): here they are asked one after the
other. The rules (CONTRACT.md 8): attempts include the first; ``Failover`` starts the next worker with fresh tries, at
the first rung; after a person's ``Approve`` or ``Respond`` one attempt is made and then it is the next rung's turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from actors.model.errors import Failed, Later
from actors.tasks.decide.drafts import Draft, Facts, draft
from actors.tasks.execution.error_facts import NEUTRAL
from actors.tasks.journal.unit import FRESH, STAGES, WITHDRAWN, Unit
from actors.tasks.model import (
    NO_USAGE,
    ROLES,
    AskPerson,
    Decision,
    Escalate,
    EscalationError,
    Failure,
    FailureKind,
    Ladder,
    LadderPosition,
    PutOff,
    Rung,
    RungFacts,
    SubtaskStatus,
    Usage,
    task_events,
    text_of,
)
from actors.tasks.planning.settings import ladder_of_teams
from actors.tasks.scheduling.ready_queue import LaneKey

UNWANTED: Final = "nobody waits for it"
ASK_UNDO_S: Final = 300.0
"""How long a person is asked about an undo that failed, where no ``Escalate`` rung says otherwise."""
MAX_LATERS: Final = 10
"""How often one subtask may be put off with ``Later``."""


class AttemptEnd(NamedTuple):
    """How an attempt has ended, beside its outcome."""

    worker: str | None = None
    """None: no attempt could be made."""
    began: bool = False
    why: str | None = None
    """Why it was ended from outside."""
    usage: Usage = NO_USAGE
    """Usage that no record has yet."""


NO_ATTEMPT: Final = AttemptEnd()


def after(unit: Unit, end: AttemptEnd, outcome: Failure | Later | None, facts: Facts) -> Draft:
    """An attempt at a subtask, or a team's, has ended without a result, in this way."""
    reason = cut_off(unit) or ("" if facts.is_wanted else UNWANTED)
    if isinstance(outcome, Failure):
        # Where nobody waits for it any longer there will be no other attempt.
        return given_up(unit, outcome, end) if reason else failed(unit, outcome, end, facts)
    if reason:
        unknown = outcome is NEUTRAL and end.began
        return draft(unit, task_events.SubtaskCancelled, reason, unknown, end.worker, usage=end.usage)
    if isinstance(outcome, Later):
        return _later(unit, end, outcome, facts)
    why = WITHDRAWN if not end.began else "preempted" if end.why == "preempt" else "stopped"
    return draft(unit, task_events.SubtaskRequeued, why, end.worker, usage=end.usage)


def cut_off(unit: Unit) -> str:
    """Say why the task, or a team, that a unit is a part of is ending; nothing if it is not."""
    for each in unit.over:
        if each.course is not None and each.course.ending is not None:
            return each.course.ending.kind
    return ""


def _later(unit: Unit, end: AttemptEnd, later: Later, facts: Facts) -> Draft:
    laters = unit.standing.laters + 1
    if laters > MAX_LATERS:
        last = f". The last time: {later.why}" if later.why else ""
        error = Failed(f"{end.worker} has put it off {laters} times; {MAX_LATERS} are the most for one subtask{last}")
        return failed(unit, Failure(FailureKind.FAILED, error, retryable=False), end, facts)
    due = facts.now + max(0.0, float(later.after_s))
    text = f"not now: {later.why}" if later.why else "not now"
    again = _again(unit, end, "later", text, due, replace(unit.standing, laters=laters))
    return again.with_fields(keeps_steps=True) if isinstance(later, PutOff) else again


def failed(unit: Unit, failure: Failure, end: AttemptEnd, facts: Facts) -> Draft:
    """An attempt has failed, or could not even be made: the ladder says what follows."""
    is_work, standing = unit.role == "work", unit.standing
    if is_work and cut_off(unit):
        return given_up(unit, failure, end)  # no ladder is climbed under an end
    worker = end.worker or standing.target or unit.spec.worker
    if failure.kind is FailureKind.REJECTED and end.worker is not None and not failure.over_budget and is_work:
        standing = replace(standing, rejected=(*standing.rejected, end.worker), target=None)
        return _again(unit, end, FailureKind.REJECTED.value, failure.text, facts.now, standing)
    if failure.kind is FailureKind.ESCALATED:
        is_approved = not failure.resumes and (worker, failure.text) in unit.remarks.approved
        ask = None if is_approved else _asked_for(ladder_of(unit, worker, facts), standing, failure.question)
        if ask is not None:
            ask = ask._replace(standing=replace(standing, asked=(ask.standing.rung, ask.standing.questions)))
            return _escalated(unit, failure, end, ask, facts)
        failure = _unasked(failure, worker, is_approved=is_approved)
    return _climbed(unit, failure, end, facts, standing, worker)


def _asked_for(ladder: Ladder, standing: LadderPosition, question: str) -> AskPerson | None:
    """Find the rung that asks a person, where a worker asked for one itself; None: there is none.

    The one that has asked before comes first: it lasts for the unit, as long as it has questions left.
    """
    rung, questions = standing.asked
    for number in range(max(standing.rung, rung), len(ladder)):
        position = replace(standing, rung=number, tries=0, questions=questions if number == rung else 0)
        asks = ladder[number].ask(position, question)
        if asks is not None:
            return asks
    return None


def _unasked(failure: Failure, worker: str | None, *, is_approved: bool) -> Failure:
    """A worker wanted a person to be asked, and nobody is: say why, and what to do about it."""
    if is_approved:
        why = (
            "asked again after a person had approved it. The attempt that follows an answer finds it in "
            "context.answers: look there before you raise Escalated"
        )
    else:
        why = (
            "nobody is asked, because its ladder has no Escalate rung left. "
            f"Add Escalate() to on_failure= of {worker!r} or of Tasks, or raise its max_questions="
        )
    said = failure.told or text_of(failure.error)
    told = f"{said} ({why})" if ": " in said else f"{said}: {why}"
    return replace(failure, told=told, may_ask=False, retryable=failure.retryable and not is_approved)


def _climbed(
    unit: Unit, failure: Failure, end: AttemptEnd, facts: Facts, standing: LadderPosition, worker: str | None
) -> Draft:
    """Climb the ladder from ``standing``, after a failure of an attempt that ``worker`` had."""
    lane = LaneKey(unit.scope, unit.spec.worker, None if unit.spec.worker is not None else unit.spec.capability)

    def successor(tried: tuple[str, ...]) -> str | None:
        return facts.workers.successor(lane, tried, standing.rejected, facts.now) if unit.role == "work" else None

    decision = climb(ladder_of(unit, worker, facts), standing, failure, RungFacts(worker, successor, facts.random))
    if isinstance(decision, AskPerson):
        return _escalated(unit, failure, end, decision, facts)
    if decision is None:
        return given_up(unit, failure, end)
    feedback = failure.text if failure.kind is FailureKind.INVALID else ""
    delay_s = max(decision.delay_s, float(failure.error.after_s) if isinstance(failure.error, Later) else 0.0)
    again = _again(unit, end, failure.kind.value, failure.text, facts.now + delay_s, decision.standing)
    return again.with_fields(feedback=feedback, where=failure.where)


def climb(ladder: Ladder, standing: LadderPosition, failure: Failure, facts: RungFacts) -> Decision | None:
    """Decide what follows from ``failure``: the first rung from ``standing`` on that knows says so; None: none does.

    A rung whose question was answered has had its turn. Where the worker had asked by it, those before it have not.
    """
    answered = max(standing.rung, standing.asked[0]) if standing.last_chance else -1
    for number in range(standing.rung, len(ladder)):
        position = standing
        if number > standing.rung:
            position = replace(standing, rung=number, tries=0, questions=0, last_chance=number < answered)
        decision = ladder[number].next(position, failure, facts) if number != answered else None
        if decision is not None:
            return decision
    return None


def goes_on_with(following: Draft, unit: Unit) -> bool:
    """Return True if a unit is tried again with the worker that it has failed with."""
    is_again = following.made is task_events.SubtaskRetrying
    return is_again and following.more["standing"].tried == unit.standing.tried


def given_up(unit: Unit, failure: Failure, end: AttemptEnd) -> Draft:
    """Nothing is left to try."""
    if unit.role == "undo":
        return undone(unit, failure.text)
    said = (end.worker or unit.worker, _number_of(unit), failure.kind.value, failure.text)
    return draft(unit, task_events.SubtaskFailed, *said, usage=end.usage, where=failure.where)


def undone(undo: Unit, error: str = "") -> Draft:
    """Record that an undo has succeeded, or was given up: then the effect stays, and the report says so."""
    effect, unit = undo.undoes, undo.above
    assert effect is not None and unit is not None  # noqa: S101, PT018 - an undo has both
    return draft(unit, task_events.Compensated, effect.worker, effect.epoch, error)


def _number_of(unit: Unit) -> int:
    """Number of the attempt that has failed, or could not be made; a question that nobody has answered is none."""
    return unit.made + (unit.status is not SubtaskStatus.WAITING)


def ladder_of(unit: Unit, worker: str | None, facts: Facts) -> Ladder:
    """Find the ladder of a unit.

    Of a subtask its own, its task's, or that of the worker that it was, or would be, given to first. A team that has
    none of its own gets that of the supervisor only if that was given, since its members were tried again. A planner, a
    reviewer or a synthesizer that wants a person to be asked is heard in any case, and so is an undo that failed.
    """
    settings, is_work = facts.settings, unit.role == "work"
    if unit.role in STAGES:
        return (settings.step_retry, *(_asking(settings.on_failure) or (Escalate(),)))
    if is_work:
        above = unit.above.spec.on_failure if unit.above is not None and unit.above.role == "task" else None
        wanted = unit.spec.on_failure if unit.spec.on_failure is not None else above
        if wanted is not None:
            return tuple(wanted)
    first = unit.first if unit.first is not None and unit.first not in unit.standing.rejected else worker
    entry = facts.workers.get(first)
    own = entry.executable.on_failure if entry is not None else None
    if own is None and is_work and entry is not None and entry.is_team:
        return ladder_of_teams(settings)
    found = tuple(settings.on_failure if own is None else own)
    return found if is_work or _asking(found) else (*found, Escalate())


def _asking(ladder: Iterable[Rung]) -> Ladder:
    """Return the rungs that ask a person."""
    return tuple(rung for rung in ladder if rung.ask(FRESH, "") is not None)


def _again(unit: Unit, end: AttemptEnd, kind: str, text: str, due: float, standing: LadderPosition) -> Draft:
    """Record that there will be another attempt."""
    said = (end.worker, _number_of(unit), kind, text, due)
    return draft(unit, task_events.SubtaskRetrying, *said, standing=standing, usage=end.usage)


def asked(unit: Unit, failure: Failure, facts: Facts) -> Draft:
    """Record that a person is asked about results that a review has rejected."""
    ask = _asked_for(ladder_of(unit, None, facts), FRESH, failure.question)
    assert ask is not None  # noqa: S101 - the ladder of a reviewer asks
    return _escalated(unit, failure, NO_ATTEMPT, ask, facts)


def _escalated(unit: Unit, failure: Failure, end: AttemptEnd, ask: AskPerson, facts: Facts) -> Draft:
    """Record that a person is asked what is to be done about it."""
    what = "could not be undone" if unit.role == "undo" else "failed"
    about = f"the {ROLES[unit.role]}" if unit.role in STAGES else unit.subject
    timeout_s = ask.timeout_s if ask.timeout_s is not None or unit.role != "undo" else ASK_UNDO_S
    return draft(
        unit,
        task_events.EscalationRaised,
        f"{facts.state.id}:{unit.subject or 'task'}:{facts.state.raised + 1}",
        ask.question or f"{about} {what}. What now?",
        failure.text,
        None if timeout_s is None else facts.now + timeout_s,
        ask.standing,
        kind=failure.kind.value,
        worker=end.worker,
        state=failure.state,
        resumes=failure.resumes,
        usage=end.usage,
    )


def answered(unit: Unit, facts: Facts) -> Draft | None:
    """Return the record that follows from the last answer about a unit; None: its undo is called once more."""
    event, undoes = unit.answered, unit.role == "undo"
    if event is None:
        return None
    if isinstance(event, task_events.EscalationExpired):
        said = f"nobody answered in time; it had failed: {unit.error}"
        failure = Failure(FailureKind.UNANSWERED, EscalationError(event.escalation, said))
        rung = max(unit.standing.rung, unit.standing.asked[0])  # of the one that has asked
        standing = replace(unit.standing, rung=rung + 1, questions=0)
        return _climbed(unit, failure, NO_ATTEMPT, facts, standing, unit.worker)
    answer, value = event.answer, event.value
    goes_on = unit.kept is not None and unit.kept.goes_on_at is not None
    if answer in {"approve", "respond"} or goes_on:
        return None if undoes else draft(unit, task_events.SubtaskQueued, f"a person said: {answer}")
    if answer == "edit":
        return undone(unit) if undoes else draft(unit, task_events.SubtaskSucceeded, "person", unit.attempt, value)
    said = f"a person said no: {value}" if value else "a person said no"
    if undoes:
        said = f"{said}; it had failed: {unit.error}"
    return given_up(unit, Failure(FailureKind.DENIED, EscalationError(event.escalation, said)), NO_ATTEMPT)
