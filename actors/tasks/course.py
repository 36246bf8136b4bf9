"""The course of a task: plan, run, review, combine, and how it ends.

Comes in: what happened to one task. Goes out: records, and what is to be started. Every change goes through
``advance``, which looks at where the task stands and does the next thing; it is idempotent, so that a new incarnation
calls it for every task that it has folded. Failing a subtask may end its task: so the end is looked for after every
change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.tasks import events
from actors.tasks.attempt import Attempt
from actors.tasks.errors import SubtaskFailedError
from actors.tasks.holding import Holding
from actors.tasks.node import Act, Node
from actors.tasks.report import Report, reported
from actors.tasks.selection import chain_of
from actors.tasks.state import TaskState
from actors.tasks.steps import Steps
from actors.tasks.task import SubtaskStatus, TaskStatus

if TYPE_CHECKING:
    from actors.dispatch.timers import Timer
    from actors.tasks.orchestrator import Orchestrator


class Course:
    """Takes tasks through their phases."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._to = orchestrator
        self._steps = Steps(orchestrator, self)
        self._holding = Holding(orchestrator)
        self._deadlines: dict[str, Timer] = {}

    # -- beginning -----------------------------------------------------------------------------------------

    def begin(self, state: TaskState) -> None:
        """A task that is new here."""
        if state.deadline is not None:
            self._deadlines[state.id] = self._to.at(
                state.deadline, lambda: self.end(state, TaskStatus.FAILED, "deadline", "its time is up")
            )
        self.advance(state)

    def resume(self, state: TaskState) -> None:
        """A task from the journal: what it waits for is waited for again."""
        for node in list(state.nodes.values()):
            status = node.status
            if status is SubtaskStatus.QUEUED:
                self._to.launching.put_in_queue(state, node)
            elif status is SubtaskStatus.RUNNING:
                self._to.launching.adopt(state, node)
            elif status is SubtaskStatus.RETRYING and node.due is not None:
                self._to.trying.wait_for(state, node, node.due)
            if node.ask is not None and not node.is_done:
                self._to.delegating.known(state, node)
            if node.escalation is not None:
                self._to.people.limit(state, node)
        if state.ending is not None and state.ending.kind != "subtask":
            self._end_all(state)
        self.begin(state)

    def advance(self, state: TaskState) -> None:
        """Do what follows from where a task stands now."""
        if state.final is not None:
            return
        if state.ready:
            ready, state.ready = state.ready, []
            for node in ready:
                if node.status is SubtaskStatus.PENDING:
                    self._became_ready(state, node)
        if state.phase == "planning":
            if state.ending is None:
                self._steps.plan(state)
            else:
                self.finish(state, state.ending.status)
        elif state.phase == "undoing":
            self._to.undoing.advance(state)
        elif not state.open:
            self._all_done(state)

    def _became_ready(self, state: TaskState, node: Node) -> None:
        if state.ending is not None:
            self.skip(state, node, f"the task ended before: {state.ending.kind}")
        else:
            self._to.launching.enqueue(state, node)

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
            self.end(state, TaskStatus.FAILED, "subtask", f"{culprit.id}: {culprit.error}")
        elif not state.reviewed and self._to.settings.reviewer is not None:
            self._steps.review(state)
        elif not state.combined and self._to.settings.synthesizer is not None:
            self._steps.combine(state)
        else:
            self.finish(state, TaskStatus.SUCCEEDED)

    # -- subtasks ------------------------------------------------------------------------------------------

    def succeeded(self, state: TaskState, node: Node) -> None:
        """A subtask has its result: whoever asked for it hears it, and the budget is looked at."""
        self._holding.hold(state, node)
        if node.ask is not None:
            self._to.act(self._to.delegating.answer, node.ask, node.value)
        budget = state.task.budget
        over = budget.exceeded_by(state.usage) if budget is not None and state.ending is None else ""
        if over:
            self.end(state, TaskStatus.FAILED, "budget", over)

    def skip(self, state: TaskState, node: Node, reason: str) -> None:
        """A subtask will not run; whoever asked for it hears it."""
        self.record_skip(state, node, reason)
        self.ask_failed(state, node, reason)

    def record_skip(self, state: TaskState, node: Node, reason: str) -> None:
        """The same, where nobody asked for it."""
        to = self._to
        to.record(state, events.SubtaskSkipped(to.path, state.id, to.time(), node.id, reason))

    def ask_failed(self, state: TaskState, node: Node, text: str) -> None:
        """Whoever asked for a subtask hears that it comes to nothing."""
        if node.ask is not None:
            error = SubtaskFailedError(state.id, node.id, text)
            self._to.act(self._to.delegating.answer, node.ask, None, error)

    # -- ending --------------------------------------------------------------------------------------------

    def cancel(self, state: TaskState, reason: str) -> None:
        """Somebody does not want it any more. What is being undone goes on being undone."""
        self.end(state, TaskStatus.CANCELLED, "cancel", reason or "somebody cancelled it")

    def end(self, state: TaskState, status: TaskStatus, kind: str, error: str) -> None:
        """It cannot succeed any more: nothing new begins, and what runs is ended (but after a failure it finishes)."""
        if state.final is not None or state.ending is not None:
            return
        to = self._to
        to.record(state, events.TaskEnding(to.path, state.id, to.time(), status, kind, error))
        self._steps.end(state)
        self._end_all(state)
        self.advance(state)

    def _end_all(self, state: TaskState) -> None:
        to = self._to
        kind = state.ending.kind if state.ending is not None else ""
        for node in list(state.nodes.values()):
            if node.is_done:
                continue
            if node.status is SubtaskStatus.RUNNING:
                if node.live is not None and kind != "budget":
                    to.launching.end(node.live, "cancel")
                continue
            to.launching.queue.withdraw(node.ticket)
            if node.made or node.status is SubtaskStatus.WAITING:
                to.record(state, events.SubtaskCancelled(to.path, state.id, to.time(), node.id, kind, unknown=False))
                self.ask_failed(state, node, f"cancelled: {kind}")
            else:
                self.skip(state, node, f"the task ended before: {kind}")

    def withdraw(self, state: TaskState, node: Node) -> None:
        """Nobody waits any longer for a subtask that was asked for."""
        to = self._to
        if node.is_done:
            return
        if node.status is SubtaskStatus.RUNNING:
            if node.live is not None:
                to.launching.end(node.live, "withdrawn")
            return
        to.launching.queue.withdraw(node.ticket)
        event = events.SubtaskCancelled(to.path, state.id, to.time(), node.id, "nobody waits for it", unknown=False)
        to.record(state, event)
        self.advance(state)

    def finish(self, state: TaskState, status: TaskStatus) -> None:
        """The end: the report is told to whoever waits."""
        to = self._to
        if state.final is not None:
            return
        to.record(state, events.TaskFinished(to.path, state.id, to.time(), status, state.best_effort))
        report = self.report_of(state)
        self._holding.forget(state)
        to.store.finish(state.id)
        self._steps.forget(state)
        to.act(to.desk.keep, report)
        if state.parent is not None:
            to.act(to.teamwork.answer, state.parent, report)
        to.states.pop(state.id, None)
        deadline = self._deadlines.pop(state.id, None)
        if deadline is not None:
            deadline.cancel()

    def report_of(self, state: TaskState) -> Report:
        """What became of a task that has ended."""
        return reported(state, lambda: self._to.store.read(state.id))

    # -- what an attempt sees ------------------------------------------------------------------------------

    def results_for(self, state: TaskState, node: Node) -> dict[str, Any]:
        """The results of what it depends on."""
        if not node.spec.depends_on:
            return {}
        return self._holding.results(state, node.spec.depends_on)

    def results(self, state: TaskState) -> dict[str, Any]:
        """All results of the plan, also those that are not held any more."""
        return self._holding.results(state, [node.id for node in state.nodes.values() if node.parent is None])

    def result_of(self, state: TaskState, node: Node, act: Act) -> Any:
        """What an undo is told of what is to be undone; None where that is not known."""
        return self._holding.result_of(state, node, act.result) if act.done else None

    def addresses(self, state: TaskState, node: Node) -> tuple[Any, ...]:
        """The ancestry of an attempt: those who wait for its task, and the team; never an orchestrator."""
        if node.chain:
            return self._to.desk.addresses(node.chain)
        return self._to.desk.addresses((*chain_of(state, node), self._to.path))

    def step_ended(self, attempt: Attempt, state: TaskState) -> None:
        """A planner, a reviewer or a synthesizer has come back."""
        self._steps.ended(attempt, state)
