"""The record that the end of a planner, a reviewer or a synthesizer makes.

===================================  ==============================================================
planner raised, was too slow         ``SubtaskRetrying`` as ``step_retry`` says, then ``SubtaskFailed``: a ``PlanError``
planner returned what does not fit   ``PlanRefused``: called at once with what is wrong, ``max_plan_attempts`` times
reviewer or synthesizer failed       ``SubtaskRetrying``, then ``SubtaskFailed``: ``on_step_failure`` decides
reviewer returned no sound verdict   ``Reviewed`` with the problems: called at once with them, once; then it has failed
process lost once too often          as after the last try
any of them raised ``Escalated``     ``EscalationRaised``: a person is asked
===================================  ==============================================================
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from actors.model.errors import ConfigError, Problem
from actors.tasks.decide import attempt
from actors.tasks.decide.drafts import Draft, Facts, draft
from actors.tasks.decide.task import DO_AGAIN
from actors.tasks.decide.verdict import not_passed, problems_of, told
from actors.tasks.journal.course import Course
from actors.tasks.model import (
    Failure,
    FailureKind,
    InvalidAnswerError,
    NoCapableWorkerError,
    Plan,
    Usage,
    Verdict,
    task_events,
)
from actors.tasks.planning.check import Checked
from actors.tasks.planning.planners import StaticPlan

# -- plans ---------------------------------------------------------------------------------------------------


def planned(course: Course, made: Checked, usage: Usage, facts: Facts, *, is_fixed: bool) -> Draft:
    """A planner has returned; ``is_fixed``: it would return the same as often as it is asked."""
    if made.problems:
        return _refused(course, tuple(made.problems), usage, is_last=is_fixed)
    each = facts.settings.review == "each" and facts.settings.reviewer is not None
    more: dict[str, Any] = {"review": "each" if each else "", "replan": course.replans, "kept": made.kept}
    return draft(course.unit, task_events.Planned, made.plan, made.warnings, usage, **more)


def is_fixed(course: Course, own: Plan | None, facts: Facts) -> bool:
    """True where the plan is given, and nobody makes another one."""
    return (own is not None and course.unit.role == "task") or isinstance(facts.settings.planner, StaticPlan)


def _refused(
    course: Course,
    problems: tuple[Problem, ...],
    usage: Usage,
    names: tuple[tuple[str, ...] | None, tuple[str, ...]] = (None, ()),
    *,
    is_last: bool = False,
) -> Draft:
    before = course.refusal.number if course.refusal is not None else 0
    return draft(course.unit, task_events.PlanRefused, before + 1, problems, *names, usage, is_last)


def plan_feedback(course: Course) -> str:
    """Tell a planner what was wrong with its last plan, and how its last call failed."""
    call = course.calls.get("plan")
    told = [str(problem) for problem in course.refusal.problems] if course.refusal is not None else []
    if call is not None:
        has_failed = call.made and call.kind != FailureKind.ESCALATED
        told += [f"the planner failed: {call.error}"] if has_failed else []
        told += [call.remarks.feedback] if call.remarks.feedback else []
    return "\n".join(told)


# -- reviews -------------------------------------------------------------------------------------------------


def reviewed(course: Course, said: Verdict, subtasks: tuple[str, ...], usage: Usage, facts: Facts) -> Draft:
    """A reviewer has returned, of the results of these subtasks."""
    most = facts.settings.max_iterations
    reviews = {id_: course.units[id_].reviews + 1 for id_ in subtasks}
    again = [id_ for id_, number in reviews.items() if number < most]
    if problems := problems_of(said, subtasks, again):
        return _handed_back(course, problems, usage, facts)
    bad = not_passed(said)
    if not said.passed and not bad:  # there is no word on what is to be better
        bad, again = dict.fromkeys(subtasks or ("",), ""), []
    rerun = {id_: text or DO_AGAIN for id_, text in bad.items() if id_ in again}
    left = {id_: text for id_, text in bad.items() if id_ not in again}
    more: dict[str, Any] = {"usage": usage, "subtasks": subtasks, "rejected": tuple(left), "checks": told(left)}
    more["best_effort"] = bool(left) and facts.settings.on_rejected == "best_effort"
    iteration = max(reviews.values(), default=course.iterations + 1)
    return draft(course.unit, task_events.Reviewed, iteration, said.passed, rerun, **more)


def _handed_back(course: Course, problems: tuple[Problem, ...], usage: Usage, facts: Facts) -> Draft:
    """A reviewer has returned no sound verdict: it is told so, once; then it has failed."""
    text = "\n".join(map(str, problems))
    if not course.call("review").remarks.number:
        return draft(course.unit, task_events.Reviewed, course.iterations, False, {}, usage=usage, problems=text)  # noqa: FBT003 - a field
    failure = Failure(FailureKind.INVALID, ConfigError(problems), retryable=False, told=text)
    return failed(course, "review", failure, usage, facts)


# -- failures ------------------------------------------------------------------------------------------------


def failed(course: Course, role: str, failure: Failure, usage: Usage, facts: Facts, *, is_pure: bool = False) -> Draft:
    """A step has raised, took too long, or was lost with its process once too often.

    ``is_pure``: called again it would do the same.
    """
    call, error = course.call(role), failure.error
    if role == "review" and isinstance(error, InvalidAnswerError):
        return _handed_back(course, error.problems, usage, facts)
    if role == "plan" and isinstance(error, (ConfigError, NoCapableWorkerError)) and error.problems:
        # That is an answer of the planner, and no failure.
        names = (error.needed, error.known) if isinstance(error, NoCapableWorkerError) else (None, ())
        return _refused(course, error.problems, usage, names, is_last=is_pure)
    may_ask = role != "plan" and facts.settings.on_step_failure == "escalate" and not call.is_vouched
    retryable = failure.retryable and not is_pure and failure.kind is not FailureKind.LOST
    failure = replace(failure, may_ask=may_ask, retryable=retryable)
    return attempt.failed(call, failure, attempt.AttemptEnd(role, began=True, usage=usage), facts)
