"""Calls of planners, reviewers and synthesizers.

They are user code, so they run as detached calls (``actors.tasks.execution.detached_call``), with a limit of time of
their own, ``max_steps`` of a supervisor at once. Only planners and synthesizers that this library ships, which are pure
and quick, are called on the spot. What a call returns becomes plain data where it runs (``AttemptSpec.form``).

Which call is next is decided in ``actors.tasks.decide.task``, and what its end means in ``actors.tasks.decide.steps``.
A call that waits for a slot is not recorded: when a slot is free, what is next is decided anew.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from actors.tasks.decide import steps
from actors.tasks.decide.task import with_results
from actors.tasks.decide.verdict import as_verdict
from actors.tasks.engine.making import attempt_beside, key_of, notes_of, seen_by
from actors.tasks.execution.attempt import Attempt, Role
from actors.tasks.execution.context import ContextValues
from actors.tasks.execution.detached_call import DetachedCall
from actors.tasks.execution.off_loop import called
from actors.tasks.execution.run_attempt import validated
from actors.tasks.execution.stored_form import stored_form
from actors.tasks.journal.codec import from_json, to_json
from actors.tasks.journal.course import Course
from actors.tasks.journal.unit import Unit
from actors.tasks.model import (
    NO_USAGE,
    RUNNING,
    AttemptLostError,
    Catalogue,
    Done,
    Failure,
    FailureKind,
    NoCapableWorkerError,
    Plan,
    Subtask,
    SubtaskStatus,
    Task,
    Usage,
    Verdict,
    copied,
    recognised_model,
    task_events,
    text_of,
    with_usage,
)
from actors.tasks.planning.capability import CapabilityPlanner
from actors.tasks.planning.check import Checked, PlanCheck, check_plan
from actors.tasks.planning.keyword import KeywordPlanner
from actors.tasks.planning.model_planner import ModelPlanner
from actors.tasks.planning.planners import StaticPlan, as_plan, is_quick, replan_feedback
from actors.tasks.results.model_reviewer import ModelReviewer
from actors.tasks.results.synthesis import Last, ModelSynthesizer, Verbatim
from actors.tasks.scheduling.selection import chain_of, down_hint
from actors.validation.introspection import signature_of

if TYPE_CHECKING:
    from actors.tasks.engine.engine import Engine
    from actors.tasks.engine.run import Run
    from actors.tasks.engine.scope import Scope

WordsT = TypeVar("WordsT", Plan, Verdict)
_MODELS: Final[dict[str, Callable[[Any], Any]]] = {
    "plan": ModelPlanner,
    "review": ModelReviewer,
    "combine": ModelSynthesizer,
}
"""By role: what asks a model, or an agent, that stands for it."""


class _Call(NamedTuple):
    """A call that is to be made."""

    role: Role
    """plan, review or combine."""
    code: Any
    args: tuple[Any, ...]
    form: Callable[[Any], Any]
    """Makes plain data of what is returned."""
    subtasks: tuple[str, ...] = ()
    """Ids of those whose results are shown."""
    is_quick: bool = False
    """True if all of it is ours, pure and quick: it is made on the spot."""
    others: tuple[Any, ...] = ()
    """Arguments of the call that follows if no worker can do it by these; empty: there is none."""


class Roles:
    """Calls of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: dict[str, dict[tuple[str, str], None]] = {}
        """By the path of a scope, the tasks and paths of courses that wait for a slot."""

    # -- beginning -----------------------------------------------------------------------------------------

    def call(self, run: Run, course: Course, role: str) -> None:
        """Call a planner, a reviewer or a synthesizer, unless a call of this course is under way."""
        engine, scope = self._engine, self._engine.service.scopes.get(course.scope)
        if scope is None:
            return
        if not engine.begun or engine.closing or run.has_left or not scope.is_up:
            self._wait(run, course.unit, scope)
        elif not any(self.is_live(run, call) for call in course.calls.values()):
            made = {"plan": self._plan, "review": self._review, "combine": self._combine}[role](run, course, scope)
            if made.is_quick:
                self._call_here(run, course, scope, made)
            else:
                self._begin(run, course, scope, made)

    def is_live(self, run: Run, unit: Unit) -> bool:
        """Return True while a call, or an undo, is under way."""
        return unit.status is RUNNING and key_of(run, unit) in self._engine.attempts.held

    def has_slot(self, run: Run, unit: Unit, scope: Scope) -> bool:
        """Return True if one more call may run; else the course of this unit is looked at when one may."""
        if scope.steps < scope.settings.max_steps:
            return True
        self._wait(run, unit, scope)
        return False

    def _wait(self, run: Run, unit: Unit, scope: Scope) -> None:
        self._waiting.setdefault(scope.path, {})[run.id, unit.path] = None

    def reopen(self, scope: Scope) -> None:
        """A slot is free, or a team is up again: who waits is looked at."""
        for task, path in self._waiting.pop(scope.path, ()):
            self._engine.look_at(task, path)

    def _call_here(self, run: Run, course: Course, scope: Scope, made: _Call) -> None:
        """Make a call that is pure and quick."""
        outcome: Done | Failure
        try:
            outcome = Done(made.form(getattr(made.code, made.role)(*made.args)))
        except Exception as error:  # noqa: BLE001 - whatever the goal is, it costs no more than its own task
            outcome = Failure(FailureKind.FAILED, error, told=text_of(error))
        self._hear(run, course, scope, made.role, outcome, subtasks=made.subtasks, is_pure=True)

    def _begin(self, run: Run, course: Course, scope: Scope, made: _Call) -> None:
        role, state, engine = made.role, run.state, self._engine
        unit = course.call(role)
        if not self.has_slot(run, course.unit, scope):
            return
        if unit.losses >= scope.settings.max_losses:
            lost = AttemptLostError(role, unit.losses, "step")
            self._hear(run, course, scope, role, Failure(FailureKind.LOST, lost))
            return
        run.emit(unit, task_events.SubtaskStarted, role, unit.made + 1, unit.epoch)
        metadata, notes = course.unit.metadata, notes_of(map(course.units.__getitem__, made.subtasks))
        values = ContextValues("", unit.attempt, "", {}, {}, metadata, notes=notes)  # its code sees no context
        told = Subtask(id=role, depends_on=list(made.subtasks))
        deadline = None if state.deadline is None else state.deadline - engine.service.epoch
        attempt = Attempt(
            attempt_beside(engine, run, unit, scope, role, told, values, deadline=deadline, form=made.form)
        )
        feedback = unit.remarks.feedback if role != "plan" else ""  # a planner has it as an argument
        DetachedCall(attempt, _code_of(made, feedback))
        engine.attempts.begin(run, attempt, rank=state.task.priority)

    # -- planning ------------------------------------------------------------------------------------------

    def _plan(self, run: Run, course: Course, scope: Scope) -> _Call:
        state = run.state
        own = state.task.plan if course.unit.role == "task" else None
        planner: Any = scope.settings.planner if own is None else StaticPlan(own.subtasks)
        call = course.calls.get("plan")
        if call is not None and isinstance(call.answered, task_events.EscalationAnswered):
            given = call.answered.value
            planner = lambda *_: given  # noqa: E731 - a person has given the plan
        rows = tuple(scope.rows())
        task, feedback, facts = (
            self._task_of(run, course),
            self._plan_feedback(course),
            _facts_of(run, course, scope, rows),
        )
        there = tuple(row for row in rows if row.is_there)
        available = tuple(row for row in there if row.is_available)
        sees_all = there == available or isinstance(planner, (KeywordPlanner, CapabilityPlanner))
        args = (task, there if sees_all else available, feedback)
        others = () if sees_all else (task, there, feedback)

        def form(said: object) -> Checked:
            return check_plan(_plain(as_plan(said), Plan), facts)

        quick = is_quick(planner, task, rows)
        return _Call("plan", planner, args, form, is_quick=quick, others=others)

    @staticmethod
    def _task_of(run: Run, course: Course) -> Task:
        """Return the task as a planner, a reviewer or a synthesizer is to see it: a team sees its part."""
        task, unit = run.state.task, course.unit
        if unit.role == "task":
            return task
        return Task(
            goal=unit.spec.instruction or task.goal,
            inputs=seen_by(run.state, unit)[0],
            priority=task.priority,
            budget=unit.spec.budget,
            metadata=dict(unit.metadata),
        ).model_copy(update={"id": run.id})

    def _plan_feedback(self, course: Course) -> str:
        refused = steps.plan_feedback(course)
        said = course.unit.remarks.feedback
        if said:
            refused = f"The last result of this team was sent back: {said}\n{refused}".rstrip()
        if course.phase != "replanning":
            return refused
        gone = [unit for unit in course.planned() if not unit.dropped]
        failed = {unit.id: unit.error for unit in gone if unit.status is SubtaskStatus.FAILED}
        skipped = {unit.id: unit.error for unit in gone if unit.status is SubtaskStatus.SKIPPED}
        done = {id_: course.units[id_].value for id_ in with_results(course)}
        return replan_feedback(done, failed, skipped, refused)

    def _with_known(self, run: Run, scope: Scope, failure: Failure) -> Failure:
        """Say whose task it is and who there is, where a planner says that nobody can do it."""
        error = failure.error
        if type(error) is not NoCapableWorkerError:
            return failure
        rows = scope.rows()
        there = [name for row in rows if row.is_there for name in (row.id, *sorted(row.capabilities))]
        known, down = error.known or tuple(there), {row.path: row.state for row in rows if not row.is_there}
        hint = " ".join(filter(None, (NoCapableWorkerError.advice(known), error.hint, down_hint(down))))
        told = NoCapableWorkerError(error.needed, known, task=run.id, hint=hint)
        return replace(failure, error=told)

    # -- reviewing and combining ---------------------------------------------------------------------------

    def _review(self, run: Run, course: Course, scope: Scope) -> _Call:
        """Have results looked at: all, or those that are new where each is reviewed by itself."""
        ids = tuple(course.unreviewed) if course.reviews_each else with_results(course)
        results = {id_: course.units[id_].value for id_ in ids}
        args = (self._task_of(run, course), course.plan or Plan(subtasks=[]), results)
        return _Call("review", scope.settings.reviewer, args, lambda said: _plain(as_verdict(said, ids), Verdict), ids)

    def _combine(self, run: Run, course: Course, scope: Scope) -> _Call:
        """Have the results made into one; of a team with a declared output that is checked, too."""
        code = scope.settings.synthesizer
        code = Verbatim() if code is None else code
        adapter = scope.team.adapter if course.unit.role != "task" and scope.team is not None else None
        results = {id_: course.units[id_].value for id_ in with_results(course)}
        form = stored_form if adapter is None else partial(validated, adapter)
        quick = adapter is None and type(code) in {Verbatim, Last}
        args = (self._task_of(run, course), results)
        return _Call("combine", code, args, (lambda said: said) if quick else form, tuple(results), is_quick=quick)

    # -- its end -------------------------------------------------------------------------------------------

    def ended(self, run: Run, unit: Unit, attempt: Attempt, outcome: Done | Failure) -> None:
        """A call has ended."""
        course, subtasks = run.state.course_of(unit), tuple(attempt.subtask.depends_on)
        self._hear(run, course, attempt.owner, unit.role, outcome, attempt.take_used(), subtasks)

    def _hear(
        self,
        run: Run,
        course: Course,
        scope: Scope,
        role: str,
        outcome: Done | Failure,
        usage: Usage = NO_USAGE,
        subtasks: tuple[str, ...] = (),
        *,
        is_pure: bool = False,
    ) -> None:
        if isinstance(outcome, Failure):
            failure, facts = self._with_known(run, scope, outcome), self._engine.facts(run, course.call(role))
            run.record(steps.failed(course, role, failure, usage, facts, is_pure=is_pure))
            return
        facts = self._engine.facts(run, course.unit, course)
        if role == "plan":
            is_fixed = steps.is_fixed(course, run.state.task.plan, facts)
            run.record(steps.planned(course, outcome.value, usage, facts, is_fixed=is_fixed))
        elif role == "review":
            run.record(steps.reviewed(course, outcome.value, subtasks, usage, facts))
        else:
            run.emit(course.unit, task_events.Synthesized, outcome.value, usage=usage)


def _facts_of(run: Run, course: Course, scope: Scope, rows: Catalogue) -> PlanCheck:
    """Return what a plan is compared with."""
    state, is_again, budget = run.state, course.phase == "replanning", course.unit.spec.budget
    return PlanCheck(
        rows=rows,
        at=f"task {state.id}",
        max_subtasks=scope.settings.max_subtasks,
        budget=budget.left(state.root.usage) if budget is not None and is_again else budget,
        ancestry=chain_of(state, course.unit) if course.unit.role != "task" else state.chain,
        goal=course.unit.spec.instruction or state.task.goal,
        done={id_: course.units[id_].spec for id_ in with_results(course)} if is_again else {},
    )


def _code_of(made: _Call, feedback: str) -> Callable[[Any, Any], Coroutine[Any, Any, Any]]:
    """Return the code of a role as a detached call makes it, with arguments that it may change.

    It is a function, an object with the one method, or a model. One that has a parameter called ``feedback`` is told
    what was wrong with its last answer, or what a person says; a planner always is. Sync code runs off the loop, and so
    do the copies. A planner that found nobody is called once more, and sees those as well whose breaker is open: work
    waits for them.
    """
    code = made.code if recognised_model(made.code) is None else _MODELS[made.role](made.code)
    method = getattr(code, made.role, None)
    call: Callable[..., Any] = method if callable(method) and not inspect.isfunction(code) else code
    signature = signature_of(call)
    takes_feedback = signature is not None and "feedback" in signature.parameters
    named = {"feedback": feedback} if feedback and takes_feedback else {}

    async def run(_work: Any, _context: Any) -> Any:
        try:
            said = await called(lambda: call(*map(copied, made.args), **named))
        except NoCapableWorkerError:
            if not made.others:
                raise
            said = await called(lambda: call(*map(copied, made.others)))
        return with_usage(said)

    return run


def _plain(words: WordsT, ours: type[WordsT]) -> WordsT:
    """Copy of a plan or verdict as it is read back from a journal: a class of the user's is left behind."""
    return words if type(words) is ours else ours(**from_json(to_json(words)))
