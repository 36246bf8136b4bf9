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
from actors.tasks.model.outcome import Done, Failure
from actors.tasks.model.task import NO_USAGE, SubtaskStatus, Usage
from actors.tasks.model.task_ids import BREAKER
from actors.tasks.orchestration.messages import TimerFired
from actors.tasks.recovery.classify import Outcome, classify
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
        self.running: dict[str, Attempt] = {}
        self.waiting = 0
        """Number of running attempts that wait for something that they asked for: they hold no slot."""
        self._priorities: set[int] = set()
        """Priorities of all tasks so far: where there is only one, nothing gives way to anything. (What has waited is
        sooner, and gives way later; but it interrupts nothing that it would not have interrupted at first.)"""
        self._unsettled = Unsettled()
        self._giving_way: set[str] = set()
        """Attempts that are being preempted."""

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
        team = self._to.staff.get(node.worker) if node.acts and node.acts[-1].open else None
        if team is not None and team.is_team and not team.is_gone:
            key = LaneKey(team.id, None, key.without)  # it gave way there, and what is finished of it is there
        deadline = math.inf if state.deadline is None else state.deadline
        age, since = self.queue.age_of(node.ticket), node.waiting_since - self._to.ground.epoch
        self._priorities.add(state.task.priority)
        item = (state, node)
        node.ticket = self.queue.push(key, state.task.priority, deadline, item, age, born=state.born, since=since)

    def requeue_all(self, state: TaskState) -> None:
        """Others may do it now than before."""
        for node in state.nodes.values():
            self.requeue(state, node)

    def prioritize(self, state: TaskState) -> None:
        """Have the new priority of a task count for what waits, what runs, and the parts that teams have."""
        for node in state.nodes.values():
            attempt = node.live
            if self.queue.holds(node.ticket):
                self.requeue(state, node)
            if attempt is not None:
                attempt.rank += state.task.priority - attempt.priority
                attempt.priority = state.task.priority
                self._priorities.add(attempt.priority)
                self._to.teams.prioritize(attempt)

    def requeue(self, state: TaskState, node: SubtaskState) -> None:
        """Put one subtask in line anew, where it waits to be begun."""
        if node.status is SubtaskStatus.QUEUED:
            self.queue.withdraw(node.ticket)
            self.put_in_queue(state, node)

    def put_off(self, state: TaskState, node: SubtaskState) -> str:
        """Why one that is queued waits though nobody who could do it is busy; else nothing."""
        return put_off(self._to.staff, lane_of(state, node, self._to.path), self._to.time())

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
        suspects = self._to.suspects
        suspects.release()
        while len(self.running) - self.waiting < most and self._to.delegation.returns():
            pass
        while queue.size:
            if len(self.running) - self.waiting >= most:
                self._preempt_for_a_slot()
                return
            found = queue.take_next(self._serve, self._to.system.now())
            if found is None:
                self._preempt_for_a_worker()
                return
            (state, node), served = found
            self._to.task = state.id
            again = partial(self.requeue, state, node)
            if not isinstance(served, Failure) and self._unsettled.must_wait(state.id, node, again):
                continue
            if node.losses and suspects.must_wait(node.losses, node, again):
                continue
            if isinstance(served, Failure):
                self._to.deciding.failed(state, node, no_worker_failure(state, node, self._to))
            else:
                self._launch(state, node, served)  # type: ignore[arg-type]

    def settle(self, state: TaskState) -> None:
        """A result is large: choose nobody for what follows from it before it is written."""
        to = self._to
        if to.ground.durable is not None:
            self._unsettled.begin(state.id)
            message = TimerFired(to.life, partial(self._settled, state.id), state.id)
            to.act(state.id, to.desk.post, message)

    def _settled(self, task: str) -> None:
        for again in list(self._unsettled.end(task)):
            again()

    def _serve(self, key: LaneKey) -> RegistryEntry | Failure | None:
        return choose_worker(self._to.staff, key, self._to.time())

    def _launch(self, state: TaskState, node: SubtaskState, entry: RegistryEntry) -> None:
        to, now, number = self._to, self._to.time(), node.made + 1
        undoable = entry.is_team or entry.executable.undo is not None
        part = next_part(state.id, node, entry.id, number, state.ids) if entry.is_team else ""
        to.teams.detach_team(state, node, entry)
        to.emit(state, task_events.SubtaskStarted, node.id, entry.id, number, node.act, undoable, part)
        attempt = to.handoff.make(state, node, entry)
        attempt.rank = self.queue.present_priority(node.ticket, attempt.priority)
        self.hold(attempt, node)
        to.suspects.passes(node.losses, attempt)
        if entry.breaker is not None:
            attempt.token = entry.breaker.begin(now)
            if entry.breaker.state == "half_open":
                self.tell_breaker(entry, task_events.BreakerHalfOpened)
        to.act(to.suspects.waits_for(node.losses, state.id), to.handoff.give, attempt, entry, entry.assign(attempt))
        self.watch(attempt, node, entry)

    def hold(self, attempt: Attempt, node: SubtaskState) -> None:
        """Take a slot for an attempt."""
        self._priorities.add(attempt.priority)
        self._to.ground.attempts[attempt.key] = self.running[attempt.key] = node.live = attempt

    # -- ending --------------------------------------------------------------------------------------------

    def end(self, attempt: Attempt, why: str, *, at_once: bool = False) -> None:
        """Have an attempt end: taken back, cancelled, or given up with its worker's incarnation."""
        if attempt.done:
            return
        is_withdrawn = attempt.withdraw(why)
        if attempt.errand is not None:
            attempt.ended_by = attempt.ended_by or why
            attempt.errand.kill()  # also one that waits for a slot, or has one
        if is_withdrawn or attempt.errand is not None:
            return
        entry = self._to.staff.get(attempt.worker)
        if entry is not None and entry.is_team:
            self._to.teams.end(attempt, why)
            return
        life: Any = attempt.life
        if attempt.ended_by is None and life is not None and getattr(life, "task", None) is not None:
            life.cancel_current(why)
            at_once = False
        attempt.ended_by = attempt.ended_by or why
        if at_once:
            self._replace(attempt)
        else:
            self.replace_after_grace(attempt)

    def replace_after_grace(self, attempt: Attempt) -> None:
        """Replace an attempt that was told to end, should it not do so in time."""
        attempt.watch(self._to.at(self._to.time() + GRACE_S, lambda: self._replace(attempt)))

    def _replace(self, attempt: Attempt) -> None:
        """Replace the incarnation of an attempt that does not end. This counts in no restart window."""
        if not attempt.done and attempt.life is not None:
            message = ReplaceChild(attempt.life, self._to.settings.max_abandoned)
            box: Any = self._to.system.boxes.get(self._to.path)
            if box is not None:
                box.post(message)

    def watch(self, attempt: Attempt, node: SubtaskState, entry: RegistryEntry) -> None:
        """See to it that it ends when its time is up."""
        own, theirs = node.spec.idle_timeout_s, entry.executable.idle_timeout_s
        idle_s = own if own is not None else theirs
        if attempt.timeout_s is not None or idle_s is not None:
            self.watch_limits(attempt, attempt.timeout_s, idle_s)

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
        entry = to.staff.get(attempt.worker)
        if self.running.pop(attempt.key, None) is None:
            to.ground.forget(attempt)  # heard already
            return
        self.waiting -= bool(attempt.waits)
        self._giving_way.discard(attempt.key)
        node = state.nodes.get(attempt.subtask.id) if state is not None else None
        if node is not None and node.live is attempt:
            node.live = None
            before = NO_USAGE if node.spec.budget is None else node.total_usage
            outcome = classify(attempt, lambda name: self._limit_of(node, entry, name), before)
            turned = self._count(attempt, node, entry, outcome)
            to.deciding.ended(state, node, attempt, outcome)  # type: ignore[arg-type]  # there is a node in it
            if turned is not None and entry is not None:
                self.tell_breaker(entry, turned)  # last: a breaker that lacks it finds it in the task's journal
        elif entry is not None and entry.breaker is not None:
            entry.breaker.neutral(attempt.token, to.time())
        to.recording.count(attempt)  # what no record of its end has
        to.act(attempt.task, to.ground.forget, attempt)
        to.delegation.attempt_ended(attempt)
        if entry is not None:
            entry.release(attempt)
            if attempt.reply_refused:
                entry.mark_unavailable(attempt)
            self.changed(entry)

    @staticmethod
    def _limit_of(node: SubtaskState, entry: RegistryEntry | None, name: str) -> float:
        own: float | None = getattr(node.spec, name)
        theirs: float | None = getattr(entry.executable, name) if entry is not None else None
        return own if own is not None else theirs or 0.0

    def _count(
        self, attempt: Attempt, node: SubtaskState, entry: RegistryEntry | None, outcome: Outcome
    ) -> type[task_events.BreakerChanged] | None:
        """Tell the breaker how it ended; what has become of it, where that changed anything."""
        if entry is None or entry.breaker is None:
            return None
        now, before = self._to.time(), entry.breaker.state
        counted = node.counted[1] if node.counted is not None and node.counted[0] == entry.id else None
        if isinstance(outcome, Done):
            changed = entry.breaker.succeeded(attempt.token, now, counted)
        elif isinstance(outcome, Failure) and entry.counts(outcome):
            changed = attempt.counted = entry.breaker.failed(attempt.token, now, counted)
        else:
            changed = entry.breaker.neutral(attempt.token, now)
        return _turn_of(entry.breaker.state, before) if changed else None

    def count_again(self, node: SubtaskState) -> None:
        """Count a failure that an earlier incarnation recorded, and not yet in the journal of its breaker."""
        worker, at = node.counted or ("", 0.0)
        entry = self._to.staff.get(worker)
        if entry is None or entry.breaker is None or at < entry.breaker_at or at in entry.breaker.failures:
            return
        before = entry.breaker.state
        if entry.breaker.failed(entry.breaker.begin(at), at):
            self.tell_breaker(entry, _turn_of(entry.breaker.state, before))

    def tell_breaker(self, entry: RegistryEntry, kind: type[task_events.BreakerChanged]) -> None:
        """Record what a breaker has counted, or that it has turned."""
        breaker = entry.breaker
        if breaker is not None:
            ended = tuple(tuple(each) for each in breaker.ended)
            event = kind(entry.path, self._to.time(), breaker.state, breaker.failures, breaker.opened_at, ended)
            self._to.recording.emit_breaker(event)
            self.cools_down(entry)

    def restored(self, entry: RegistryEntry | None) -> None:
        """The breaker of a worker goes on from where it was."""
        if entry is None or entry.breaker is None:
            return
        kept = self._to.store.read(f"{BREAKER}{entry.path}")
        if kept and isinstance(kept[-1], task_events.BreakerChanged):
            entry.breaker.restore(kept[-1].state, kept[-1].failures, kept[-1].opened_at, kept[-1].ended)
            entry.breaker_at = kept[-1].at
            self.cools_down(entry)

    def cools_down(self, entry: RegistryEntry) -> None:
        """Look again, when its breaker admits a probe, at subtasks that wait for other workers meanwhile."""
        if entry.breaker is not None and entry.breaker.state == "open":
            now = self._to.time()
            self._to.at(now + entry.breaker.retry_in_s(now), lambda: self._cooled_down(entry))

    def _cooled_down(self, entry: RegistryEntry) -> None:
        """Let an open breaker admit its probe; look again later where it does not yet: clocks may differ a little."""
        self.changed(entry)
        if not entry.admits(self._to.time()):
            self.cools_down(entry)

    # -- preemption ----------------------------------------------------------------------------------------

    def _preempt_for_a_slot(self) -> None:
        """All slots are taken: the least urgent gives way, if what waits is more urgent and could have its slot."""
        if len(self._priorities) == 1:
            return
        if self._giving_way:
            return
        for key, _, (state, _) in sorted(self._urgent_heads(), key=lambda head: head[1]):
            running = self._busy(key) if self._serve(key) is None else list(self.running.values())
            if self._preempt_one(state.task.priority, running):
                return

    def _preempt_for_a_worker(self) -> None:
        """Slots are free, but the workers that could do it are busy."""
        if len(self._priorities) == 1:
            return
        for key, _, (state, _) in self._urgent_heads():
            busy = self._busy(key)
            if not any(attempt.key in self._giving_way for attempt in busy):
                self._preempt_one(state.task.priority, busy)

    def _urgent_heads(self) -> list[tuple[LaneKey, Rank, tuple[TaskState, SubtaskState]]]:
        """The first of each lane that could interrupt something that runs, by its own priority."""
        worst = max((attempt.rank for attempt in self.running.values()), default=0)
        heads = self.queue.heads(self._to.system.now())
        return [head for head in heads if head[2][0].task.priority < worst]

    def _busy(self, key: LaneKey) -> list[Attempt]:
        """Attempts of the workers whose room would be of use to a lane, but for workers that admit nothing."""
        able, now = self._to.staff.primaries(key), self._to.time()
        return [each for entry in able if entry.admits(now) for each in entry.attempts.values()]

    def _preempt_one(self, urgent: int, running: list[Attempt]) -> bool:
        victims = [attempt for attempt in running if attempt.rank > urgent and self._may_preempt(attempt)]
        if victims:
            victim = max(victims, key=lambda attempt: (attempt.rank, attempt.started or 0.0))
            self._giving_way.add(victim.key)
            self.end(victim, "preempt")
        return bool(victims)

    def _may_preempt(self, attempt: Attempt) -> bool:
        state = self._to.states.get(attempt.task)
        node = state.nodes.get(attempt.subtask.id) if state is not None else None
        may = attempt.preemptible and attempt.ended_by is None and not attempt.waits and not attempt.done
        return may and node is not None and node.preemptions < self._to.settings.max_preemptions


def _turn_of(state: str, before: str) -> type[task_events.BreakerChanged]:
    """Kind of event for a breaker that is in ``state`` now."""
    turns = {"open": task_events.BreakerOpened, "closed": task_events.BreakerClosed}
    return turns[state] if state != before else task_events.BreakerChanged
