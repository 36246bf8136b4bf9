"""Attempts: who gets one, what its end means, and who gives way to something more urgent.

Only the orchestrator's own message handling touches this, on the event loop. What it works with: the queue
(``subtask_queue``), the workers (``selection``), and the control of what runs (``attempt_control``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from actors.tasks.execution.attempt import Attempt
from actors.tasks.journal.subtask_state import SubtaskState, next_part
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.outcome import Failure
from actors.tasks.model.task import NO_USAGE
from actors.tasks.recovery.classify import NEUTRAL, classify, dead_end_met
from actors.tasks.scheduling.ready_queue import LaneKey, Rank
from actors.tasks.scheduling.selection import choose_worker, is_awaited, no_worker_failure
from actors.tasks.scheduling.worker_registry import RegistryEntry

if TYPE_CHECKING:
    from actors.tasks.orchestration.attempt_control import AttemptControl
    from actors.tasks.orchestration.attempt_table import RunningAttempt
    from actors.tasks.orchestration.breaker_records import BreakerRecords
    from actors.tasks.orchestration.deciding import Deciding
    from actors.tasks.orchestration.delegation import Delegation
    from actors.tasks.orchestration.handoff import AttemptHandoff
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore
    from actors.tasks.orchestration.recording import Recording
    from actors.tasks.orchestration.subtask_queue import SubtaskQueue
    from actors.tasks.orchestration.team_calls import TeamCalls


@dataclass(frozen=True, slots=True)
class DispatchParts:
    """Parts that the dispatch of attempts works with."""

    queue: SubtaskQueue
    control: AttemptControl
    handoff: AttemptHandoff
    recording: Recording
    deciding: Deciding
    breakers: BreakerRecords
    delegation: Delegation
    team_calls: TeamCalls


class AttemptDispatcher:
    """Starts the attempts of one orchestrator, and hears their ends."""

    def __init__(self, core: OrchestratorCore, parts: DispatchParts) -> None:
        self._core, self._parts = core, parts

    def prioritize(self, state: TaskState) -> None:
        """Have the new priority of a task count for what waits, what runs, and the parts that teams have."""
        core, parts = self._core, self._parts
        for node in state.nodes.values():
            row = core.attempts.row_of(node)
            if parts.queue.holds(node):
                parts.queue.requeue(state, node)
            if row is not None:
                row.has_priority(state.task.priority)
                core.priorities.add(row.attempt.priority)
                parts.team_calls.prioritize(row.attempt)

    # -- starting ------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Start whatever can be started now.

        What a worker waits for, and a worker whose wait is over, is not held up by the slots of teams: these may wait
        for just that.
        """
        core, parts = self._core, self._parts
        queue, most = parts.queue.ready, core.settings.max_parallel
        suspects, table, delegation = core.suspects, core.attempts, parts.delegation
        suspects.release()
        while delegation.returning and table.slots_at_work < most:
            delegation.let_return()
        while queue.size:
            is_full = len(table.running) - table.waiting >= most  # as ``slots_taken``, without a call
            found = None
            if not is_full or table.slots_at_work < most:
                found = queue.take_next(self._serve, core.system.now(), is_asked=is_full)
            if found is None:
                (self._preempt_for_a_slot if is_full else self._preempt_for_a_worker)()
                return
            (state, node), served = found
            core.task = state.id
            if core.begins_nothing_of(state.id):
                parts.queue.left.add(node)
                continue
            if parts.queue.is_paused(node):
                continue
            is_failure = isinstance(served, Failure)
            if node.losses and suspects.must_wait(node.losses, node, partial(parts.queue.requeue, state, node)):
                continue
            if is_failure:
                parts.deciding.failed(state, node, no_worker_failure(state, node, core.workers, core.path))
            else:
                self._launch(state, node, served)  # type: ignore[arg-type]

    def _serve(self, key: LaneKey) -> RegistryEntry | Failure | None:
        return choose_worker(self._core.workers, key, self._core.time())

    def _launch(self, state: TaskState, node: SubtaskState, entry: RegistryEntry) -> None:
        core, parts, number = self._core, self._parts, node.made + 1
        undoable = entry.is_team or entry.executable.undo is not None
        part = next_part(state.id, node, entry.id, number, state.ids) if entry.is_team else ""
        if node.acts:
            parts.team_calls.detach_team(state, node, entry)
        started = parts.recording.emit(
            state, task_events.SubtaskStarted, node.id, entry.id, number, node.act, undoable, part
        )
        attempt = Attempt(parts.handoff.make(state, node, entry))
        rank = parts.queue.ready.present_priority(parts.queue.tickets.get(node), attempt.spec.priority)
        box = entry.assign(attempt.key)
        if box is not None:
            attempt.goes_to(box)
        row = parts.control.hold(attempt, node, rank)
        parts.delegation.refuse_joined(attempt)
        follows: str | None = state.id
        if node.losses:
            core.suspects.passes(node.losses, attempt)
            follows = core.suspects.waits_for(node.losses, state.id)
        parts.breakers.begin(row, entry, started.at)
        core.act(follows, parts.handoff.give, attempt, entry)
        parts.control.watch(attempt, node, entry)

    def reported(self, attempt: Attempt) -> None:
        """An attempt has used up something, or is held up by code beside its work that takes too long."""
        self._parts.recording.count_now(attempt)
        if attempt.overdue is not None and attempt.ended_by is None:
            self._parts.control.end(attempt, "timeout", at_once=True)

    # -- the end of one ------------------------------------------------------------------------------------

    def ended(self, attempt: Attempt, state: TaskState | None) -> None:
        """An attempt has its outcome: make room, record what follows."""
        core, parts = self._core, self._parts
        entry = core.workers.get(attempt.spec.worker)
        row, is_current = core.attempts.remove(attempt)
        if row is None:
            core.runtime.forget(attempt)  # heard already
            return
        node = row.node
        if state is not None and is_current and state.nodes.get(node.id) is node:
            before = NO_USAGE if node.spec.budget is None else node.total_usage
            limit_of = partial(self._limit_of, node, entry)
            outcome = classify(attempt, limit_of, before, is_ending=core.is_ending)
            if outcome is NEUTRAL:
                core.is_broken_off(state.id)
                if (dead_end := dead_end_met(attempt)) is not None:
                    parts.queue.pause(state, node)
                    parts.delegation.met_dead_end(state, node, dead_end)
            else:
                core.goes_on(node)
            parts.deciding.ended(state, node, attempt, outcome, partial(parts.breakers.ended, row, entry, outcome))
        else:
            parts.breakers.left(row, entry)
        if attempt.unrecorded is not NO_USAGE:
            parts.recording.count(attempt)  # what no record of its end has
        core.act(attempt.task, core.runtime.forget, attempt)
        if core.attempts.is_waiting(attempt):
            parts.delegation.attempt_ended(attempt)
        if entry is not None:
            entry.release(attempt.key, was_refused=attempt.was_refused)
            if entry.lanes:
                parts.queue.reopen(entry)

    @staticmethod
    def _limit_of(node: SubtaskState, entry: RegistryEntry | None, name: str) -> float:
        own: float | None = getattr(node.spec, name)
        theirs: float | None = getattr(entry.executable, name) if entry is not None else None
        return own if own is not None else theirs or 0.0

    # -- preemption ----------------------------------------------------------------------------------------

    def _preempt_for_a_slot(self) -> None:
        """All slots are taken: the least urgent gives way, if what waits is more urgent and could have its slot.

        Where more are taken than there are, what a worker waits for has none: its end makes no room, and it begins
        anew.
        """
        attempts = self._core.attempts
        if len(self._core.priorities) == 1:
            return
        if any(row.attempt.gives_way for row in attempts):
            return
        is_over = attempts.slots_taken > self._core.settings.max_parallel
        for key, _, (state, _) in sorted(self._urgent_heads(), key=lambda head: head[1]):
            running = self._busy(key) if self._serve(key) is None else list(attempts)
            able = [row for row in running if not self._is_awaited(row)] if is_over else running
            if self._preempt_one(state.task.priority, able):
                return

    def _is_awaited(self, row: RunningAttempt) -> bool:
        state = self._core.states.get(row.attempt.task)
        return state is not None and is_awaited(state, row.node) and not self._core.is_idle(row.node)

    def _preempt_for_a_worker(self) -> None:
        """Slots are free, but the workers that could do it are busy."""
        if len(self._core.priorities) == 1:
            return
        for key, _, (state, _) in self._urgent_heads():
            busy = self._busy(key)
            if not any(row.attempt.gives_way for row in busy):
                self._preempt_one(state.task.priority, busy)

    def _urgent_heads(self) -> list[tuple[LaneKey, Rank, tuple[TaskState, SubtaskState]]]:
        """The first of each lane that could interrupt something that runs, by its own priority."""
        worst = max((row.attempt.rank for row in self._core.attempts), default=0)
        heads = self._parts.queue.ready.heads(self._core.system.now())
        return [head for head in heads if head[2][0].task.priority < worst]

    def _busy(self, key: LaneKey) -> list[RunningAttempt]:
        """Attempts of the workers whose room would be of use to a lane, but for workers that admit nothing."""
        able, now = self._core.workers.primaries(key), self._core.time()
        keys = (each for entry in able if entry.admits(now) for each in entry.attempts)
        return [row for each in keys if (row := self._core.attempts.get(each)) is not None]

    def _preempt_one(self, urgent: int, running: list[RunningAttempt]) -> bool:
        victims = [row for row in running if row.attempt.rank > urgent and self._may_preempt(row)]
        if victims:
            victim = max(victims, key=lambda row: (row.attempt.rank, row.attempt.started or 0.0))
            self._parts.control.end(victim.attempt, "preempt")
        return bool(victims)

    def _may_preempt(self, row: RunningAttempt) -> bool:
        attempt = row.attempt
        may = attempt.spec.preemptible and attempt.ended_by is None and not attempt.done
        waits = self._core.attempts.is_waiting(attempt)
        return may and not waits and row.node.preemptions < self._core.settings.max_preemptions
