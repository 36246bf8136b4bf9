"""Answers of people, and none in time: what follows from them for a subtask. Pure.

No answer in time is an outcome of its own, never a denial. Questions are raised, limited and heard in
``actors.tasks.orchestration.open_questions``.
"""

from __future__ import annotations

from dataclasses import replace

from actors.tasks.journal.subtask_state import SubtaskState
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.event_base import Draft, draft
from actors.tasks.model.outcome import Failure, FailureKind
from actors.tasks.model.task_errors import EscalationError
from actors.tasks.recovery.retries import Facts, climbed, given_up


def decided(
    state: TaskState,
    node: SubtaskState,
    event: task_events.EscalationAnswered | task_events.EscalationExpired,
    facts: Facts,
) -> Draft:
    """Return the record that follows from an answer for a subtask, or from there being none in time."""
    if isinstance(event, task_events.EscalationExpired):
        said = f"nobody answered in time; it had failed: {node.error}"
        failure = Failure(FailureKind.UNANSWERED, EscalationError(event.escalation, said))
        standing = replace(node.standing, rung=node.standing.rung + 1, questions=0)
        return climbed(state, node, failure, None, facts, standing)
    answer, value = event.answer, event.value
    goes_on = node.kept is not None and node.kept.goes_on_at is not None
    if goes_on or answer in {"approve", "respond"}:
        return draft(task_events.SubtaskQueued, node.id, f"a person said: {answer}")
    if answer == "edit":
        return draft(task_events.SubtaskSucceeded, node.id, "person", node.attempt, value)
    denied = EscalationError(event.escalation, f"a person said no: {value}" if value else "a person said no")
    return given_up(node, Failure(FailureKind.DENIED, denied), None)
