"""``Tasks``: what a supervisor's orchestrator is to do, as a user writes it.

This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator

from actors.tasks.model import Failover, Ladder, LadderField, Retry, Rung, recognised_model
from actors.tasks.planning.keyword import KeywordPlanner
from actors.validation import field_types
from actors.validation.spec_model import SpecModel
from actors.validation.validation_messages import type_phrase, validation_error, value_phrase


def _some(verb: str, *, without: str = "") -> PlainValidator:
    """A callable, or an object with the one method. None, unless it is said what stands there ``without`` one."""

    def look(value: object) -> object:
        if value is None and without:
            raise validation_error("expected a function, got None", f"Leave it out for {without}.")
        if value is None or callable(value) or callable(getattr(value, verb, None)) or recognised_model(value):
            return value
        if isinstance(value, str):
            what = f"{value_phrase(value)} is no name of a model"
            raise validation_error(what, "Write 'PROVIDER:NAME', such as 'openai:gpt-5-mini', or give a function.")
        what = f"{type_phrase(value)} can neither be called nor has it a method {verb!r}"
        raise validation_error(what, "Give a function.")

    return PlainValidator(look)


DEFAULT_LADDER: tuple[Rung, ...] = (Retry(), Failover())


class Tasks(SpecModel, frozen=True):
    """Gives a supervisor an orchestrator, its first child: goals become plans, plans become work for its siblings.

    Raises ``ConfigError`` with every problem of it.
    """

    planner: Annotated[Any, _some("plan", without="KeywordPlanner()")] = Field(default_factory=KeywordPlanner)
    """``plan(task, catalogue, feedback) -> Plan``, sync or async: a callable, or an object with ``plan``. Or a model
    (pydantic-ai, its name, an ``Agent``, LangChain), which is asked by ``ModelPlanner``."""
    reviewer: Annotated[Any, _some("review")] = None
    """``review(task, plan, results) -> Verdict``, likewise; shipped: ``ModelReviewer(call, criteria)``. ``None``:
    nothing is reviewed."""
    synthesizer: Annotated[Any, _some("combine")] = None
    """``combine(task, results) -> output``, likewise; shipped: ``Verbatim()``, ``Last()``, ``ModelSynthesizer(call)``.
    ``None``: verbatim, every result under its subtask's id."""
    max_parallel: Annotated[int, Field(ge=1)] = 10
    """Attempts that run at once, of all its tasks together."""
    max_steps: Annotated[int, Field(ge=1)] = 10
    """Calls of planners, reviewers, synthesizers and undos that run at once, of all its tasks together. Others wait in
    line, and their time counts from when they begin."""
    max_iterations: Annotated[int, Field(ge=1)] = 3
    """Reviews. What has not passed after that many is ``rejected``."""
    review: Literal["end", "each"] = "end"
    """``"end"``: all results are reviewed when all are there. ``"each"``: a result is reviewed before anything that
    depends on it starts; the reviewer gets the results that are new by then, and ``max_iterations`` holds for each
    subtask."""
    on_rejected: Literal["best_effort", "fail", "escalate"] = "best_effort"
    """After ``max_iterations``: ``"best_effort"``: the results are returned as they are, and marked. ``"fail"``: the
    task fails. ``"escalate"``: a person is asked."""
    max_plan_attempts: Annotated[int, Field(ge=1)] = 3
    """Plans that may be refused, each time with what is wrong, before the task fails."""
    replan: field_types.Count = 0
    """How often the planner is called again when a required subtask has failed for good: with what is done, which is
    kept, what failed, and why."""
    step_retry: Retry = Retry()
    """How often a planner, reviewer or synthesizer that raises or takes too long is called again, and when. Then the
    task fails (planner), or ``on_step_failure`` decides."""
    on_step_failure: Literal["fail", "best_effort", "escalate"] = "fail"
    """When a reviewer or synthesizer has failed for good: ``"fail"``: the task fails. ``"best_effort"``: the results
    are taken as they are, and marked. ``"escalate"``: a person is asked."""
    max_subtasks: Annotated[int, Field(ge=1)] = 50
    """Subtasks of one plan. A plan with more is refused."""
    context_tokens: Annotated[int, Field(ge=1)] = 100_000
    """Tokens of a prompt: of what it shows of goal, plan, inputs and results. The most important comes first."""
    on_failure: LadderField = DEFAULT_LADDER
    """The ladder of workers that have none of their own. Not given: a team without one is not tried again,
    because its members were."""
    age_s: field_types.Period | None = 30.0
    """Seconds of waiting in line that count as one step of priority, so that what is less urgent is not starved. What
    has waited is begun sooner; it interrupts nothing. ``None``: waiting changes nothing."""
    max_preemptions: field_types.Count = 3
    """How often one subtask is interrupted for something more urgent."""
    max_losses: Annotated[int, Field(ge=1)] = 3
    """Processes that may die, one after the other, under an attempt, step or undo before it has failed as ``lost``."""
    max_abandoned: Annotated[int, Field(ge=1)] = 8
    """Stuck threads that one worker may leave behind at a time. One more parks it."""
    step_timeout_s: field_types.StartTimeout = 300.0
    """Seconds that one call of a planner, reviewer, synthesizer or undo may take. ``None``: no limit. ``prompt=``, the
    validators of ``output=`` and the serializers of a result count as running of their attempt."""


def ladder_of_teams(settings: Tasks) -> Ladder:
    """Return the ladder of teams that have none of their own: the one of the supervisor, if that was given.

    By default a team is not tried again, since its members were: default ladders do not multiply.
    """
    ladder = tuple(settings.on_failure)
    if "on_failure" in settings.model_fields_set:
        return ladder
    return tuple(rung for rung in ladder if not isinstance(rung, Retry))
