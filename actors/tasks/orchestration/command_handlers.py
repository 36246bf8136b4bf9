"""Carries out what follows from a record: the one place where a command of ``follow`` becomes an act.

Whatever is seen by others (an answer, an attempt that is given) goes through ``Orchestrator.act``, and so happens once
the record is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from actors.tasks.journal.subtask_state import SubtaskState
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.task import SubtaskStatus
from actors.tasks.model.task_errors import SubtaskFailedError
from actors.tasks.recovery.follow import FOLLOWS, FOLLOWS_OF_TASK, Command, TaskCommand

if TYPE_CHECKING:
    from actors.tasks.orchestration.orchestrator import Orchestrator


class CommandHandlers:
    """Handlers of the commands of one orchestrator."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        to = self._to = orchestrator
        self._handlers: dict[Command, Callable[[TaskState, SubtaskState], object]] = {
            Command.KNOW: to.delegation.track,
            Command.PART: to.teams.parted,
            Command.QUEUE: to.dispatcher.put_in_queue,
            Command.ADOPT: to.handoff.adopt,
            Command.WAIT: self._wait,
            Command.HOLD: to.lifecycle.holding.hold,
            Command.ANSWER: self._answer,
            Command.SKIP: self._skip,
            Command.LIMIT: to.escalations.limit,
            Command.GO_ON: to.escalations.go_on,
            Command.UNDO: lambda state, _: to.compensation.advance(state),
        }
        of_task: dict[TaskCommand, Callable[[TaskState], object]] = {
            TaskCommand.NEXT: to.lifecycle.go_on,
            TaskCommand.RANK: to.dispatcher.prioritize,
            TaskCommand.END: to.lifecycle.ended,
            TaskCommand.OVER: to.lifecycle.over,
        }
        self._of_task = {kind: of_task[command] for kind, command in FOLLOWS_OF_TASK.items()}
        self._follows: dict[type[Any], tuple[Callable[[TaskState, SubtaskState], object], ...]] = {
            kind: tuple(self._handlers[command] for command in commands) for kind, commands in FOLLOWS.items()
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

    def carry_out(self, command: Command, state: TaskState, node: SubtaskState) -> None:
        """Do one thing."""
        self._handlers[command](state, node)

    def _wait(self, state: TaskState, node: SubtaskState) -> None:
        due = node.due

        def try_now() -> None:
            if node.status is SubtaskStatus.RETRYING and node.due == due and state.final is None:
                self._to.emit(state, task_events.SubtaskQueued, node.id, "another attempt")

        if due is None or due <= self._to.time():
            try_now()
        else:
            self._to.at(due, try_now)

    def _answer(self, state: TaskState, node: SubtaskState) -> None:
        """Answer the asker of a subtask. It needs its slot before others get one."""
        if node.ask is None:
            return
        result: dict[str, Any] = {}
        error: SubtaskFailedError | None = None
        if node.status is SubtaskStatus.SUCCEEDED:
            result = self._to.lifecycle.result(state, node)
        else:
            text = f"cancelled: {node.error}" if node.status is SubtaskStatus.CANCELLED else node.error
            error = SubtaskFailedError(state.id, node.id, text, node.kind)
        self._to.delegation.wait_is_over(node.ask)
        self._to.act(state.id, self._tell, node.ask, node.id, result, error)

    def _tell(self, ask: str, subtask: str, result: dict[str, Any], error: SubtaskFailedError | None) -> None:
        self._to.delegation.answer(ask, result.get(subtask), error)

    def _skip(self, state: TaskState, gone: SubtaskState) -> None:
        """Skip the subtasks that need one that is gone, and those that need them. Everything else goes on."""
        left = [gone]
        while left:
            gone = left.pop()
            for node in gone.dependants if gone.spec.required else ():
                if node.status is SubtaskStatus.PENDING:
                    ended = "has failed" if gone.status is SubtaskStatus.FAILED else "did not run"
                    self._to.emit(state, task_events.SubtaskSkipped, node.id, f"needs {gone.id!r}, which {ended}")
                    left.append(node)
