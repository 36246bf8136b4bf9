"""Calls of planners, reviewers and synthesizers.

They are user code, so they run as detached calls (``actors.tasks.execution.detached_call``), with a limit of time of
their own, ``max_steps`` of a supervisor at once. Only planners and synthesizers that this library ships, which are pure
and quick, are called on the spot. What a call returns becomes plain data where it runs (``AttemptSpec.form``).

Which call is next is decided in ``actors.tasks.decide.task``, and what its end means in ``actors.tasks.decide.steps``.
A call that waits for a slot is not recorded: when a slot is free, what is next is decided anew.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from actors.model.errors import Problem
from actors.tasks.decide import steps
from actors.tasks.decide.drafts import Draft
from actors.tasks.decide.task import with_results
from actors.tasks.decide.verdict import as_verdict
from actors.tasks.engine.making import attempt_beside, idempotency_key, key_of, notes_of, seen_by
from actors.tasks.engine.role_code import RoleCode, code_of
from actors.tasks.execution.attempt import Attempt
from actors.tasks.execution.context import ContextValues
from actors.tasks.execution.detached_call import DetachedCall
from actors.tasks.execution.run_attempt import validated
from actors.tasks.execution.stored_form import stored_form
from actors.tasks.journal.codec import from_json, to_json
from actors.tasks.journal.course import Course
from actors.tasks.journal.unit import Unit
from actors.tasks.model import task_events
from actors.tasks.model.executable import Catalogue, counted_on
from actors.tasks.model.outcome import Done, Failure, FailureKind, text_of
from actors.tasks.model.policy import Verdict
from actors.tasks.model.task import NO_USAGE, RUNNING, Plan, Subtask, SubtaskStatus, Task
from actors.tasks.model.task_errors import AttemptLostError, NoCapableWorkerError
from actors.tasks.planning.check import check_plan, resolved_plan
from actors.tasks.planning.keyword import KeywordPlanner, known_of, left_out
from actors.tasks.planning.planners import (
    StaticPlan,
    as_plan,
    is_inline,
    merged,
    new_of,
    replan_feedback,
    taken_ids,
)
from actors.tasks.results.synthesis import is_inline as is_inline_synthesis
from actors.tasks.scheduling.selection import chain_of
from actors.validation.spec_model import copy_with

if TYPE_CHECKING:
    from actors.tasks.engine.engine import Engine
    from actors.tasks.engine.run import Run
    from actors.tasks.engine.scope import Scope

WordsT = TypeVar("WordsT", Plan, Verdict)


class Roles:
    """Calls of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: dict[str, dict[tuple[str, str], None]] = {}
        """By the path of a scope, the tasks and paths of courses that wait for a slot."""
        self._asks_all: set[tuple[str, str]] = set()
        """Courses whose planner found nobody, and is shown those whose breaker is open as well."""

    # -- beginning -----------------------------------------------------------------------------------------

    def call(self, run: Run, course: Course, role: str) -> None:
        """Call a planner, a reviewer or a synthesizer, unless a call of this course is under way."""
        engine, scope = self._engine, self._engine.service.scopes.get(course.scope)
        if scope is None:
            return
        if not engine.begun or engine.begins_nothing_of(run) or not scope.is_up:
            self._wait(run, course.unit, scope)
        elif not any(self.is_live(run, call) for call in course.calls.values()):
            {"plan": self._plan, "review": self._review, "combine": self._combine}[role](run, course, scope)

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

    def _begin(
        self,
        run: Run,
        course: Course,
        scope: Scope,
        role: str,
        code: RoleCode,
        args: tuple[Any, ...],
        form: Callable[[Any], Any],
        subtasks: tuple[str, ...] = (),
    ) -> None:
        unit, state, engine = course.call(role), run.state, self._engine
        if not self.has_slot(run, course.unit, scope):
            return
        if unit.losses >= scope.settings.max_losses:
            failure = Failure(FailureKind.LOST, AttemptLostError(role, unit.losses, "step"))
            run.record(steps.failed(run.id, course, role, failure, NO_USAGE, engine.facts(run, unit)))
            return
        run.emit(unit, task_events.SubtaskStarted, role, unit.made + 1, unit.epoch)
        key, metadata = idempotency_key(state, unit), state.metadata_of(course.unit.path)
        values = ContextValues(state.task.goal, unit.attempt, key, {}, {}, metadata)
        told = Subtask(id=role, instruction=course.unit.spec.instruction or state.task.goal, depends_on=list(subtasks))
        deadline = None if state.deadline is None else state.deadline - engine.service.epoch
        attempt = Attempt(attempt_beside(engine, run, unit, scope, role, told, values, deadline=deadline, form=form))
        DetachedCall(scope, attempt, code.with_args(args), is_async=True)
        engine.attempts.hold(attempt, rank=state.task.priority)
        run.act(engine.attempts.give, attempt)
        engine.limits.watch(attempt)

    # -- planning ------------------------------------------------------------------------------------------

    def _plan(self, run: Run, course: Course, scope: Scope) -> None:
        state, facts = run.state, self._engine.facts(run, course.unit, course)
        own = state.task.plan if course.unit.role == "task" else None
        planner: Any = scope.settings.planner if own is None else StaticPlan(own.subtasks)
        call = course.calls.get("plan")
        if call is not None and isinstance(call.answered, task_events.EscalationAnswered):
            given = call.answered.value
            planner = lambda *_: given  # noqa: E731 - a person has given the plan
        rows = tuple(scope.rows())
        sees_all = (run.id, course.unit.path) in self._asks_all or isinstance(planner, KeywordPlanner)
        task = self._task_of(run, course)
        args = (task, counted_on(rows, waiting=sees_all), self._plan_feedback(run, course))
        check = partial(_checked, run, course, scope)
        if not is_inline(planner, task, rows):
            code = code_of(planner, "plan")

            def made(said: object) -> steps.Checked | steps.Unreadable:
                try:
                    plan = _plain(as_plan(code.read(said)), Plan)
                except Exception as error:  # noqa: BLE001 - what it returned may raise anything
                    return steps.unreadable(f"task {state.id}", error)
                return check(plan, rows)

            self._begin(run, course, scope, "plan", code, args, made)
            return
        try:
            with self._engine.service.traced(state, course.unit, scope.path, "plan"):
                plan = planner.plan(*args)
            checked = check(plan, rows)
        except Exception as error:  # noqa: BLE001 - whatever the goal is, it costs no more than its own task
            if self._has_others(run, course, scope, error):
                self._plan(run, course, scope)
                return
            failure = self._with_known(run, scope, Failure(FailureKind.FAILED, error, told=text_of(error)))
            run.record(steps.failed(state.id, course, "plan", failure, NO_USAGE, facts, is_pure=True))
        else:
            is_fixed = steps.is_fixed(course, own, facts)
            run.record(steps.planned(course, checked, NO_USAGE, facts, is_fixed=is_fixed))

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
            metadata=run.state.metadata_of(unit.path),
        ).model_copy(update={"id": run.id})

    def _plan_feedback(self, run: Run, course: Course) -> str:
        refused = steps.plan_feedback(run.id, course)
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
        known, hint = error.known or known_of(counted_on(rows, waiting=True)), error.hint
        if away := [row for row in rows if not row.is_there]:
            hint = f"{hint or NoCapableWorkerError.advice(known)} {left_out(away)}".lstrip()
        told = NoCapableWorkerError(error.needed, known, task=run.id, hint=hint)
        return Failure(failure.kind, told, failure.retryable, told=failure.told, types=failure.types)

    def _has_others(self, run: Run, course: Course, scope: Scope, error: BaseException | None) -> bool:
        """True, once, where a planner found nobody without those whose breaker is open: work waits for them."""
        where = (run.id, course.unit.path)
        if type(error) is not NoCapableWorkerError or where in self._asks_all:
            return False
        if not any(row.is_there and not row.is_available for row in scope.rows()):
            return False
        self._asks_all.add(where)
        return True

    # -- reviewing and combining ---------------------------------------------------------------------------

    def _review(self, run: Run, course: Course, scope: Scope) -> None:
        """Have results looked at: all, or those that are new where each is reviewed by itself."""
        ids = tuple(course.unreviewed) if course.reviews_each else with_results(course)
        said = course.call("review").remarks.feedback
        code = code_of(scope.settings.reviewer, "review", said, ids, notes_of(course, ids))
        results = {id_: course.units[id_].value for id_ in ids}
        args = (self._task_of(run, course), course.plan or Plan(subtasks=[]), results)

        def verdict_of(said: object) -> object:
            try:
                return _plain(as_verdict(code.read(said), ids), Verdict)
            except Exception as error:  # noqa: BLE001 - what it returned may raise anything
                return steps.unreadable("verdict", error)

        self._begin(run, course, scope, "review", code, args, verdict_of, ids)

    def _combine(self, run: Run, course: Course, scope: Scope) -> None:
        """Have the results made into one; of a team with a declared output that is checked, too."""
        synthesizer = scope.settings.synthesizer
        team = scope.team if course.unit.role != "task" else None
        adapter = team.adapter if team is not None else None
        results = {id_: course.units[id_].value for id_ in with_results(course)}
        args = (self._task_of(run, course), results)
        if synthesizer is None:
            code = RoleCode(lambda _task, results: results)
        elif adapter is None and is_inline_synthesis(synthesizer):
            with self._engine.service.traced(run.state, course.unit, scope.path, "combine"):
                combined = synthesizer.combine(*args)
            run.emit(course.unit, task_events.Synthesized, combined)
            return
        else:
            said = course.call("combine").remarks.feedback
            code = code_of(synthesizer, "combine", said, notes=notes_of(course, results))

        def form(answer: object) -> object:
            read = code.read(answer)
            return stored_form(read) if adapter is None else validated(adapter, read)

        self._begin(run, course, scope, "combine", code, args, form)

    # -- its end -------------------------------------------------------------------------------------------

    def ended(self, run: Run, unit: Unit, attempt: Attempt, outcome: Done | Failure) -> None:
        """A call has ended."""
        course = run.state.course_of(unit)
        if isinstance(outcome, Done):
            run.record(self._outcome(run, course, unit.role, attempt, outcome.value))
            return
        if self._has_others(run, course, attempt.owner, outcome.error):
            run.emit(unit, task_events.SubtaskRequeued, "stopped", usage=attempt.take_used())
            return
        failure, facts = self._with_known(run, attempt.owner, outcome), self._engine.facts(run, unit)
        run.record(steps.failed(run.id, course, unit.role, failure, attempt.take_used(), facts))

    def _outcome(self, run: Run, course: Course, role: str, attempt: Attempt, said: Any) -> Draft:
        facts, usage = self._engine.facts(run, course.call(role)), attempt.take_used()
        if role == "plan":
            is_fixed = steps.is_fixed(course, run.state.task.plan, facts)
            return steps.planned(course, said, usage, facts, is_fixed=is_fixed)
        if role == "review":
            return steps.reviewed(course, said, tuple(attempt.subtask.depends_on), usage, facts)
        return Draft(course.unit, task_events.Synthesized, (said,), {"usage": usage})


def _checked(run: Run, course: Course, scope: Scope, plan: Plan, rows: Catalogue) -> steps.Checked:
    """Compare a plan with the tree. Estimates and modules of users may run: not on the loop, unless it is quick."""
    state, settings = run.state, scope.settings
    is_again, budget = course.phase == "replanning", course.unit.spec.budget
    done = {id_: course.units[id_].spec for id_ in with_results(course)} if is_again else {}
    new = resolved_plan(new_of(plan, done) if done else plan, rows)
    problems, warnings = list[Problem](), list[str]()
    if new.subtasks or not plan.subtasks:  # else it says that what is done will do
        problems, warnings = check_plan(
            new,
            rows,
            at=f"task {state.id}",
            max_subtasks=settings.max_subtasks,
            budget=budget.left(state.total_usage()) if budget is not None and is_again else budget,
            ancestry=chain_of(state, course.unit) if course.unit.role != "task" else state.chain,
            goal=course.unit.spec.instruction or state.task.goal,
            done=done,
            metadata=state.task.metadata,
        )
    if is_again:
        problems += taken_ids(new, [unit.id for unit in course.units.values() if unit.asker is not None])
    warnings = [*plan.warnings, *warnings]
    whole = merged(done, new) if done else copy_with(new, warnings=[]) if new.warnings else new  # the event has them
    return steps.Checked(whole, tuple(problems), tuple(warnings), tuple(done))


def _plain(words: WordsT, ours: type[WordsT]) -> WordsT:
    """Copy of a plan or verdict as it is read back from a journal: a class of the user's is left behind."""
    return words if type(words) is ours else ours(**from_json(to_json(words)))
