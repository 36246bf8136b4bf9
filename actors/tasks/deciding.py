"""From the end of an attempt to its record: the facts are collected, ``actors.tasks.trying`` decides, it is recorded.

What follows from the record is done where it is recorded (``actors.tasks.follow``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.tasks import events, trying
from actors.tasks.attempt import Attempt
from actors.tasks.classify import Outcome
from actors.tasks.node import Node
from actors.tasks.outcome import Done, Failure
from actors.tasks.state import TaskState

if TYPE_CHECKING:
    from actors.tasks.orchestrator import Orchestrator


class Deciding:
    """What one orchestrator decides about its subtasks."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._to = orchestrator

    def facts(self) -> trying.Facts:
        """What is known beside a task."""
        to = self._to
        return trying.Facts(to.staff, tuple(to.settings.on_failure), to.time(), to.system.random)

    def ended(self, state: TaskState, node: Node, attempt: Attempt, outcome: Outcome) -> None:
        """An attempt has ended."""
        to = self._to
        if isinstance(outcome, Done):  # there is nothing to decide, and most end like this
            done = (attempt.worker, node.attempt, outcome.value, attempt.take_used(), attempt.tokens)
            to.emit(state, events.SubtaskSucceeded, node.id, *done)
        else:
            began, used = attempt.started is not None, attempt.take_used()
            end = trying.AttemptEnd(attempt.worker, began, attempt.ended_by, used, attempt.counted)
            is_wanted = to.delegating.is_wanted(node)
            to.recording.record(state, trying.after(state, node, end, outcome, self.facts(), is_wanted=is_wanted))
        to.course.look_at_budget(state)
        to.course.advance(state)
        if state.paused:
            to.teamwork.paused(state)

    def failed(self, state: TaskState, node: Node, failure: Failure) -> None:
        """An attempt could not even be made, or was lost and its worker is gone."""
        self._to.recording.record(state, trying.failed(state, node, failure, None, self.facts()))
        self._to.course.advance(state)
