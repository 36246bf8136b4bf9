"""Attempts: who gets one, how it is ended, and what its end means.

Only the orchestrator's own message handling touches this, on the event loop; a worker on the loop is never in the
middle of a step meanwhile, so cancelling one is exact.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.supervision.supervisor_incarnation import ReplaceChild
from actors.tasks.execution.attempt import Attempt
from actors.tasks.journal.subtask_state import SubtaskState, next_part
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.outcome import Failure
from actors.tasks.model.task import NO_USAGE, SubtaskStatus, Usage
from actors.tasks.orchestration.attempt_table import RunningAttempt
from actors.tasks.orchestration.messages import TimerFired
from actors.tasks.recovery.classify import classify
from actors.tasks.scheduling.ready_queue import LaneKey, Rank, ReadyQueue
from actors.tasks.scheduling.selection import choose_worker, lane_of, no_worker_failure, put_off
from actors.tasks.scheduling.unsettled import Unsettled
from actors.tasks.scheduling.worker_registry import RegistryEntry

if TYPE_CHECKING:
    from actors.tasks.orchestration.orchestrator import Orchestrator

GRACE_S = 1.0
"""How long code that was cancelled may take to end, or a thread to come back by itself, before it is replaced."""


class AttemptDispatcher:
    """Attempts that one orchestrator has running, and subtasks that wait for one."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._to = orchestrator
        self.queue: ReadyQueue[tuple[TaskState, SubtaskState]] = ReadyQueue(orchestrator.settings.age_s)
        self._tickets: dict[SubtaskState, object] = {}
        """Places in the queue, or the last ones, so that what is put back does not lose its age."""
        self._priorities: set[int] = set()
        """Priorities of all tasks so far: where there is only one, nothing gives way to anything. (What has waited is
        sooner, and gives way later; but it interrupts nothing that it would not have interrupted at first.)"""
        self._unsettled: Unsettled[SubtaskState] = Unsettled()

    # -- waiting -------------------------------------------------------------------------------------------

    def enqueue(self, state: TaskState, node: SubtaskState, reason: str = "", usage: Usage = NO_USAGE) -> None:
        """A subtask could run; ``usage`` is of an attempt that is put back with it."""
        to = self._to
        to.emit(state, task_events.SubtaskQueued, node.id, reason, usage)

    def put_in_queue(self, state: TaskState, node: SubtaskState) -> None:
        """Put a subtask in line that is recorded as queued."""
        if state.paused or self._to.delegation.idle(node):
            return
        key = lane_of(state, node, self._to.path)
        team = self._to.workers.get(node.worker) if node.acts and node.acts[-1].open else None
        if team is not None and team.is_team and not team.is_gone:
            key = LaneKey(team.id, None, key.without)  # it gave way there, and what is finished of it is there
        deadline = math.inf if state.deadline is None else state.deadline
        age, since = self.queue.age_of(self._tickets.get(node)), node.waiting_since - self._to.runtime.epoch
        self._priorities.add(state.task.priority)
        item = (state, node)
        ticket = self.queue.push(key, state.task.priority, deadline, item, age, born=state.born, since=since)
        self._tickets[node] = ticket

    def leave_queue(self, node: SubtaskState) -> None:
        """Take a subtask out of the line, where it stands in it."""
        self.queue.withdraw(self._tickets.get(node))

    def waits_in_queue(self, node: SubtaskState) -> bool:
        """True if it stands in line."""
        return self.queue.holds(self._tickets.get(node))

    def forget(self, state: TaskState) -> None:
        """Forget the places of a task that is over."""
        for node in state.nodes.values():
            self._tickets.pop(node, None)

    def requeue_all(self, state: TaskState) -> None:
        """Others may do it now than before."""
        for node in state.nodes.values():
            self.requeue(state, node)

    def prioritize(self, state: TaskState) -> None:
        """Have the new priority of a task count for what waits, what runs, and the parts that teams have."""
        for node in state.nodes.values():
            row = self._to.attempts.row_of(node)
            if self.waits_in_queue(node):
                self.requeue(state, node)
            if row is not None:
                row.has_priority(state.task.priority)
                self._priorities.add(row.priority)
                self._to.teams.prioritize(row.attempt, row.priority)

    def requeue(self, state: TaskState, node: SubtaskState) -> None:
        """Put one subtask in line anew, where it waits to be begun."""
        if node.status is SubtaskStatus.QUEUED:
            self.leave_queue(node)
            self.put_in_queue(state, node)

    def put_off(self, state: TaskState, node: SubtaskState) -> str:
        """Why one that is queued waits though nobody who could do it is busy; else nothing."""
        return put_off(self._to.workers, lane_of(state, node, self._to.path), self._to.time())

    def changed(self, entry: RegistryEntry) -> None:
        """A worker has room again, or is gone: those who wait for it may be served otherwise."""
        if entry.lanes:
            lanes, entry.lanes = entry.lanes, set()
            for key in lanes:
                self.queue.reopen(key)

    def is_put_off(self, node: SubtaskState) -> bool:
        """True if it could run, and waits: for another suspect of having killed processes, or for the store."""
        return self._to.suspects.has(node) or self._unsettled.has(node)

    # -- starting ------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Start whatever can be started now."""
        queue, most = self.queue, self._to.settings.max_parallel
        suspects, table, delegation = self._to.suspects, self._to.attempts, self._to.delegation
        suspects.release()
        while delegation.returning and table.slots_taken < most:
            delegation.let_return()
        while queue.size:
            if table.slots_taken >= most:
                self._preempt_for_a_slot()
                return
            found = queue.take_next(self._serve, self._to.system.now())
            if found is None:
                self._preempt_for_a_worker()
                return
            (state, node), served = found
            self._to.task = state.id
            is_failure = isinstance(served, Failure)
            if not is_failure and self._unsettled.must_wait(state.id, node):
                continue
            if node.losses and suspects.must_wait(node.losses, node, partial(self.requeue, state, node)):
                continue
            if is_failure:
                self._to.deciding.failed(state, node, no_worker_failure(state, node, self._to.workers, self._to.path))
            else:
                self._launch(state, node, served)  # type: ignore[arg-type]

    def settle(self, state: TaskState) -> None:
        """A result is large: choose nobody for what follows from it before it is written."""
        to = self._to
        if to.runtime.durable is not None:
            self._unsettled.begin(state.id)
            message = TimerFired(to.incarnation, partial(self._settled, state), state.id)
            to.act(state.id, to.port.post, message)

    def _settled(self, state: TaskState) -> None:
        for node in self._unsettled.end(state.id):
            self.requeue(state, node)

    def _serve(self, key: LaneKey) -> RegistryEntry | Failure | None:
        return choose_worker(self._to.workers, key, self._to.time())

    def _launch(self, state: TaskState, node: SubtaskState, entry: RegistryEntry) -> None:
        to, number = self._to, node.made + 1
        undoable = entry.is_team or entry.executable.undo is not None
        part = next_part(state.id, node, entry.id, number, state.ids) if entry.is_team else ""
        to.teams.detach_team(state, node, entry)
        started = to.emit(state, task_events.SubtaskStarted, node.id, entry.id, number, node.act, undoable, part)
        attempt = Attempt(to.handoff.make(state, node, entry))
        rank = self.queue.present_priority(self._tickets.get(node), attempt.spec.priority)
        row = self.hold(attempt, node, rank)
        to.suspects.passes(node.losses, attempt)
        to.breakers.begin(row, entry, started.at)
        box = entry.assign(attempt.key)
        if box is not None:
            attempt.goes_to(box)
        to.act(to.suspects.waits_for(node.losses, state.id), to.handoff.give, attempt, entry)
        self.watch(attempt, node, entry)

    def hold(self, attempt: Attempt, node: SubtaskState, rank: int | None = None) -> RunningAttempt:
        """Take a slot for an attempt."""
        self._priorities.add(attempt.spec.priority)
        self._to.runtime.attempts[attempt.key] = attempt
        return self._to.attempts.add(attempt, node, attempt.spec.priority if rank is None else rank)

    # -- ending --------------------------------------------------------------------------------------------

    def end(self, attempt: Attempt, why: str, *, at_once: bool = False) -> None:
        """Have an attempt end: taken back, cancelled, or given up with its worker's incarnation."""
        if attempt.done:
            return
        is_withdrawn = attempt.withdraw(why)
        if attempt.errand is not None:
            attempt.end_for(why)
            attempt.errand.kill()  # also one that waits for a slot, or has one
        if is_withdrawn or attempt.errand is not None:
            return
        entry = self._to.workers.get(attempt.spec.worker)
        if entry is not None and entry.is_team:
            self._to.teams.end(attempt, why)
            return
        incarnation: Any = attempt.incarnation
        if attempt.ended_by is None and incarnation is not None and getattr(incarnation, "task", None) is not None:
            incarnation.cancel_current(why)
            at_once = False
        attempt.end_for(why)
        if at_once:
            self._replace(attempt)
        else:
            self.replace_after_grace(attempt)

    def replace_after_grace(self, attempt: Attempt) -> None:
        """Replace an attempt that was told to end, should it not do so in time."""
        attempt.watch(self._to.at(self._to.time() + GRACE_S, lambda: self._replace(attempt)))

    def _replace(self, attempt: Attempt) -> None:
        """Replace the incarnation of an attempt that does not end. This counts in no restart window."""
        if not attempt.done and attempt.incarnation is not None:
            message = ReplaceChild(attempt.incarnation, self._to.settings.max_abandoned)
            box: Any = self._to.system.boxes.get(self._to.path)
            if box is not None:
                box.post(message)

    def watch(self, attempt: Attempt, node: SubtaskState, entry: RegistryEntry) -> None:
        """See to it that it ends when its time is up."""
        own, theirs = node.spec.idle_timeout_s, entry.executable.idle_timeout_s
        idle_s = own if own is not None else theirs
        if attempt.spec.timeout_s is not None or idle_s is not None:
            self.watch_limits(attempt, attempt.spec.timeout_s, idle_s)

    def watch_limits(self, attempt: Attempt, timeout_s: float | None, idle_s: float | None) -> None:
        """Look again when its time could be up: it counts from when it has begun, not from here."""
        limits = [limit for limit in (timeout_s, idle_s) if limit is not None]
        started = attempt.started
        if started is None:
            left = min(limits)
        else:
            now = self._to.system.now()
            ends = [] if timeout_s is None else [(started + timeout_s - now, "timeout")]
            ends += [] if idle_s is None else [(max(started, attempt.last_sign) + idle_s - now, "idle")]
            left, why = min(ends)
            if left <= 0:
                self.end(attempt, why, at_once=True)
                return

        def look() -> None:
            if not attempt.done and attempt.ended_by is None:
                self.watch_limits(attempt, timeout_s, idle_s)

        attempt.watch(self._to.at(self._to.time() + left, look))

    # -- the end of one ------------------------------------------------------------------------------------

    def ended(self, attempt: Attempt, state: TaskState | None) -> None:
        """An attempt has its outcome: make room, record what follows."""
        to = self._to
        entry = to.workers.get(attempt.spec.worker)
        row, is_current = to.attempts.remove(attempt)
        if row is None:
            to.runtime.forget(attempt)  # heard already
            return
        node = row.node
        if state is not None and is_current and state.nodes.get(node.id) is node:
            before = NO_USAGE if node.spec.budget is None else node.total_usage
            outcome = classify(attempt, lambda name: self._limit_of(node, entry, name), before)
            counted, turned = to.breakers.ended(row, entry, outcome)
            to.deciding.ended(state, node, attempt, outcome, counted=counted)
            if turned is not None and entry is not None:
                to.breakers.record(entry, turned)  # last: a breaker that lacks it finds it in the task's journal
        else:
            to.breakers.left(row, entry)
        to.recording.count(attempt)  # what no record of its end has
        to.act(attempt.task, to.runtime.forget, attempt)
        to.delegation.attempt_ended(attempt)
        if entry is not None:
            entry.release(attempt.key, was_refused=attempt.was_refused)
            self.changed(entry)

    @staticmethod
    def _limit_of(node: SubtaskState, entry: RegistryEntry | None, name: str) -> float:
        own: float | None = getattr(node.spec, name)
        theirs: float | None = getattr(entry.executable, name) if entry is not None else None
        return own if own is not None else theirs or 0.0

    # -- preemption ----------------------------------------------------------------------------------------

    def _preempt_for_a_slot(self) -> None:
        """All slots are taken: the least urgent gives way, if what waits is more urgent and could have its slot."""
        if len(self._priorities) == 1:
            return
        if any(row.gives_way for row in self._to.attempts):
            return
        for key, _, (state, _) in sorted(self._urgent_heads(), key=lambda head: head[1]):
            running = self._busy(key) if self._serve(key) is None else list(self._to.attempts)
            if self._preempt_one(state.task.priority, running):
                return

    def _preempt_for_a_worker(self) -> None:
        """Slots are free, but the workers that could do it are busy."""
        if len(self._priorities) == 1:
            return
        for key, _, (state, _) in self._urgent_heads():
            busy = self._busy(key)
            if not any(row.gives_way for row in busy):
                self._preempt_one(state.task.priority, busy)

    def _urgent_heads(self) -> list[tuple[LaneKey, Rank, tuple[TaskState, SubtaskState]]]:
        """The first of each lane that could interrupt something that runs, by its own priority."""
        worst = max((row.rank for row in self._to.attempts), default=0)
        heads = self.queue.heads(self._to.system.now())
        return [head for head in heads if head[2][0].task.priority < worst]

    def _busy(self, key: LaneKey) -> list[RunningAttempt]:
        """Attempts of the workers whose room would be of use to a lane, but for workers that admit nothing."""
        able, now = self._to.workers.primaries(key), self._to.time()
        keys = (each for entry in able if entry.admits(now) for each in entry.attempts)
        return [row for each in keys if (row := self._to.attempts.get(each)) is not None]

    def _preempt_one(self, urgent: int, running: list[RunningAttempt]) -> bool:
        victims = [row for row in running if row.rank > urgent and self._may_preempt(row)]
        if victims:
            victim = max(victims, key=lambda row: (row.rank, row.attempt.started or 0.0))
            victim.gives_way = True
            self.end(victim.attempt, "preempt")
        return bool(victims)

    def _may_preempt(self, row: RunningAttempt) -> bool:
        attempt = row.attempt
        may = attempt.spec.preemptible and attempt.ended_by is None and not attempt.done
        waits = self._to.attempts.is_waiting(attempt)
        return may and not waits and row.node.preemptions < self._to.settings.max_preemptions
