"""The next step of a task as a whole, from where it stands: one look, after every change and after a resume alike.

Comes in: the folded state, and a few facts. Goes out: a record to be made, a step to be called, a time to wait for, or
nothing. Pure: ``actors.tasks.orchestration.lifecycle`` carries it out. What follows from the end of a step is decided
in ``actors.tasks.recovery.stage_ends``.

::

    planning ----- Planned ------> running -- all done --> review -- passed --> combine --> finished
      |  ^  refused, failed: again   ^  ^                    |
      |  '-----------'               |  '--- ReworkBegun <-- undo what is void <-- sent back (Reviewed)
      |                              |
      | no plan                      '------ Planned <-- replanning <-- undo what is void <-- Replanning
      v                                                                     (a required subtask failed for good)
    ending -------------------------> undoing --> finished

One step at a time: a planner, a reviewer, a synthesizer or an undo. With ``review="each"`` subtasks run meanwhile; what
has a result by the time that the reviewer is free is reviewed together. The order of the questions below is the order
of precedence: an undo that is under way, a step that was begun, what is void, what a person has said, what is to be
decided, what is to be reviewed, and only then the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from actors.model.spec import RandomSource
from actors.tasks.journal.dropped import lacking
from actors.tasks.journal.subtask_state import SubtaskState
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.event_base import Draft, draft
from actors.tasks.model.outcome import FailureKind
from actors.tasks.model.policy import Ladder
from actors.tasks.model.task import SUCCEEDED, SubtaskStatus, TaskStatus
from actors.tasks.planning.settings import Tasks
from actors.tasks.recovery.endings import exceeded
from actors.tasks.results.review import as_verdict, findings


class StageFacts(NamedTuple):
    """Facts beside the state of the task."""

    settings: Tasks
    now: float
    """Seconds since 1970."""
    random: RandomSource
    results: Callable[[], Mapping[str, Any]]
    """Results of the plan; read again from the journal where they are not held."""
    is_busy: bool = False
    """A step has been made, and waits for its turn or runs."""


class Step(Enum):
    """Step of a task that is to be called, or goes on."""

    PLAN = "plan"
    REVIEW = "review"
    COMBINE = "combine"
    UNDO = "undo"


class Wait(NamedTuple):
    """Nothing is to be done before this time."""

    due: float


Next: TypeAlias = Draft | Step | Wait | None
"""None: something else has to happen first."""

_CALLED = {step.value: step for step in (Step.PLAN, Step.REVIEW, Step.COMBINE)}


def next_of(state: TaskState, facts: StageFacts) -> Next:
    """Return what is next for a task; its ready subtasks are no matter of this."""
    if state.final is not None:
        return None
    if state.phase == "undoing" or state.undoing is not None:
        return Step.UNDO
    if state.ending is not None:
        is_empty = state.phase == "planning"  # nothing was begun
        return draft(task_events.TaskFinished, state.ending.status, state.best_effort) if is_empty else None
    begun = _CALLED.get(state.step)
    if begun is not None or facts.is_busy:
        return begun
    if state.rework is not None:
        return Step.UNDO
    return _planning(state, facts) if state.phase in {"planning", "replanning"} else _running(state, facts)


def _call(state: TaskState, step: Step, facts: StageFacts) -> Next:
    """Have a step called, now or when its next try is due."""
    due = state.stage.due
    return Wait(due) if due is not None and due > facts.now else step


def _end(kind: str, error: str) -> Draft:
    return draft(task_events.TaskEnding, TaskStatus.FAILED, kind, error)


# -- planning ------------------------------------------------------------------------------------------------


def _planning(state: TaskState, facts: StageFacts) -> Next:
    refusal = state.refusal
    if refusal is None or not (refusal.is_last or state.refusals >= facts.settings.max_plan_attempts):
        return _call(state, Step.PLAN, facts)
    problems = "; ".join(map(str, refusal.problems))
    if state.phase == "planning":
        return _end("plan", problems)
    kind, error = _missing_error(missing(state))
    return _end(kind, f"{error}; there is no other plan: {problems}")


def missing(state: TaskState) -> list[SubtaskState]:
    """Required subtasks of the present plan that have ended without a result."""
    return [
        node
        for node in state.nodes.values()
        if node.status is not SUCCEEDED
        and node.parent is None
        and node.spec.required
        and not node.dropped
        and node.is_done
    ]


def _culprit(those: list[SubtaskState]) -> SubtaskState:
    return next((node for node in those if node.status is SubtaskStatus.FAILED), those[0])


def _missing_error(those: list[SubtaskState]) -> tuple[str, str]:
    """Kind and text of the end of a task that lacks the results of these."""
    culprit = _culprit(those)
    kind = FailureKind.RECURSION.value if culprit.kind == FailureKind.RECURSION else "subtask"
    return kind, f"{culprit.id}: {culprit.error}"


# -- running -------------------------------------------------------------------------------------------------


def _running(state: TaskState, facts: StageFacts) -> Next:
    asked = any(each.step for each in state.escalations.values())
    if state.stage.answered is not None:
        return _answered(state)
    if not asked and (state.stage.failed or state.review.rejected):
        return _undecided(state, facts)
    if state.review.waiting and not state.stage.failed:
        return _review_each(state, facts)
    if state.open or state.review.waiting or state.review.rejected or state.stage.failed:
        return None
    return _all_done(state, facts)


def _all_done(state: TaskState, facts: StageFacts) -> Next:
    """Every subtask has ended, and nothing has ended the task yet."""
    settings, those = facts.settings, missing(state)
    if those and (over := exceeded(state)):  # nobody plans, and nothing is tried again, that may use up nothing more
        return _end("budget", f"{over}, and {_culprit(those).id} has failed")  # why, a log line must not say
    if those and state.replans < settings.replan:
        failed = tuple(node.id for node in those if node.status is SubtaskStatus.FAILED)
        return draft(task_events.Replanning, state.replans + 1, failed)
    if those:
        return _end(*_missing_error(those))
    if settings.reviewer is not None and not state.reviewed and not state.review.each:
        return _call(state, Step.REVIEW, facts)
    if settings.synthesizer is not None and not state.combined:
        return _call(state, Step.COMBINE, facts)
    best_effort = state.best_effort or (settings.reviewer is None and bool(state.best_efforts()))
    return draft(task_events.TaskFinished, TaskStatus.SUCCEEDED, best_effort)


def _review_each(state: TaskState, facts: StageFacts) -> Next:
    if facts.settings.reviewer is not None:
        return _call(state, Step.REVIEW, facts)
    ids = tuple(state.review.waiting)  # the declaration has changed: nobody is there to review them
    return draft(task_events.Reviewed, state.iterations, True, {}, subtasks=ids)  # noqa: FBT003 - a field


# -- what is to be decided -----------------------------------------------------------------------------------


def _undecided(state: TaskState, facts: StageFacts) -> Draft:
    """A step has failed for good, or a review has said no for good."""
    settings, stage = facts.settings, state.stage
    if not stage.failed:
        return _rejected(state, facts)
    who = "reviewer" if stage.failed == "review" else "synthesizer"
    if stage.vouched or settings.on_step_failure == "best_effort":
        return taken_as_they_are(state, facts)
    if settings.on_step_failure == "fail":
        return _end("step", f"the {who} failed: {stage.error}")
    return _question(state, facts, stage.failed, f"the {who} failed. What now?", stage.error, ())


def taken_as_they_are(state: TaskState, facts: StageFacts) -> Draft:
    """The results as they are, without the step that has failed."""
    stage = state.stage
    if stage.failed == "combine":
        results = dict(facts.results())  # where some are in the store only, the report has them from there
        return draft(task_events.Synthesized, None if any(lacking(results)) else results, stage.error)
    more: dict[str, Any] = {"best_effort": True, "error": stage.error, "subtasks": tuple(state.review.waiting)}
    return draft(task_events.Reviewed, state.iterations + 1, False, {}, **more)  # noqa: FBT003 - a field


def _rejected(state: TaskState, facts: StageFacts) -> Draft:
    policy, ids = facts.settings.on_rejected, tuple(state.review.rejected)
    if policy == "best_effort":  # decided when it was recorded, unless the declaration has changed since
        more: dict[str, Any] = {"subtasks": _of_each(state, ids), "rejected": ids, "checks": state.review.checks}
        return draft(task_events.Reviewed, state.iterations, False, {}, best_effort=True, **more)  # noqa: FBT003 - a field
    said = f"not passed: {state.review.checks}" if state.review.checks else "the reviewer did not let it pass"
    if policy == "fail":
        return _end("review", f"rejected after review {state.iterations}: {said}")
    return _question(state, facts, "review", f"review {state.iterations} said no. What now?", said, ids)


def _of_each(state: TaskState, ids: tuple[str, ...]) -> tuple[str, ...]:
    return ids if state.review.each else ()


def _question(state: TaskState, facts: StageFacts, step: str, question: str, error: str, ids: tuple[str, ...]) -> Draft:
    """Ask a person about a step; the first rung of the supervisor's ladder that asks somebody says for how long."""
    ladder: Ladder = tuple(facts.settings.on_failure)
    asks = (rung.ask(task_events.LadderPosition(), question) for rung in ladder)
    ask = next((each for each in asks if each is not None), None)
    due = None if ask is None or ask.timeout_s is None else facts.now + ask.timeout_s
    about = ids[0] if len(ids) == 1 else ""
    id_ = f"{state.id}:{about or step}:{state.raised + 1}"
    said = (about, id_, ask.question if ask is not None else question, error, due, task_events.LadderPosition())
    return draft(task_events.StepEscalated, *said, kind="step", step=step, subtasks=ids)


# -- what a person has said ----------------------------------------------------------------------------------


def _answered(state: TaskState) -> Draft:
    """Decide what follows from an answer about a step, or from there being none."""
    event, stage = state.stage.answered, state.stage
    if not isinstance(event, task_events.StepAnswered):
        return _end(
            "review" if stage.asked else "step", f"nobody answered in time; {stage.error or state.review.checks}"
        )
    if event.answer == "reject":
        said = f"a person said no: {event.value}" if event.value else "a person said no"
        return _end(FailureKind.DENIED.value, f"{said}; {stage.error or state.review.checks}".rstrip("; "))
    if stage.failed == "combine":
        return draft(task_events.Synthesized, event.value)
    ids = looked_at(state, stage.asked)
    if event.answer == "respond":
        return _sent_back(state, dict.fromkeys(ids, str(event.value)), ids)
    if event.answer == "approve":
        return _sent_back(state, {}, ids)
    return _by_person(state, event.value, ids)


def _by_person(state: TaskState, value: object, ids: tuple[str, ...]) -> Draft:
    """Take the verdict of a person for the reviewer's; it was looked at when it was given, so it is one."""
    verdict = as_verdict(value, ids)
    failed = findings(verdict).failed
    if not verdict.passed and not failed:  # recorded by an earlier version
        return _end("review", "a person said no")
    return _sent_back(state, {id_: text for id_, text in failed.items() if id_ in ids}, ids)


def _sent_back(state: TaskState, failed: Mapping[str, str], ids: tuple[str, ...]) -> Draft:
    rerun = {id_: text or DO_AGAIN for id_, text in failed.items()}
    more: dict[str, Any] = {"subtasks": _of_each(state, ids), "undo_first": bool(rerun)}
    return draft(task_events.Reviewed, state.iterations, not rerun, rerun, **more)


DO_AGAIN: Final = "do it again"
"""What is said to a worker where a review or a person sends its result back without a word."""


def looked_at(state: TaskState, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Ids of the subtasks that a question about a review is about: those that it names, or all that were to be seen."""
    shown = asked or tuple(state.review.waiting)
    return tuple(id_ for id_ in shown if id_) or planned_results(state)


def reviews_of(state: TaskState, id_: str) -> int:
    """Reviews of a subtask's results so far: of its own, where each is reviewed by itself."""
    return state.nodes[id_].reviews if state.review.each else state.iterations


def planned_results(state: TaskState) -> tuple[str, ...]:
    """Ids of the subtasks of the plan that have a result."""
    return tuple(node.id for node in state.nodes.values() if node.parent is None and node.status is SUCCEEDED)
