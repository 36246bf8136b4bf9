"""The record that the end of an attempt without a result makes: it counts for nothing, or the ladder is climbed.

Comes in: where the subtask stands, how its attempt has ended (``actors.tasks.recovery.classify`` says what that means),
and what is known of workers. Goes out: the one record that this makes. Pure: nothing is started, and no orchestrator is
known here. What the ladder says is decided in ``actors.tasks.recovery.ladder``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from actors.model.errors import Failed, Later
from actors.model.spec import RandomSource
from actors.tasks.journal.effect_record import UNBEGUN
from actors.tasks.journal.subtask_state import FRESH, UNWANTED, SubtaskState
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.event_base import Draft, draft
from actors.tasks.model.outcome import Failure, FailureKind, PutOff, text_of
from actors.tasks.model.policy import Ladder
from actors.tasks.model.task import NO_USAGE, SubtaskStatus, Usage
from actors.tasks.recovery import ladder
from actors.tasks.recovery.classify import NEUTRAL, Neutral
from actors.tasks.scheduling.ready_queue import LaneKey
from actors.tasks.scheduling.worker_registry import WorkerRegistry


class AttemptEnd(NamedTuple):
    """How an attempt has ended, beside its outcome."""

    worker: str
    began: bool
    why: str | None
    """Why it was ended from outside."""
    usage: Usage
    """Usage that no record has yet."""


class Facts(NamedTuple):
    """Facts beside the state of the task."""

    workers: WorkerRegistry
    ladder: Ladder
    """The supervisor's, for workers without one."""
    now: float
    """Seconds since 1970."""
    random: RandomSource
    ladder_of_teams: Ladder = ()
    """The supervisor's, for teams without one."""


def after(
    state: TaskState,
    node: SubtaskState,
    end: AttemptEnd,
    outcome: Failure | Neutral | Later,
    facts: Facts,
    *,
    is_wanted: bool,
) -> Draft:
    """An attempt has ended without a result; ``is_wanted`` says whether somebody waits for its subtask."""
    if outcome is NEUTRAL:
        return _neutral(state, node, end, is_wanted=is_wanted)
    if isinstance(outcome, Later):
        if not is_wanted:
            return _cancelled(node, end, UNWANTED, unknown=False)
        return _later(state, node, end, outcome, facts)
    # Where nobody waits for it any longer there will be no other attempt.
    return failed(state, node, outcome, end, facts) if is_wanted else given_up(node, outcome, end)


def _neutral(state: TaskState, node: SubtaskState, end: AttemptEnd, *, is_wanted: bool) -> Draft:
    """Ended for reasons of others: it counts for nothing, and goes on as soon as it can."""
    if state.ending is not None:
        return _cancelled(node, end, state.ending.kind, unknown=end.began)
    if not is_wanted:
        return _cancelled(node, end, UNWANTED, unknown=end.began)
    if end.why == "preempt" and end.began:
        return draft(task_events.SubtaskPreempted, node.id, end.worker, end.usage)
    ended = "nobody waited for it, and somebody does again" if end.why == "withdrawn" else f"{end.worker} was stopped"
    return draft(task_events.SubtaskPutBack, node.id, ended if end.began else UNBEGUN, end.usage, end.worker)


def _cancelled(node: SubtaskState, end: AttemptEnd, reason: str, *, unknown: bool) -> Draft:
    return draft(task_events.SubtaskCancelled, node.id, reason, unknown, end.usage, end.worker)


def _later(state: TaskState, node: SubtaskState, end: AttemptEnd, later: Later, facts: Facts) -> Draft:
    laters = node.standing.laters + 1
    if laters > ladder.MAX_LATERS:
        most = ladder.MAX_LATERS
        last = f". The last time: {later.why}" if later.why else ""
        error = Failed(f"{end.worker} has put it off {laters} times; {most} are the most for one subtask{last}")
        return failed(state, node, Failure(FailureKind.FAILED, error, retryable=False), end, facts)
    due = facts.now + max(0.0, float(later.after_s))
    text = f"not now: {later.why}" if later.why else "not now"
    again = _again(node, end, "later", text, due, replace(node.standing, laters=laters))
    return again.with_fields(keeps_steps=True) if isinstance(later, PutOff) else again


def failed(state: TaskState, node: SubtaskState, failure: Failure, end: AttemptEnd | None, facts: Facts) -> Draft:
    """An attempt has failed, or (with no ``end``) could not even be made: the ladder says what follows."""
    if state.ending is not None:
        return given_up(node, failure, end)
    if failure.kind is FailureKind.REJECTED and end is not None and not failure.over_budget:
        standing = replace(node.standing, rejected=(*node.standing.rejected, end.worker), target=None)
        return _again(node, end, FailureKind.REJECTED.value, failure.text, facts.now, standing)
    if failure.kind is FailureKind.ESCALATED:
        worker = _worker_of(node, end)
        rungs = _ladder_of(state, node, worker, facts)
        is_approved = not failure.resumes and (worker, failure.text) in node.revisions.approved
        asked = None if is_approved else ladder.asked_for(rungs, node.standing, failure.question)
        if asked is not None:
            return _escalated(state, node, failure, end, asked, facts)
        failure = unasked(failure, worker, rungs, is_approved=is_approved)
    return climbed(state, node, failure, end, facts, node.standing)


def unasked(failure: Failure, worker: str | None, rungs: Ladder, *, is_approved: bool) -> Failure:
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


def climbed(
    state: TaskState,
    node: SubtaskState,
    failure: Failure,
    end: AttemptEnd | None,
    facts: Facts,
    standing: task_events.LadderPosition,
) -> Draft:
    """Climb the ladder from ``standing``."""
    lane = LaneKey(node.spec.worker, None if node.spec.worker is not None else node.spec.capability)

    def successor(tried: tuple[str, ...]) -> str | None:
        return facts.workers.successor(lane, tried, standing.rejected, facts.now)

    worker = node.worker if failure.kind is FailureKind.UNANSWERED else _worker_of(node, end)
    rungs = _ladder_of(state, node, worker, facts)
    decision = ladder.decide(rungs, standing, failure, worker, successor, facts.random)
    if isinstance(decision, ladder.TryAgain):
        feedback = failure.text if failure.kind is FailureKind.INVALID else ""
        due = facts.now + decision.delay_s
        again = _again(node, end, failure.kind.value, failure.text, due, decision.standing, feedback=feedback)
        following = _number_of(node, failure.kind.value) + 1
        most = ladder.last_attempt(rungs, decision.standing, following)
        return again.with_fields(max_attempts=most, where=failure.where)
    if isinstance(decision, ladder.AskPerson):
        return _escalated(state, node, failure, end, decision, facts)
    most = ladder.last_attempt(rungs, standing, _last_number(node, end))
    return given_up(node, failure, end).with_fields(max_attempts=most, where=failure.where)


def goes_on_with(following: Draft, node: SubtaskState) -> bool:
    """Return True if a subtask is tried again with the worker that it has failed with."""
    return following.made is task_events.SubtaskRetrying and following.more["standing"].tried == node.standing.tried


def given_up(node: SubtaskState, failure: Failure, end: AttemptEnd | None) -> Draft:
    """Nothing is left to try."""
    worker = end.worker if end is not None else node.worker
    number = _last_number(node, end)
    said = (failure.kind.value, failure.text, _usage(end))
    return draft(task_events.SubtaskFailed, node.id, worker, number, *said)


def _last_number(node: SubtaskState, end: AttemptEnd | None) -> int:
    """Number of the attempt after which nothing is left to try."""
    return max(node.attempt, node.made + (end is not None or node.status is SubtaskStatus.QUEUED))


def _number_of(node: SubtaskState, kind: str) -> int:
    """Number of the attempt that has failed."""
    return node.made + (kind != FailureKind.UNANSWERED.value)  # that was a question, and no attempt


def _worker_of(node: SubtaskState, end: AttemptEnd | None) -> str | None:
    return end.worker if end is not None else node.standing.target or node.spec.worker


def _usage(end: AttemptEnd | None) -> Usage:
    return end.usage if end is not None else NO_USAGE


def _ladder_of(state: TaskState, node: SubtaskState, worker: str | None, facts: Facts) -> Ladder:
    """Find its own ladder, or its task's, or that of the worker that it was, or would be, given to, or the team's."""
    spec, standing = node.spec, node.standing
    asked = spec.on_failure if spec.on_failure is not None else state.task.on_failure
    if asked is not None:
        return tuple(asked)
    begun_with = node.first if node.first not in standing.rejected else None
    first = standing.tried[0] if standing.tried else begun_with or worker
    if first is None:
        able = facts.workers.primaries(LaneKey(spec.worker, spec.capability))
        first = next((entry.id for entry in able), None)
    entry = facts.workers.get(first)
    own = entry.executable.on_failure if entry is not None else None
    above = facts.ladder_of_teams if entry is not None and entry.is_team else facts.ladder
    return tuple(own if own is not None else above)


def _again(
    node: SubtaskState,
    end: AttemptEnd | None,
    kind: str,
    text: str,
    due: float,
    standing: task_events.LadderPosition,
    *,
    feedback: str = "",
) -> Draft:
    """Record that there will be another attempt."""
    return draft(
        task_events.SubtaskRetrying,
        node.id,
        end.worker if end is not None else None,
        _number_of(node, kind),
        kind,
        text,
        due,
        standing=standing,
        usage=_usage(end),
        feedback=feedback,
    )


def _escalated(
    state: TaskState, node: SubtaskState, failure: Failure, end: AttemptEnd | None, ask: ladder.AskPerson, facts: Facts
) -> Draft:
    """A person is asked what is to be done about it."""
    return draft(
        task_events.EscalationRaised,
        node.id,
        f"{state.id}:{node.id}:{state.raised + 1}",
        ask.question or f"{node.id} failed. What now?",
        failure.text,
        None if ask.timeout_s is None else facts.now + ask.timeout_s,
        ask.standing,
        usage=_usage(end),
        kind=failure.kind.value,
        worker=end.worker if end is not None else None,
        state=failure.state,
        resumes=failure.resumes,
    )
