"""Carries out what follows from a record: the one place where a decision becomes an act.

Follow-ups of ``actors.tasks.recovery.follow`` come here, and what the earlier parts have done by later ones: those
are ``parts``. Whatever is seen by others (an answer, an attempt that is given) goes through ``OrchestratorCore.act``,
and so happens once the record is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.tasks.journal.reporting import report_with, words_of
from actors.tasks.journal.subtask_state import SubtaskState
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.report import Report
from actors.tasks.model.task import PENDING, SUCCEEDED, SubtaskStatus
from actors.tasks.model.task_errors import SubtaskFailedError
from actors.tasks.orchestration.waits_of_teams import look_below
from actors.tasks.recovery import endings
from actors.tasks.recovery.follow import FOLLOWS, FOLLOWS_OF_TASK, FollowUp, TaskFollowUp

if TYPE_CHECKING:
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore
    from actors.tasks.orchestration.parts import Parts


class FollowUpHandlers:
    """Handlers of the follow-ups of one orchestrator."""

    def __init__(self, core: OrchestratorCore) -> None:
        self._core = core
        self.parts: Parts
        self._handlers: dict[FollowUp, Callable[[TaskState, SubtaskState], object]] = {}
        self._of_task: dict[type[Any], Callable[[TaskState], object]] = {}
        self._follows: dict[type[Any], tuple[Callable[[TaskState, SubtaskState], object], ...]] = {}

    def connect(self, parts: Parts) -> None:
        """Look up who does what, once all of them are there."""
        self.parts = to = parts
        self._handlers = {
            FollowUp.KNOW: to.delegation.track,
            FollowUp.PART: to.team_calls.parted,
            FollowUp.QUEUE: to.queue.push,
            FollowUp.ADOPT: to.handoff.adopt,
            FollowUp.WAIT: self._wait,
            FollowUp.HOLD: to.results.hold,
            FollowUp.ANSWER: self.tell_result,
            FollowUp.SKIP: self._skip,
            FollowUp.LIMIT: to.questions.limit,
            FollowUp.GO_ON: to.questions.go_on,
            FollowUp.UNDO: lambda state, _: to.lifecycle.advance(state),
        }
        of_task: dict[TaskFollowUp, Callable[[TaskState], object]] = {
            TaskFollowUp.NEXT: to.lifecycle.go_on,
            TaskFollowUp.RANK: to.dispatcher.prioritize,
            TaskFollowUp.ASK: self._asked,
            TaskFollowUp.END: to.lifecycle.ended,
            TaskFollowUp.OVER: to.lifecycle.over,
        }
        self._of_task = {kind: of_task[follow_up] for kind, follow_up in FOLLOWS_OF_TASK.items()}
        self._follows = {
            kind: tuple(self._handlers[each] for each in follow_ups) for kind, follow_ups in FOLLOWS.items()
        }

    def follow(self, state: TaskState, event: task_events.TaskEvent) -> None:
        """Do what follows from a record that was just made."""
        handlers = self._follows.get(type(event))
        if handlers is None:
            handle_task = self._of_task.get(type(event))
            if handle_task is not None:
                handle_task(state)
        else:
            node = state.nodes[event.subtask]  # type: ignore[attr-defined]  # each of them is of a subtask
            for handle in handlers:
                handle(state, node)

    def carry_out(self, follow_up: FollowUp, state: TaskState, node: SubtaskState) -> None:
        """Do one thing."""
        self._handlers[follow_up](state, node)

    def _wait(self, state: TaskState, node: SubtaskState) -> None:
        due = node.due

        def try_now() -> None:
            if node.status is SubtaskStatus.RETRYING and node.due == due and state.final is None:
                self.parts.recording.emit(state, task_events.SubtaskQueued, node.id, "another attempt")

        if due is None or due <= self._core.time():
            try_now()
        else:
            self._core.at(due, try_now)

    def tell_result(self, state: TaskState, node: SubtaskState) -> None:
        """Answer the asker of a subtask. It needs its slot before others get one."""
        if node.ask is None:
            return
        result: dict[str, Any] = {}
        error: SubtaskFailedError | None = None
        if node.status is SUCCEEDED:
            result = self.parts.results.of(state, (node.id,))
        else:
            text = f"cancelled: {node.error}" if node.status is SubtaskStatus.CANCELLED else node.error
            error = SubtaskFailedError(state.id, node.id, text, node.kind)
        self.parts.delegation.wait_is_over(node.ask)
        self._core.act(state.id, self._tell, node.ask, node.id, result, error)

    def _tell(self, ask: str, subtask: str, result: dict[str, Any], error: SubtaskFailedError | None) -> None:
        self.parts.delegation.answer(ask, result.get(subtask), error)

    def _skip(self, state: TaskState, gone: SubtaskState) -> None:
        """Skip the subtasks that need one that is gone, and those that need them. Everything else goes on."""
        left = [gone]
        while left:
            gone = left.pop()
            for node in gone.dependants if gone.spec.required else ():
                if node.status is PENDING:
                    self.parts.recording.record(state, endings.barred(node, gone))
                    left.append(node)

    # -- what a task has done by later parts ---------------------------------------------------------------

    def limit_questions(self, state: TaskState) -> None:
        """See to it that open questions about steps end when their time is up."""
        for escalation in list(state.escalations.values()):
            if escalation.step:
                self.parts.questions.limit_question(state, escalation)

    def advance(self, state: TaskState) -> None:
        """Do what is next for a task."""
        self.parts.lifecycle.advance(state)

    def _asked(self, state: TaskState) -> None:
        """A person is asked about a step: nothing else waits for the answer."""
        self.limit_questions(state)
        self.advance(state)

    def look_at_asks(self, state: TaskState) -> None:
        """End what was asked for by attempts that are gone, and what can only wait for ever from now on."""
        if self.parts.delegation.unclaimed:
            self.parts.delegation.drop_unclaimed(state)
        if state.chain and self._core.runtime.asks:
            look_below(self._core.runtime, self._core.port, state)

    def tell_end(self, state: TaskState) -> None:
        """Tell whoever waits for a task, once its end is kept."""
        self.parts.queue.forget(state)
        self.with_report(state, partial(self._tell_waiters, state))

    def with_report(self, state: TaskState, then: Callable[[Report], object]) -> None:
        """Call this with the report of a task that has ended, once that is kept and all its results are there."""
        results, output = words_of(state, lambda: self._core.runtime.outline(state.id))
        self._core.act(state.id, _reported, state, then, results, output)

    def _tell_waiters(self, state: TaskState, report: Report) -> None:
        if state.final is None:
            return  # it goes on: the team above has it undone, so it has heard of this end
        self._core.port.keep(report, state, partial(self._finish, state, report))

    def _finish(self, state: TaskState, report: Report) -> None:
        if state.parent is not None:  # before its stream is finished: no later incarnation would do it
            self.parts.teams.answer(state, report)
        self._core.store.finish(state.id)
        self.parts.teams.give_next(state)

    def drop_stale(self, part: str | None = None) -> None:
        """Let go, in a new incarnation, of attempts that nobody took up again, and end those that nobody wants.

        Of a task that was put aside that is what has not begun: an undo that waits would get a slot, and keep it. Those
        of a part that waits for the orchestrator above are taken up when it goes on, and looked at then.

        Args:
            part: id of one that has just gone on; None: all tasks have.
        """
        core, parts = self._core, self.parts
        for key, attempt in core.runtime.attempts.copy().items():
            state = core.states.get(attempt.task)
            if (state is not None and parts.teams.is_held(state)) or part not in {None, attempt.task}:
                continue
            row = core.attempts.get(key)
            runs = row is not None and row.attempt is attempt
            is_held = runs or parts.undo.holds(attempt) or parts.stages.holds(attempt)
            is_step = attempt.spec.role in {"plan", "review", "combine"}
            is_off = attempt.done or is_step or (attempt.task in core.port.guard.aside and not attempt.was_given)
            if attempt.owner is core.port and not is_held and is_off:
                parts.recording.count(attempt)
                core.runtime.forget(attempt)
                parts.control.end(attempt, "cancel")


def _reported(
    state: TaskState, then: Callable[[Report], object], results: dict[str, Any], output: dict[str, Any]
) -> None:
    then(report_with(state, results, output))
