"""The record that the end of a planner, a reviewer or a synthesizer makes.

Comes in: where the task stands, what the call returned in its plain form, or how it failed. Goes out: a record. Pure:
they are called in ``actors.tasks.orchestration.stages``; what follows from the record is decided in
``actors.tasks.recovery.next_step``.

===================================  ==============================================================
planner raised, was too slow         ``StepRetrying`` as ``step_retry`` says, then ``PlanRefused``, the last
planner returned what does not fit   ``PlanRefused``: called at once with what is wrong, ``max_plan_attempts`` times
reviewer or synthesizer failed       ``StepRetrying``, then ``StepFailed``: ``on_step_failure`` decides
reviewer returned no sound verdict   ``ReviewRefused``: called at once with what is wrong, once; then ``StepFailed``
process lost once too often          as after the last try
===================================  ==============================================================
"""

from __future__ import annotations

from typing import Any, NamedTuple

from actors.model.errors import ConfigError, Later, Problem
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.event_base import Draft, draft
from actors.tasks.model.outcome import Failure, FailureKind, text_of
from actors.tasks.model.policy import RungFacts, TryAgain, Verdict
from actors.tasks.model.task import Plan, Usage
from actors.tasks.model.task_errors import NoCapableWorkerError
from actors.tasks.planning.planners import StaticPlan
from actors.tasks.recovery.next_step import DO_AGAIN, StageFacts, reviews_of
from actors.tasks.results.review import findings, problems_of, told


class Checked(NamedTuple):
    """A plan that was compared with the tree."""

    plan: Plan
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]
    kept: tuple[str, ...] = ()
    """Subtasks that are done, and do not run again."""


class Unreadable(NamedTuple):
    """Answer of a step that is not what it is to return."""

    problems: tuple[Problem, ...]


def unreadable(where: str, error: Exception) -> Unreadable:
    """Say what is wrong with what a step returned."""
    if isinstance(error, ConfigError):
        return Unreadable(error.problems)
    return Unreadable((Problem(where, text_of(error), "Repair what is returned."),))


# -- plans ---------------------------------------------------------------------------------------------------


def planned(state: TaskState, made: Checked | Unreadable, usage: Usage, facts: StageFacts) -> Draft:
    """A planner has returned."""
    if made.problems:
        # What is fixed would be refused in the same words as often as it is asked for.
        is_fixed = state.task.plan is not None or isinstance(facts.settings.planner, StaticPlan)
        return _refused(state, made.problems, usage, is_last=is_fixed)
    assert isinstance(made, Checked)  # noqa: S101 - the other has problems
    each = facts.settings.review == "each" and facts.settings.reviewer is not None
    more: dict[str, Any] = {"review": "each" if each else "", "replan": state.replans, "kept": made.kept}
    return draft(task_events.Planned, made.plan, made.warnings, usage, **more)


def _refused(
    state: TaskState,
    problems: tuple[Problem, ...],
    usage: Usage,
    names: tuple[tuple[str, ...] | None, tuple[str, ...]] = (None, ()),
    *,
    is_last: bool = False,
) -> Draft:
    number = state.refusals + 1 + (state.stage.tries if is_last else 0)
    return draft(task_events.PlanRefused, number, problems, *names, usage, is_last)


def plan_problem(state: TaskState, text: str) -> Problem:
    """Return the problem of a planner that raised."""
    return Problem(f"task {state.id}", f"the planner raised {text.removesuffix('.')}", "Repair it, or its answer.")


def _plan_failed(state: TaskState, failure: Failure, usage: Usage, *, is_pure: bool) -> Draft:
    """A planner has failed for good, or says itself that there is no plan."""
    error = failure.error
    if type(error) is NoCapableWorkerError:
        return _refused(state, error.problems, usage, (error.needed, error.known), is_last=is_pure)
    if isinstance(error, ConfigError) and error.problems:
        return _refused(state, error.problems, usage, is_last=is_pure)
    if failure.kind is FailureKind.LOST:
        hint = "Find out what it does to them: no memory left, a fault in compiled code. Then submit it again."
        problem = Problem(f"task {state.id}", str(error), hint)
    else:
        problem = plan_problem(state, failure.told or text_of(error))
    return _refused(state, (problem,), usage, is_last=True)


# -- reviews -------------------------------------------------------------------------------------------------


def reviewed(
    state: TaskState, said: Verdict | Unreadable, subtasks: tuple[str, ...], usage: Usage, facts: StageFacts
) -> Draft:
    """A reviewer has returned, of the results of these subtasks."""
    most, each = facts.settings.max_iterations, state.review.each
    problems = said.problems if isinstance(said, Unreadable) else ()
    again = [id_ for id_ in subtasks if reviews_of(state, id_) + 1 < most]
    if isinstance(said, Verdict):
        problems = problems_of(said, subtasks, again, state.nodes)
    if problems:
        if not state.stage.refused:
            return draft(task_events.ReviewRefused, problems, usage)
        text = "; ".join(map(str, problems))
        return draft(task_events.StepFailed, "review", 1, text, usage)
    assert isinstance(said, Verdict)  # noqa: S101 - the other has problems
    passed, failed = findings(said)
    if not passed and not failed and each:
        failed = dict.fromkeys(subtasks, "")
        again = []  # there is no word on what is to be better
    rerun = {id_: text or DO_AGAIN for id_, text in failed.items() if id_ in again}
    left = {id_: text for id_, text in failed.items() if id_ not in again} or ({} if passed or rerun else {"": ""})
    iteration = max(reviews_of(state, id_) for id_ in subtasks) + 1 if each else state.iterations + 1
    more: dict[str, Any] = {
        "usage": usage,
        "subtasks": subtasks if each else (),
        "rejected": tuple(left),
        "checks": told({id_: text for id_, text in left.items() if id_}),
        "undo_first": bool(rerun),
    }
    best_effort = bool(left) and facts.settings.on_rejected == "best_effort"
    return draft(task_events.Reviewed, iteration, passed, rerun, best_effort, **more)


# -- the output ----------------------------------------------------------------------------------------------


def combined(output: Any, usage: Usage) -> Draft:
    """A synthesizer has returned."""
    return draft(task_events.Synthesized, output, usage=usage)


# -- failures ------------------------------------------------------------------------------------------------


def failed(
    state: TaskState, step: str, failure: Failure, usage: Usage, facts: StageFacts, *, is_pure: bool = False
) -> Draft:
    """A step has raised, took too long, or was lost with its process once too often.

    ``is_pure``: called again it would do the same.
    """
    tries = state.stage.tries
    delay_s = None if is_pure else _again_in_s(tries, step, failure, facts)
    if delay_s is not None:
        said = (step, tries + 1, facts.now + delay_s, failure.text, usage)
        return draft(task_events.StepRetrying, *said)
    if step == "plan":
        return _plan_failed(state, failure, usage, is_pure=is_pure)
    return draft(task_events.StepFailed, step, tries + 1, failure.text, usage)


_ANSWERS = (NoCapableWorkerError, ConfigError)
"""Errors of a planner that are about the plan: an answer, and no failure."""


def _again_in_s(tries: int, step: str, failure: Failure, facts: StageFacts) -> float | None:
    """Seconds until a step that has failed is called again; None: it is not."""
    if failure.kind in {FailureKind.LOST, FailureKind.ESCALATED}:
        return None
    if step == "plan" and isinstance(failure.error, _ANSWERS):
        return None
    position = task_events.LadderPosition(tries=tries)
    again = facts.settings.step_retry.next(position, failure, RungFacts(None, lambda _: None, facts.random))
    if not isinstance(again, TryAgain):
        return None
    asked_s = float(failure.error.after_s) if isinstance(failure.error, Later) else 0.0
    return max(again.delay_s, asked_s)


def plan_feedback(state: TaskState) -> str:
    """Tell a planner what was wrong with its last plan, and how its last call failed."""
    refusal, stage = state.refusal, state.stage
    problems = [str(problem) for problem in refusal.problems] if refusal is not None else []
    problems += [str(plan_problem(state, stage.error))] if stage.tries else []
    return "\n".join(problems)
