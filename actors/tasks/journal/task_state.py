"""The state of a task: a fold over its journal.

Comes in: the events of ``actors.tasks.model.task_events``, one after the other, live or read back from a store; the
same events always give the same state. Goes out: what stands where. Nothing is decided here: what follows from a state
is decided in ``actors.tasks.orchestration.lifecycle`` and the modules it asks. This module must never import threads, a
clock or Pykka.

Every event costs the same in a plan of ten and of ten thousand subtasks: dependants are counted down, not searched.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from actors.tasks.journal.dropped import changed
from actors.tasks.journal.effect_record import UNBEGUN
from actors.tasks.journal.person_waits import status_of
from actors.tasks.journal.question_fold import APPLY_QUESTIONS, close_question
from actors.tasks.journal.questions import Escalation
from actors.tasks.journal.reopening import reopen, replan, undone_once_more
from actors.tasks.journal.stage_state import ReviewState, Rework, StageState
from actors.tasks.journal.step_fold import APPLY_STEPS, end_steps, spend, step_over
from actors.tasks.journal.subtask_state import LOST, SubtaskState
from actors.tasks.model import task_events
from actors.tasks.model.outcome import UNCOUNTED, UNKNOWN, FailureKind
from actors.tasks.model.task import (
    NO_USAGE,
    PENDING,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    Plan,
    SubtaskStatus,
    Task,
    TaskStatus,
    Usage,
)
from actors.tasks.model.task_ids import OLD_IDS

_HAVE_RESULT: Final = frozenset({SUCCEEDED, SubtaskStatus.COMPENSATED})

_NO_TASK: Final = Task(goal="?")
"""Until its first record is known."""


def _named(task: Task, id_: str) -> Task:
    """Return a task with its id, also where it was submitted without one and the record is of an older version."""
    return task if task.id is not None else changed(task, id=id_)


@dataclass(slots=True, eq=False, repr=False)
class TaskState:
    """Where one task stands."""

    id: str
    born: int = field(default_factory=itertools.count().__next__)  # tasks in the order in which they came
    path: str = ""  # of the supervisor whose orchestrator has it
    task: Task = _NO_TASK
    phase: str = "new"
    """new, planning, running, replanning, undoing, finished: whose turn it is."""
    final: TaskStatus | None = None
    ending: task_events.TaskEnding | None = None
    """Why it cannot succeed any more."""
    paused: bool = False
    has_metadata: bool = False  # the task, or a subtask
    plan: Plan | None = None
    warnings: tuple[str, ...] = ()
    refusal: task_events.PlanRefused | None = None
    nodes: dict[str, SubtaskState] = field(default_factory=dict)
    open: int = 0  # nodes that are not done
    ready: list[SubtaskState] = field(default_factory=list)
    """Nodes whose last dependency is done since somebody looked; emptied by who looks."""
    barred: list[SubtaskState] = field(default_factory=list)
    """Likewise: they are to run, and need one that has failed before."""
    events: int = 0  # so far
    last_at: float = 0.0  # when the last one was
    starts: int = 0
    submitted_at: float = 0.0
    planned_at: float = 0.0
    finished_at: float = 0.0
    deadline: float | None = None
    chain: tuple[str, ...] = ()
    lineage: tuple[str, ...] = ()
    parent: str | None = None
    hops: int = 0
    ids: int = OLD_IDS
    iterations: int = 0  # reviews
    replans: int = 0  # further plans
    refusals: int = 0  # plans that were refused
    stage: StageState = field(default_factory=StageState)
    reviewed: bool = False
    """The results that there are now have passed, or are taken as they are."""
    review: ReviewState = field(default_factory=ReviewState)
    rework: Rework | None = None  # subtasks that are void, and are undone before they run again
    best_effort: bool = False
    notes: list[str] = field(default_factory=list)  # what went wrong beside the subtasks: a reviewer, a synthesizer
    output: Any = None
    combined: bool = False
    uncombined: bool = False  # taken as they are, because they could not be
    usage: Usage = NO_USAGE
    used_by: dict[str, Usage] = field(default_factory=dict)  # of that, by step; work: of all attempts
    earlier: Usage = NO_USAGE  # of a part, before it was reopened
    running_s: float = 0.0
    escalations: dict[str, Escalation] = field(default_factory=dict)
    raised: int = 0
    delegations: int = 0
    compensated: list[str] = field(default_factory=list)
    undo_errors: dict[str, str] = field(default_factory=dict)
    undoing: str | None = None  # whose undo is under way
    step: str = ""  # begun, without a record of its end: plan, review, combine or undo
    step_losses: int = 0  # processes that have ended one after the other with the present step, or undo

    def __repr__(self) -> str:
        return f"<TaskState {self.id} {self.status}>"

    @property
    def status(self) -> TaskStatus:
        """Public status of the task, as far as it is known without what its teams do (``person_waits``)."""
        return status_of(self)

    def apply(self, event: task_events.TaskEvent) -> None:
        """Take one event in."""
        self.events += 1
        self._APPLY[type(event)](self, event)
        self.last_at = event.at

    def metadata_of(self, subtask: str = "") -> dict[str, Any]:
        """Metadata of the task, and over it that of a subtask."""
        node = self.nodes.get(subtask) if subtask else None
        own = node.spec.metadata if node is not None else None
        return {**self.task.metadata, **own} if own else self.task.metadata

    def results(self) -> dict[str, Any]:
        """The results there are, of the subtasks of the plan, also of those that were undone."""
        return {
            node.id: node.value for node in self.nodes.values() if node.parent is None and node.status in _HAVE_RESULT
        }

    def best_efforts(self) -> list[SubtaskState]:
        """Subtasks of the plan whose result is a best effort of a team: nobody there was content with it."""
        found = (node for node in self.nodes.values() if node.best_effort)
        return [node for node in found if node.parent is None and node.status is SUCCEEDED]

    # -- the task ------------------------------------------------------------------------------------------

    def _submitted(self, event: task_events.TaskSubmitted) -> None:
        self.path, self.task = event.path, _named(event.spec, self.id)
        self.has_metadata = bool(event.spec.metadata)
        self.submitted_at, self.deadline = event.at, event.deadline
        self.chain, self.lineage, self.parent, self.hops = event.chain, event.lineage, event.parent, event.hops
        self.ids = event.ids
        self.phase = "planning"

    def _joined(self, event: task_events.TaskJoined) -> None:
        self.chain, self.lineage = event.chain, event.lineage

    def _refused(self, event: task_events.PlanRefused) -> None:
        self.refusals, self.refusal = event.number, event
        spend(self, "plan", event.usage)
        step_over(self)
        self.stage.ends()

    def _planned(self, event: task_events.Planned) -> None:
        self.plan, self.warnings = event.plan, event.warnings
        spend(self, "plan", event.usage)
        step_over(self)
        self.stage.ends()
        self.phase, self.review.each = "running", event.review == "each"
        self.has_metadata |= any(spec.metadata for spec in event.plan.subtasks)
        if event.replan:
            replan(self, event)
            return
        self.planned_at = event.at
        nodes = self.nodes = {spec.id: SubtaskState(spec) for spec in event.plan.subtasks}
        dependants: dict[str, list[SubtaskState]] = {}
        for node in nodes.values():
            for needed in node.spec.depends_on:
                dependants.setdefault(needed, []).append(node)
            node.missing = len(node.spec.depends_on)
        for id_, those in dependants.items():
            nodes[id_].dependants, nodes[id_].wanted = those, len(those)
        self.open = len(nodes)
        self.ready = [node for node in nodes.values() if not node.missing]

    def _prioritized(self, event: task_events.TaskPriorityChanged) -> None:
        self.task = changed(self.task, priority=event.priority)  # it is there already, and may lack large inputs

    def _told(self, event: task_events.UsageTold) -> None:
        if event.subtask:
            node = self.nodes[event.subtask]
            node.spends(event.usage, node.act_with(event.part))
            spend(self, "work", event.usage)
        else:
            spend(self, event.step or self.step, event.usage)

    def _paused(self, _: task_events.TaskPaused) -> None:
        self.paused = True

    def _resumed(self, event: task_events.TaskResumed) -> None:
        self.paused, self.deadline = False, event.deadline

    def _is_ending(self, event: task_events.TaskEnding) -> None:
        before, self.ending, self.final = self.ending, event, None
        end_steps(self)
        if event.parent is not None:
            self.parent = event.parent
            if before is not None and before.parent is not None:
                undone_once_more(self)
        if self.phase != "planning":
            self.phase = "undoing" if not self.open else "running"

    def _finished(self, event: task_events.TaskFinished) -> None:
        self.final, self.finished_at = event.status, event.at
        self.best_effort = event.best_effort
        self.phase = "finished"

    # -- a subtask -----------------------------------------------------------------------------------------

    def _queued(self, event: task_events.SubtaskQueued) -> None:
        node = self.nodes[event.subtask]
        if node.status is RUNNING:
            node.losses += event.reason == LOST
            ended_at = getattr(event, "ended_at", 0.0) or self.last_at  # that nothing ran since is no cost
            self._ran(node, ended_at if event.reason == LOST else event.at, event.usage)
            for act in (node.acts or ())[-1:]:
                act.interrupted(event.reason)
        node.status, node.queued_at, node.due, node.answered = QUEUED, event.at, None, None
        if event.usage is not NO_USAGE:
            self.spend(node, event.usage)

    def _started(self, event: task_events.SubtaskStarted) -> None:
        self.starts += 1
        self.nodes[event.subtask].begins(event, self.starts)

    def _stepped(self, event: task_events.SubtaskStepped) -> None:
        self.nodes[event.subtask].has_stepped(event, self.events - 1)

    def _succeeded(self, event: task_events.SubtaskSucceeded) -> None:
        node = self.nodes[event.subtask]
        if node.acts and node.status is RUNNING:  # else a person gave the result
            node.acts[-1].succeeds(event.value)
        node.value, node.tokens, node.best_effort = event.value, event.tokens, event.best_effort
        node.summary, node.importance, node.passed = event.summary, event.importance, False
        node.error, node.kind, node.kept = "", "", None
        if node.id in self.compensated:
            self.compensated.remove(node.id)  # it was undone, and is done again
        self._ends(node, SUCCEEDED, event.at, event.usage)

    def _retrying(self, event: task_events.SubtaskRetrying) -> None:
        node = self.nodes[event.subtask]
        self.attempt_over(node, event)
        node.status, node.standing, node.due, node.answered = SubtaskStatus.RETRYING, event.standing, event.due, None
        if event.feedback:
            node.revisions = node.revisions.heard(event.feedback)
        if event.kind not in UNCOUNTED:
            node.made = event.attempt
        self.spend(node, event.usage)

    def _failed(self, event: task_events.SubtaskFailed) -> None:
        node = self.nodes[event.subtask]
        self.attempt_over(node, event)
        node.made = max(node.made, event.attempt)
        self._ends(node, SubtaskStatus.FAILED, event.at, event.usage)

    def attempt_over(
        self,
        node: SubtaskState,
        event: task_events.SubtaskRetrying | task_events.SubtaskFailed | task_events.EscalationRaised,
    ) -> None:
        """An attempt was no success: whether it had an effect decides whether it may have to be undone."""
        node.error, node.kind = event.error, event.kind
        if node.steps is not None:
            node.steps.ends(keeps=isinstance(event, task_events.SubtaskRetrying) and event.keeps_steps)
        if event.counted and event.worker is not None:
            node.counted = event.worker, event.at
        if node.status is RUNNING:
            ended = node.started_at + event.ran_s if event.kind == FailureKind.LOST else event.at
            self._ran(node, ended, event.usage)
            node.losses = 0
            for act in (node.acts or ())[-1:]:
                act.fails(may_have_acted=event.kind in UNKNOWN)

    def _preempted(self, event: task_events.SubtaskPreempted) -> None:
        node = self.nodes[event.subtask]
        self._ran(node, event.at, event.usage)
        self.spend(node, event.usage)
        node.preemptions += 1
        for act in (node.acts or ())[-1:]:
            act.interrupted()
        node.status, node.queued_at = QUEUED, event.at

    def _skipped(self, event: task_events.SubtaskSkipped) -> None:
        node = self.nodes[event.subtask]
        node.error = event.reason
        self._ends(node, SubtaskStatus.SKIPPED, event.at, NO_USAGE)

    def _cancelled(self, event: task_events.SubtaskCancelled) -> None:
        node = self.nodes[event.subtask]
        failed = node.error if node.kind != FailureKind.ESCALATED else ""  # that is a question, which no log line has
        node.error = f"{event.reason}, after: {failed}" if failed else event.reason
        if node.status is RUNNING:
            self._ran(node, event.at, event.usage)
            if not event.unknown and node.acts:
                node.acts[-1].interrupted(UNBEGUN)
        if node.escalation is not None:
            close_question(self, node.escalation.id)
        self._ends(node, SubtaskStatus.CANCELLED, event.at, event.usage)

    def _delegated(self, event: task_events.SubtaskDelegated) -> None:
        node = self.nodes.get(event.subtask)
        if node is None:
            node = self.nodes[event.subtask] = SubtaskState(event.spec)
            node.parent = event.parent
            self.delegations += 1
        elif event.anew:
            node.begins_anew()
        if event.anew or node.ask is None:
            self.open += 1
            self.ready.append(node)
        node.chain, node.lineage = event.chain, event.lineage
        self.nodes[event.parent].has_asked(node, event.ask)

    def _ends(self, node: SubtaskState, status: SubtaskStatus, at: float, usage: Usage) -> None:
        if node.status is RUNNING and status is SUCCEEDED:
            self._ran(node, at, usage)
        was_done = node.status is not RUNNING and node.is_done
        if node.steps is not None:
            node.steps.ends()
        node.status, node.ended_at, node.due, node.answered = status, at, None, None
        if usage is not NO_USAGE:
            self.spend(node, usage)
        if was_done:
            return
        self.open -= 1
        for needed in node.spec.depends_on:
            self.nodes[needed].wanted -= 1
        if status is SUCCEEDED and self.review.each and node.parent is None:
            self.review.waiting[node.id] = None
        elif status is SUCCEEDED or not node.spec.required:
            self.passes(node)
        if not self.open and self.ending is not None:
            self.phase = "undoing"

    def passes(self, node: SubtaskState) -> None:
        """A dependency is settled: what waited for nothing else is ready."""
        for dependant in node.dependants:
            dependant.missing -= 1
            if not dependant.missing and dependant.status is PENDING:
                self.ready.append(dependant)

    def is_settled(self, node: SubtaskState) -> bool:
        """True where whatever depends on it need not wait for it."""
        if self.rework is not None and node.id in self.rework.rerun:
            return False
        if node.status is SUCCEEDED:
            return self.review.lets_pass(node.id)
        return node.is_done and not node.spec.required

    def _ran(self, node: SubtaskState, at: float, told: Usage = NO_USAGE) -> None:
        """An attempt has ended. A team tells itself, now or later, how long its members ran: that counts instead."""
        ran_s = at - node.started_at
        node.running_s += ran_s
        if (told is NO_USAGE or not told.seconds) and not (node.acts and node.acts[-1].part):
            self.running_s += ran_s

    def spend(self, node: SubtaskState, usage: Usage) -> None:
        """Something was used up by the present attempt."""
        if usage is not NO_USAGE:
            node.spends(usage, node.acts[-1] if node.acts else None)
            spend(self, "work", usage)

    _APPLY: ClassVar[dict[type[task_events.TaskEvent], Callable[[TaskState, Any], None]]] = {
        task_events.TaskSubmitted: _submitted,
        task_events.TaskJoined: _joined,
        task_events.PlanRefused: _refused,
        task_events.Planned: _planned,
        task_events.TaskPriorityChanged: _prioritized,
        task_events.UsageTold: _told,
        task_events.TaskPaused: _paused,
        task_events.TaskReopened: reopen,
        task_events.TaskResumed: _resumed,
        task_events.TaskEnding: _is_ending,
        task_events.TaskFinished: _finished,
        task_events.SubtaskQueued: _queued,
        task_events.SubtaskPutBack: _queued,
        task_events.SubtaskStarted: _started,
        task_events.SubtaskStepped: _stepped,
        task_events.SubtaskSucceeded: _succeeded,
        task_events.SubtaskRetrying: _retrying,
        task_events.SubtaskFailed: _failed,
        task_events.SubtaskPreempted: _preempted,
        task_events.SubtaskSkipped: _skipped,
        task_events.SubtaskCancelled: _cancelled,
        task_events.SubtaskDelegated: _delegated,
        **APPLY_QUESTIONS,
        **APPLY_STEPS,
    }
