"""From the end of an attempt to its record: the facts are collected, ``retries`` decides, it is recorded.

What follows from the record is done where it is recorded (``actors.tasks.recovery.follow``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.tasks.execution.attempt import Attempt
from actors.tasks.journal.subtask_state import SubtaskState
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.outcome import Done, Failure
from actors.tasks.recovery import retries
from actors.tasks.recovery.classify import Outcome

if TYPE_CHECKING:
    from actors.tasks.orchestration.orchestrator import Orchestrator


class Deciding:
    """Decisions of one orchestrator about its subtasks."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._to = orchestrator

    def facts(self) -> retries.Facts:
        """Facts that a decision needs beside the state of the task."""
        to = self._to
        return retries.Facts(to.workers, tuple(to.settings.on_failure), to.time(), to.system.random)

    def ended(self, state: TaskState, node: SubtaskState, attempt: Attempt, outcome: Outcome, *, counted: bool) -> None:
        """An attempt has ended; ``counted`` says whether its worker's breaker has counted that as a failure."""
        to = self._to
        if isinstance(outcome, Done):  # there is nothing to decide, and most end like this
            done = (attempt.spec.worker, node.attempt, outcome.value, attempt.take_used(), attempt.code_outcome.tokens)
            to.emit(state, task_events.SubtaskSucceeded, node.id, *done)
        else:
            began, used = attempt.started is not None, attempt.take_used()
            end = retries.AttemptEnd(attempt.spec.worker, began, attempt.ended_by, used, counted)
            is_wanted = to.delegation.is_wanted(node)
            to.recording.record(state, retries.after(state, node, end, outcome, self.facts(), is_wanted=is_wanted))
        to.lifecycle.look_at_budget(state)
        to.lifecycle.advance(state)
        if state.paused:
            to.teams.paused(state)

    def failed(self, state: TaskState, node: SubtaskState, failure: Failure) -> None:
        """An attempt could not even be made, or was lost and its worker is gone."""
        self._to.recording.record(state, retries.failed(state, node, failure, None, self.facts()))
        self._to.lifecycle.advance(state)
