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
    from collections.abc import Callable

    from actors.tasks.orchestration.lifecycle import TaskLifecycle
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore
    from actors.tasks.orchestration.recording import Recording


class Deciding:
    """Decisions of one orchestrator about its subtasks."""

    def __init__(
        self,
        core: OrchestratorCore,
        recording: Recording,
        lifecycle: TaskLifecycle,
        is_wanted: Callable[[SubtaskState], bool],
        paused: Callable[[TaskState], None],
    ) -> None:
        """Make them for one incarnation.

        ``is_wanted`` says whether somebody waits for a subtask. ``paused`` is told of a task that gives way, of which
        one attempt less runs.
        """
        self._core, self._recording, self._lifecycle = core, recording, lifecycle
        self._is_wanted, self._paused = is_wanted, paused

    def ended(
        self, state: TaskState, node: SubtaskState, attempt: Attempt, outcome: Outcome, count: Callable[..., bool]
    ) -> None:
        """An attempt has ended.

        ``count(is_left=...)`` tells the breaker of its worker, which counts no failure that is tried again there.
        """
        if isinstance(outcome, Done):  # there is nothing to decide, and most end like this
            count(is_left=True)
            said, used = attempt.code_outcome, attempt.take_used()
            done = (attempt.spec.worker, node.attempt, outcome.value, used, said.tokens, said.best_effort)
            noted = outcome.summary, outcome.importance
            self._recording.emit(state, task_events.SubtaskSucceeded, node.id, *done, *noted)
        else:
            began, used = attempt.started is not None, attempt.take_used()
            end = retries.AttemptEnd(attempt.spec.worker, began, attempt.ended_by, used)
            facts, is_wanted = self._core.facts(), self._is_wanted(node)
            following = retries.after(state, node, end, outcome, facts, is_wanted=is_wanted)
            if count(is_left=not retries.goes_on_with(following, node)):
                following = following.with_fields(counted=True)
            self._recording.record(state, following)
        if state.task.budget is not None:
            self._lifecycle.look_at_budget(state)
        self._lifecycle.advance(state)
        if state.paused:
            self._paused(state)

    def failed(self, state: TaskState, node: SubtaskState, failure: Failure) -> None:
        """An attempt could not even be made, or was lost and its worker is gone."""
        self._recording.record(state, retries.failed(state, node, failure, None, self._core.facts()))
        self._lifecycle.advance(state)
