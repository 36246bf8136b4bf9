"""The steps of a task that are not subtasks: planning, reviewing, combining.

They are user code, so they run as errands (``actors.tasks.execution.detached_call``), with a limit of their own; only
planners and synthesizers that this library ships, which are pure and quick, are called on the spot. A step has a key,
as an attempt
has: a new incarnation finds one that still runs. What a step returns becomes plain data where it runs
(``Attempt.form``), as every result does (``actors.tasks.execution.run_attempt``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from actors.model.errors import Problem
from actors.tasks.execution.attempt import Attempt
from actors.tasks.execution.context import ContextValues
from actors.tasks.execution.detached_call import DetachedCall
from actors.tasks.execution.off_loop import off_loop
from actors.tasks.journal.codec import from_json, to_json
from actors.tasks.journal.dropped import changed, lacking
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.outcome import Failure, text_of
from actors.tasks.model.policy import Verdict
from actors.tasks.model.shared_values import copied
from actors.tasks.model.task import NO_USAGE, Plan, Subtask, SubtaskStatus, Task, TaskStatus, Usage
from actors.tasks.model.task_errors import AttemptLostError, AttemptTimeoutError, NoCapableWorkerError
from actors.tasks.orchestration.step_turns import ENDED, STOPPED
from actors.tasks.planning.keyword_planner import known_of
from actors.tasks.planning.plan_validation import check_plan, is_quick, resolved_plan
from actors.tasks.planning.planners import ModelPlanner, StaticPlan, as_plan, is_inline
from actors.tasks.results.review import as_verdict, rerun_of
from actors.tasks.results.synthesis import ModelSynthesizer, json_form
from actors.tasks.results.synthesis import is_inline as is_inline_synthesis
from actors.validation.introspection import is_async

if TYPE_CHECKING:
    from actors.tasks.orchestration.lifecycle import TaskLifecycle
    from actors.tasks.orchestration.orchestrator import Orchestrator

_OURS: Final = frozenset({ModelPlanner.plan, ModelSynthesizer.combine})
WordsT = TypeVar("WordsT", Plan, Verdict)


class TaskStages:
    """Runs the steps of the tasks of one orchestrator."""

    def __init__(self, orchestrator: Orchestrator, course: TaskLifecycle) -> None:
        self._to = orchestrator
        self._course = course
        self._running: dict[str, Attempt] = {}
        """By task: it has one at a time."""

    # -- planning ------------------------------------------------------------------------------------------

    def plan(self, state: TaskState) -> None:
        """Have a plan made; where too many were refused, or another one would be no other, the task has failed."""
        to = self._to
        own, refusal = state.task.plan, state.refusal
        planner = to.settings.planner if own is None else StaticPlan(own.subtasks)
        catalogue = to.desk.catalogue()
        task = state.task
        is_pure = is_inline(planner, task, catalogue)
        problems = [str(problem) for problem in refusal.problems] if refusal is not None else []
        hopeless = refusal is not None and (refusal.is_last or (refusal.needed is not None and is_pure))
        if hopeless or state.refusals >= to.settings.max_plan_attempts:
            self._course.end(state, TaskStatus.FAILED, "plan", "; ".join(problems))
            return
        team = to.ground.attempt_of(state)
        said = team.values.revision.feedback if team is not None else ""
        feedback = "\n".join([f"The last result of this team was sent back: {said}", *problems] if said else problems)
        number = state.refusals + 1
        if not is_pure:
            call, read = _step_of(planner, "plan")
            self._run(
                state, "plan", number, call, (task, catalogue, feedback), lambda said: self._checked(state, read(said))
            )
            return
        try:
            plan = planner.plan(task, catalogue, feedback)
        except Exception as error:  # noqa: BLE001 - whatever the goal is, it costs no more than its own task
            self._refuse(state, error, text_of(error))
            return
        if is_quick(plan, tuple(to.desk.rows())):
            self._planned(state, self._checked(state, plan))
        else:
            self._run(state, "plan", number, lambda: plan, (), lambda said: self._checked(state, said))

    def _checked(self, state: TaskState, said: object) -> Checked:
        """Compare the answer of a planner with the tree. Estimates and modules of users may run: never on the loop."""
        settings, rows = self._to.settings, tuple(self._to.desk.rows())
        plan = said if type(said) is Plan else _plain_plan(said)
        problems, warnings = check_plan(
            plan,
            rows,
            task_id=state.id,
            max_subtasks=settings.max_subtasks,
            budget=state.task.budget,
            ancestry=state.chain,
            goal=state.task.goal,
        )
        warnings = [*plan.warnings, *warnings]
        plan = Plan(plan.subtasks) if plan.warnings else plan  # the event has them
        return Checked(plan if problems else resolved_plan(plan, rows), tuple(problems), tuple(warnings))

    def _planned(self, state: TaskState, checked: Checked, usage: Usage = NO_USAGE) -> None:
        to = self._to
        if checked.problems:
            self._refused(state, checked.problems, usage=usage)
            return
        to.emit(state, task_events.Planned, checked.plan, checked.warnings, usage)

    def _refuse(self, state: TaskState, error: BaseException, text: str, usage: Usage = NO_USAGE) -> None:
        if type(error) is NoCapableWorkerError:
            known = error.known or known_of(self._to.desk.catalogue())
            told = NoCapableWorkerError(error.needed, known, task=state.id, hint=error.hint)
            self._refused(state, told.problems, told.needed, told.known, usage)
        else:
            what = f"the planner raised {text}"
            self._refused(state, (Problem(f"task {state.id}", what, "Repair it, or its answer."),), usage=usage)

    def _refused(
        self,
        state: TaskState,
        problems: tuple[Problem, ...],
        needed: tuple[str, ...] | None = None,
        known: tuple[str, ...] = (),
        usage: Usage = NO_USAGE,
        *,
        is_last: bool = False,
    ) -> None:
        to, number = self._to, state.refusals + 1
        said = (problems, needed, known, usage, is_last)
        to.emit(state, task_events.PlanRefused, number, *said)

    # -- reviewing -----------------------------------------------------------------------------------------

    def review(self, state: TaskState) -> None:
        """Have the results looked at."""
        plan = state.plan or Plan(subtasks=[])
        args = (state.task, plan, self._course.results(state))
        call, read = _step_of(self._to.settings.reviewer, "review")
        self._run(state, "review", state.iterations + 1, call, args, lambda said: _plain_verdict(read(said)))

    def _reviewed(self, state: TaskState, verdict: Verdict, usage: Usage) -> None:
        """Only what the reviewer was shown can run again: what a subtask has asked for is that one's own affair."""
        to, iteration = self._to, state.iterations + 1
        nodes = state.nodes.values()
        done = [node.id for node in nodes if node.parent is None and node.status is SubtaskStatus.SUCCEEDED]
        try:
            rerun = rerun_of(verdict, done, iteration + 1)
        except ValueError as error:
            self._review_failed(state, text_of(error), usage)
            return
        last = iteration >= to.settings.max_iterations
        passed = verdict.passed and not rerun
        again = {} if last or passed else rerun
        best_effort = not passed and not again
        to.emit(state, task_events.Reviewed, iteration, passed, again, best_effort, usage=usage)

    def _review_failed(self, state: TaskState, text: str, usage: Usage) -> None:
        """Record that the reviewer failed, which is no negative verdict. The results are taken as they are."""
        to, number = self._to, state.iterations + 1
        to.emit(state, task_events.Reviewed, number, False, {}, True, text, usage)  # noqa: FBT003

    # -- combining -----------------------------------------------------------------------------------------

    def combine(self, state: TaskState) -> None:
        """Have the results made into one."""
        synthesizer = self._to.settings.synthesizer
        args = (state.task, self._course.results(state))
        if is_inline_synthesis(synthesizer) and not any(lacking(args[1])):
            self._combined(state, synthesizer.combine(*args))  # of results, which are JSON already
        else:
            call, read = _step_of(synthesizer, "combine")
            self._run(state, "combine", 1, call, args, lambda said: json_form(read(said)))

    def _combined(self, state: TaskState, output: Any, usage: Usage = NO_USAGE) -> None:
        to = self._to
        to.emit(state, task_events.Synthesized, output, usage=usage)

    def _combine_failed(self, state: TaskState, text: str, usage: Usage) -> None:
        """Nothing is lost: the results as they are."""
        to, results = self._to, self._course.results(state)
        # Where some of them are in the store only, the report has them from there.
        to.emit(state, task_events.Synthesized, None if any(lacking(results)) else results, text, usage)

    # -- running one ---------------------------------------------------------------------------------------

    def _run(
        self,
        state: TaskState,
        role: str,
        number: int,
        call: Callable[..., Any],
        args: tuple[Any, ...],
        form: Callable[[Any], Any],
    ) -> None:
        if state.id in self._running:
            return
        to = self._to
        key = f"{state.id}/{role}#{number}"
        attempt = to.ground.attempts.get(key)
        if attempt is None and state.step:
            lost = to.turns.lost(state, "step", role)  # only a process that is gone leaves one behind
            if lost is not None:
                self._failed(state, role, lost, text_of(lost), NO_USAGE)
                return
        if attempt is None:
            path = f"{to.path}/{role}"
            spec = Subtask(id=role, instruction=state.task.goal)
            chain = to.desk.addresses((*state.chain, to.path))
            deadline = None if state.deadline is None else state.deadline - to.ground.epoch
            attempt = Attempt(
                key, to.desk, state.id, spec, role, path, chain=chain, lineage=state.lineage, deadline=deadline
            )
            attempt.role, attempt.form = role, form
            attempt.values = ContextValues(state.task.goal, number, key, {}, {}, state.task.metadata)
            to.ground.attempts[key] = attempt
            args, attempt.arguments = _needed(args)
            code, is_async_ = _with_own(call, args)
            DetachedCall(to.ground, attempt, code, is_async=is_async_)
        self._running[state.id] = attempt
        to.turns.want(state, attempt, lambda: to.emit(state, task_events.StepStarted, role, number))

    def end(self, state: TaskState) -> None:
        """End the step of a task that does not want it any more."""
        attempt = self._running.pop(state.id, None)
        if attempt is not None:
            self._to.ground.attempts.pop(attempt.key, None)
            self._course.count(attempt)
            self._to.dispatcher.end(attempt, "cancel")

    def holds(self, attempt: Attempt) -> bool:
        """True if a task waits for the end of this attempt."""
        return self._running.get(attempt.task) is attempt

    def forget(self, state: TaskState) -> None:
        """The task is over."""
        self._running.pop(state.id, None)

    def ended(self, attempt: Attempt, state: TaskState) -> None:
        """One has come back."""
        if self._running.get(state.id) is not attempt:
            return
        del self._running[state.id]
        if state.ending is not None:
            self._course.count(attempt)
            self._course.advance(state)
            return
        role = attempt.role
        takes: dict[str, Callable[[TaskState, Any, Usage], None]]
        takes = {"plan": self._planned, "review": self._reviewed, "combine": self._combined}
        if attempt.error is None:
            takes[role](state, attempt.value.value, attempt.take_used())
            return
        if attempt.ended_by == "timeout":
            number = attempt.values.number
            error: BaseException = AttemptTimeoutError(role, number, "step", self._to.settings.step_timeout_s or 0.0)
            text = text_of(error)
        elif attempt.is_own_error:
            said = attempt.said
            is_failure = isinstance(said, Failure)
            error, text = (said.error, said.told) if is_failure else (attempt.error, text_of(attempt.error))
        else:
            self._once_more(attempt, state)
            return
        self._failed(state, role, error, text, attempt.take_used())

    def _once_more(self, attempt: Attempt, state: TaskState) -> None:
        """One was ended for reasons of others."""
        to = self._to
        self._course.count(attempt)
        to.turns.put_back(state, STOPPED if to.closing else ENDED)
        to.ground.forget(attempt)
        if not to.closing:
            self._course.advance(state)

    def _failed(self, state: TaskState, role: str, error: BaseException, text: str, usage: Usage) -> None:
        if isinstance(error, AttemptLostError) and role == "plan":
            hint = "Find out what it does to them: no memory left, a fault in compiled code. Then submit it again."
            self._refused(state, (Problem(f"task {state.id}", str(error), hint),), is_last=True)
        elif role == "plan":
            self._refuse(state, error, text, usage)
        elif role == "review":
            self._review_failed(state, text, usage)
        else:
            self._combine_failed(state, text, usage)


class Checked(NamedTuple):
    """A plan that was compared with the tree."""

    plan: Plan
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]


def _needed(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Arguments of a step, and the dicts in them that it needs whole: what is fetched for it is not the state's."""
    own = tuple(
        changed(arg, inputs=dict(arg.inputs)) if isinstance(arg, Task) and any(lacking(arg.inputs)) else arg
        for arg in args
    )
    held = (arg.inputs if isinstance(arg, Task) else arg for arg in own)
    return own, tuple(each for each in held if isinstance(each, dict))


def _with_own(call: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Callable[[Any, Any], Any], bool]:
    """A step's code as an errand calls it, and whether that is async; it may change what it is given."""

    def sync(_subtask: Any, _context: Any) -> Any:
        return call(*map(copied, args))

    async def on_loop(_subtask: Any, _context: Any) -> Any:
        return await call(*(await off_loop(lambda: [copied(each) for each in args])))

    return (on_loop, True) if is_async(call) else (sync, False)


def _plain_plan(value: object) -> Plan:
    """Plan that a planner returned, as one that nobody else holds and that has the form of the journal."""
    return _plain(as_plan(value), Plan)


def _plain_verdict(value: object) -> Verdict:
    """Verdict that a reviewer returned, likewise."""
    return _plain(as_verdict(value), Verdict)


def _plain(words: WordsT, ours: type[WordsT]) -> WordsT:
    """Copy of a spec as it is read back from a journal: a class of the user's that is derived from ours is left behind.

    Raises:
        ConfigError: they are none, and were never checked.
    """
    return ours(**from_json(to_json(words)))


def _step_of(code: Any, verb: str) -> tuple[Callable[..., Any], Callable[[Any], Any]]:
    """Callable of a step, and the reader of what it returns. Steps that ask a model have both as methods."""
    if isinstance(code, (ModelPlanner, ModelSynthesizer)) and getattr(type(code), verb, None) in _OURS:
        return code.ask, code.read
    return _method(code, verb), lambda said: said


def _method(code: Any, verb: str) -> Callable[..., Any]:
    """A callable, or the one method of an object that has it."""
    method = getattr(code, verb, None)
    if callable(method) and not inspect.isfunction(code):
        found: Callable[..., Any] = method
        return found
    plain: Callable[..., Any] = code
    return plain
