"""The steps of a task that are not subtasks: planning, reviewing, combining.

They are user code, so they run as detached calls (``actors.tasks.execution.detached_call``), with a limit of their own.
Only planners and synthesizers that this library ships, which are pure and quick, are called on the spot. A step has a
key, as an attempt has: a new incarnation finds one that still runs. What a step returns becomes plain data where it
runs (``AttemptSpec.form``), as every result does (``actors.tasks.execution.run_attempt``).

Which step is called is decided in ``actors.tasks.recovery.next_step``, and what its end means in
``actors.tasks.recovery.stage_ends``. Here they are called, and heard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from actors.model.errors import Problem
from actors.tasks.execution.attempt import Attempt
from actors.tasks.execution.attempt_spec import AttemptSpec, Role
from actors.tasks.execution.context import ContextValues
from actors.tasks.execution.detached_call import DetachedCall
from actors.tasks.execution.stored_form import stored_form
from actors.tasks.journal.codec import from_json, to_json
from actors.tasks.journal.dropped import changed, lacking
from actors.tasks.journal.reporting import total_usage
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.event_base import Draft
from actors.tasks.model.executable import Catalogue, counted_on
from actors.tasks.model.outcome import Failure, FailureKind, text_of
from actors.tasks.model.policy import Verdict
from actors.tasks.model.task import NO_USAGE, Plan, Subtask, SubtaskStatus, Task, Usage
from actors.tasks.model.task_errors import AttemptTimeoutError, NoCapableWorkerError
from actors.tasks.orchestration.stage_code import StageCode, code_of
from actors.tasks.orchestration.task_results import notes_of
from actors.tasks.planning.check import check_plan, resolved_plan
from actors.tasks.planning.keyword import KeywordPlanner, known_of, left_out
from actors.tasks.planning.planners import (
    ReplanFeedback,
    StaticPlan,
    as_plan,
    is_inline,
    merged,
    new_of,
    replan_feedback,
    taken_ids,
)
from actors.tasks.recovery import stage_ends
from actors.tasks.recovery.classify import was_cut_off
from actors.tasks.recovery.next_step import Step, planned_results
from actors.tasks.recovery.stage_ends import Checked, Unreadable, unreadable
from actors.tasks.results.review import as_verdict
from actors.tasks.results.synthesis import is_inline as is_inline_synthesis

if TYPE_CHECKING:
    from actors.tasks.orchestration.attempt_control import AttemptControl
    from actors.tasks.orchestration.orchestrator_port import OrchestratorPort
    from actors.tasks.orchestration.recording import Recording
    from actors.tasks.orchestration.step_turns import Turns
    from actors.tasks.orchestration.task_results import TaskResults

WordsT = TypeVar("WordsT", Plan, Verdict)


class TaskStages:
    """Runs the steps of the tasks of one orchestrator."""

    def __init__(
        self,
        port: OrchestratorPort,
        recording: Recording,
        turns: Turns,
        results: TaskResults,
        control: AttemptControl,
        advance: Callable[[TaskState], None],
    ) -> None:
        """Make them for one incarnation.

        ``advance`` does what is next for a task.
        """
        self._port, self._recording, self._turns = port, recording, turns
        self._results, self._control, self._advance = results, control, advance
        self._running: dict[str, Attempt] = {}
        """By task: it has one at a time."""
        self._waiting: set[str] = set()
        """Tasks whose planner found nobody, and is shown those whose breaker is open as well."""
        self._calls = {Step.PLAN: self._plan, Step.REVIEW: self._review, Step.COMBINE: self._combine}

    def is_busy(self, state: TaskState) -> bool:
        """True if a step of the task has been made, and has not ended."""
        return state.id in self._running

    def call(self, state: TaskState, step: Step) -> None:
        """Call a step, unless a call for this task is under way."""
        if not self.is_busy(state):
            self._calls[step](state)

    def _record(self, state: TaskState, draft: Draft) -> None:
        self._recording.record(state, draft)

    # -- planning ------------------------------------------------------------------------------------------

    def _plan(self, state: TaskState) -> None:
        port, own = self._port, state.task.plan
        planner = port.settings.planner if own is None else StaticPlan(own.subtasks)
        rows = tuple(port.rows())  # what is called on the spot changes none of them
        catalogue = counted_on(rows, waiting=state.id in self._waiting or isinstance(planner, KeywordPlanner))
        task = state.task
        args = (task, catalogue, self._plan_feedback(state))
        check = partial(self._checked, state)
        if not is_inline(planner, task, rows):
            code = code_of(planner, "plan")

            def made(said: object) -> Checked | Unreadable:
                try:
                    plan = _plain_plan(code.read(said))
                except Exception as error:  # noqa: BLE001 - what it returned may raise anything
                    return unreadable(f"task {state.id}", error)
                return check(plan)

            self._run(state, "plan", code, args, made)
            return
        try:
            with port.runtime.traced(state, "plan"):
                plan = planner.plan(*args)
        except Exception as error:  # noqa: BLE001 - whatever the goal is, it costs no more than its own task
            if self._has_others(state, error):
                self._plan(state)
                return
            failure = self._with_known(state, Failure(FailureKind.FAILED, error, told=text_of(error)))
            facts = self._results.facts(state)
            self._record(state, stage_ends.failed(state, "plan", failure, NO_USAGE, facts, is_pure=True))
            return
        checked = self._checked(state, plan, rows)
        self._record(state, stage_ends.planned(state, checked, NO_USAGE, self._results.facts(state)))

    def _plan_feedback(self, state: TaskState) -> str:
        refused = stage_ends.plan_feedback(state)
        team = self._port.runtime.attempt_of(state)
        said = team.spec.values.revision.feedback if team is not None else ""
        if said:
            refused = f"The last result of this team was sent back: {said}\n{refused}".rstrip()
        if state.phase != "replanning":
            return refused
        gone = [node for node in state.nodes.values() if node.parent is None and not node.dropped]
        failed = {node.id: node.error for node in gone if node.status is SubtaskStatus.FAILED}
        skipped = {node.id: node.error for node in gone if node.status is SubtaskStatus.SKIPPED}
        return replan_feedback(self._results.all(state), failed, skipped, refused)

    def _checked(self, state: TaskState, plan: Plan, rows: Catalogue | None = None) -> Checked:
        """Compare a plan with the tree. Estimates and modules of users may run: not on the loop, unless it is quick."""
        settings, rows = self._port.settings, tuple(self._port.rows()) if rows is None else rows
        is_again, nodes, budget = state.phase == "replanning", state.nodes, state.task.budget
        done = {id_: nodes[id_].spec for id_ in planned_results(state)} if is_again else {}
        new = new_of(plan, done) if done else plan
        problems, warnings = list[Problem](), list[str]()
        if new.subtasks or not plan.subtasks:  # else it says that what is done will do
            problems, warnings = check_plan(
                new,
                rows,
                at=f"task {state.id}",
                max_subtasks=settings.max_subtasks,
                budget=budget.left(total_usage(state)) if budget is not None and is_again else budget,
                ancestry=state.chain,
                goal=state.task.goal,
                is_again=is_again,
                done=done,
                metadata=state.task.metadata,
            )
        if is_again:
            problems += taken_ids(new, [node.id for node in nodes.values() if node.parent is not None])
        warnings = [*plan.warnings, *warnings]
        new = Plan(new.subtasks) if new.warnings else new  # the event has them
        whole = new if problems else resolved_plan(new, rows)
        return Checked(merged(done, whole) if done else whole, tuple(problems), tuple(warnings), tuple(done))

    # -- reviewing -----------------------------------------------------------------------------------------

    def _review(self, state: TaskState) -> None:
        """Have results looked at: all, or those that are new where each is reviewed by itself."""
        ids = tuple(state.review.waiting) if state.review.each else planned_results(state)
        code = code_of(self._port.settings.reviewer, "review", state.stage.feedback, ids, notes_of(state, ids))
        args = (state.task, state.plan or Plan(subtasks=[]), self._results.of(state, ids))

        def verdict_of(said: object) -> object:
            try:
                return _plain(as_verdict(code.read(said), ids), Verdict)
            except Exception as error:  # noqa: BLE001 - what it returned may raise anything
                return unreadable("verdict", error)

        self._run(state, "review", code, args, verdict_of, ids)

    # -- combining -----------------------------------------------------------------------------------------

    def _combine(self, state: TaskState) -> None:
        """Have the results made into one."""
        synthesizer = self._port.settings.synthesizer
        args = (state.task, self._results.all(state))
        if is_inline_synthesis(synthesizer) and not any(lacking(args[1])):  # of results, which are JSON already
            with self._port.runtime.traced(state, "combine"):
                combined = synthesizer.combine(*args)
            self._record(state, stage_ends.combined(combined, NO_USAGE))
        else:
            code = code_of(synthesizer, "combine", state.stage.feedback, notes=notes_of(state, args[1]))
            self._run(state, "combine", code, args, lambda said: stored_form(code.read(said)))

    # -- running one ---------------------------------------------------------------------------------------

    def _run(
        self,
        state: TaskState,
        role: Role,
        code: StageCode,
        args: tuple[Any, ...],
        form: Callable[[Any], Any],
        subtasks: tuple[str, ...] = (),
    ) -> None:
        runtime, number = self._port.runtime, state.stage.calls + 1
        key = f"{state.id}/{role}#{number}"
        attempt = runtime.attempts.get(key)
        if attempt is None and self._turns.begins_nothing_of(state):
            return  # nothing new begins; whoever comes next makes it
        if attempt is None and state.step:
            lost = self._turns.lost(state, "step", role)  # only a process that is gone leaves one behind
            if lost is not None:
                failure, facts = Failure(FailureKind.LOST, lost), self._results.facts(state)
                self._record(state, stage_ends.failed(state, role, failure, NO_USAGE, facts))
                return
        if attempt is None:
            args, needed = _needed(args)
            attempt = runtime.attempts[key] = Attempt(self._spec(state, role, number, key, subtasks, form, needed))
            DetachedCall(runtime, attempt, code.with_args(args), is_async=True)
        self._running[state.id] = attempt
        started = partial(self._recording.emit, state, task_events.StepStarted, role, number)
        self._turns.want(state, attempt, started)

    def _spec(
        self,
        state: TaskState,
        role: Role,
        number: int,
        key: str,
        subtasks: tuple[str, ...],
        form: Callable[[Any], Any],
        needed: tuple[dict[str, Any], ...],
    ) -> AttemptSpec:
        port = self._port
        return AttemptSpec(
            key,
            port,
            state.id,
            Subtask(id=role, instruction=state.task.goal, depends_on=list(subtasks)),
            role,
            f"{port.path}/{role}",
            ContextValues(state.task.goal, number, key, {}, {}, state.task.metadata),
            port.addresses((*state.chain, port.path)),
            state.lineage,
            None if state.deadline is None else state.deadline - port.runtime.epoch,
            role=role,
            form=form,
            variables=port.runtime.variables_of(state),
            arguments=needed,
        )

    def end(self, state: TaskState) -> None:
        """End the step of a task that does not want it any more."""
        attempt = self._running.pop(state.id, None)
        if attempt is not None:
            self._port.runtime.attempts.pop(attempt.key, None)
            self._recording.count(attempt)
            self._control.end(attempt, "cancel")

    def holds(self, attempt: Attempt) -> bool:
        """True if a task waits for the end of this attempt."""
        return self._running.get(attempt.task) is attempt

    def forget(self, state: TaskState) -> None:
        """The task is over."""
        self._running.pop(state.id, None)
        self._waiting.discard(state.id)

    # -- its end -------------------------------------------------------------------------------------------

    def ended(self, attempt: Attempt, state: TaskState) -> None:
        """Treat the end of the call of a step."""
        if self._running.get(state.id) is not attempt:
            return
        del self._running[state.id]
        if state.ending is not None:
            self._recording.count(attempt)
            self._advance(state)
            return
        failure = self._failure_of(attempt) if attempt.error is not None else None
        if attempt.error is None:
            self._record(state, self._outcome(state, attempt, attempt.value.value, attempt.take_used()))
        elif failure is None or self._has_others(state, failure.error):
            self._once_more(attempt, state)
        else:
            failure, facts = self._with_known(state, failure), self._results.facts(state)
            self._record(state, stage_ends.failed(state, attempt.spec.role, failure, attempt.take_used(), facts))

    def _with_known(self, state: TaskState, failure: Failure) -> Failure:
        """Say whose task it is and who there is, where a planner says that nobody can do it."""
        error = failure.error
        if type(error) is not NoCapableWorkerError:
            return failure
        rows = self._port.rows()
        known, hint = error.known or known_of(counted_on(rows, waiting=True)), error.hint
        if away := [row for row in rows if not row.is_there]:
            hint = f"{hint or NoCapableWorkerError.advice(known)} {left_out(away)}".lstrip()
        return replace(failure, error=NoCapableWorkerError(error.needed, known, task=state.id, hint=hint))

    def _has_others(self, state: TaskState, error: BaseException | None) -> bool:
        """True, once, where a planner found nobody without those whose breaker is open: work waits for them."""
        if type(error) is not NoCapableWorkerError or state.id in self._waiting:
            return False
        if not any(row.is_there and not row.is_available for row in self._port.rows()):
            return False
        self._waiting.add(state.id)
        return True

    def _outcome(self, state: TaskState, attempt: Attempt, said: Any, usage: Usage) -> Draft:
        facts = self._results.facts(state)
        if attempt.spec.role == "plan":
            return stage_ends.planned(state, said, usage, facts)
        if attempt.spec.role == "review":
            return stage_ends.reviewed(state, said, tuple(attempt.subtask.depends_on), usage, facts)
        return stage_ends.combined(said, usage)

    def _failure_of(self, attempt: Attempt) -> Failure | None:
        """How a step has failed; None: it was ended for reasons of others."""
        if attempt.ended_by == "timeout":
            number = attempt.spec.values.number
            limit_s = self._port.settings.step_timeout_s or 0.0
            return Failure(FailureKind.TIMEOUT, AttemptTimeoutError(attempt.spec.role, number, "step", limit_s))
        error, said = attempt.error, attempt.code_outcome.said
        if error is None or not attempt.is_own_error or (self._turns.is_ending and was_cut_off(attempt)):
            return None
        if isinstance(said, Failure):
            return said
        said_error = said if isinstance(said, BaseException) else error  # a Later: not now
        return Failure(FailureKind.FAILED, said_error, told=text_of(said_error))

    def _once_more(self, attempt: Attempt, state: TaskState) -> None:
        """Call a step once more that was ended from outside: it has not failed."""
        self._recording.count(attempt)
        self._turns.put_back(state)
        self._port.runtime.forget(attempt)
        if not self._turns.begins_nothing_of(state):
            self._advance(state)


def _needed(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Arguments of a step, and the dicts in them that it needs whole: what is fetched for it is not the state's."""
    own = tuple(
        changed(arg, inputs=dict(arg.inputs)) if isinstance(arg, Task) and any(lacking(arg.inputs)) else arg
        for arg in args
    )
    held = (
        arg.inputs if isinstance(arg, Task) else arg.done if isinstance(arg, ReplanFeedback) else arg for arg in own
    )
    return own, tuple(each for each in held if isinstance(each, dict))


def _plain_plan(value: object) -> Plan:
    """Plan that a planner returned, as one that nobody else holds and that has the form of the journal."""
    return value if type(value) is Plan else _plain(as_plan(value), Plan)


def _plain(words: WordsT, ours: type[WordsT]) -> WordsT:
    """Copy of a spec as it is read back from a journal: a class of the user's that is derived from ours is left behind.

    Raises:
        ConfigError: they are none, and were never checked.
    """
    return ours(**from_json(to_json(words)))
