"""The course of a task: plan, run, review, combine, and how it ends.

Comes in: what happened to one task. Goes out: records, and what is to be started. Every change goes through
``advance``, which looks at where the task stands and does the next thing; it is idempotent, so that a new incarnation
calls it for every task that it has folded. Failing a subtask may end its task: so the end is looked for after every
change.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.tasks.execution.attempt import Attempt
from actors.tasks.journal.report import Report, report_with, total_usage, words_of
from actors.tasks.journal.subtask_state import UNWANTED, EffectRecord, SubtaskState
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.outcome import FailureKind
from actors.tasks.model.task import NO_USAGE, SubtaskStatus, TaskStatus
from actors.tasks.orchestration.stages import TaskStages
from actors.tasks.recovery.follow import pending
from actors.tasks.results.result_cache import ResultCache
from actors.tasks.scheduling.selection import chain_of

if TYPE_CHECKING:
    from actors.execution.timers import Timer
    from actors.tasks.orchestration.orchestrator import Orchestrator


class TaskLifecycle:
    """Takes tasks through their phases."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._to = orchestrator
        self._steps = TaskStages(orchestrator, self)
        self.holding = ResultCache(orchestrator)
        self._deadlines: dict[str, Timer] = {}

    # -- beginning -----------------------------------------------------------------------------------------

    def begin(self, state: TaskState) -> None:
        """A task that is new here."""
        self.watch(state)
        self.advance(state)

    def watch(self, state: TaskState) -> None:
        """End it when its time is up, which does not pass while it is paused."""
        watched = self._deadlines.pop(state.id, None)
        if watched is not None:
            watched.cancel()
        if state.deadline is None or state.paused or state.ending is not None:
            return
        if state.deadline <= self._to.time():
            self._too_late(state)  # before anything of it is begun
        else:
            self._deadlines[state.id] = self._to.at(state.deadline, lambda: self._too_late(state))

    def _too_late(self, state: TaskState) -> None:
        node = next((node for node in state.nodes.values() if node.status is SubtaskStatus.QUEUED), None)
        why = self._to.dispatcher.put_off(state, node) if node is not None else ""
        waited = f"; {node.id} waited: {why}" if node is not None and why else ""
        self.end(state, TaskStatus.FAILED, "deadline", f"its time is up{waited}")

    def resume(self, state: TaskState) -> None:
        """A task from the journal: what it waits for is waited for again, and what was recorded last has its effect."""
        for node in state.nodes.values():
            if node.counted is not None:
                self._to.dispatcher.count_again(node)
        if state.final is not None:
            self.over(state)
            return
        if self._to.teams.hold_until_wanted(state):
            return
        for command, node in pending(state):
            self._to.handlers.carry_out(command, state, node)
        if state.paused:
            self._to.teams.paused(state)
        if state.ending is not None and state.ending.kind != "subtask":
            self._end_all(state)
        self.begin(state)

    def advance(self, state: TaskState) -> None:
        """Do what follows from where a task stands now."""
        if state.final is not None:
            return
        if self._to.delegation.unclaimed:
            self._to.delegation.drop_unclaimed(state)
        if state.ready:
            ready, state.ready = state.ready, []
            for node in ready:
                if node.status is SubtaskStatus.PENDING and not node.missing:  # a fold has those of before a revision
                    self._became_ready(state, node)
        if state.phase == "planning":
            if state.ending is None:
                self._steps.plan(state)
            else:
                self.finish(state, state.ending.status)
        elif state.phase == "undoing":
            self._to.compensation.advance(state)
        elif not state.open:
            self._all_done(state)

    def _became_ready(self, state: TaskState, node: SubtaskState) -> None:
        if state.ending is not None:
            self._to.emit(state, task_events.SubtaskSkipped, node.id, f"the task ended before: {state.ending.kind}")
        else:
            self._to.dispatcher.enqueue(state, node)

    def _all_done(self, state: TaskState) -> None:
        """Every subtask has ended, and nothing has ended the task yet."""
        if state.ending is not None:
            return
        missing = [
            node
            for node in state.nodes.values()
            if node.parent is None and node.spec.required and node.status is not SubtaskStatus.SUCCEEDED
        ]
        if missing:
            culprit = next((node for node in missing if node.status is SubtaskStatus.FAILED), missing[0])
            kind = FailureKind.RECURSION.value if culprit.kind == FailureKind.RECURSION else "subtask"
            self.end(state, TaskStatus.FAILED, kind, f"{culprit.id}: {culprit.error}")
        elif not state.reviewed and self._to.settings.reviewer is not None:
            self._steps.review(state)
        elif not state.combined and self._to.settings.synthesizer is not None:
            self._steps.combine(state)
        else:
            self.finish(state, TaskStatus.SUCCEEDED)

    # -- subtasks ------------------------------------------------------------------------------------------

    def result(self, state: TaskState, node: SubtaskState) -> dict[str, Any]:
        """The result of one that has succeeded, under its id, also where it is not held any more."""
        return self.holding.results(state, [node.id])

    def go_on(self, state: TaskState) -> None:
        """A step has ended, and has used up something, perhaps too much."""
        self.look_at_budget(state)
        self.advance(state)

    def look_at_budget(self, state: TaskState) -> None:
        """Something was used up: where it was too much, the task ends with what is done."""
        unfinished = state.open or state.phase == "planning"  # where all is done there is nothing left to save
        budget = state.task.budget if unfinished else None
        over = budget.exceeded_by(total_usage(state)) if budget is not None and state.ending is None else ""
        if over:
            self.end(state, TaskStatus.FAILED, "budget", over)

    def count(self, attempt: Attempt) -> None:
        """Record what an attempt has used up that no other record has."""
        to, state = self._to, self._to.states.get(attempt.task)
        used = attempt.take_used()
        if state is None or state.final is not None or used is NO_USAGE:
            return
        node = state.nodes.get(attempt.subtask.id) if attempt.role in {"work", "undo"} else None
        to.emit(state, task_events.UsageTold, used, node.id if node is not None else "")

    # -- ending --------------------------------------------------------------------------------------------

    def cancel(self, state: TaskState, reason: str) -> None:
        """End a task that is not wanted any more. Compensation that is under way goes on."""
        self.end(state, TaskStatus.CANCELLED, "cancel", reason or "somebody cancelled it")

    def prioritize(self, state: TaskState, priority: int) -> None:
        """Give a task another priority."""
        if state.final is None and state.task.priority != priority:
            self._to.emit(state, task_events.TaskPriorityChanged, priority)

    def end(self, state: TaskState, status: TaskStatus, kind: str, error: str) -> None:
        """End a task that cannot succeed any more: nothing new begins. What runs ends; after a failure it finishes."""
        if state.final is not None:
            return
        if state.ending is not None:
            if kind in {"cancel", "deadline"} and state.phase == "running":
                self._end_running(state)  # after a failure, or over the budget, it was still to finish
            return
        to = self._to
        to.emit(state, task_events.TaskEnding, status, kind, error)

    def ended(self, state: TaskState) -> None:
        """Follow the record that a task is ending."""
        if self._to.teams.is_held(state):
            self._to.teams.resume(state)
            return
        self._steps.end(state)
        self._end_all(state)
        self.advance(state)

    def _end_all(self, state: TaskState) -> None:
        to = self._to
        kind = state.ending.kind if state.ending is not None else ""
        if kind != "budget":
            self._end_running(state)
        for node in list(state.nodes.values()):
            if node.is_done:
                continue
            if node.status is SubtaskStatus.RUNNING:
                continue
            to.dispatcher.queue.withdraw(node.ticket)
            if node.made or node.status is SubtaskStatus.WAITING or node.has_begun:
                to.emit(state, task_events.SubtaskCancelled, node.id, kind, unknown=False)
            else:
                to.emit(state, task_events.SubtaskSkipped, node.id, f"the task ended before: {kind}")

    def _end_running(self, state: TaskState) -> None:
        for node in list(state.nodes.values()):
            if node.status is SubtaskStatus.RUNNING and node.live is not None:
                self._to.dispatcher.end(node.live, "cancel")

    def withdraw(self, state: TaskState, node: SubtaskState) -> None:
        """End a subtask that was asked for and that nobody waits for any longer."""
        to = self._to
        if node.is_done:
            return
        if node.status is SubtaskStatus.RUNNING:
            if node.live is not None:
                to.dispatcher.end(node.live, "withdrawn")
            return
        to.dispatcher.queue.withdraw(node.ticket)
        to.emit(state, task_events.SubtaskCancelled, node.id, UNWANTED, unknown=False)
        self.advance(state)

    def finish(self, state: TaskState, status: TaskStatus) -> None:
        """The end: the report is told to whoever waits."""
        to = self._to
        if state.final is not None:
            return
        to.emit(state, task_events.TaskFinished, status, state.best_effort)

    def over(self, state: TaskState) -> None:
        """Follow the record of the end: let go of the task, and tell its waiters once that is kept."""
        self.with_report(state, partial(self._tell, state))
        self.holding.forget(state)
        self._steps.forget(state)
        deadline = self._deadlines.pop(state.id, None)
        if deadline is not None:
            deadline.cancel()

    def with_report(self, state: TaskState, then: Callable[[Report], object]) -> None:
        """Call this with the report of a task that has ended, once that is kept and all its results are there."""
        results, output = words_of(state, lambda: self._to.ground.outline(state.id))
        self._to.act(state.id, _reported, state, then, results, output)

    def _tell(self, state: TaskState, report: Report) -> None:
        to = self._to
        if state.final is None:
            return  # it goes on: the team above has it undone, so it has heard of this end
        to.desk.keep(report, state)
        if state.parent is not None:
            to.teams.answer(state, report)
        to.store.finish(state.id)

    # -- what an attempt sees ------------------------------------------------------------------------------

    def results_for(self, state: TaskState, node: SubtaskState) -> dict[str, Any]:
        """The results of what it depends on."""
        if not node.spec.depends_on:
            return {}
        return self.holding.results(state, node.spec.depends_on)

    def results(self, state: TaskState) -> dict[str, Any]:
        """All results of the plan, also those that are not held any more."""
        return self.holding.results(state, [node.id for node in state.nodes.values() if node.parent is None])

    def result_of(self, state: TaskState, node: SubtaskState, act: EffectRecord) -> Any:
        """Result for an undo to undo; None where it is not known."""
        return self.holding.result_of(state, node, act) if act.done else None

    def addresses(self, state: TaskState, node: SubtaskState) -> tuple[Any, ...]:
        """The ancestry of an attempt: those who wait for its task, and the team; never an orchestrator."""
        if node.chain:
            return self._to.desk.addresses(node.chain)
        return self._to.desk.addresses((*chain_of(state, node), self._to.path))

    def drop_stale(self) -> None:
        """Let go, in a new incarnation, of attempts that nobody took up again, and end those that nobody wants."""
        to = self._to
        for key, attempt in to.ground.attempts.copy().items():
            is_held = (
                to.dispatcher.running.get(key) is attempt
                or to.compensation.holds(attempt)
                or self._steps.holds(attempt)
            )
            is_step = attempt.role in {"plan", "review", "combine"}
            if attempt.desk is to.desk and not is_held and (attempt.done or is_step):
                self.count(attempt)
                to.ground.forget(attempt)
                to.dispatcher.end(attempt, "cancel")

    def step_ended(self, attempt: Attempt, state: TaskState) -> None:
        """A planner, a reviewer or a synthesizer has come back."""
        self._steps.ended(attempt, state)


def _reported(
    state: TaskState, then: Callable[[Report], object], results: dict[str, Any], output: dict[str, Any]
) -> None:
    then(report_with(state, results, output))
