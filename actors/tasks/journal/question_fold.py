"""The part of the fold that has to do with people: a question is raised, answered, or too late.

Part of the fold (``actors.tasks.journal.task_state``). Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from actors.tasks.journal.questions import Escalation, KeptState
from actors.tasks.journal.step_fold import step_over
from actors.tasks.model import task_events
from actors.tasks.model.outcome import FailureKind
from actors.tasks.model.task import SubtaskStatus

if TYPE_CHECKING:
    from actors.tasks.journal.task_state import TaskState


def _raised(state: TaskState, event: task_events.EscalationRaised) -> None:
    node = state.nodes[event.subtask]
    state.raised += 1
    escalation = state.escalations[event.escalation] = Escalation(event)
    node.escalation, node.answered = escalation, None
    if event.state is not None:
        goes_on_at = node.standing if event.resumes and not event.undoing else None
        node.kept = KeptState(event.worker, state.events - 1, event.escalation, event.undoing, goes_on_at)
    elif event.undoing or event.kind == FailureKind.ESCALATED.value:
        node.kept = None  # its worker asks something else
    elif node.kept is not None:
        node.kept = node.kept._replace(goes_on_at=None)  # its ladder asks, about what has failed since
    if event.undoing:
        node.undo_error = event.error
        step_over(state)
        return
    state.attempt_over(node, event)
    node.made = max(node.made, node.attempt)
    node.status, node.standing, node.due = SubtaskStatus.WAITING, event.standing, event.due
    state.spend(node, event.usage)


def _answered(state: TaskState, event: task_events.EscalationAnswered) -> None:
    node = state.nodes[event.subtask]
    closed = close_question(state, event.escalation)
    node.answered = event
    if closed is None or not closed.undoing:
        node.is_told(event)
    elif node.compensating is not None:  # it is about the undo, and no word about the work
        node.compensating.answers = (*node.compensating.answers, event)
    if node.kept is not None and node.kept.goes_on_at is not None:
        node.standing = node.kept.goes_on_at
    elif event.answer in {"approve", "respond"}:
        node.act += 1
        node.standing = replace(node.standing, tries=0, last_chance=True)


def _expired(state: TaskState, event: task_events.EscalationExpired) -> None:
    node = state.nodes[event.subtask]
    close_question(state, event.escalation)
    node.answered = event
    node.kind = FailureKind.UNANSWERED.value


def close_question(state: TaskState, id_: str) -> Escalation | None:
    """Take a question off the list; None: it is not on it."""
    escalation = state.escalations.pop(id_, None)
    if escalation is not None:
        state.nodes[escalation.subtask].escalation = None
    return escalation


APPLY_QUESTIONS: Final[dict[type[task_events.TaskEvent], Callable[[TaskState, Any], None]]] = {
    task_events.EscalationRaised: _raised,
    task_events.EscalationAnswered: _answered,
    task_events.EscalationExpired: _expired,
}
