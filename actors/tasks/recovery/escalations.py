"""Questions to people: raised, answered, or too late.

A subtask that waits for an answer holds no slot and no worker. No answer in time is an outcome of its own, never a
denial.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.tasks.journal.questions import Escalation
from actors.tasks.journal.subtask_state import SubtaskState
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.event_base import Draft, draft
from actors.tasks.model.outcome import Failure, FailureKind
from actors.tasks.model.task_errors import EscalationError
from actors.tasks.orchestration.messages import EscalationResponse, TimerFired
from actors.tasks.recovery.retries import Facts, climbed, given_up

if TYPE_CHECKING:
    from actors.tasks.orchestration.orchestrator import Orchestrator


class Escalations:
    """The open questions of one orchestrator's tasks."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._to = orchestrator

    def limit(self, state: TaskState, node: SubtaskState) -> None:
        """See to it that an open question about a subtask ends when its time is up."""
        if node.escalation is not None:
            self.limit_question(state, node.escalation)

    def limit_question(self, state: TaskState, escalation: Escalation) -> None:
        """See to it that an open question ends when its time is up."""
        id_, due = escalation.id, escalation.due
        if due is None:
            return

        def too_late() -> None:
            if id_ in state.escalations and state.final is None:
                self._expired(state, escalation)

        self._to.at(due, lambda: self._hear_answers(too_late))

    def _hear_answers(self, then: Callable[[], None]) -> None:
        """An answer that was given in time counts, also where it is heard later: it may lie in the store."""
        runtime, message = self._to.runtime, TimerFired(self._to.incarnation, then)
        heard = runtime.heard_orders()
        if heard is None:
            then()
            return
        post, started = self._to.port.post, runtime.system.started
        # Orders are passed on once the tree is up, in the order in which they were heard: this comes after them.
        heard.when_done(lambda: started.when_done(lambda: post(message)) if heard.succeeded else None)

    def _expired(self, state: TaskState, escalation: Escalation) -> None:
        kind = task_events.StepUnanswered if escalation.step else task_events.EscalationExpired
        self._to.emit(state, kind, escalation.subtask, escalation.id)
        self._to.lifecycle.advance(state)

    def responded(self, state: TaskState, responded: EscalationResponse) -> None:
        """A person answered."""
        escalation = state.escalations.get(responded.escalation)
        if escalation is None:
            return
        to = self._to
        if responded.given is not None and escalation.due is not None and responded.given >= escalation.due:
            self._expired(state, escalation)
            return
        kind = task_events.StepAnswered if escalation.step else task_events.EscalationAnswered
        to.emit(state, kind, escalation.subtask, escalation.id, responded.answer, responded.value)
        if not to.teams.is_held(state):
            to.lifecycle.advance(state)

    def go_on(self, state: TaskState, node: SubtaskState) -> None:
        """Do what follows from the last answer, or from there being none; of a part that waits, when it goes on."""
        to, event = self._to, node.answered
        if event is None or to.teams.is_held(state):
            return
        if node.compensating is None:
            to.recording.record(state, _decided(state, node, event, to.deciding.facts()))
        else:
            to.compensation.answered(state, node, event)


def _decided(
    state: TaskState,
    node: SubtaskState,
    event: task_events.EscalationAnswered | task_events.EscalationExpired,
    facts: Facts,
) -> Draft:
    """Decide what follows from an answer for a subtask."""
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
