"""Questions to people: raised, answered, or too late.

A subtask that waits for an answer holds no slot and no worker. No answer in time is an outcome of its own, never a
denial.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.tasks import events
from actors.tasks.attempt import Attempt
from actors.tasks.errors import EscalationError
from actors.tasks.hears import Due, Responded
from actors.tasks.ladder import AskPerson
from actors.tasks.node import Node
from actors.tasks.outcome import Failure, Kind
from actors.tasks.state import TaskState
from actors.tasks.trying import used

if TYPE_CHECKING:
    from actors.tasks.orchestrator import Orchestrator


class People:
    """The open questions of one orchestrator's tasks."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._to = orchestrator

    def escalate(
        self,
        state: TaskState,
        node: Node,
        failure: Failure,
        attempt: Attempt | None,
        ask: AskPerson,
    ) -> None:
        """Ask a person what is to be done about a subtask."""
        to, now = self._to, self._to.time()
        due = None if ask.timeout_s is None else now + ask.timeout_s
        id_ = f"{state.id}:{node.id}:{state.raised + 1}"
        text = ask.question or f"{node.id} failed. What now?"
        to.emit(
            state,
            events.EscalationRaised,
            node.id,
            id_,
            text,
            failure.text,
            due,
            ask.standing,
            usage=used(attempt),
            kind=failure.kind.value,
            worker=attempt.worker if attempt is not None else None,
            counted=attempt is not None and attempt.counted,
        )
        self.limit(state, node)
        if attempt is None:
            to.course.advance(state)

    def resume(self, state: TaskState, node: Node) -> None:
        """Of a new incarnation: a question is still open, or nothing has followed from its answer yet."""
        if node.escalation is not None:
            self.limit(state, node)
        elif node.answered is not None:
            self._follow(state, node, node.answered)

    def limit(self, state: TaskState, node: Node) -> None:
        """See to it that an open question ends when its time is up."""
        escalation = node.escalation
        if escalation is None or escalation.due is None:
            return
        id_ = escalation.id

        def too_late() -> None:
            if id_ in state.escalations and state.final is None:
                self._expired(state, node, id_)

        self._to.at(escalation.due, lambda: self._hear_answers(too_late))

    def _hear_answers(self, then: Callable[[], None]) -> None:
        """An answer that was given in time counts, also where it is heard later: it may lie in the store."""
        ground, message = self._to.ground, Due(self._to.life, then)
        heard = ground.heard_orders()
        if heard is None:
            then()
            return
        post, started = self._to.desk.post, ground.system.started
        # Orders are passed on once the tree is up, in the order in which they were heard: this comes after them.
        heard.when_done(lambda: started.when_done(lambda: post(message)) if heard.succeeded else None)

    def _expired(self, state: TaskState, node: Node, id_: str) -> None:
        to = self._to
        event = to.emit(state, events.EscalationExpired, node.id, id_)
        self._follow(state, node, event)
        to.course.advance(state)

    def _unanswered(self, state: TaskState, node: Node, id_: str) -> None:
        to = self._to
        if node.compensating is not None:
            to.undoing.given_up(state, node, "nobody answered in time")
        else:
            failure = Failure(
                Kind.UNANSWERED, EscalationError(id_, f"nobody answered in time; it had failed: {node.error}")
            )
            standing = replace(node.standing, rung=node.standing.rung + 1)
            to.trying.decide(state, node, failure, None, node.worker, to.trying.ladder_of(node, node.worker), standing)

    def responded(self, state: TaskState, responded: Responded) -> None:
        """A person answered."""
        escalation = state.escalations.get(responded.escalation)
        if escalation is None:
            return
        to, node = self._to, state.nodes[escalation.subtask]
        if responded.given is not None and escalation.due is not None and responded.given >= escalation.due:
            self._expired(state, node, escalation.id)
            return
        answer, value = responded.answer, responded.value
        event = to.emit(state, events.EscalationAnswered, node.id, escalation.id, answer, value)
        if to.teamwork.holds(state):
            return  # what follows is done when it goes on
        self._follow(state, node, event)
        to.course.advance(state)

    def _follow(
        self, state: TaskState, node: Node, event: events.EscalationAnswered | events.EscalationExpired
    ) -> None:
        """Do what follows from an answer, or from there being none."""
        if isinstance(event, events.EscalationExpired):
            self._unanswered(state, node, event.escalation)
            return
        to, answer, value = self._to, event.answer, event.value
        if node.compensating is not None:
            to.undoing.answered(state, node, answer, value)
        elif answer in {"approve", "respond"}:
            to.launching.enqueue(state, node, f"a person said: {answer}")
        elif answer == "edit":
            to.emit(state, events.SubtaskSucceeded, node.id, "person", node.attempt, value)
            to.course.succeeded(state, node)
        else:
            denied = EscalationError(event.escalation, f"a person said no: {value}" if value else "a person said no")
            to.trying.fails(state, node, Failure(Kind.DENIED, denied), None)
