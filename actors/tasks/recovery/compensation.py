"""The record that the end of an undo makes, and the one that a person's answer about it makes.

Comes in: where the task stands, what was undone and how that has ended, and what is known of workers. Goes out: a
record. Pure: undos are called in ``actors.tasks.orchestration.undo_dispatch``, and no orchestrator is known here.

What is undone: all, where the task ends; what a reviewer has sent back and all that had used its results, before that
runs again; what failed subtasks may have done, before another plan is made. With each goes what it had asked for.

One that fails is tried again by the ``Retry`` rungs of its ladder. Then a person is asked, for a limited time: it
cannot hold the task open for ever.
"""

from __future__ import annotations

from actors.model.errors import Later
from actors.tasks.journal.effect_record import EffectRecord
from actors.tasks.journal.subtask_state import SubtaskState, with_dependants
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.event_base import Draft, draft
from actors.tasks.model.outcome import Done, Failure, FailureKind
from actors.tasks.model.policy import Ladder
from actors.tasks.model.task import SubtaskStatus, TaskStatus
from actors.tasks.recovery.retries import Facts

ASK_S = 300.0
"""How long a person is asked about an undo that failed, where no ``Escalate`` rung says otherwise."""


def void(state: TaskState) -> list[SubtaskState]:
    """Subtasks of which all that was done is to be undone now."""
    nodes, rework = state.nodes.values(), state.rework
    if rework is None or state.ending is not None:
        return list(nodes)
    if rework.kind == "revision":
        found = with_dependants(state.nodes[id_] for id_ in rework.rerun)
    else:
        found = [node for node in nodes if node.parent is None and node.status is not SubtaskStatus.SUCCEEDED]
    asked: dict[str, list[SubtaskState]] = {}
    for node in nodes:
        if node.parent is not None:
            asked.setdefault(node.parent, []).append(node)
    for node in found:  # it grows
        found += asked.get(node.id, [])
    return found


def all_undone(state: TaskState) -> Draft:
    """All that was to be undone is, or its undo was given up."""
    if state.ending is not None:
        return draft(task_events.TaskFinished, state.ending.status, state.best_effort)
    stands = [node for node in void(state) if any(act.stands for act in node.acts or ())]
    if not stands:
        return draft(task_events.ReworkBegun)
    names = ", ".join(f"{node.id} ({state.undo_errors.get(node.id, 'not undone')})" for node in stands)
    error = f"it cannot be done again, because what was done could not be undone: {names}"
    return draft(task_events.TaskEnding, TaskStatus.FAILED, "undo", error)


def after(
    state: TaskState,
    node: SubtaskState,
    act: EffectRecord,
    outcome: Done | Failure | Later,
    facts: Facts,
    *,
    nothing: bool,
) -> Draft:
    """An undo has ended; ``nothing`` says that there was nothing to undo."""
    if isinstance(outcome, Done):
        return draft(task_events.Compensated, node.id, act.worker, act.number, nothing=nothing)
    failure = outcome if isinstance(outcome, Failure) else Failure(FailureKind.FAILED, outcome)
    number = node.undo_attempt
    again = (rung.undo_again_s(number, failure, facts.random) for rung in _rungs(act, facts))
    delay_s = next((each for each in again if each is not None), None)
    if delay_s is None:
        return given_to_a_person(state, node, act, failure, facts)
    due = facts.now + delay_s
    return draft(task_events.CompensationRetrying, node.id, act.worker, act.number, number, due, failure.text)


def given_to_a_person(state: TaskState, node: SubtaskState, act: EffectRecord, failure: Failure, facts: Facts) -> Draft:
    """Nothing is left to try."""
    asks = (rung.ask(node.standing, "") for rung in _rungs(act, facts))
    ask = next((each for each in asks if each is not None), None)
    return draft(
        task_events.EscalationRaised,
        node.id,
        f"{state.id}:{node.id}:{state.raised + 1}",
        f"{node.id} could not be undone. What now?",
        failure.text,
        facts.now + (ask.timeout_s if ask is not None and ask.timeout_s is not None else ASK_S),
        node.standing,
        undoing=True,
        kind=failure.kind.value,
        worker=act.worker,
        state=failure.state,
    )


def answered(
    node: SubtaskState, act: EffectRecord, event: task_events.EscalationAnswered | task_events.EscalationExpired
) -> Draft | None:
    """A person has said what is to be done about an undo that failed, or nobody has; None: it is called once more."""
    if isinstance(event, task_events.EscalationExpired):
        return _stands(node, act, "nobody answered in time")
    if event.answer in {"approve", "respond"}:
        return None
    if event.answer == "edit":
        return draft(task_events.Compensated, node.id, act.worker, act.number)
    return _stands(node, act, f"a person said no: {event.value}" if event.value else "a person said no")


def _stands(node: SubtaskState, act: EffectRecord, why: str) -> Draft:
    """Record that an act stays done; the report says so."""
    return draft(task_events.Compensated, node.id, act.worker, act.number, f"{why}; it had failed: {node.undo_error}")


def _rungs(act: EffectRecord, facts: Facts) -> Ladder:
    entry = facts.workers.get(act.worker)
    own = entry.executable.on_failure if entry is not None else None
    return tuple(own if own is not None else facts.ladder)
