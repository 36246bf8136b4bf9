"""The course of a task: plan, run, review, combine, and how it ends.

Comes in: what happened to one task. Goes out: records, and what is to be started. Every change goes through
``advance``, which has what is next decided from where the task stands (``actors.tasks.recovery.next_step``) and carries
it out; it is idempotent, so that a new incarnation calls it for every task that it has folded. Failing a subtask may
end its task: so the end is looked for after every change.

What is done for a task by parts that are made later than this one goes through ``FollowUpHandlers``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.tasks.journal.reopening import barring
from actors.tasks.journal.subtask_state import SubtaskState
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.event_base import Draft
from actors.tasks.model.task import PENDING, QUEUED, RUNNING, TaskStatus
from actors.tasks.recovery import endings
from actors.tasks.recovery.follow import FollowUp, pending
from actors.tasks.recovery.next_step import Step, Wait, next_of

if TYPE_CHECKING:
    from actors.execution.timers import Timer
    from actors.tasks.orchestration.attempt_control import AttemptControl
    from actors.tasks.orchestration.follow_up_handlers import FollowUpHandlers
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore
    from actors.tasks.orchestration.recording import Recording
    from actors.tasks.orchestration.stages import TaskStages
    from actors.tasks.orchestration.subtask_queue import SubtaskQueue
    from actors.tasks.orchestration.task_results import TaskResults


class TaskLifecycle:
    """Takes tasks through their phases."""

    def __init__(
        self,
        core: OrchestratorCore,
        recording: Recording,
        queue: SubtaskQueue,
        control: AttemptControl,
        results: TaskResults,
        stages: TaskStages,
        later: FollowUpHandlers,
    ) -> None:
        self._core, self._recording, self._queue, self._control = core, recording, queue, control
        self._results, self._stages, self._later = results, stages, later
        self._deadlines: dict[str, Timer] = {}

    # -- beginning -----------------------------------------------------------------------------------------

    def begin(self, state: TaskState) -> None:
        """A task that is new here."""
        self.watch(state)
        self.advance(state)

    def watch(self, state: TaskState) -> None:
        """End it when its time is up, which does not pass while it is paused.

        Also where it is ending: what runs of it may finish over a budget, and not beyond its time.
        """
        self._unwatch(state)
        if state.deadline is None or state.paused:
            return
        if state.deadline <= self._core.time():
            self._too_late(state)  # before anything of it is begun
        else:
            self._deadlines[state.id] = self._core.at(state.deadline, lambda: self._too_late(state))

    def _unwatch(self, state: TaskState) -> None:
        watched = self._deadlines.pop(state.id, None)
        if watched is not None:
            watched.cancel()

    def _too_late(self, state: TaskState) -> None:
        node = next((node for node in state.nodes.values() if node.status is QUEUED), None)
        why = self._queue.why_put_off(state, node) if node is not None else ""
        waited = f"; {node.id} waited: {why}" if node is not None and why else ""
        self.end(state, TaskStatus.FAILED, "deadline", f"its time is up{waited}")

    def resume(self, state: TaskState) -> None:
        """A task from the journal: what it waits for is waited for again, and what was recorded last has its effect."""
        if state.final is not None:
            self.over(state)
            return
        if self._later.parts.teams.hold_until_wanted(state):
            return
        for follow_up, node in pending(state):
            self._later.carry_out(follow_up, state, node)
        self._later.limit_questions(state)
        if state.paused:
            self._later.parts.teams.paused(state)
        if state.ending is not None and state.ending.kind != "subtask":
            self._end_all(state)
        self.begin(state)

    def advance(self, state: TaskState) -> None:
        """Do what follows from where a task stands now."""
        if state.final is not None:
            return
        self._later.look_at_asks(state)
        if state.ready:
            self._queue_ready(state)
        if state.barred:
            self._skip_barred(state)
        if state.open and state.phase == "running" and not state.review.each:
            return  # as most changes leave it: subtasks run, and no step is due before they have ended
        following = next_of(state, self._results.facts(state, is_busy=self._stages.is_busy(state)))
        if isinstance(following, Draft):
            self._recording.record(state, following)
        elif isinstance(following, Wait):
            self._wait(state, following.due)
        elif following is Step.UNDO:
            self._later.parts.undo.advance(state)
        elif following is not None:
            self._stages.call(state, following)

    def _queue_ready(self, state: TaskState) -> None:
        ready, state.ready = state.ready, []
        for node in ready:
            if node.status is not PENDING or node.missing:
                continue  # it was taken care of: a fold has those of before a revision
            if state.ending is None:
                self._recording.emit(state, task_events.SubtaskQueued, node.id)
            else:
                self._recording.record(state, endings.skipped(node, state.ending.kind))

    def _skip_barred(self, state: TaskState) -> None:
        """Skip what is to run again and needs what has failed before, and whatever needs that."""
        barred, state.barred = state.barred, []
        for node in barred:
            gone = barring(state, node)
            if node.status is PENDING and gone is not None and state.ending is None:
                self._recording.record(state, endings.barred(node, gone))
                self._later.carry_out(FollowUp.SKIP, state, node)

    def _record(self, state: TaskState, draft: Draft | None) -> None:
        if draft is not None:
            self._recording.record(state, draft)

    def _wait(self, state: TaskState, due: float) -> None:
        """Call a step that has failed again, when its time has come."""

        def again() -> None:
            if state.stage.due == due and state.final is None:
                self.advance(state)

        self._core.at(due, again)

    # -- subtasks ------------------------------------------------------------------------------------------

    def go_on(self, state: TaskState) -> None:
        """A step has ended, and has used up something, perhaps too much."""
        if not self._later.parts.teams.is_held(state):
            self.look_at_budget(state)
            self.advance(state)

    def look_at_budget(self, state: TaskState) -> None:
        """Something was used up: where it was too much, the task ends with what is done."""
        if state.task.budget is not None:
            self._record(state, endings.over_budget(state))

    # -- ending --------------------------------------------------------------------------------------------

    def cancel(self, state: TaskState, reason: str) -> None:
        """End a task that is not wanted any more. Compensation that is under way goes on."""
        self.end(state, TaskStatus.CANCELLED, "cancel", reason or "somebody cancelled it")

    def prioritize(self, state: TaskState, priority: int) -> None:
        """Give a task another priority."""
        if state.final is None and state.task.priority != priority:
            self._recording.emit(state, task_events.TaskPriorityChanged, priority)

    def end(self, state: TaskState, status: TaskStatus, kind: str, error: str) -> None:
        """End a task that cannot succeed any more: nothing new begins. What runs ends; after a failure it finishes."""
        if state.final is not None:
            return
        if state.ending is not None:
            if kind in {"cancel", "deadline"} and state.phase == "running":
                self._end_running(state)  # after a failure, or over the budget, it was still to finish
            return
        self._recording.emit(state, task_events.TaskEnding, status, kind, error)

    def ended(self, state: TaskState) -> None:
        """Follow the record that a task is ending."""
        if self._later.parts.teams.is_held(state):
            self._later.parts.teams.resume(state)
            return
        self._stages.end(state)
        self._end_all(state)
        self.advance(state)

    def _end_all(self, state: TaskState) -> None:
        kind = state.ending.kind if state.ending is not None else ""
        if kind != "budget":
            self._end_running(state)
        for node in list(state.nodes.values()):
            if not node.is_done and node.status is not RUNNING:
                self._queue.leave(node)
                self._record(state, endings.cut_short(node, kind))

    def _end_running(self, state: TaskState) -> None:
        for node in list(state.nodes.values()):
            if node.status is RUNNING:
                self._control.end_of(node, "cancel")

    def set_aside(self, state: TaskState, node: SubtaskState) -> None:
        """Leave a subtask that nobody waits for now, and perhaps somebody does again, as it stands.

        It is not begun before that. It gives way with its task.
        """
        self._queue.requeue(state, node)
        self._control.set_due(node, self._core.due_of(state, None))
        if state.paused:
            self._control.interrupt(node)

    def asked_again(self, state: TaskState, node: SubtaskState) -> None:
        """Go on with a subtask that somebody waits for again, as long as that one does."""
        self._queue.requeue(state, node)
        self._control.set_due(node, self._core.due_of(state, self._core.runtime.asks.get(node.ask or "")))
        self.advance(state)

    def withdraw(self, state: TaskState, node: SubtaskState) -> None:
        """End a subtask that was asked for and that nobody waits for any longer."""
        if node.is_done:
            return
        if node.status is RUNNING:
            self._control.end_of(node, "withdrawn")
            return
        self._queue.leave(node)
        self._recording.record(state, endings.unwanted(node))
        self.advance(state)

    def over(self, state: TaskState) -> None:
        """Follow the record of the end: let go of the task, and tell its waiters once that is kept."""
        self._unwatch(state)
        self._stages.forget(state)
        self._later.tell_end(state)
