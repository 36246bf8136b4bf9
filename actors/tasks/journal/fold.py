"""The state of a task: a fold over its journal.

Comes in: the events of ``actors.tasks.model.task_events``, one after the other, live or read back from a store; the
same events always give the same state. Goes out: a tree of units. Nothing is decided here: what follows from a state is
decided in ``actors.tasks.decide``. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from actors.tasks.journal.course import Course, Rework
from actors.tasks.journal.questions import Escalation, KeptState
from actors.tasks.journal.unit import FRESH, LOST, STAGES, Unit
from actors.tasks.model import task_events
from actors.tasks.model.event_base import ROLES, TaskEvent
from actors.tasks.model.outcome import UNCOUNTED, UNKNOWN, FailureKind
from actors.tasks.model.task import (
    NO_USAGE,
    PENDING,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    Subtask,
    SubtaskStatus,
    Task,
    TaskStatus,
    Usage,
    usage_of,
)
from actors.tasks.model.task_errors import StoreError
from actors.validation.spec_model import copy_with

_NO_TASK: Final = Task(goal="?")
"""Until its first record is known."""
_NO_WORK: Final = Subtask(id="task")


@dataclass(slots=True, eq=False, repr=False)
class TaskState:
    """Where one task stands."""

    id: str
    born: int = field(default_factory=itertools.count().__next__)  # tasks in the order in which they came
    path: str = ""  # of its supervisor
    task: Task = _NO_TASK
    root: Unit = field(default_factory=lambda: Unit("", "task", None, _NO_WORK, ""))
    units: dict[str, Unit] = field(default_factory=dict)
    """All subtasks by their paths, and the task itself under the empty one."""
    events: int = 0  # so far
    last_at: float = 0.0  # when the last one was
    starts: int = 0
    submitted_at: float = 0.0
    finished_at: float = 0.0
    final: TaskStatus | None = None
    deadline: float | None = None
    chain: tuple[str, ...] = ()
    lineage: tuple[str, ...] = ()
    hops: int = 0
    trace: str = ""
    has_metadata: bool = False  # the task, or a subtask
    has_asks: bool = False  # some of its subtasks were asked for
    usage_by: dict[str, Usage] = field(default_factory=dict)
    """What was used up, by role."""
    running_s: float = 0.0
    """Seconds of all attempts, as far as those have told no seconds themselves."""
    usage_before: Usage = NO_USAGE  # before it was tried again: it has its budget anew
    questions: dict[str, Escalation] = field(default_factory=dict)
    """Open questions, those of its teams too, the oldest first."""
    raised: int = 0
    compensated: list[str] = field(default_factory=list)
    undo_errors: dict[str, str] = field(default_factory=dict)
    retries: int = 0
    touched: dict[str, None] = field(default_factory=dict)
    """Paths of the composite units of which something has changed since somebody looked; emptied by who looks."""

    def __repr__(self) -> str:
        return f"<TaskState {self.id} {self.status}>"

    @property
    def course(self) -> Course:
        """Course of the task itself."""
        assert self.root.course is not None  # noqa: S101 - the first record makes it
        return self.root.course

    @property
    def status(self) -> TaskStatus:
        """Public status of the task."""
        return status_of(self)

    def find(self, subtask: str, role: str = "work") -> Unit:
        """Return the unit that an event is about.

        Raises:
            LookupError: there is none.
        """
        unit = self.units[subtask]
        if role in STAGES:
            if unit.course is None:
                raise LookupError(subtask)
            return unit.course.call(role)
        if role == "undo":
            if unit.undo is None:
                raise LookupError(subtask)
            return unit.undo
        return unit

    def course_of(self, unit: Unit) -> Course:
        """Return the course that a unit is in; of the task itself its own."""
        above = unit.above
        while above is not None and above.course is None:
            above = above.above
        course = (above or unit).course
        assert course is not None  # noqa: S101 - every subtask is in one
        return course

    def metadata_of(self, subtask: str = "") -> dict[str, Any]:
        """Metadata of the task, and over it that of the subtasks down to this one."""
        found, unit = self.task.metadata, self.units.get(subtask)
        own = [each.spec.metadata for each in unit.upwards() if each.spec.metadata] if unit is not None else []
        for each in reversed(own):
            found = {**found, **each}
        return found

    def total_usage(self) -> Usage:
        """Return what the task has used up so far."""
        return sum(self.usage_by.values(), NO_USAGE) + usage_of(0, 0.0, self.running_s)

    # -- changes -------------------------------------------------------------------------------------------

    def apply(self, event: TaskEvent) -> None:
        """Take one event in."""
        self.events += 1
        _APPLY[type(event)](self, event)
        self.last_at = event.at

    def touch(self, unit: Unit) -> None:
        """Note that something of a unit has changed: the course that goes on with it is looked at."""
        course = going_on_above(unit)
        if course is not None:
            self.touched[course.unit.path] = None

    def spend(self, unit: Unit, usage: Usage) -> None:
        """Count what a unit has used up: for itself, for the teams above, and for the task."""
        if usage is NO_USAGE:
            return
        role = unit.role if unit.role in ROLES else "work"
        self.usage_by[role] = self.usage_by.get(role, NO_USAGE) + usage
        for each in unit.upwards():
            each.spends(usage)

    def ran(self, unit: Unit, ended_at: float, usage: Usage) -> None:
        """An attempt of a unit has ended."""
        if unit.status is not RUNNING:
            return
        seconds = max(0.0, ended_at - unit.started_at)
        unit.running_s += seconds
        if not usage.seconds and unit.role == "work" and not unit.is_composite:
            self.running_s += seconds

    def index(self, course: Course) -> None:
        """Know the units of a course by their paths."""
        for unit in course.units.values():
            self.units[unit.path] = unit
            self.has_metadata |= bool(unit.spec.metadata)


# -- the task ------------------------------------------------------------------------------------------------


def _submitted(state: TaskState, event: task_events.TaskSubmitted) -> None:
    task = event.spec if event.spec.id is not None else copy_with(event.spec, id=state.id)
    state.path, state.task, state.submitted_at, state.deadline = event.path, task, event.at, event.deadline
    state.chain, state.lineage, state.hops, state.trace = event.chain, event.lineage, event.hops, event.trace
    state.has_metadata = bool(task.metadata)
    root = state.root
    root.scope, root.status = event.path, RUNNING
    root.spec = copy_with(_NO_WORK, instruction=task.goal, budget=task.budget, on_failure=task.on_failure)
    root.course = Course(root, event.path)
    state.units[""] = root
    state.touch(root)


def _joined(state: TaskState, event: task_events.TaskJoined) -> None:
    state.chain, state.lineage = event.chain, event.lineage


def _prioritized(state: TaskState, event: task_events.TaskPriorityChanged) -> None:
    state.task = copy_with(state.task, priority=event.priority)


def _retried(state: TaskState, event: task_events.TaskRetried) -> None:
    state.retries += 1
    state.final, state.finished_at, state.deadline = None, 0.0, event.deadline
    state.submitted_at = event.at
    state.undo_errors, state.questions = {}, {}
    state.usage_before = state.total_usage()
    state.root.status = RUNNING
    _reopen(state, state.course, retried=True)
    state.touch(state.root)


def _ending(state: TaskState, event: task_events.TaskEnding) -> None:
    unit = state.find(event.subtask)
    course = unit.course
    if course is None:
        raise LookupError(event.subtask)
    course.ending, course.rework = event, None
    for role in STAGES:
        step = course.steps.get(role)
        if step is not None:
            step.answered = None
        call = course.calls.get(role)
        if call is not None and call.question is not None:
            close_question(state, call.question.id)
            _asks_no_more(call)
    state.touch(unit)


def _finished(state: TaskState, event: task_events.TaskFinished) -> None:
    state.final, state.finished_at = event.status, event.at
    state.course.best_effort = event.best_effort
    state.root.status = SubtaskStatus(event.status.value)


# -- plans ---------------------------------------------------------------------------------------------------


def _course(state: TaskState, subtask: str) -> Course:
    course = state.find(subtask).course
    if course is None:
        raise LookupError(subtask)
    state.touched[subtask] = None
    return course


def _call_over(state: TaskState, course: Course, role: str, usage: Usage, at: float) -> None:
    """A call of a planner, a reviewer or a synthesizer has come to an end of its own."""
    call = course.call(role)
    state.ran(call, at, usage)
    state.spend(call, usage)
    call.status, call.standing, call.made, call.losses, call.due = PENDING, FRESH, 0, 0, None
    call.next_epoch()
    step = course.step(role)
    step.failed, step.feedback, step.refused, step.vouched = "", "", 0, False


def _refused(state: TaskState, event: task_events.PlanRefused) -> None:
    course = _course(state, event.subtask)
    course.refusals, course.refusal = event.number, event
    _call_over(state, course, "plan", event.usage, event.at)


def _planned(state: TaskState, event: task_events.Planned) -> None:
    course = _course(state, event.subtask)
    course.plan, course.warnings = event.plan, event.warnings
    _call_over(state, course, "plan", event.usage, event.at)
    course.phase, course.review.each = "running", event.review == "each"
    if event.replan or course.units:
        course.goes_on_with(event.plan, event.kept)
    else:
        course.begins(event.plan, event.at)
    state.index(course)


def _replanning(state: TaskState, event: task_events.Replanning) -> None:
    course = _course(state, event.subtask)
    course.replans, course.phase = event.number, "replanning"
    course.refusals, course.refusal = 0, None
    course.rework = Rework("replan", {})


# -- subtasks ------------------------------------------------------------------------------------------------


def _queued(state: TaskState, event: task_events.SubtaskQueued) -> None:
    unit = state.find(event.subtask, event.role)
    unit.status, unit.queued_at, unit.due, unit.answered = QUEUED, event.at, None, None


def _started(state: TaskState, event: task_events.SubtaskStarted) -> None:
    state.starts += 1
    unit = state.find(event.subtask, event.role)
    unit.begins(event, state.starts)
    if not event.is_team:
        return
    if unit.course is None:
        unit.course = Course(unit, f"{event.path}/{event.worker}")
    elif unit.course.scope != f"{event.path}/{event.worker}":
        _let_go_of(state, unit)
        unit.course = Course(unit, f"{event.path}/{event.worker}")
    else:
        _reopen(state, unit.course)
    state.touch(unit)


def _reopen(state: TaskState, course: Course, *, retried: bool = False) -> None:
    course.reopen(retried=retried)
    for unit in course.units.values():
        if unit.path in state.compensated and unit.status is PENDING:
            state.compensated.remove(unit.path)


def _let_go_of(state: TaskState, unit: Unit) -> None:
    """Another team has it now: the units of the one before are no part of it any more."""
    for each in list(unit.below()):
        state.units.pop(each.path, None)


def _requeued(state: TaskState, event: task_events.SubtaskRequeued) -> None:
    unit = state.find(event.subtask, event.role)
    ended_at = (event.ended_at or state.last_at) if event.reason == LOST else event.at
    state.ran(unit, ended_at, event.usage)
    state.spend(unit, event.usage)
    unit.losses += event.reason == LOST
    unit.preemptions += event.reason == "preempted"
    effect = unit.last_effect
    if effect is not None:
        effect.interrupted(event.reason)
    unit.status = QUEUED if unit.role == "work" else PENDING
    unit.queued_at, unit.due, unit.answered = event.at, None, None
    state.touch(unit)


def _stepped(state: TaskState, event: task_events.SubtaskStepped) -> None:
    unit = state.find(event.subtask, event.role)
    unit.has_stepped(event)
    state.spend(unit, event.usage)


def _succeeded(state: TaskState, event: task_events.SubtaskSucceeded) -> None:
    unit = state.find(event.subtask)
    effect = unit.last_effect
    if effect is not None and unit.status is RUNNING:  # else a person gave the result
        effect.succeeds(event.value)
    unit.value, unit.best_effort = event.value, event.best_effort
    unit.summary, unit.importance, unit.passed = event.summary, event.importance, False
    unit.error, unit.kind, unit.kept = "", "", None
    if unit.path in state.compensated:
        state.compensated.remove(unit.path)  # it was undone, and is done again
    _ends(state, unit, SUCCEEDED, event)


def _retrying(state: TaskState, event: task_events.SubtaskRetrying) -> None:
    unit = state.find(event.subtask, event.role)
    _attempt_over(state, unit, event)
    unit.status, unit.standing, unit.due, unit.answered = SubtaskStatus.RETRYING, event.standing, event.due, None
    if event.feedback:
        unit.remarks = unit.remarks.heard(event.feedback)
    if event.kind not in UNCOUNTED:
        unit.made = event.attempt
    state.touch(unit)


def _failed(state: TaskState, event: task_events.SubtaskFailed) -> None:
    unit = state.find(event.subtask, event.role)
    _attempt_over(state, unit, event)
    if unit.role in STAGES:
        course = state.course_of(unit)
        course.step(unit.role).failed = event.error
        unit.status, unit.standing, unit.made, unit.losses = PENDING, FRESH, 0, 0
        unit.next_epoch()
        state.touch(unit)
        return
    unit.made = max(unit.made, event.attempt)
    _ends(state, unit, SubtaskStatus.FAILED, event)


def _attempt_over(
    state: TaskState,
    unit: Unit,
    event: task_events.SubtaskRetrying | task_events.SubtaskFailed | task_events.EscalationRaised,
) -> None:
    """An attempt was no success: whether it had an effect decides whether it may have to be undone."""
    unit.error, unit.kind = event.error, event.kind
    if unit.steps is not None:
        unit.steps.ends(keeps=isinstance(event, task_events.SubtaskRetrying) and event.keeps_steps)
    unit.losses = 0
    if event.counted and event.worker is not None:
        unit.counted = event.worker, event.at
    if unit.status is RUNNING:
        state.ran(unit, event.at, event.usage)
        effect = unit.last_effect
        if effect is not None:
            effect.fails(may_have_acted=event.kind in UNKNOWN)
    state.spend(unit, event.usage)


def _skipped(state: TaskState, event: task_events.SubtaskSkipped) -> None:
    unit = state.find(event.subtask)
    unit.error = event.reason
    _ends(state, unit, SubtaskStatus.SKIPPED, event)


def _cancelled(state: TaskState, event: task_events.SubtaskCancelled) -> None:
    unit = state.find(event.subtask, event.role)
    failed = unit.error if unit.kind != FailureKind.ESCALATED else ""  # that is a question, which no log line has
    unit.error = f"{event.reason}, after: {failed}" if failed else event.reason
    if unit.status is RUNNING:
        state.ran(unit, event.at, event.usage)
        effect = unit.last_effect
        if not event.unknown and effect is not None and not unit.is_composite:
            effect.interrupted("withdrawn")
    if unit.question is not None:
        close_question(state, unit.question.id)
    _ends(state, unit, SubtaskStatus.CANCELLED, event)


def _ends(state: TaskState, unit: Unit, status: SubtaskStatus, event: Any) -> None:
    usage: Usage = getattr(event, "usage", NO_USAGE)
    if status is SUCCEEDED:
        state.ran(unit, event.at, usage)
    if status is not SubtaskStatus.FAILED:  # whose usage is counted with its last attempt
        state.spend(unit, usage)
    was_done = unit.is_done
    if unit.steps is not None:
        unit.steps.ends()
    unit.status, unit.ended_at, unit.due, unit.answered = status, event.at, None, None
    state.touch(unit if unit.above is None else unit.above)
    if was_done or unit.above is None:
        return
    course = state.course_of(unit)
    course.open -= 1
    if status is SUCCEEDED and course.review.each and unit.asker is None:
        course.review.waiting[unit.id] = None
    elif status is SUCCEEDED or not unit.spec.required:
        course.passes(unit)
    else:
        course.barred += [each for each in unit.dependants if each.status is PENDING]


def _delegated(state: TaskState, event: task_events.SubtaskDelegated) -> None:
    state.has_asks = True
    asker = state.find(event.parent)
    unit = state.units.get(event.subtask)
    is_new = unit is None
    if unit is None:
        host = host_of(asker, event.path)
        course = state.course_of(host)
        unit = Unit(event.subtask, "work", course.unit, event.spec, course.scope)
        unit.asker = asker
        course.units[unit.id] = state.units[unit.path] = unit
        host.asks += 1
        asker.asked = [*(asker.asked or ()), unit]
    elif event.anew:
        unit.begins_anew()
    course = state.course_of(unit)
    if is_new or event.anew:
        course.open += 1
        course.ready.append(unit)
    unit.chain, unit.lineage, unit.ask, unit.asked_in = event.chain, event.lineage, event.ask, event.attempt
    unit.asked_for = asker.epoch
    state.touch(unit.above or unit)


def host_of(asker: Unit, scope: str) -> Unit:
    """Return the unit in the course of this supervisor that an asker works for: itself, or a team that it is in."""
    host = asker
    while host.scope != scope and host.above is not None and host.above.role != "task":
        host = host.above
    return host


def _told(state: TaskState, event: task_events.UsageTold) -> None:
    state.spend(state.find(event.subtask, event.role), event.usage)
    state.touch(state.units[event.subtask])


# -- people --------------------------------------------------------------------------------------------------


def _raised(state: TaskState, event: task_events.EscalationRaised) -> None:
    unit = state.find(event.subtask, event.role)
    state.raised += 1
    unit.question, unit.answered = Escalation(event), None
    state.questions[event.escalation] = unit.question
    if event.state is not None:
        goes_on_at = unit.standing if event.resumes and event.role != "undo" else None
        unit.kept = KeptState(event.worker, event.state, event.escalation, goes_on_at)
    elif event.kind == FailureKind.ESCALATED.value:
        unit.kept = None  # its worker asks something else
    elif unit.kept is not None:
        unit.kept = unit.kept._replace(goes_on_at=None)  # its ladder asks, about what has failed since
    _attempt_over(state, unit, event)
    unit.made = max(unit.made, unit.attempt)
    unit.status, unit.standing, unit.due = SubtaskStatus.WAITING, event.standing, event.due
    if event.step:
        state.course_of(unit).step(event.step).asked = event.subtasks
    state.touch(unit)


def _answered(state: TaskState, event: task_events.EscalationAnswered) -> None:
    unit = state.find(event.subtask, event.role)
    close_question(state, event.escalation)
    state.touch(unit)
    if unit.role in STAGES:
        _step_answered(state.course_of(unit), unit, event)
        return
    unit.answered = event
    unit.is_told(event)
    if unit.kept is not None and unit.kept.goes_on_at is not None:
        unit.standing = unit.kept.goes_on_at
    elif unit.role == "undo":
        unit.standing = replace(unit.standing, tries=0)
    elif event.answer in {"approve", "respond"}:
        unit.next_epoch()
        unit.standing = replace(unit.standing, tries=0, last_chance=True)


def _asks_no_more(call: Unit) -> None:
    """A question about a step is closed; with ``review="each"`` the reviewer may look at other results meanwhile."""
    if call.status is SubtaskStatus.WAITING:
        call.status, call.due = PENDING, None


def _step_answered(course: Course, unit: Unit, event: task_events.EscalationAnswered) -> None:
    step = course.step(unit.role)
    _asks_no_more(unit)
    if not step.asked and event.answer in {"approve", "respond"}:  # it is called once more
        step.failed, step.refused, step.vouched = "", 0, event.answer == "approve"
        step.feedback = "" if step.vouched else str(event.value)
    else:
        step.answered = event


def _expired(state: TaskState, event: task_events.EscalationExpired) -> None:
    unit = state.find(event.subtask, event.role)
    close_question(state, event.escalation)
    state.touch(unit)
    if unit.role in STAGES:
        state.course_of(unit).step(unit.role).answered = event
        _asks_no_more(unit)
        return
    unit.answered, unit.kind = event, FailureKind.UNANSWERED.value


def close_question(state: TaskState, id_: str) -> None:
    """Take a question off the list."""
    question = state.questions.pop(id_, None)
    if question is not None:
        state.find(question.about, question.role).question = None


# -- quality -------------------------------------------------------------------------------------------------


def _reviewed(state: TaskState, event: task_events.Reviewed) -> None:
    course = _course(state, event.subtask)
    step = course.step("review")
    if event.problems:
        refused = step.refused
        _call_over(state, course, "review", event.usage, event.at)
        step.refused, step.feedback = refused + 1, event.problems
        return
    _review_over(state, course, event)
    course.iterations = max(course.iterations, event.iteration)
    course.best_effort |= event.best_effort
    if event.error:
        course.notes.append(f"reviewer: {event.error}")
    if event.checks and event.best_effort:
        course.notes.append(f"review: not passed: {event.checks}")
    if not event.error and (event.passed or event.rerun):
        failed = {*event.rerun, *event.rejected}
        for id_ in event.subtasks or course.units:
            unit = course.units[id_]
            unit.passed = unit.passed or (unit.status is SUCCEEDED and id_ not in failed)
    rejected = {} if event.best_effort else dict.fromkeys(event.rejected, event.checks)
    if course.review.each:
        _reviewed_each(course, event, rejected)
    else:
        course.review.rejected, course.reviewed = rejected, not event.rerun and not rejected
    if event.rerun:
        course.rework = Rework("revision", dict(event.rerun))


def _review_over(state: TaskState, course: Course, event: task_events.Reviewed) -> None:
    """A review has ended, or a person's word on rejected results is carried out.

    With ``review="each"`` a person is asked about some while others are being reviewed: the end of that review takes
    nothing from the question and its answer, and the answer nothing from a review that has failed meanwhile.
    """
    step = course.step("review")
    about = step.asked
    is_of_others = bool(about and event.subtasks) and set(about).isdisjoint(event.subtasks)
    if not about or is_of_others:
        _call_over(state, course, "review", event.usage, event.at)
    if not is_of_others:
        step.answered, step.asked = None, ()


def _reviewed_each(course: Course, event: task_events.Reviewed, rejected: dict[str, str]) -> None:
    for id_ in event.subtasks:
        unit = course.units[id_]
        unit.reviews += 1
        course.review.forget(id_)
        if id_ in rejected:
            course.review.rejected[id_] = rejected[id_]
        elif id_ not in event.rerun:
            course.passes(unit)


def _sent_back(state: TaskState, event: task_events.SentBack) -> None:
    course = _course(state, event.subtask)
    course.rework = None
    if event.rerun:
        course.send_back(event.rerun)


def _synthesized(state: TaskState, event: task_events.Synthesized) -> None:
    course = _course(state, event.subtask)
    _call_over(state, course, "combine", event.usage, event.at)
    step = course.step("combine")
    step.answered, step.asked = None, ()
    course.output, course.combined, course.uncombined = event.output, True, bool(event.error)
    if event.error:
        course.notes.append(f"synthesizer: {event.error}")
        course.best_effort = True


# -- undo ----------------------------------------------------------------------------------------------------


def going_on_above(unit: Unit) -> Course | None:
    """Return the course that goes on with a unit: its own, or the nearest above it whose team has not ended."""
    for each in unit.upwards():
        if each.course is not None and each.status is RUNNING:
            return each.course
    return None


def _compensating(state: TaskState, event: task_events.Compensating) -> None:
    unit = state.find(event.subtask)
    effect = unit.effect_of(event.worker, event.act)
    undo = unit.undo
    if undo is None or undo.undoes is not effect:
        undo = unit.undo = Unit(f"{unit.path}/@undo", "undo", unit, unit.spec, unit.scope)
        undo.undoes, undo.worker, undo.epoch = effect, event.worker, event.act
    undo.status, undo.attempt, undo.due, undo.answered = RUNNING, event.attempt, None, None
    undo.made = event.attempt - 1
    undo.started_at, undo.seq = event.at, state.events
    course = going_on_above(unit)
    if course is not None:
        course.undoing = undo


def _compensated(state: TaskState, event: task_events.Compensated) -> None:
    unit = state.find(event.subtask)
    effect = unit.effect_of(event.worker, event.act)
    if effect is not None:
        effect.undone, effect.stands = not event.error, bool(event.error)
    if unit.undo is not None and unit.undo.question is not None:
        close_question(state, unit.undo.question.id)
    course, unit.undo = going_on_above(unit), None
    if course is not None:
        course.undoing = None
    state.touch(unit)
    if event.error:
        state.undo_errors[unit.path] = event.error
        return
    if unit.path not in state.compensated:
        state.compensated.append(unit.path)
    _is_compensated(unit)
    for team in unit.upwards():
        if team is unit or team.role != "work" or team.path in state.compensated:
            continue
        if not any(effect.needs_undo and effect.undoable for each in team.below() for effect in each.effects or ()):
            _team_compensated(state, team)


def _is_compensated(unit: Unit) -> None:
    """Several workers may have had a hand in it. One that declares no undo, or had done nothing, leaves nothing."""
    if any(each.needs_undo and (each.undoable or unit.spec.undo) for each in unit.effects or ()):
        return
    if unit.status is SUCCEEDED:
        unit.status = SubtaskStatus.COMPENSATED  # else it stays what it is: the report says how it failed


def _team_compensated(state: TaskState, team: Unit) -> None:
    """All that its members had done is undone, so what the team had done is."""
    effect = team.last_effect
    if effect is not None:
        effect.undone = True
    state.compensated.append(team.path)
    if team.status is SUCCEEDED:
        team.status = SubtaskStatus.COMPENSATED


_APPLY: Final[dict[type[TaskEvent], Callable[[TaskState, Any], None]]] = {
    task_events.TaskSubmitted: _submitted,
    task_events.TaskJoined: _joined,
    task_events.TaskPriorityChanged: _prioritized,
    task_events.TaskRetried: _retried,
    task_events.TaskEnding: _ending,
    task_events.TaskFinished: _finished,
    task_events.Planned: _planned,
    task_events.PlanRefused: _refused,
    task_events.Replanning: _replanning,
    task_events.SubtaskQueued: _queued,
    task_events.SubtaskStarted: _started,
    task_events.SubtaskRequeued: _requeued,
    task_events.SubtaskStepped: _stepped,
    task_events.SubtaskDelegated: _delegated,
    task_events.SubtaskRetrying: _retrying,
    task_events.SubtaskSucceeded: _succeeded,
    task_events.SubtaskFailed: _failed,
    task_events.SubtaskSkipped: _skipped,
    task_events.SubtaskCancelled: _cancelled,
    task_events.UsageTold: _told,
    task_events.EscalationRaised: _raised,
    task_events.EscalationAnswered: _answered,
    task_events.EscalationExpired: _expired,
    task_events.Reviewed: _reviewed,
    task_events.SentBack: _sent_back,
    task_events.Synthesized: _synthesized,
    task_events.Compensating: _compensating,
    task_events.Compensated: _compensated,
}


# -- status --------------------------------------------------------------------------------------------------


def status_of(state: TaskState) -> TaskStatus:
    """Public status: it waits where a question is open, and nothing of it goes on before that is answered."""
    if state.final is not None:
        return state.final
    course = state.root.course
    if course is None:
        return TaskStatus.PENDING
    if state.questions and not any(_moving(course)):
        return TaskStatus.WAITING
    return TaskStatus.RUNNING if course.phase == "running" else TaskStatus.PLANNING


def unit_status_of(unit: Unit) -> SubtaskStatus:
    """Public status of a subtask: one that a team has waits where all in the team waits for people."""
    course = unit.course
    if unit.status is not RUNNING or course is None:
        return unit.status
    asks = any(each.question is not None for each in _all_units(course))
    return SubtaskStatus.WAITING if asks and not any(_moving(course)) else unit.status


def _all_units(course: Course) -> Iterator[Unit]:
    yield from list(course.calls.values())
    for unit in list(course.units.values()):
        yield unit
        if unit.undo is not None:
            yield unit.undo
        if unit.course is not None and unit.status is RUNNING:
            yield from _all_units(unit.course)


def _moving(course: Course) -> Iterator[bool]:
    """Yield True for each unit that goes on by itself: it does not wait for a person, for others, or for its time."""
    for unit in _all_units(course):
        waits = unit.is_composite or any(not each.is_done for each in unit.asked or ())
        if unit.status in {QUEUED, SubtaskStatus.RETRYING} or (unit.status is RUNNING and not waits):
            yield True
    if course.review.waiting and not course.step("review").failed:
        yield True


def fold(id_: str, records: Iterable[Any]) -> TaskState:
    """The state that these records make.

    Raises:
        StoreError: they make none: the first is no submission, or one speaks of what there is not.
    """
    state, number = TaskState(id_), 0
    try:
        for number, record in enumerate(records):
            if (number == 0) is not (type(record) is task_events.TaskSubmitted):
                raise TypeError  # noqa: TRY301 - with the other ways in which it can make no sense
            state.apply(record)
        if not state.events:
            raise LookupError  # noqa: TRY301
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        what = f"makes no sense at record {number} ({type(error).__name__}). It is damaged: restore it from a copy"
        raise StoreError(f"journal of {id_!r}", what) from error
    return state
