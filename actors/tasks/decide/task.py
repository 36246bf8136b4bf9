"""The next event of a course, from where it stands: one look, after every change and after a resume alike.

Comes in: the state, and a few facts. Goes out: an event to be recorded, a step to be called, an effect to be undone, a
time to wait for, or nothing. It is the same for a task and for a team's part of one; they differ in how they end.

::

    planning ----- Planned ------> running -- all done --> review -- passed --> combine --> done
      |  ^  refused, failed: again   ^  ^                    |
      |  '-----------'               |  '----- SentBack <--- undo what is void <-- sent back (Reviewed)
      |                              |
      | no plan                      '------ Planned <-- replanning <-- undo what is void <-- Replanning
      v                                                                     (a required subtask failed for good)
    ending ----> what runs ends ----> undo ----> done (a task: TaskFinished; a team: its ladder says what follows)

With ``review="each"`` subtasks run while a review does; what has a result by the time that the reviewer is free is
reviewed together. The order of the questions below is the order of precedence.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from actors.tasks.decide import attempt, ends
from actors.tasks.decide.drafts import Draft, Facts, draft
from actors.tasks.decide.undo import all_undone, next_effect
from actors.tasks.decide.verdict import as_verdict, not_passed
from actors.tasks.journal.course import Course
from actors.tasks.journal.fold import TaskState
from actors.tasks.journal.unit import Unit
from actors.tasks.model import (
    PENDING,
    ROLES,
    SUCCEEDED,
    Failure,
    FailureKind,
    InvalidResultError,
    SubtaskStatus,
    TaskStatus,
    task_events,
)

DO_AGAIN: Final = "do it again"
"""What is said to a worker where a review or a person sends its result back without a word."""


class Do(Enum):
    """Thing to be done about a course that is no record."""

    PLAN = "plan"
    REVIEW = "review"
    COMBINE = "combine"
    UNDO = "undo"
    FAIL = "fail"
    """A team has failed: its ladder says what follows."""


class Wait(NamedTuple):
    """Nothing is to be done before this time."""

    due: float


Next: TypeAlias = Draft | Do | Wait | None
"""None: something else has to happen first."""


def ready(course: Course) -> Iterator[Draft]:
    """Yield what follows for subtasks whose dependencies are settled: they are queued, or skipped."""
    those, course.ready = course.ready, ()
    for unit in those:
        if unit.status is PENDING and not unit.missing:
            yield draft(unit, task_events.SubtaskQueued)
    barred, course.barred = course.barred, ()
    for unit in barred:
        gone = course.barring(unit) if unit.status is PENDING else None
        if gone is not None:
            yield ends.barred(unit, gone)


def next_of(state: TaskState, course: Course, facts: Facts) -> Next:
    """Return what is next for a course, of the task or of a team; its ready subtasks are no matter of this."""
    unit = course.unit
    if state.final is not None or unit.status is not SubtaskStatus.RUNNING:
        return None
    if course.undoing is not None:
        return Do.UNDO
    if unit.is_ending:
        return None if course.open else _wound_up(state, course)
    those = course.missing() if not course.open else []
    if those and (over := ends.exceeded(course)):  # nobody plans, and nothing is tried again, over its budget
        return ends.fails(course, "budget", f"{over}, and {_culprit(those).id} has failed")  # why, no log line may say
    if course.rework is not None:
        return Do.UNDO if next_effect(state, course) is not None else all_undone(course)
    return _planning(course, facts) if course.phase != "running" else _running(course, facts)


# -- the end -------------------------------------------------------------------------------------------------


def _wound_up(state: TaskState, course: Course) -> Next:
    """Nothing of a course that is ending runs any more."""
    unit, ending = course.unit, course.ending
    cancelled = partial(draft, unit, task_events.SubtaskCancelled, unknown=False, worker=unit.worker or "")
    if unit.role != "task" and (reason := attempt.cut_off(unit)):
        return cancelled(reason)
    if next_effect(state, course) is not None:
        return Do.UNDO
    status = ending.status if ending is not None else TaskStatus.FAILED
    if unit.role == "task":
        return draft(unit, task_events.TaskFinished, status, course.best_effort)
    return cancelled(ending.error) if ending is not None and status is TaskStatus.CANCELLED else Do.FAIL


def _ends_well(course: Course, facts: Facts) -> Draft:
    unit = course.unit
    best_effort = course.best_effort or (facts.settings.reviewer is None and bool(course.best_efforts()))
    if unit.role == "task":
        deadline = facts.state.deadline
        if deadline is not None and deadline <= facts.now:
            return ends.fails(course, "deadline", "its time is up")
        return draft(unit, task_events.TaskFinished, TaskStatus.SUCCEEDED, best_effort)
    output = course.output if course.combined else course.results()
    return draft(unit, task_events.SubtaskSucceeded, unit.worker or "", unit.attempt, output, best_effort=best_effort)


# -- planning ------------------------------------------------------------------------------------------------


def _call(course: Course, what: Do, facts: Facts) -> Next:
    """Have a step called, now or when its next try is due; not while a person is asked about it."""
    call = course.calls.get(what.value)
    if call is None:
        return what
    if call.status is SubtaskStatus.WAITING:
        return None
    return Wait(call.due) if call.due is not None and call.due > facts.now else what


def _planning(course: Course, facts: Facts) -> Next:
    call, refusal = course.calls.get("plan"), course.refusal
    if call is not None and call.answered is not None:
        return _answered(course, call)
    if call is not None and call.status is SubtaskStatus.FAILED:
        problems = f"the planner failed: {call.error}"
    elif refusal is None or not (refusal.is_last or refusal.number >= facts.settings.max_plan_attempts):
        return _call(course, Do.PLAN, facts)
    else:
        problems = "; ".join(map(str, refusal.problems))
    if course.phase == "planning":
        return ends.fails(course, "plan", problems)
    kind, error = _missing_error(course.missing())
    return ends.fails(course, kind, f"{error}; there is no other plan: {problems}")


def _culprit(those: list[Unit]) -> Unit:
    return next((unit for unit in those if unit.status is SubtaskStatus.FAILED), those[0])


def _missing_error(those: list[Unit]) -> tuple[str, str]:
    """Kind and text of the end of a course that lacks the results of these."""
    culprit = _culprit(those)
    kind = FailureKind.RECURSION.value if culprit.kind == FailureKind.RECURSION else "subtask"
    return kind, f"{culprit.id}: {culprit.error}"


# -- running -------------------------------------------------------------------------------------------------


def _running(course: Course, facts: Facts) -> Next:
    busy, failed = False, None
    for call in course.calls.values():
        if call.answered is not None:
            return _answered(course, call)
        busy = busy or call.status in {SubtaskStatus.RUNNING, SubtaskStatus.WAITING}
        failed = call if call.status is SubtaskStatus.FAILED else failed
    if failed is not None or course.rejected:
        return None if busy else _undecided(course, failed, facts)
    if course.unreviewed:
        return _review_each(course, facts)
    return None if course.open else _all_done(course, facts)


def _all_done(course: Course, facts: Facts) -> Next:
    """Every subtask has ended, and nothing has ended the course yet: what was asked for in vain is undone first."""
    settings, those = facts.settings, course.missing()
    if those and course.replans < settings.replan:
        names = tuple(unit.id for unit in those if unit.status is SubtaskStatus.FAILED)
        return draft(course.unit, task_events.Replanning, course.replans + 1, names)
    if those:
        return ends.fails(course, *_missing_error(those))
    if next_effect(facts.state, course) is not None:
        return Do.UNDO
    if settings.reviewer is not None and not course.reviewed and not course.reviews_each:
        return _call(course, Do.REVIEW, facts)
    if not course.combined and (settings.synthesizer is not None or facts.output_is_checked):
        return _call(course, Do.COMBINE, facts)
    return _ends_well(course, facts)


def _review_each(course: Course, facts: Facts) -> Next:
    if facts.settings.reviewer is not None:
        return _call(course, Do.REVIEW, facts)
    ids = tuple(course.unreviewed)  # the declaration has changed: nobody is there to review them
    return draft(course.unit, task_events.Reviewed, course.iterations, True, {}, subtasks=ids)  # noqa: FBT003 - a field


# -- what is to be decided -----------------------------------------------------------------------------------


def _undecided(course: Course, failed: Unit | None, facts: Facts) -> Draft:
    """A reviewer or a synthesizer has failed for good, or a review has said no for good."""
    if failed is None:
        return _rejected(course, facts)
    if failed.is_vouched or facts.settings.on_step_failure == "best_effort":
        return _taken_as_they_are(course, failed)
    return ends.fails(course, "step", f"the {ROLES[failed.role]} failed: {failed.error}")


def _taken_as_they_are(course: Course, failed: Unit) -> Draft:
    """The results as they are, without the step that has failed."""
    if failed.role == "combine":
        return draft(course.unit, task_events.Synthesized, course.results(), failed.error)
    more: dict[str, Any] = {"best_effort": True, "error": failed.error, "subtasks": tuple(course.unreviewed)}
    return draft(course.unit, task_events.Reviewed, course.iterations + 1, False, {}, **more)  # noqa: FBT003 - a field


def _rejected(course: Course, facts: Facts) -> Draft:
    ids = tuple(course.rejected)
    checks = "; ".join(dict.fromkeys(text for text in course.rejected.values() if text))
    said = f"not passed: {checks}" if checks else "the reviewer did not let it pass"
    if facts.settings.on_rejected != "escalate":  # "best_effort" was decided when the review was recorded
        return ends.fails(course, "review", f"rejected after review {course.iterations}: {said}")
    call, question = course.call("review"), f"review {course.iterations} said no. What now?"
    failure = Failure(FailureKind.INVALID, InvalidResultError(said), question=question, told=said)
    return attempt.asked(call, failure, facts).with_fields(subtasks=ids)


# -- what a person has said ----------------------------------------------------------------------------------


def _answered(course: Course, call: Unit) -> Draft | Do:
    """Decide what follows from an answer about a step, or from there being none."""
    event, role, why = call.answered, call.role, call.error
    if not isinstance(event, task_events.EscalationAnswered):
        return ends.fails(course, "review" if course.rejected else "step", f"nobody answered in time; {why}")
    if event.answer == "reject":
        said = f"a person said no: {event.value}" if event.value else "a person said no"
        return ends.fails(course, FailureKind.DENIED.value, f"{said}; {why}")
    if role != "review":  # an edit is taken as its plan by the engine
        return Do.PLAN if role == "plan" else draft(course.unit, task_events.Synthesized, event.value)
    ids = looked_at(course, tuple(course.rejected))
    failed = dict.fromkeys(ids, str(event.value)) if event.answer == "respond" else {}
    if event.answer == "edit":  # the verdict of a person is taken for the reviewer's
        failed = not_passed(as_verdict(event.value, ids))
    rerun = {id_: text or DO_AGAIN for id_, text in failed.items() if id_ in ids}
    more: dict[str, Any] = {"subtasks": ids}
    return draft(course.unit, task_events.Reviewed, course.iterations, not rerun, rerun, **more)


def looked_at(course: Course, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Ids of the subtasks that a question about a review is about: those that it names, or all that were to be seen."""
    shown = asked or tuple(course.unreviewed)
    return tuple(id_ for id_ in shown if id_) or with_results(course)


def with_results(course: Course) -> tuple[str, ...]:
    """Ids of the subtasks of the plan that have a result."""
    return tuple(unit.id for unit in course.planned() if unit.status is SUCCEEDED)
