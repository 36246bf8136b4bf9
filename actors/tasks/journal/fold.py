"""The state of a task: a fold over its journal.

Comes in: the events of ``actors.tasks.model.task_events``, one after the other, live or read back from a store; the
same events always give the same state. Goes out: a tree of units. Nothing is decided here: what follows from a state is
decided in ``actors.tasks.decide``. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from actors.model.events import Event
from actors.tasks.journal.course import NO_WORK, Course
from actors.tasks.journal.unit import (
    FRESH,
    LOST,
    NO_REMARKS,
    STAGES,
    WITHDRAWN,
    Ask,
    Escalation,
    KeptState,
    KeptStep,
    Unit,
    step_key,
)
from actors.tasks.model import (
    NO_USAGE,
    NONE,
    PENDING,
    QUEUED,
    ROLES,
    RUNNING,
    SUCCEEDED,
    UNCOUNTED,
    UNKNOWN,
    CourseEvent,
    FailureKind,
    StoreError,
    SubtaskStatus,
    Task,
    TaskEvent,
    TaskStatus,
    Usage,
    task_events,
)
from actors.validation.spec_model import copy_with

_NO_TASK: Final = Task(goal="?")
"""Until its first record is known."""


@dataclass(slots=True, eq=False, repr=False)
class TaskState:
    """Where one task stands.

    ``apply`` takes in an event: by the method of its name, which gets the unit that it is about as well. A kind without
    such a method changes nothing.
    """

    id: str
    born: int = field(default_factory=itertools.count().__next__)  # tasks in the order in which they came
    path: str = ""  # of its supervisor
    task: Task = _NO_TASK
    root: Unit = field(default_factory=lambda: Unit("", "task", None, NO_WORK, ""))
    units: dict[str, Unit] = field(default_factory=dict)
    """All subtasks by their paths, and the task itself under the empty one."""
    events: int = 0  # so far
    last_at: float = 0.0  # when the last one was
    starts: int = 0
    final: TaskStatus | None = None
    deadline: float | None = None
    chain: tuple[str, ...] = ()
    lineage: tuple[str, ...] = ()
    hops: int = 0
    trace: str = ""
    has_asks: bool = False  # some of its subtasks were asked for
    usage_by: dict[str, Usage] = NONE
    """What was used up, by role."""
    questions: dict[str, Escalation] = NONE
    """Open questions, those of its teams too, the oldest first."""
    raised: int = 0
    undone: dict[str, None] = NONE
    """Paths of the subtasks that are undone, in that order."""
    touched: dict[str, None] = field(default_factory=dict)
    """Paths of the composite units of which something has changed since somebody looked; emptied by who looks."""

    def __post_init__(self) -> None:
        self.units[""] = self.root

    @property
    def course(self) -> Course:
        """Course of the task itself."""
        if self.root.course is None:  # the first record makes it
            raise LookupError(self.id)
        return self.root.course

    @property
    def status(self) -> TaskStatus:
        """Public status: it waits if a question is open, and nothing of it goes on before that is answered."""
        course = self.root.course
        if self.final is not None or course is None:
            return self.final or TaskStatus.PENDING
        if self.questions and not _is_moving(course):
            return TaskStatus.WAITING
        return TaskStatus.RUNNING if course.phase == "running" else TaskStatus.PLANNING

    def find(self, subtask: str, role: str = "work") -> Unit:
        """Return the unit that an event is about.

        Raises:
            LookupError: there is none.
        """
        unit: Unit | None = self.units[subtask]
        if role in STAGES and unit is not None and unit.course is not None:
            return unit.course.call(role)
        if role != "work" and unit is not None:
            unit = unit.undo
        if unit is None:
            raise LookupError(subtask)
        return unit

    def course_of(self, unit: Unit) -> Course:
        """Return the course that a unit is in; of the task itself its own."""
        for each in unit.over or unit.line:
            if each.course is not None:
                return each.course
        raise LookupError(unit.path)

    def undo_errors(self) -> dict[str, str]:
        """Return why subtasks could not be undone, by their paths."""
        each_effect = (each for unit in list(self.units.values()) for each in list(unit.effects.values()))
        return {effect.unit.path: effect.stands for effect in each_effect if effect.stands}

    # -- what events have in common ------------------------------------------------------------------------

    def apply(self, event: TaskEvent) -> None:
        """Take one event in."""
        self.events += 1
        role, unit = getattr(event, "role", "work"), self.units.get(getattr(event, "subtask", ""))
        if role != "work" and unit is not None:
            unit = self.find(unit.path, role)
        changes = getattr(self, event.name, None)
        if changes is not None:
            changes(unit, event)
        if isinstance(event, CourseEvent):
            self.touched[event.subtask] = None
        self.last_at = event.at

    def touch(self, unit: Unit) -> Course | None:
        """Note that something of a unit has changed: the course that goes on with it is looked at, and returned."""
        for each in unit.line:
            if each.course is not None and each.status is RUNNING:
                self.touched[each.path] = None
                return each.course
        return None

    def touch_all(self) -> None:
        """Have the task be looked at, and the teams that have a part of it, as far as these go on."""
        for each in self.units.values():
            if each.is_composite and each.status is RUNNING:
                self.touched[each.path] = None

    def _spend(self, unit: Unit, usage: Usage) -> None:
        """Count what a unit has used up: for itself, for the teams above, and for the task."""
        if usage is NO_USAGE:
            return
        role = unit.role if unit.role in ROLES else "work"
        self.usage_by = {**self.usage_by, role: self.usage_by.get(role, NO_USAGE) + usage}
        for each in unit.line:
            each.told += usage

    def _ran(self, unit: Unit, ended_at: float, usage: Usage) -> None:
        """Count the time and the usage of an attempt that has ended, or of none.

        The time is used up by an executor that has told no seconds itself.
        """
        _, seconds = unit.times(ended_at)
        unit.running_s += seconds
        if not usage.seconds and unit.role == "work" and not unit.is_composite:
            for each in unit.line:
                each.untold_s += seconds
        self._spend(unit, usage)

    def _attempt_over(self, unit: Unit, event: Any) -> None:
        """An attempt was no success: whether it had an effect decides whether it may have to be undone."""
        unit.error, unit.kind, unit.at_fault = event.error, event.kind, event.at_fault
        unit.forget_steps(keeps=getattr(event, "keeps_steps", False))
        self._may_have_acted(unit, is_sure=event.kind not in UNKNOWN)
        self._ran(unit, event.at, event.usage)
        unit.losses = 0

    @staticmethod
    def _may_have_acted(unit: Unit, *, is_sure: bool) -> None:
        """An attempt was no success: it may have had its effect, unless it is sure that it, or its team, had none."""
        effect = unit.effect
        if unit.status is RUNNING and effect is not None:
            inside = [one for each in unit.below() for one in each.effects.values()] if effect.is_team else []
            effect.acted |= not is_sure or any(one.acted and not one.undone for one in inside)

    def _ends(self, unit: Unit, status: SubtaskStatus, at: float) -> None:
        was_done = unit.is_done
        unit.forget_steps()
        unit.status, unit.ended_at, unit.due, unit.answered = status, at, None, None
        self.touch(unit.above or unit)
        if was_done or unit.role != "work":
            return
        course = self.course_of(unit)
        course.open -= 1
        if status is SUCCEEDED and course.reviews_each and unit.asker is None:
            course.unreviewed = course.unreviewed or {}
            course.unreviewed[unit.id] = None
        elif status is SUCCEEDED or not unit.spec.required:
            course.passes(unit)
        else:
            course.barred = [*course.barred, *(each for each in unit.dependants if each.status is PENDING)]

    def _call_over(self, course: Course, role: str, event: Any) -> None:
        """A call of a planner, a reviewer or a synthesizer has come to an end of its own."""
        call = course.calls.get(role)
        if call is not None:  # else the library's own planner has answered on the spot
            self._ran(call, event.at, event.usage)
            call.begins_anew(is_new=True)
            call.remarks = NO_REMARKS

    def _reopen(self, course: Course, *, retried: bool = False) -> None:
        course.reopen(retried=retried)
        for unit in course.units.values():
            if unit.status is PENDING:
                self.undone.pop(unit.path, None)

    def _close_question(self, id_: str) -> None:
        """Take a question off the list."""
        question = self.questions.pop(id_, None)
        if question is not None:
            self.find(question.about, question.role).question = None

    # -- the task ------------------------------------------------------------------------------------------

    def task_submitted(self, root: Unit, event: task_events.TaskSubmitted) -> None:
        task = event.spec if event.spec.id is not None else copy_with(event.spec, id=self.id)
        self.path, self.task, self.deadline = event.path, task, event.deadline
        self.chain, self.lineage, self.hops, self.trace = event.chain, event.lineage, event.hops, event.trace
        root.scope, root.status, root.started_at = event.path, RUNNING, event.at
        if task.budget is not None or task.on_failure is not None:
            root.spec = copy_with(NO_WORK, budget=task.budget, on_failure=task.on_failure)
        root.metadata = task.metadata
        root.course = Course(root, event.path)
        self.touch(root)

    def task_joined(self, _: Unit, event: task_events.TaskJoined) -> None:
        self.chain, self.lineage = event.chain, event.lineage

    def task_priority_changed(self, _: Unit, event: task_events.TaskPriorityChanged) -> None:
        self.task = copy_with(self.task, priority=event.priority)

    def task_retried(self, root: Unit, event: task_events.TaskRetried) -> None:
        self.final, self.deadline = None, event.deadline
        self.questions = NONE
        root.has_budget_anew()
        root.status, root.started_at = RUNNING, event.at
        self._reopen(self.course, retried=True)
        self.touch(root)

    def task_ending(self, unit: Any, event: task_events.TaskEnding) -> None:
        course: Course = unit.course
        course.ending, course.rework = event, None
        for call in course.calls.values():
            call.answered = None
            if call.question is not None:
                self._close_question(call.question.id)

    def task_finished(self, root: Unit, event: task_events.TaskFinished) -> None:
        self.final, self.course.best_effort = event.status, event.best_effort
        root.status, root.ended_at = SubtaskStatus(event.status.value), event.at

    # -- plans ---------------------------------------------------------------------------------------------

    def plan_refused(self, unit: Any, event: task_events.PlanRefused) -> None:
        unit.course.refusal = event
        self._call_over(unit.course, "plan", event)

    def planned(self, unit: Any, event: task_events.Planned) -> None:
        course: Course = unit.course
        course.plan, course.warnings = event.plan, event.warnings
        course.planned_at = course.planned_at or event.at
        self._call_over(course, "plan", event)
        course.phase = "running"
        course.reviews_each = event.review == "each"
        course.goes_on_with(event.plan, event.kept)
        for each in course.units.values():
            self.units[each.path] = each

    def replanning(self, unit: Any, event: task_events.Replanning) -> None:
        course: Course = unit.course
        course.replans, course.phase = event.number, "replanning"
        course.refusal, course.rework = None, {}

    # -- subtasks ------------------------------------------------------------------------------------------

    def subtask_queued(self, unit: Unit, event: task_events.SubtaskQueued) -> None:
        unit.status, unit.queued_at, unit.due, unit.answered = QUEUED, event.at, None, None

    def subtask_started(self, unit: Unit, event: task_events.SubtaskStarted) -> None:
        self.starts += 1
        unit.begins(event, self.starts)
        if not event.is_team:
            return
        scope = f"{event.path}/{event.worker}"
        if unit.course is not None and unit.course.scope == scope:
            self._reopen(unit.course)
        else:
            for each in list(unit.below()):  # another team had it
                self.units.pop(each.path, None)
            unit.course = Course(unit, scope)
        self.touch(unit)

    def subtask_requeued(self, unit: Unit, event: task_events.SubtaskRequeued) -> None:
        is_lost = event.reason == LOST
        self._ran(unit, (event.ended_at or self.last_at) if is_lost else event.at, event.usage)
        unit.losses += is_lost
        unit.preemptions += event.reason == "preempted"
        self._may_have_acted(unit, is_sure=event.reason == WITHDRAWN)
        unit.status = QUEUED if unit.role == "work" else PENDING
        unit.queued_at, unit.due = event.at, None
        self.touch(unit)

    def subtask_stepped(self, unit: Unit, event: task_events.SubtaskStepped) -> None:
        step = KeptStep(event.fingerprint, event.value, event.is_of_subtask)
        unit.steps, unit.losses = unit.steps or {}, 0
        unit.steps[step_key(event.step, event.number)] = step
        self._spend(unit, event.usage)

    def usage_told(self, unit: Unit, event: task_events.UsageTold) -> None:
        self._spend(unit, event.usage)
        self.touch(unit)

    def subtask_succeeded(self, unit: Unit, event: task_events.SubtaskSucceeded) -> None:
        if unit.effect is not None and unit.status is RUNNING:  # else a person gave the result
            unit.effect.acted, unit.effect.result = True, event.value
        unit.value, unit.best_effort = event.value, event.best_effort
        unit.summary, unit.importance, unit.passed = event.summary, event.importance, False
        unit.error, unit.kind, unit.kept = "", "", None
        self.undone.pop(unit.path, None)  # if it was undone, it is done again
        self._ran(unit, event.at, event.usage)
        self._ends(unit, SUCCEEDED, event.at)

    def subtask_retrying(self, unit: Unit, event: task_events.SubtaskRetrying) -> None:
        self._attempt_over(unit, event)
        unit.status, unit.standing, unit.due, unit.answered = SubtaskStatus.RETRYING, event.standing, event.due, None
        if event.feedback:
            unit.remarks = unit.remarks.heard(event.feedback)
        if event.kind not in UNCOUNTED:
            unit.made = event.attempt
        self.touch(unit)

    def subtask_failed(self, unit: Unit, event: task_events.SubtaskFailed) -> None:
        self._attempt_over(unit, event)
        unit.made = max(unit.made, event.attempt)
        self._ends(unit, SubtaskStatus.FAILED, event.at)

    def subtask_skipped(self, unit: Unit, event: task_events.SubtaskSkipped) -> None:
        unit.error = event.reason
        self._ends(unit, SubtaskStatus.SKIPPED, event.at)

    def subtask_cancelled(self, unit: Unit, event: task_events.SubtaskCancelled) -> None:
        failed = unit.error if unit.kind != FailureKind.ESCALATED else ""  # that is a question, which no log line has
        unit.error = f"{event.reason}, after: {failed}" if failed else event.reason
        self._may_have_acted(unit, is_sure=not event.unknown and not unit.is_composite)
        self._ran(unit, event.at, event.usage)
        if unit.question is not None:
            self._close_question(unit.question.id)
        self._ends(unit, SubtaskStatus.CANCELLED, event.at)

    def subtask_delegated(self, unit: Unit | None, event: task_events.SubtaskDelegated) -> None:
        asker, begins = self.units[event.parent], unit is None or event.anew
        self.has_asks = True
        if unit is None:
            host = host_of(asker, event.path)
            course = self.course_of(host)
            unit = Unit(event.subtask, "work", course.unit, event.spec, course.scope)
            unit.asker, unit.id = asker, unit.path.removeprefix(course.path_of(""))
            course.units[unit.id] = self.units[unit.path] = unit
            host.asks += 1
            asker.asked = [*(asker.asked or ()), unit]
        elif begins:
            unit.begins_anew()
        if begins:
            course = self.course_of(unit)
            course.open += 1
            course.ready = [*course.ready, unit]
        unit.ask = Ask(event.ask, event.attempt, asker.epoch, event.chain, event.lineage)
        self.touch(unit.above or unit)

    # -- people --------------------------------------------------------------------------------------------

    def escalation_raised(self, unit: Unit, event: task_events.EscalationRaised) -> None:
        self.raised += 1
        unit.question, unit.answered = Escalation(event), None
        self.questions = {**self.questions, event.escalation: unit.question}
        if event.state is not None:
            goes_on_at = unit.standing if event.resumes and event.role != "undo" else None
            unit.kept = KeptState(event.worker, event.state, event.escalation, goes_on_at)
        elif event.kind == FailureKind.ESCALATED.value:
            unit.kept = None  # its worker asks something else
        elif unit.kept is not None:
            unit.kept = unit.kept._replace(goes_on_at=None)  # its ladder asks, about what has failed since
        self._attempt_over(unit, event)
        unit.made = max(unit.made, unit.attempt)
        unit.status, unit.standing, unit.due = SubtaskStatus.WAITING, event.standing, event.due
        self.touch(unit)

    def escalation_answered(self, unit: Unit, event: task_events.EscalationAnswered) -> None:
        self._close_question(event.escalation)
        self.touch(unit)
        unit.answered = event
        unit.is_told(event)
        goes_on = event.answer in {"approve", "respond"}
        if unit.role in STAGES:
            if goes_on and not (unit.role == "review" and self.course_of(unit).rejected):  # it is called once more
                unit.status, unit.standing, unit.due, unit.answered = PENDING, FRESH, None, None
        elif unit.kept is not None and unit.kept.goes_on_at is not None:
            unit.standing = unit.kept.goes_on_at
        elif unit.role == "undo":
            unit.standing = replace(unit.standing, tries=0)
        elif goes_on:
            unit.next_epoch()
            unit.standing = replace(unit.standing, tries=0, last_chance=True)

    def escalation_expired(self, unit: Unit, event: task_events.EscalationExpired) -> None:
        self._close_question(event.escalation)
        self.touch(unit)
        unit.answered, unit.kind = event, FailureKind.UNANSWERED.value

    # -- quality -------------------------------------------------------------------------------------------

    def reviewed(self, unit: Any, event: task_events.Reviewed) -> None:
        course: Course = unit.course
        call = course.call("review")
        remarks, is_of_reviewer = call.remarks, call.answered is None  # else a person has answered in its place
        self._call_over(course, "review", event)
        if event.problems:
            call.remarks = remarks.sent_back(event.problems)
            return
        course.iterations = max(course.iterations, event.iteration)
        course.best_effort |= event.best_effort
        if event.error:
            course.notes += (f"reviewer: {event.error}",)
        if event.checks and event.best_effort:
            course.notes += (f"review: not passed: {event.checks}",)
        failed, rejected = {*event.rerun, *event.rejected}, dict.fromkeys(event.rejected, event.checks)
        course.rejected = {} if event.best_effort else rejected
        course.reviewed = not event.rerun and not course.rejected
        for each in [course.units[id_] for id_ in event.subtasks if id_]:
            each.reviews += is_of_reviewer
            each.passed = each.passed or not (event.error or each.id in failed)
            course.unreviewed.pop(each.id, None)
            if course.reviews_each and course.is_settled(each) and each.id not in event.rerun:
                course.passes(each)
        if event.rerun:
            course.rework = dict(event.rerun)

    def sent_back(self, unit: Any, event: task_events.SentBack) -> None:
        unit.course.rework = None
        if event.rerun:
            unit.course.send_back(event.rerun)

    def synthesized(self, unit: Any, event: task_events.Synthesized) -> None:
        course: Course = unit.course
        self._call_over(course, "combine", event)
        course.output, course.combined = event.output, True
        if event.error:
            course.notes += (f"synthesizer: {event.error}",)
            course.best_effort = True

    # -- undo ----------------------------------------------------------------------------------------------

    def compensating(self, unit: Unit, event: task_events.Compensating) -> None:
        effect, undo = unit.effects[event.worker, event.act], unit.undo
        if undo is None or undo.undoes is not effect:
            undo = unit.undo = Unit(f"{unit.path}/@undo", "undo", unit, unit.spec, unit.scope)
            undo.undoes, undo.worker, undo.epoch = effect, event.worker, event.act
        undo.status, undo.attempt, undo.due, undo.answered = RUNNING, event.attempt, None, None
        undo.made = event.attempt - 1
        undo.started_at, undo.seq = event.at, self.events
        course = self.touch(unit)
        if course is not None:
            course.undoing = undo

    def compensated(self, unit: Unit, event: task_events.Compensated) -> None:
        effect, undo = unit.effects[event.worker, event.act], unit.undo
        effect.undone, effect.stands = not event.error, event.error
        if undo is not None and undo.question is not None:
            self._close_question(undo.question.id)
        course, unit.undo = self.touch(unit), None
        if course is not None:
            course.undoing = None
        if event.error:
            return
        if effect.is_team and event.act == unit.epoch and unit.course is not None:
            unit.course.plan = None  # a team that was undone as a whole begins as a whole
        for each in unit.line:
            inside = (unit,) if each is unit else each.below()
            is_left = any(one.can_be_undone for one in inside)
            if each is not unit:
                goes_on = each.status is RUNNING and not each.is_ending
                if is_left or goes_on or each.role != "work":
                    continue  # something that a member of the team did stands, or will
                if each.effect is not None:
                    each.effect.undone = True
            self.undone = {**self.undone, each.path: None}
            if each.status is SUCCEEDED and not is_left:
                each.status = SubtaskStatus.COMPENSATED  # else it stays what it is: the report says how it failed


def host_of(asker: Unit, scope: str) -> Unit:
    """Return the unit in the course of this supervisor that an asker works for: itself, or a team that it is in."""
    host = asker
    while host.scope != scope and host.above is not None and host.above.role != "task":
        host = host.above
    return host


# -- status --------------------------------------------------------------------------------------------------


def unit_status_of(unit: Unit) -> SubtaskStatus:
    """Public status of a subtask: one that a team has waits if all in the team waits for people."""
    course = unit.course
    if unit.status is not RUNNING or course is None:
        return unit.status
    asks = any(each.question is not None for each in _all_units(course))
    return SubtaskStatus.WAITING if asks and not _is_moving(course) else unit.status


def _all_units(course: Course) -> Iterator[Unit]:
    yield from list(course.calls.values())
    for unit in list(course.units.values()):
        yield unit
        if unit.undo is not None:
            yield unit.undo
        if unit.course is not None and unit.status is RUNNING:
            yield from _all_units(unit.course)


def _is_moving(course: Course) -> bool:
    """True if something of a course goes on by itself: it waits for no person, and for no other unit."""
    for unit in _all_units(course):
        waits = unit.is_composite or any(not each.is_done for each in unit.asked or ())
        if unit.status in {QUEUED, SubtaskStatus.RETRYING} or (unit.status is RUNNING and not waits):
            return True
    review = course.calls.get("review")
    return bool(course.unreviewed) and (review is None or review.status is PENDING)


def fold(id_: str, records: Iterable[Any]) -> TaskState:
    """The state that these records make.

    Raises:
        StoreError: they make none: the first is no submission, or one speaks of what there is not.
    """
    state = TaskState(id_)
    try:
        for record in records:
            state.apply(record)
        if state.root.course is None:  # no record says what the task is
            raise LookupError  # noqa: TRY301 - with the other ways in which they can make no sense
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        where = f"makes no sense at record {max(0, state.events - 1)} ({type(error).__name__})"
        raise StoreError(f"journal of {id_!r}", f"{where}. It is damaged: restore it from a copy") from error
    return state


def has_metadata(first: Event | None, wanted: Mapping[str, Any]) -> bool:
    """True if this is the first record of a task with all of these entries."""
    return isinstance(first, task_events.TaskSubmitted) and wanted.items() <= first.spec.metadata.items()
