"""Calls of planners, reviewers and synthesizers, and of undos.

They are user code, so they run as detached calls (``actors.tasks.execution.detached_call``), with a limit of time of
their own, ``max_steps`` of a supervisor at once. Only planners and synthesizers that this library ships, which are pure
and quick, are called on the spot. What a call returns becomes plain data where it runs (``AttemptSpec.form``).

Which call is next is decided in ``actors.tasks.decide.task``, and what its end means in ``actors.tasks.decide.steps``.
A call that waits for a slot is not recorded: when a slot is free, what is next is decided anew.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from actors.messaging.envelope import MessageContext
from actors.model.errors import Problem
from actors.tasks.decide import attempt as of_attempt
from actors.tasks.decide import steps
from actors.tasks.decide.drafts import Draft
from actors.tasks.decide.task import with_results
from actors.tasks.decide.team import failure_of
from actors.tasks.decide.undo import Undoable, next_effect, undone
from actors.tasks.decide.verdict import as_verdict
from actors.tasks.engine.classify import classify, was_cut_off
from actors.tasks.engine.making import context_values, idempotency_key, inputs_of, key_of, notes_of
from actors.tasks.engine.role_code import RoleCode, code_of
from actors.tasks.engine.undo_code import Undoer, undo_code
from actors.tasks.execution.attempt import Attempt
from actors.tasks.execution.attempt_spec import AttemptSpec, Role
from actors.tasks.execution.context import NO_REVISION, ContextValues, Revision, work_of
from actors.tasks.execution.detached_call import DetachedCall
from actors.tasks.execution.error_facts import NEUTRAL
from actors.tasks.execution.run_attempt import validated
from actors.tasks.execution.stored_form import stored_form
from actors.tasks.journal.codec import from_json, to_json
from actors.tasks.journal.course import Course
from actors.tasks.journal.unit import LOST, Unit
from actors.tasks.model import task_events
from actors.tasks.model.executable import Catalogue, counted_on
from actors.tasks.model.outcome import Done, Failure, FailureKind, text_of
from actors.tasks.model.policy import Respond, Verdict, answer_of
from actors.tasks.model.task import NO_USAGE, Plan, Subtask, SubtaskStatus, Task
from actors.tasks.model.task_errors import AttemptLostError, AttemptTimeoutError, NoCapableWorkerError
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
from actors.tasks.scheduling.selection import chain_of, lineage_of

if TYPE_CHECKING:
    from actors.tasks.engine.engine import Engine
    from actors.tasks.engine.run import Run
    from actors.tasks.engine.scope import Scope

WordsT = TypeVar("WordsT", Plan, Verdict)


class Call:
    """A call that runs, or is about to."""

    __slots__ = ("attempt", "path", "role", "scope", "subtasks")

    def __init__(self, attempt: Attempt, scope: Scope, path: str, role: str, subtasks: tuple[str, ...] = ()) -> None:
        self.attempt, self.scope, self.path, self.role, self.subtasks = attempt, scope, path, role, subtasks


class Roles:
    """Calls of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.live: dict[str, Call] = {}
        """Calls that hold a slot, by the key of their attempt."""
        self._waiting: dict[str, dict[tuple[str, str], None]] = {}
        """By the path of a scope, the tasks and paths of courses that wait for a slot."""
        self._asks_all: set[tuple[str, str]] = set()
        """Courses whose planner found nobody, and is shown those whose breaker is open as well."""

    # -- beginning -----------------------------------------------------------------------------------------

    def call(self, run: Run, course: Course, role: str) -> None:
        """Call a planner, a reviewer or a synthesizer, unless a call of this course is under way."""
        engine, scope = self._engine, self._engine.service.scopes.get(course.scope)
        if scope is None or not engine.is_open or engine.begins_nothing_of(run) or not scope.is_up:
            if scope is not None:
                self._wait(run, course, scope)
            return
        if any(self._is_live(run, call) for call in course.calls.values()):
            return
        {"plan": self._plan, "review": self._review, "combine": self._combine}[role](run, course, scope)

    def _is_live(self, run: Run, unit: Unit) -> bool:
        return key_of(run, unit) in self.live and unit.status == "running"

    def _has_slot(self, run: Run, course: Course, scope: Scope) -> bool:
        if scope.steps < scope.settings.max_steps:
            return True
        self._wait(run, course, scope)
        return False

    def _wait(self, run: Run, course: Course, scope: Scope) -> None:
        self._waiting.setdefault(scope.path, {})[run.id, course.unit.path] = None

    def reopen(self, scope: Scope) -> None:
        """A slot is free, or a team is up again: who waits is looked at."""
        waiting = self._waiting.pop(scope.path, {})
        for task, path in waiting:
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
        unit = course.call(role)
        if not self._has_slot(run, course, scope) or self._is_lost(run, unit, scope):
            return
        run.emit(unit, task_events.SubtaskStarted, role, unit.made + 1, unit.epoch)
        attempt = Attempt(self._spec(run, course, unit, scope, form))
        DetachedCall(scope, attempt, code.with_args(args), is_async=True)
        self._hold(Call(attempt, scope, course.unit.path, role, subtasks))
        run.act(self._start, attempt, scope)

    def _hold(self, call: Call) -> None:
        call.scope.steps += 1
        self.live[call.attempt.key] = call
        self._engine.service.attempts[call.attempt.key] = call.attempt

    def _start(self, attempt: Attempt, scope: Scope) -> None:
        """Have a call begin; its time counts from here."""
        engine, limit, call = self._engine, scope.settings.step_timeout_s, attempt.call
        if attempt.done or call is None or not call.start() or limit is None:
            return
        attempt.watch(engine.at(engine.time() + limit, lambda engine: engine.limits.end(attempt, "timeout")))

    def _spec(
        self, run: Run, course: Course, unit: Unit, scope: Scope, form: Callable[[Any], Any] | None
    ) -> AttemptSpec:
        state, key = run.state, idempotency_key(run.state, unit)
        goal = course.unit.spec.instruction or state.task.goal
        above = course.unit
        return AttemptSpec(
            key_of(run, unit),
            scope,
            state.id,
            Subtask(id=unit.role, instruction=goal),
            unit.role,
            f"{scope.path}/{unit.role}",
            ContextValues(state.task.goal, unit.attempt, key, {}, {}, state.metadata_of(above.path)),
            scope.addresses(
                (*chain_of(state, above), scope.path) if above.above is not None else chain_of(state, above)
            ),
            lineage_of(state, above),
            None if state.deadline is None else state.deadline - self._engine.service.epoch,
            start_number=unit.seq,
            role=cast("Role", unit.role),
            unit=above.path,
            form=form,
            variables=self._engine.service.variables_of(state, above),
        )

    # -- planning ------------------------------------------------------------------------------------------

    def _plan(self, run: Run, course: Course, scope: Scope) -> None:
        state, facts = run.state, self._engine.facts(scope)
        own = state.task.plan if course.unit.role == "task" else None
        planner: Any = scope.settings.planner if own is None else StaticPlan(own.subtasks)
        answered = course.step("plan").answered
        if isinstance(answered, task_events.EscalationAnswered):  # a person has given the plan
            value = answered.value
            planner = _ByPerson(value)
        rows = tuple(scope.rows())
        sees_all = (run.id, course.unit.path) in self._asks_all or isinstance(planner, KeywordPlanner)
        catalogue = counted_on(rows, waiting=sees_all)
        task = self._task_of(run, course)
        args = (task, catalogue, self._plan_feedback(run, course))
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
        is_fixed = steps.is_fixed(course, own, facts)
        try:
            with self._engine.service.traced(state, course.unit, scope.path, "plan"):
                plan = planner.plan(*args)
            checked = check(plan, rows)
        except Exception as error:  # noqa: BLE001 - whatever the goal is, it costs no more than its own task
            if self._has_others(run, course, scope, error):
                self._plan(run, course, scope)
                return
            failure = self._with_known(run, scope, Failure(FailureKind.FAILED, error, told=text_of(error)))
            escalation = self._engine.question_id(run, course.unit)
            run.record(steps.failed(state.id, course, "plan", failure, NO_USAGE, facts, escalation, is_pure=True))
        else:
            run.record(steps.planned(course, checked, NO_USAGE, facts, is_fixed=is_fixed))

    @staticmethod
    def _task_of(run: Run, course: Course) -> Task:
        """Return the task as a planner, a reviewer or a synthesizer is to see it: a team sees its part."""
        task, unit = run.state.task, course.unit
        if unit.role == "task":
            return task
        return Task(
            goal=unit.spec.instruction or task.goal,
            inputs=inputs_of(run.state, unit),
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
        ids = tuple(course.review.waiting) if course.review.each else with_results(course)
        code = code_of(scope.settings.reviewer, "review", course.step("review").feedback, ids, notes_of(course, ids))
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
            code = code_of(synthesizer, "combine", course.step("combine").feedback, notes=notes_of(course, results))

        def form(said: object) -> object:
            read = code.read(said)
            return stored_form(read) if adapter is None else validated(adapter, read)

        self._begin(run, course, scope, "combine", code, args, form)

    # -- its end -------------------------------------------------------------------------------------------

    def hear(self, attempt: Attempt) -> None:
        """A call has ended."""
        engine = self._engine
        call = self.live.pop(attempt.key, None)
        if call is None or call.attempt is not attempt:
            if call is not None:
                self.live[attempt.key] = call
            engine.service.forget(attempt)
            return
        call.scope.steps -= 1
        run = engine.runs.get(attempt.task)
        if run is not None:
            engine.decide(run, self._ended, run, call)
            engine.decide(run, engine.attempts.count, run, attempt)
            run.act(engine.service.forget, attempt)
        else:
            engine.service.forget(attempt)
        if attempt.call is None and attempt.target is not None:
            self._worker_is_free(call)
        self.reopen(call.scope)

    def _worker_is_free(self, call: Call) -> None:
        entry = call.scope.workers.get(call.attempt.spec.worker)
        if entry is not None:
            self._engine.attempts.reopen(entry)

    def _ended(self, run: Run, call: Call) -> None:
        owner = run.state.units.get(call.path)
        if owner is None:
            return
        if call.role == "undo":
            self._undo_ended(run, owner, call)
            return
        course = owner.course
        unit = course.calls.get(call.role) if course is not None else None
        if course is None or unit is None or unit.seq != call.attempt.spec.start_number or unit.status != "running":
            return
        if owner.is_ending or owner.status != "running":
            return
        attempt = call.attempt
        failure = self._failure_of(call) if attempt.error is not None else None
        facts = self._engine.facts(call.scope)
        if attempt.error is None:
            run.record(self._outcome(run, course, call, attempt.value.value))
        elif failure is None or self._has_others(run, course, call.scope, failure.error):
            run.has_left = run.has_left or self._engine.system.is_ending
            run.emit(unit, task_events.SubtaskRequeued, "stopped", usage=attempt.take_used())
        else:
            failure = self._with_known(run, call.scope, failure)
            escalation, usage = self._engine.question_id(run, unit), attempt.take_used()
            run.record(steps.failed(run.id, course, call.role, failure, usage, facts, escalation))

    def _outcome(self, run: Run, course: Course, call: Call, said: Any) -> Draft:
        facts, usage = self._engine.facts(call.scope), call.attempt.take_used()
        if call.role == "plan":
            is_fixed = steps.is_fixed(course, run.state.task.plan, facts)
            return steps.planned(course, said, usage, facts, is_fixed=is_fixed)
        if call.role == "review":
            return steps.reviewed(course, said, call.subtasks, usage, facts)
        return Draft(course.unit, task_events.Synthesized, (said,), {"usage": usage})

    def _failure_of(self, call: Call) -> Failure | None:
        """How a call has failed; None: it was ended for reasons of others."""
        attempt = call.attempt
        if attempt.ended_by == "timeout":
            limit_s = call.scope.settings.step_timeout_s or 0.0
            return Failure(
                FailureKind.TIMEOUT, AttemptTimeoutError(call.role, attempt.spec.values.number, "step", limit_s)
            )
        error, said = attempt.error, attempt.code_outcome.said
        if error is None or not attempt.is_own_error or (self._engine.is_ending and was_cut_off(attempt)):
            return None
        if isinstance(said, Failure):
            return said
        said_error = said if isinstance(said, BaseException) else error  # a Later: not now
        return Failure(FailureKind.FAILED, said_error, told=text_of(said_error))

    def end_calls_of(self, run: Run, unit: Unit) -> None:
        """End the calls of a task, or a team, that does not want them any more. An undo that is under way goes on."""
        prefix = f"{unit.path}/" if unit.path else ""
        for call in list(self.live.values()):
            is_below = call.path == unit.path or call.path.startswith(prefix)
            if call.attempt.task == run.id and call.role != "undo" and is_below:
                self._engine.attempts.count(run, call.attempt)
                self._engine.limits.end(call.attempt, "cancel")

    def end_all(self) -> None:
        """All is being stopped: what is called here will be called again when it is up again."""
        for call in list(self.live.values()):
            if call.attempt.call is not None and not call.attempt.done:
                call.attempt.call.kill()
            run = self._engine.runs.get(call.attempt.task)
            if run is not None and not call.attempt.succeeded:
                self._engine.decide(run, self._is_stopped, run, call)

    def _is_stopped(self, run: Run, call: Call) -> None:
        """Say in the journal that a call was stopped with its tree: that is no loss."""
        owner = run.state.units.get(call.path)
        course = owner.course if owner is not None else None
        unit = owner.undo if owner is not None and call.role == "undo" else None
        unit = unit or (course.calls.get(call.role) if course is not None else None)
        run.has_left = True
        if unit is not None and unit.status == "running" and run.state.final is None:
            run.emit(unit, task_events.SubtaskRequeued, "stopped", usage=call.attempt.take_used())

    def adopt(self, run: Run, unit: Unit) -> None:
        """A call was under way when the last engine, or the last process, ended: wait for it, or call it again."""
        attempt = self._engine.service.attempts.get(key_of(run, unit))
        scope = self._engine.scope_of(unit)
        above = unit.above
        if scope is None or above is None:
            return
        if attempt is not None and attempt.spec.start_number == unit.seq and attempt.was_given:
            self._hold(Call(attempt, scope, above.path, unit.role, tuple(attempt.subtask.depends_on)))
            if attempt.done:
                self._engine.port.tell(attempt)
            return
        run.emit(
            unit,
            task_events.SubtaskRequeued,
            LOST if attempt is None else "stopped",
            ended_at=self._engine.heard_last(run),
        )

    def _is_lost(self, run: Run, unit: Unit, scope: Scope) -> bool:
        """True where process after process has ended with a call: it has failed."""
        if unit.losses < scope.settings.max_losses:
            return False
        what = "undo of subtask" if unit.role == "undo" else "step"
        name = unit.above.id if unit.role == "undo" and unit.above is not None else unit.role
        failure = Failure(FailureKind.LOST, AttemptLostError(name, unit.losses, what))
        facts, escalation = self._engine.facts(scope), self._engine.question_id(run, unit)
        if unit.role == "undo":
            end = of_attempt.AttemptEnd(unit.worker or "", began=True)
            run.record(
                of_attempt.failed(unit, Failure(failure.kind, failure.error, retryable=False), end, facts, escalation)
            )
        else:
            course = run.state.course_of(unit)
            run.record(steps.failed(run.id, course, unit.role, failure, NO_USAGE, facts, escalation))
        return True

    # -- undo ----------------------------------------------------------------------------------------------

    def undo(self, run: Run, course: Course) -> None:
        """Undo the next effect. A team that has failed undoes what it did; then its ladder says what follows."""
        unit = course.unit
        if course.undoing is not None:
            self._go_on_undoing(run, course, course.undoing)
            return
        if unit.role != "task" and unit.is_ending:
            self._team_fails(run, course)
            return
        found = next_effect(run.state, course)
        if found is not None:
            self._begin_undo(run, course, found, 1)

    def _team_fails(self, run: Run, course: Course) -> None:
        unit, ending, attempts = course.unit, course.ending, self._engine.attempts
        scope = self._engine.service.scopes.get(course.scope)
        settings = scope.settings if scope is not None else self._engine.scope.settings
        found = next_effect(run.state, course)
        if found is not None:
            self._begin_undo(run, course, found, 1)
            return
        if ending is not None and ending.status == "cancelled":
            run.emit(unit, task_events.SubtaskCancelled, ending.error, False, unit.worker or "")  # noqa: FBT003 - a field
            return
        limit_s = unit.spec.timeout_s or 0.0
        failure = failure_of(course, settings, limit_s)
        end = of_attempt.AttemptEnd(unit.worker or "", began=True)
        attempts.record_team_failed(run, unit, failure, attempts.team_failed(run, unit, failure, end))

    def _go_on_undoing(self, run: Run, course: Course, undo: Unit) -> None:
        if undo.question is not None or self._is_live(run, undo) or undo in self._engine.attempts.paused:
            return
        if undo.status == "retrying" and undo.due is not None and undo.due > self._engine.time():
            path = course.unit.path
            self._engine.at(undo.due, lambda engine: engine.look_at(run.id, path))
            return
        assert undo.above is not None and undo.undoes is not None  # noqa: S101, PT018 - an undo has both
        is_again = undo.status in {"retrying", "waiting"}
        self._begin_undo(run, course, Undoable(undo.above, undo.undoes), undo.attempt + is_again)

    def _begin_undo(self, run: Run, course: Course, found: Undoable, number: int) -> None:
        engine, unit, effect = self._engine, found.unit, found.effect
        scope = engine.scope_of(unit)
        if scope is None or not engine.is_open or engine.begins_nothing_of(run):
            return
        if not self._has_slot(run, course, scope):
            return
        how = undo_code(scope, unit, effect)
        undo = unit.undo
        if undo is not None and undo.undoes is effect and self._is_lost(run, undo, scope):
            return
        run.emit(unit, task_events.Compensating, effect.worker, effect.epoch, number)
        undo = unit.undo
        assert undo is not None  # noqa: S101 - the record has just made it
        if isinstance(how, str):
            gone = f"{how}; when it is back, Approve() has it undone"
            nobody = NoCapableWorkerError((f"the undo of {unit.id}",), task=run.id, hint=gone)
            end = of_attempt.AttemptEnd(effect.worker, began=False)
            failure, facts = Failure(FailureKind.NOBODY, nobody), engine.facts(scope)
            run.record(of_attempt.failed(undo, failure, end, facts, engine.question_id(run, unit)))
            return
        attempt = Attempt(self._undo_spec(run, undo, scope, how))
        self._hold(Call(attempt, scope, unit.path, "undo"))
        if how.code is not None:
            DetachedCall(scope, attempt, how.code, is_async=how.is_async)
            run.act(self._start, attempt, scope)
        else:
            run.act(self._give_undo, attempt, scope, how)

    def _undo_spec(self, run: Run, undo: Unit, scope: Scope, how: Undoer) -> AttemptSpec:
        state, unit, effect = run.state, undo.above, undo.undoes
        assert unit is not None and effect is not None  # noqa: S101, PT018 - an undo has both
        values = context_values(state, unit)._replace(
            number=undo.attempt,
            idempotency_key=f"{idempotency_key(state, undo)}",
            results={unit.id: effect.result if effect.done else None},
            revision=_told(undo),
        )
        spec = unit.spec if unit.spec.instruction else unit.spec.model_copy(update={"instruction": state.task.goal})
        return AttemptSpec(
            key_of(run, undo),
            scope,
            state.id,
            spec,
            how.worker,
            f"{scope.path}/{how.worker}",
            values,
            scope.addresses(chain_of(state, unit)),
            start_number=undo.seq,
            role="undo",
            unit=unit.path,
            variables=self._engine.service.variables_of(state, unit),
        )

    def _give_undo(self, attempt: Attempt, scope: Scope, how: Undoer) -> None:
        """Have a worker undo it; its time counts from when it has begun."""
        engine, entry = self._engine, how.entry
        if entry is None or attempt.done or not engine.service.may_start() or not attempt.give_once():
            return
        if scope.settings.step_timeout_s is not None:
            engine.limits.watch_limits(attempt, scope.settings.step_timeout_s, None)
        running = (box for path, box in entry.boxes.items() if entry.members.get(path) == "running")
        box: Any = next(iter(entry.free), None) or next(running, None) or next(iter(entry.boxes.values()))
        attempt.target = box
        refusal = box.put_unbounded((attempt, attempt, attempt.origin(MessageContext)))
        if refusal is not None:
            attempt.fail(engine.system.stopped_error(box.path, refusal))

    def _undo_ended(self, run: Run, unit: Unit, call: Call) -> None:
        undo, attempt, engine = unit.undo, call.attempt, self._engine
        if undo is None or undo.seq != attempt.spec.start_number or undo.status != "running":
            return
        outcome = classify(attempt, is_ending=engine.is_ending)
        if isinstance(outcome, Done):
            engine.attempts.goes_on(undo)
            run.record(undone(undo))
            return
        if isinstance(outcome, Failure) and outcome.kind is FailureKind.TIMEOUT:
            limit = call.scope.settings.step_timeout_s or 0.0
            outcome = Failure(FailureKind.TIMEOUT, AttemptTimeoutError(unit.id, undo.attempt, "step", limit))
        if outcome is NEUTRAL:
            run.has_left = run.has_left or engine.system.is_ending
            engine.attempts.pause(run, undo)
            run.emit(undo, task_events.SubtaskRequeued, "stopped", usage=attempt.take_used())
            return
        engine.attempts.goes_on(undo)
        end = of_attempt.AttemptEnd(attempt.spec.worker, began=True, usage=attempt.take_used())
        facts, escalation = engine.facts(call.scope), engine.question_id(run, unit)
        failure = outcome if isinstance(outcome, Failure) else Failure(FailureKind.FAILED, outcome)
        run.record(of_attempt.failed(undo, failure, end, facts, escalation))


class _ByPerson:
    """Planner that returns what a person has given for the plan."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def plan(self, _task: Task, _catalogue: Catalogue, _feedback: str = "") -> Any:
        """Return it."""
        return self._value


def _checked(run: Run, course: Course, scope: Scope, plan: Plan, rows: Catalogue) -> steps.Checked:
    """Compare a plan with the tree. Estimates and modules of users may run: not on the loop, unless it is quick."""
    state, settings = run.state, scope.settings
    is_again, budget = (
        course.phase == "replanning",
        state.task.budget if course.unit.role == "task" else course.unit.spec.budget,
    )
    done = {id_: course.units[id_].spec for id_ in with_results(course)} if is_again else {}
    new = new_of(plan, done) if done else plan
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
            is_again=is_again,
            done=done,
            metadata=state.task.metadata,
        )
    if is_again:
        problems += taken_ids(new, [unit.id for unit in course.units.values() if unit.asker is not None])
    warnings = [*plan.warnings, *warnings]
    new = Plan(new.subtasks) if new.warnings else new  # the event has them
    whole = new if problems else resolved_plan(new, rows)
    return steps.Checked(merged(done, whole) if done else whole, tuple(problems), tuple(warnings), tuple(done))


def _plain(words: WordsT, ours: type[WordsT]) -> WordsT:
    """Copy of a plan or verdict as it is read back from a journal: a class of the user's is left behind."""
    return words if type(words) is ours else ours(**from_json(to_json(words)))


def _told(undo: Unit) -> Revision:
    """Facts that an undo sees: what people have answered about it, and the state that it has asked with."""
    said = undo.remarks
    state = undo.state_for(undo.worker)
    if not said.answers and state is None:
        return NO_REVISION
    answers = tuple(answer_of(each.answer, each.value) for each in said.answers)
    texts = ("", *(answer.text for answer in answers if isinstance(answer, Respond)))
    return Revision(
        feedback=texts[-1],
        history=texts[1:-1],
        work=work_of(None, state),
        answers=answers,
        answer=undo.answer_to_state,
    )
