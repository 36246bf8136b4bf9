"""The record that the end of an attempt without a result makes: it counts for nothing, or the ladder is climbed.

Comes in: where the unit stands, how its attempt has ended (``actors.tasks.engine.classify`` says what that means), and
what is known of workers. Goes out: the one record that this makes. It is the same for a subtask, for a team whose part
of the task has failed, for a planner, a reviewer and a synthesizer, and for an undo.

The same for the answer of a person. No answer in time is an outcome of its own, never a denial.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from actors.model.errors import ConfigError, Failed, Later
from actors.tasks.decide import ladder
from actors.tasks.decide.drafts import Draft, Facts, draft
from actors.tasks.execution.error_facts import NEUTRAL, Neutral
from actors.tasks.journal.unit import FRESH, STAGES, WITHDRAWN, Unit
from actors.tasks.model import task_events
from actors.tasks.model.outcome import Failure, FailureKind, PutOff, text_of
from actors.tasks.model.policy import Escalate, Ladder, LadderPosition
from actors.tasks.model.task import NO_USAGE, Usage
from actors.tasks.model.task_errors import EscalationError, NoCapableWorkerError
from actors.tasks.planning.settings import ladder_of_teams
from actors.tasks.scheduling.ready_queue import LaneKey

UNWANTED: Final = "nobody waits for it"
ASK_UNDO_S: Final = 300.0
"""How long a person is asked about an undo that failed, where no ``Escalate`` rung says otherwise."""


class AttemptEnd(NamedTuple):
    """How an attempt has ended, beside its outcome."""

    worker: str
    began: bool
    why: str | None = None
    """Why it was ended from outside."""
    usage: Usage = NO_USAGE
    """Usage that no record has yet."""


def after(unit: Unit, end: AttemptEnd, outcome: Failure | Neutral | Later, facts: Facts) -> Draft:
    """An attempt of a unit has ended without a result, in this way."""
    if outcome is NEUTRAL:
        return _neutral(unit, end, facts)
    if isinstance(outcome, Later):
        if unit.role == "work" and is_cut_off(unit):
            return _cancelled(unit, end, reason_of(unit), unknown=False)
        return _later(unit, end, outcome, facts) if facts.is_wanted else _cancelled(unit, end, UNWANTED, unknown=False)
    # Where nobody waits for it any longer there will be no other attempt.
    return failed(unit, outcome, end, facts) if facts.is_wanted else given_up(unit, outcome, end)


def _neutral(unit: Unit, end: AttemptEnd, facts: Facts) -> Draft:
    """Ended for reasons of others: it counts for nothing, and goes on as soon as it can."""
    if unit.role == "work" and is_cut_off(unit):
        return _cancelled(unit, end, reason_of(unit), unknown=end.began)
    if not facts.is_wanted:
        return _cancelled(unit, end, UNWANTED, unknown=end.began)
    reason = WITHDRAWN if not end.began else "preempted" if end.why == "preempt" else "stopped"
    return draft(unit, task_events.SubtaskRequeued, reason, end.worker, usage=end.usage)


def is_cut_off(unit: Unit) -> bool:
    """True where the task, or a team, that a unit is a part of is ending."""
    return unit.above is not None and unit.above.is_ending


def reason_of(unit: Unit) -> str:
    """Say why the task, or the team, that a unit is a part of is ending."""
    above = unit.above.line if unit.above is not None else ()
    endings = (each.course.ending for each in above if each.course is not None)
    return next((ending.kind for ending in endings if ending is not None), "cancel")


def _cancelled(unit: Unit, end: AttemptEnd, reason: str, *, unknown: bool) -> Draft:
    return draft(unit, task_events.SubtaskCancelled, reason, unknown, end.worker, usage=end.usage)


def _later(unit: Unit, end: AttemptEnd, later: Later, facts: Facts) -> Draft:
    laters = unit.standing.laters + 1
    if laters > ladder.MAX_LATERS:
        last = f". The last time: {later.why}" if later.why else ""
        most = ladder.MAX_LATERS
        error = Failed(f"{end.worker} has put it off {laters} times; {most} are the most for one subtask{last}")
        return failed(unit, Failure(FailureKind.FAILED, error, retryable=False), end, facts)
    due = facts.now + max(0.0, float(later.after_s))
    text = f"not now: {later.why}" if later.why else "not now"
    again = _again(unit, end, "later", text, due, replace(unit.standing, laters=laters))
    return again.with_fields(keeps_steps=True) if isinstance(later, PutOff) else again


def failed(unit: Unit, failure: Failure, end: AttemptEnd | None, facts: Facts) -> Draft:
    """An attempt has failed, or (with no ``end``) could not even be made: the ladder says what follows."""
    if unit.role == "work" and is_cut_off(unit):
        return given_up(unit, failure, end)  # no ladder is climbed under an end
    if failure.kind is FailureKind.REJECTED and end is not None and not failure.over_budget and unit.role == "work":
        standing = replace(unit.standing, rejected=(*unit.standing.rejected, end.worker), target=None)
        return _again(unit, end, FailureKind.REJECTED.value, failure.text, facts.now, standing)
    if failure.kind is FailureKind.ESCALATED:
        worker = _worker_of(unit, end)
        rungs = ladder_of(unit, worker, facts)
        is_approved = not failure.resumes and (worker, failure.text) in unit.remarks.approved
        askers = _askers(rungs, facts, unit)
        asked = None if is_approved else ladder.asked_for(askers, unit.standing, failure.question)
        if asked is not None:
            return _escalated(unit, failure, end, asked, facts)
        failure = _unasked(failure, worker, rungs, is_approved=is_approved)
    return climbed(unit, failure, end, facts, unit.standing)


def _unasked(failure: Failure, worker: str | None, rungs: Ladder, *, is_approved: bool) -> Failure:
    """A worker wanted a person to be asked, and nobody is: say why, and what to do about it."""
    if is_approved:
        why = (
            "asked again after a person had approved it. The attempt that follows an answer finds it in "
            "context.answers: look there before you raise Escalated"
        )
    elif all(rung.ask(FRESH, "") is None for rung in rungs):
        where = f"on_failure= of {worker!r}" if worker is not None else "its on_failure="
        why = f"nobody is asked, because its ladder has no Escalate rung. Add Escalate() to {where} or of Tasks"
    else:
        why = (
            "nobody is asked any more: the Escalate rungs of its ladder have had their turn. "
            "Raise max_questions= of Escalate, or add another one behind it"
        )
    said = failure.told or text_of(failure.error)
    told = f"{said} ({why})" if ": " in said else f"{said}: {why}"
    return replace(failure, told=told, may_ask=False, retryable=failure.retryable and not is_approved)


def climbed(unit: Unit, failure: Failure, end: AttemptEnd | None, facts: Facts, standing: LadderPosition) -> Draft:
    """Climb the ladder from ``standing``."""
    lane = LaneKey(unit.scope, unit.spec.worker, None if unit.spec.worker is not None else unit.spec.capability)

    def successor(tried: tuple[str, ...]) -> str | None:
        if unit.role != "work":
            return None
        return facts.workers.successor(lane, tried, standing.rejected, facts.now)

    worker = unit.worker if failure.kind is FailureKind.UNANSWERED else _worker_of(unit, end)
    rungs = ladder_of(unit, worker, facts)
    decision = ladder.climb(rungs, standing, failure, worker, successor, facts.random)
    if isinstance(decision, ladder.TryAgain):
        feedback = failure.text if failure.kind is FailureKind.INVALID else ""
        delay_s = max(decision.delay_s, float(failure.error.after_s) if isinstance(failure.error, Later) else 0.0)
        again = _again(unit, end, failure.kind.value, failure.text, facts.now + delay_s, decision.standing)
        following = _number_of(unit, failure.kind.value) + 1
        most = ladder.last_attempt(rungs, decision.standing, following)
        return again.with_fields(max_attempts=most, feedback=feedback, where=failure.where)
    if isinstance(decision, ladder.AskPerson):
        return _escalated(unit, failure, end, decision, facts)
    most = ladder.last_attempt(rungs, standing, _last_number(unit, end))
    return given_up(unit, failure, end).with_fields(max_attempts=most, where=failure.where)


def goes_on_with(following: Draft, unit: Unit) -> bool:
    """Return True if a unit is tried again with the worker that it has failed with."""
    is_again = following.made is task_events.SubtaskRetrying
    return is_again and following.more["standing"].tried == unit.standing.tried


def given_up(unit: Unit, failure: Failure, end: AttemptEnd | None) -> Draft:
    """Nothing is left to try."""
    if unit.role == "undo":
        return _stands(unit, failure.text)
    worker = end.worker if end is not None else unit.worker
    number = _last_number(unit, end)
    said = (worker, number, failure.kind.value, failure.text)
    return draft(unit, task_events.SubtaskFailed, *said, usage=end.usage if end is not None else NO_USAGE)


def _stands(unit: Unit, why: str) -> Draft:
    """Record that the effect of an undo that was given up stays; the report says so."""
    effect = unit.undoes
    assert effect is not None and unit.above is not None  # noqa: S101, PT018 - an undo has both
    return draft(unit.above, task_events.Compensated, effect.worker, effect.epoch, why)


def undone(unit: Unit) -> Draft:
    """Record that an undo has succeeded; ``unit`` is the undo."""
    effect, above = unit.undoes, unit.above
    assert effect is not None and above is not None  # noqa: S101, PT018 - an undo has both
    return draft(above, task_events.Compensated, effect.worker, effect.epoch)


def _last_number(unit: Unit, end: AttemptEnd | None) -> int:
    """Number of the attempt after which nothing is left to try."""
    return max(unit.attempt, unit.made + (end is not None or unit.status == "queued"))


def _number_of(unit: Unit, kind: str) -> int:
    """Number of the attempt that has failed."""
    return unit.made + (kind != FailureKind.UNANSWERED.value)  # that was a question, and no attempt


def _worker_of(unit: Unit, end: AttemptEnd | None) -> str | None:
    return end.worker if end is not None else unit.standing.target or unit.spec.worker


def ladder_of(unit: Unit, worker: str | None, facts: Facts) -> Ladder:
    """Find the ladder of a unit.

    Of a subtask its own, its task's, or that of the worker that it was, or would be, given to first. A team that has
    none of its own gets that of the supervisor only if that was given, since its members were tried again.
    """
    if unit.role in STAGES:
        return (facts.settings.step_retry,)
    entry = None
    if unit.role == "work":
        spec, standing = unit.spec, unit.standing
        above = unit.above.spec.on_failure if unit.above is not None and unit.above.role == "task" else None
        asked = spec.on_failure if spec.on_failure is not None else above
        if asked is not None:
            return tuple(asked)
        begun_with = unit.first if unit.first not in standing.rejected else None
        first = standing.tried[0] if standing.tried else begun_with or worker
        if first is None:
            able = facts.workers.primaries(LaneKey(unit.scope, spec.worker, spec.capability))
            first = next((each.id for each in able), None)
        entry = facts.workers.get(first)
    elif unit.undoes is not None:
        entry = facts.workers.get(unit.undoes.worker)
    own = entry.executable.on_failure if entry is not None else None
    if own is None and unit.role == "work" and entry is not None and entry.is_team:
        return ladder_of_teams(facts.settings)
    found = tuple(own if own is not None else facts.settings.on_failure)
    if unit.role == "undo" and all(rung.ask(FRESH, "") is None for rung in found):
        return (*found, Escalate())  # what could not be undone is told to a person in any case
    return found


def _askers(rungs: Ladder, facts: Facts, unit: Unit) -> Ladder:
    """Return the rungs that ask a person, where a worker wants one to be asked.

    A planner, a reviewer or a synthesizer is heard in any case: by the first rung of its supervisor that asks.
    """
    if unit.role not in STAGES:
        return rungs
    return tuple(rung for rung in facts.settings.on_failure if rung.ask(FRESH, "") is not None) or (Escalate(),)


def _again(unit: Unit, end: AttemptEnd | None, kind: str, text: str, due: float, standing: LadderPosition) -> Draft:
    """Record that there will be another attempt."""
    return draft(
        unit,
        task_events.SubtaskRetrying,
        end.worker if end is not None else None,
        _number_of(unit, kind),
        kind,
        text,
        due,
        standing=standing,
        usage=end.usage if end is not None else NO_USAGE,
    )


def _escalated(unit: Unit, failure: Failure, end: AttemptEnd | None, ask: ladder.AskPerson, facts: Facts) -> Draft:
    """A person is asked what is to be done about it."""
    what = "could not be undone" if unit.role == "undo" else "failed"
    about = unit.above.id if unit.role == "undo" and unit.above is not None else unit.id
    timeout_s = ask.timeout_s if ask.timeout_s is not None or unit.role != "undo" else ASK_UNDO_S
    return draft(
        unit,
        task_events.EscalationRaised,
        facts.question,
        ask.question or f"{about} {what}. What now?",
        failure.text,
        None if timeout_s is None else facts.now + timeout_s,
        ask.standing,
        kind=failure.kind.value,
        worker=end.worker if end is not None else None,
        state=failure.state,
        resumes=failure.resumes,
        usage=end.usage if end is not None else NO_USAGE,
    )


ANSWERS_OF_A_PLANNER = (NoCapableWorkerError, ConfigError)
"""Errors of a planner that are about the plan: an answer, and no failure."""


def answered(unit: Unit, facts: Facts) -> Draft | None:
    """Return the record that follows from the last answer about a unit; None: its undo is called once more."""
    event = unit.answered
    if event is None:
        return None
    if isinstance(event, task_events.EscalationExpired):
        return _expired(unit, event, facts)
    answer, value, undoes = event.answer, event.value, unit.role == "undo"
    goes_on = unit.kept is not None and unit.kept.goes_on_at is not None
    if answer in {"approve", "respond"} or goes_on:
        return None if undoes else draft(unit, task_events.SubtaskQueued, f"a person said: {answer}")
    if answer == "edit":
        return undone(unit) if undoes else draft(unit, task_events.SubtaskSucceeded, "person", unit.attempt, value)
    said = f"a person said no: {value}" if value else "a person said no"
    if undoes:
        said = f"{said}; it had failed: {unit.error}"
    return given_up(unit, Failure(FailureKind.DENIED, EscalationError(event.escalation, said)), None)


def _expired(unit: Unit, event: task_events.EscalationExpired, facts: Facts) -> Draft:
    said = f"nobody answered in time; it had failed: {unit.error}"
    failure = Failure(FailureKind.UNANSWERED, EscalationError(event.escalation, said))
    if unit.role == "undo":
        return given_up(unit, failure, None)
    standing = replace(unit.standing, rung=unit.standing.rung + 1, questions=0)
    return climbed(unit, failure, None, facts, standing)
