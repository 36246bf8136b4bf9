"""The record that the end of a planner, a reviewer or a synthesizer makes.

===================================  ==============================================================
planner raised, was too slow         ``SubtaskRetrying`` as ``step_retry`` says, then ``PlanRefused``, the last
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
from actors.tasks.decide.verdict import findings, problems_of, told
from actors.tasks.journal.course import Course
from actors.tasks.model import task_events
from actors.tasks.model.answer_text import InvalidAnswerError
from actors.tasks.model.outcome import Failure, FailureKind, text_of
from actors.tasks.model.policy import Verdict
from actors.tasks.model.task import Plan, Usage
from actors.tasks.model.task_errors import NoCapableWorkerError
from actors.tasks.planning.check import Checked
from actors.tasks.planning.planners import StaticPlan
from actors.validation.spec_model import copy_with

# -- plans ---------------------------------------------------------------------------------------------------


def planned(course: Course, made: Checked, usage: Usage, facts: Facts, *, is_fixed: bool) -> Draft:
    """A planner has returned; ``is_fixed``: it would return the same as often as it is asked."""
    if made.problems:
        return _refused(course, tuple(made.problems), usage, is_last=is_fixed)
    each = facts.settings.review == "each" and facts.settings.reviewer is not None
    more: dict[str, Any] = {"review": "each" if each else "", "replan": course.replans, "kept": made.kept}
    plan, warnings = copy_with(made.plan, warnings=[]), tuple(made.plan.warnings)
    return draft(course.unit, task_events.Planned, plan, warnings, usage, **more)


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
    call, before = course.calls.get("plan"), course.refusal.number if course.refusal is not None else 0
    more = call.made if is_last and call is not None else 0
    return draft(course.unit, task_events.PlanRefused, before + 1 + more, problems, *names, usage, is_last)


def _problem(task: str, text: str) -> Problem:
    return Problem(f"task {task}", f"the planner raised {text.removesuffix('.')}", "Repair it, or its answer.")


def _plan_failed(task: str, course: Course, failure: Failure, usage: Usage, *, is_pure: bool) -> Draft:
    """A planner has failed for good, or says itself that there is no plan."""
    error = failure.error
    if type(error) is NoCapableWorkerError:
        return _refused(course, error.problems, usage, (error.needed, error.known), is_last=is_pure)
    if isinstance(error, ConfigError) and error.problems:
        return _refused(course, error.problems, usage, is_last=is_pure)
    if failure.kind is FailureKind.LOST:
        hint = "Find out what it does to them: no memory left, a fault in compiled code. Then submit it again."
        problem = Problem(f"task {task}", str(error), hint)
    else:
        problem = _problem(task, failure.told or text_of(error))
    return _refused(course, (problem,), usage, is_last=True)


def plan_feedback(task: str, course: Course) -> str:
    """Tell a planner what was wrong with its last plan, and how its last call failed."""
    call = course.calls.get("plan")
    problems = [str(problem) for problem in course.refusal.problems] if course.refusal is not None else []
    problems += [str(_problem(task, call.error))] if call is not None and call.made else []
    said = call.remarks.feedback if call is not None else ""
    return "\n".join([*problems, said] if said else problems)


# -- reviews -------------------------------------------------------------------------------------------------


def reviewed(course: Course, said: Verdict, subtasks: tuple[str, ...], usage: Usage, facts: Facts) -> Draft:
    """A reviewer has returned, of the results of these subtasks."""
    most = facts.settings.max_iterations
    reviews = {id_: course.units[id_].reviews + 1 for id_ in subtasks}
    again = [id_ for id_, number in reviews.items() if number < most]
    if problems := problems_of(said, subtasks, again, course.units):
        return _handed_back(course, problems, usage, facts)
    passed, bad = findings(said)
    if not passed and not bad:  # there is no word on what is to be better
        bad, again = dict.fromkeys(subtasks or ("",), ""), []
    rerun = {id_: text or DO_AGAIN for id_, text in bad.items() if id_ in again}
    left = {id_: text for id_, text in bad.items() if id_ not in again}
    more: dict[str, Any] = {"usage": usage, "subtasks": subtasks, "rejected": tuple(left), "checks": told(left)}
    more["best_effort"] = bool(left) and facts.settings.on_rejected == "best_effort"
    iteration = max(reviews.values(), default=course.iterations + 1)
    return draft(course.unit, task_events.Reviewed, iteration, passed, rerun, **more)


def _handed_back(course: Course, problems: tuple[Problem, ...], usage: Usage, facts: Facts) -> Draft:
    """A reviewer has returned no sound verdict: it is told so, once; then it has failed."""
    text = "\n".join(map(str, problems))
    if not course.call("review").remarks.number:
        return draft(course.unit, task_events.Reviewed, course.iterations, False, {}, usage=usage, problems=text)  # noqa: FBT003 - a field
    failure = Failure(FailureKind.INVALID, ConfigError(problems), retryable=False, told=text)
    return failed(course.unit.id, course, "review", failure, usage, facts)


# -- failures ------------------------------------------------------------------------------------------------


def failed(
    task: str, course: Course, role: str, failure: Failure, usage: Usage, facts: Facts, *, is_pure: bool = False
) -> Draft:
    """A step has raised, took too long, or was lost with its process once too often.

    ``is_pure``: called again it would do the same.
    """
    call = course.call(role)
    end = attempt.AttemptEnd(role, began=True, usage=usage)
    is_answer = role == "plan" and isinstance(failure.error, attempt.ANSWERS_OF_A_PLANNER)
    if role == "review" and isinstance(failure.error, InvalidAnswerError):
        return _handed_back(course, failure.error.problems, usage, facts)
    if is_answer or is_pure:
        return _plan_failed(task, course, failure, usage, is_pure=is_pure)
    may_ask = role != "plan" and facts.settings.on_step_failure == "escalate" and not call.is_vouched
    is_lost = failure.kind is FailureKind.LOST
    failure = replace(failure, may_ask=may_ask, retryable=failure.retryable and not is_lost)
    following = attempt.failed(call, failure, end, facts)
    if role == "plan" and following.made is task_events.SubtaskFailed:
        return _plan_failed(task, course, failure, usage, is_pure=False)
    return following
