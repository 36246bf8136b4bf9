"""The steps of a task that are not subtasks: planning, reviewing, combining.

They are user code, so they run as errands (``actors.tasks.errand``), with a limit of their own; only planners and
synthesizers that this library ships, which are pure and quick, are called on the spot. A step has a key, as an attempt
has: a new incarnation finds one that still runs. What a step returns becomes plain data where it runs
(``Attempt.form``), as every result does (``actors.tasks.perform``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from actors.callables import is_async
from actors.errors import Problem
from actors.tasks import events
from actors.tasks.attempt import Attempt
from actors.tasks.check import check_plan, resolved_plan
from actors.tasks.context import Context
from actors.tasks.errand import Errand
from actors.tasks.errors import AttemptTimeoutError, NoCapableWorkerError
from actors.tasks.outcome import Failure, text_of
from actors.tasks.planner import as_plan, is_inline
from actors.tasks.policy import Verdict
from actors.tasks.review import as_verdict, rerun_of
from actors.tasks.state import TaskState
from actors.tasks.synthesis import is_inline as is_inline_synthesis
from actors.tasks.synthesis import json_form
from actors.tasks.task import Plan, Subtask, SubtaskStatus, TaskStatus
from actors.tasks.written import from_json, to_json

if TYPE_CHECKING:
    from actors.tasks.course import Course
    from actors.tasks.orchestrator import Orchestrator

WordsT = TypeVar("WordsT", Plan, Verdict)


class Steps:
    """Runs the steps of the tasks of one orchestrator."""

    def __init__(self, orchestrator: Orchestrator, course: Course) -> None:
        self._to = orchestrator
        self._course = course
        self._running: dict[str, Attempt] = {}
        """By task: it has one at a time."""

    # -- planning ------------------------------------------------------------------------------------------

    def plan(self, state: TaskState) -> None:
        """Have a plan made; where too many were refused, or another one would be no other, the task has failed."""
        planner, refusal = self._to.settings.planner, state.refusal
        catalogue = self._to.desk.catalogue()
        task = state.task.model_copy(update={"id": state.id}) if state.task.id is None else state.task
        is_pure = is_inline(planner, task, catalogue)
        problems = [str(problem) for problem in refusal.problems] if refusal is not None else []
        hopeless = refusal is not None and refusal.needed is not None and is_pure
        if hopeless or state.refusals >= self._to.settings.max_plan_attempts:
            self._course.end(state, TaskStatus.FAILED, "plan", "; ".join(problems))
            return
        feedback = "\n".join(problems)
        if is_pure:
            try:
                plan = planner.plan(task, catalogue, feedback)
            except Exception as error:  # noqa: BLE001 - whatever the goal is, it costs no more than its own task
                self._refuse(state, error, text_of(error))
            else:
                self._planned(state, plan)
        else:
            self._run(
                state, "plan", state.refusals + 1, _method(planner, "plan"), (task, catalogue, feedback), _plain_plan
            )

    def _planned(self, state: TaskState, plan: Plan) -> None:
        to = self._to
        rows = tuple(to.desk.rows())
        try:
            problems, warnings = check_plan(
                plan,
                rows,
                task_id=state.id,
                max_subtasks=to.settings.max_subtasks,
                budget=state.task.budget,
                ancestry=state.chain,
                goal=state.task.goal,
            )
        except Exception as error:  # noqa: BLE001 - an estimate of the user's may be asked
            self._refuse(state, error, text_of(error))
            return
        if problems:
            self._refused(state, tuple(problems))
            return
        to.record(state, events.Planned(to.path, state.id, to.time(), resolved_plan(plan, rows), tuple(warnings)))
        self._course.advance(state)

    def _refuse(self, state: TaskState, error: BaseException, text: str) -> None:
        if type(error) is NoCapableWorkerError:
            self._refused(state, error.problems, error.needed, error.known)
        else:
            what = f"the planner raised {text}"
            self._refused(state, (Problem(f"task {state.id}", what, "Repair it, or its answer."),))

    def _refused(
        self,
        state: TaskState,
        problems: tuple[Problem, ...],
        needed: tuple[str, ...] | None = None,
        known: tuple[str, ...] = (),
    ) -> None:
        to, number = self._to, state.refusals + 1
        to.record(state, events.PlanRefused(to.path, state.id, to.time(), number, problems, needed, known))
        self._course.advance(state)

    # -- reviewing -----------------------------------------------------------------------------------------

    def review(self, state: TaskState) -> None:
        """Have the results looked at."""
        plan = state.plan or Plan(subtasks=[])
        args = (state.task, plan, self._course.results(state))
        call = _method(self._to.settings.reviewer, "review")
        self._run(state, "review", state.iterations + 1, call, args, _plain_verdict)

    def _reviewed(self, state: TaskState, verdict: Verdict) -> None:
        """Only what the reviewer was shown can run again: what a subtask has asked for is that one's own affair."""
        to, iteration = self._to, state.iterations + 1
        nodes = state.nodes.values()
        done = [node.id for node in nodes if node.parent is None and node.status is SubtaskStatus.SUCCEEDED]
        try:
            rerun = rerun_of(verdict, done, iteration + 1)
        except ValueError as error:
            self._review_failed(state, text_of(error))
            return
        last = iteration >= to.settings.max_iterations
        passed = verdict.passed and not rerun
        again = {} if last or passed else rerun
        event = events.Reviewed(to.path, state.id, to.time(), iteration, passed, again, not passed and not again)
        to.record(state, event)
        self._course.advance(state)

    def _review_failed(self, state: TaskState, text: str) -> None:
        """That says nothing of the results: they are taken as they are. It is told apart from a negative verdict."""
        to = self._to
        iteration = state.iterations + 1
        to.record(state, events.Reviewed(to.path, state.id, to.time(), iteration, False, {}, True, text))  # noqa: FBT003
        self._course.advance(state)

    # -- combining -----------------------------------------------------------------------------------------

    def combine(self, state: TaskState) -> None:
        """Have the results made into one."""
        synthesizer = self._to.settings.synthesizer
        call = _method(synthesizer, "combine")
        args = (state.task, self._course.results(state))
        if is_inline_synthesis(synthesizer):
            self._combined(state, json_form(call(*args)))
        else:
            self._run(state, "combine", 1, call, args, json_form)

    def _combined(self, state: TaskState, output: Any) -> None:
        self._to.record(state, events.Synthesized(self._to.path, state.id, self._to.time(), output))
        self._course.advance(state)

    def _combine_failed(self, state: TaskState, text: str) -> None:
        """Nothing is lost: the results as they are."""
        to = self._to
        to.record(state, events.Synthesized(to.path, state.id, to.time(), self._course.results(state), text))
        self._course.advance(state)

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
        if attempt is None:
            path = f"{to.path}/{role}"
            spec = Subtask(id=role, instruction=state.task.goal)
            chain = to.desk.addresses((*state.chain, to.path))
            deadline = None if state.deadline is None else state.deadline - to.ground.epoch
            attempt = Attempt(
                key, to.desk, state.id, spec, role, path, chain=chain, lineage=state.lineage, deadline=deadline
            )
            attempt.role, attempt.form = role, form
            attempt.context = Context(
                attempt, goal=state.task.goal, inputs={}, results={}, feedback="", number=number, idempotency_key=key
            )
            to.ground.attempts[key] = attempt
            errand = Errand(to.ground, attempt, lambda _subtask, _context: call(*args), is_async=is_async(call))
            to.act(errand.start)
        elif attempt.done:
            to.desk.post(attempt)
        elif attempt.errand is not None:
            to.act(attempt.errand.start)
        self._running[state.id] = attempt
        limit = to.settings.step_timeout_s
        if limit is not None:
            attempt.timer = to.at(to.time() + limit, lambda: to.launching.end(attempt, "timeout"))

    def end(self, state: TaskState) -> None:
        """Nobody wants its step any more."""
        attempt = self._running.pop(state.id, None)
        if attempt is not None:
            self._to.ground.attempts.pop(attempt.key, None)
            self._to.launching.end(attempt, "cancel")

    def forget_strangers(self) -> None:
        """Of a new incarnation: steps that are not wanted any more."""
        ground, wanted = self._to.ground, set(self._running.values())
        for attempt in list(ground.attempts.values()):
            is_step = attempt.desk is self._to.desk and attempt.role in {"plan", "review", "combine"}
            if is_step and attempt not in wanted:
                ground.forget(attempt)
                self._to.launching.end(attempt, "cancel")

    def forget(self, state: TaskState) -> None:
        """The task is over."""
        self._running.pop(state.id, None)

    def ended(self, attempt: Attempt, state: TaskState) -> None:
        """One has come back."""
        if self._running.get(state.id) is not attempt:
            return
        del self._running[state.id]
        if state.ending is not None:
            self._course.advance(state)
            return
        role = attempt.role
        takes: dict[str, Callable[[TaskState, Any], None]]
        takes = {"plan": self._planned, "review": self._reviewed, "combine": self._combined}
        if attempt.error is None:
            takes[role](state, attempt.value.value)
            return
        if attempt.ended_by == "timeout":
            number = attempt.context.attempt if attempt.context is not None else 1
            error: BaseException = AttemptTimeoutError(role, number, "step", self._to.settings.step_timeout_s or 0.0)
            text = text_of(error)
        elif attempt.is_own_error:
            said = attempt.said
            is_failure = isinstance(said, Failure)
            error, text = (said.error, said.told) if is_failure else (attempt.error, text_of(attempt.error))
        else:
            self._to.ground.forget(attempt)  # it was ended for reasons of others: once more
            self._course.advance(state)
            return
        if role == "plan":
            self._refuse(state, error, text)
        elif role == "review":
            self._review_failed(state, text)
        else:
            self._combine_failed(state, text)


def _plain_plan(value: object) -> Plan:
    """What a planner returned, as a plan that nobody else holds and that has the form of the journal."""
    return _plain(as_plan(value), Plan)


def _plain_verdict(value: object) -> Verdict:
    """What a reviewer returned, the same way."""
    return _plain(as_verdict(value), Verdict)


def _plain(words: WordsT, ours: type[WordsT]) -> WordsT:
    """The same words as they are read back from a journal: a class of the user's that goes on from ours is left behind.

    Raises:
        ConfigError: they are none, and were never checked.
    """
    return ours(**from_json(to_json(words)))


def _method(code: Any, verb: str) -> Callable[..., Any]:
    """A callable, or the one method of an object that has it."""
    method = getattr(code, verb, None)
    if callable(method) and not inspect.isfunction(code):
        found: Callable[..., Any] = method
        return found
    plain: Callable[..., Any] = code
    return plain
