"""Questions to people: raised, answered, or too late.

A subtask that waits for an answer holds no slot and no worker. What follows from an answer, or from none in time, is
decided in ``actors.tasks.recovery.escalations``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.tasks.journal.questions import Escalation
from actors.tasks.journal.subtask_state import SubtaskState
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.orchestration.messages import EscalationResponse
from actors.tasks.recovery.escalations import decided

if TYPE_CHECKING:
    from actors.tasks.orchestration.lifecycle import TaskLifecycle
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore
    from actors.tasks.orchestration.recording import Recording
    from actors.tasks.orchestration.undo_dispatch import UndoDispatch


class OpenQuestions:
    """The open questions of one orchestrator's tasks."""

    def __init__(
        self,
        core: OrchestratorCore,
        recording: Recording,
        lifecycle: TaskLifecycle,
        undo: UndoDispatch,
        is_held: Callable[[TaskState], bool],
    ) -> None:
        """Make them for one incarnation; ``is_held`` says of a team's part whether it waits for the one above."""
        self._core, self._recording, self._lifecycle = core, recording, lifecycle
        self._undo, self._is_held = undo, is_held

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
            if id_ in self._core.port.answers:
                self._hear_answers(state, too_late)  # an order before this one was its answer, which follows
            elif id_ in state.escalations and state.final is None:
                self._expired(state, escalation)

        self._core.at(due, lambda: self._hear_answers(state, too_late))

    def _hear_answers(self, state: TaskState, then: Callable[[], None]) -> None:
        """An answer that was given in time counts, also where it is heard later: at the port, or in the store.

        So this is one more order at the port, behind all that lie there by then. What was wanted while the orchestrator
        was down lies there when it is up again, and is carried out a part at a time: its timers are faster.
        """
        self._core.after_orders(then, state.id)

    def _expired(self, state: TaskState, escalation: Escalation) -> None:
        kind = task_events.StepUnanswered if escalation.step else task_events.EscalationExpired
        self._recording.emit(state, kind, escalation.subtask, escalation.id)
        self._lifecycle.advance(state)

    def responded(self, state: TaskState, responded: EscalationResponse) -> None:
        """A person answered."""
        escalation = state.escalations.get(responded.escalation)
        if escalation is None:
            return
        if responded.given is not None and escalation.due is not None and responded.given >= escalation.due:
            self._expired(state, escalation)
            return
        kind = task_events.StepAnswered if escalation.step else task_events.EscalationAnswered
        self._recording.emit(state, kind, escalation.subtask, escalation.id, responded.answer, responded.value)
        if not self._is_held(state):
            self._lifecycle.advance(state)

    def go_on(self, state: TaskState, node: SubtaskState) -> None:
        """Do what follows from the last answer, or from there being none; of a part that waits, when it goes on."""
        event = node.answered
        if event is None or self._is_held(state):
            return
        if node.compensating is None:
            self._recording.record(state, decided(state, node, event, self._core.facts()))
        else:
            self._undo.answered(state, node, event)
