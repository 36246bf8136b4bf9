"""Queue of the subtasks that could run: who stands in line, in which lane, and why one waits though a worker is free.

A place is not lost by what is put back (``tickets``). Which of those that wait is next is decided by
``actors.tasks.scheduling.ready_queue``; who starts it is ``actors.tasks.orchestration.attempt_dispatcher``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from actors.tasks.model.task import QUEUED
from actors.tasks.orchestration.waits_of_teams import look_again, look_below
from actors.tasks.scheduling.ready_queue import LaneKey, ReadyQueue
from actors.tasks.scheduling.selection import lane_of, put_off

if TYPE_CHECKING:
    from actors.tasks.journal.subtask_state import SubtaskState
    from actors.tasks.journal.task_state import TaskState
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore
    from actors.tasks.scheduling.worker_registry import RegistryEntry


class SubtaskQueue:
    """Subtasks of one orchestrator that wait for an attempt."""

    def __init__(self, core: OrchestratorCore) -> None:
        self._core = core
        self.ready: ReadyQueue[tuple[TaskState, SubtaskState]] = ReadyQueue(core.settings.age_s)
        self.tickets: dict[SubtaskState, object] = {}
        """Places in the queue, or the last ones, so that what is put back does not lose its age."""
        self.left: set[SubtaskState] = set()
        """Subtasks of tasks of which nothing more begins here."""
        self._paused: set[SubtaskState] = set()
        """Subtasks that were cut off, and begin once more in a moment."""

    def push(self, state: TaskState, node: SubtaskState) -> None:
        """Put a subtask in line that is recorded as queued.

        Where its task gives way it waits, unless somebody has asked for it: whoever cannot be interrupted waits for it.
        """
        core = self._core
        if state.paused if node.ask is None else core.is_idle(node):
            return
        key = lane_of(state, node, core.path)
        team = core.workers.get(node.worker) if node.acts and node.acts[-1].open else None
        if team is not None and team.is_team and not team.is_gone:
            key = LaneKey(
                team.id, None, key.without, key.is_asked
            )  # it gave way there, and what is finished of it is there
        deadline = math.inf if state.deadline is None else state.deadline
        # Since when it would wait, had it waited all its time in line at once.
        since = node.queued_at - node.queued_s - core.runtime.epoch
        ticket, priority = self.tickets.get(node), state.task.priority
        age = None if ticket is None else self.ready.age_of(ticket)
        core.priorities.add(priority)
        self.tickets[node] = self.ready.push(key, priority, deadline, (state, node), age, born=state.born, since=since)
        if node.ask is not None and node.acts:  # not at first: it was looked at when it was asked for
            look_again(core.runtime, node.ask)
        elif state.chain and core.runtime.asks:
            look_below(core.runtime, core.port, state)

    def leave(self, node: SubtaskState) -> None:
        """Take a subtask out of the line, where it stands in it."""
        self.ready.withdraw(self.tickets.get(node))

    def holds(self, node: SubtaskState) -> bool:
        """True if it stands in line."""
        return self.ready.holds(self.tickets.get(node))

    def forget(self, state: TaskState) -> None:
        """Forget the places of a task that is over."""
        for node in state.nodes.values():
            self.tickets.pop(node, None)
            self._core.goes_on(node)

    def requeue(self, state: TaskState, node: SubtaskState) -> None:
        """Put one subtask in line anew, where it waits to be begun."""
        if node.status is QUEUED:
            self.leave(node)
            self.push(state, node)

    def requeue_all(self, state: TaskState) -> None:
        """Others may do it now than before."""
        for node in state.nodes.values():
            self.requeue(state, node)

    def reopen(self, entry: RegistryEntry) -> None:
        """A worker has room again, or is gone: those who wait for it may be served otherwise."""
        if entry.lanes:
            lanes, entry.lanes = entry.lanes, set()
            for key in lanes:
                self.ready.reopen(key)

    def why_put_off(self, state: TaskState, node: SubtaskState) -> str:
        """Why one that is queued waits though nobody who could do it is busy; else nothing."""
        return put_off(self._core.workers, lane_of(state, node, self._core.path), self._core.time())

    def is_put_off(self, node: SubtaskState) -> bool:
        """True if it could run, and waits: for another suspect of killing processes, or the next process."""
        return self._core.suspects.has(node) or node in self.left or self.is_paused(node)

    def pause(self, state: TaskState, node: SubtaskState) -> None:
        """Have one that was cut off wait a moment: the group of its worker is being restarted, which may take long."""
        core = self._core
        self._paused.add(node)
        core.at(core.time() + core.pause_s(node), lambda: self._go_on(state, node))

    def is_paused(self, node: SubtaskState) -> bool:
        """True if it is not to begin yet."""
        return node in self._paused

    def _go_on(self, state: TaskState, node: SubtaskState) -> None:
        self._paused.discard(node)
        self.requeue(state, node)
