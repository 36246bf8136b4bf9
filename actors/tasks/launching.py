"""Attempts: who gets one, how it is given, how it is ended, and what its end means.

Only the orchestrator's own message handling touches this, on the event loop; a worker on the loop is never in the
middle of a step meanwhile, so cancelling one is exact.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from actors.messages import Origin
from actors.supervision import ReplaceChild
from actors.tasks import events
from actors.tasks.attempt import Attempt
from actors.tasks.classify import Outcome, classify
from actors.tasks.context import Context
from actors.tasks.holding import own
from actors.tasks.node import Node
from actors.tasks.outcome import Done, Failure
from actors.tasks.report import spent
from actors.tasks.schedule import LaneKey, ReadyQueue
from actors.tasks.selection import lane_of, nobody, serve
from actors.tasks.staff import Entry
from actors.tasks.state import TaskState
from actors.tasks.task import Budget, Subtask, SubtaskStatus, instructed

if TYPE_CHECKING:
    from actors.tasks.orchestrator import Orchestrator

GRACE_S = 1.0
"""How long code that was cancelled may take to end, or a thread to come back by itself, before it is replaced."""


class Launching:
    """What one orchestrator has running, and what waits to be."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._to = orchestrator
        self.queue: ReadyQueue[tuple[TaskState, Node]] = ReadyQueue()
        self.running: dict[str, Attempt] = {}
        self.waiting = 0
        """Of those, how many wait for something that they asked for: they hold no slot."""
        self._priorities: set[int] = set()
        """Of all tasks so far: where there is only one, nothing gives way to anything."""
        self._giving_way: set[str] = set()
        """Attempts that are being preempted."""

    # -- waiting -------------------------------------------------------------------------------------------

    def enqueue(self, state: TaskState, node: Node, reason: str = "") -> None:
        """A subtask could run."""
        to = self._to
        to.record(state, events.SubtaskQueued(to.path, state.id, to.time(), node.id, reason))
        self.put_in_queue(state, node)

    def put_in_queue(self, state: TaskState, node: Node) -> None:
        """The same for one of which that is recorded."""
        if state.paused:
            return
        key = lane_of(state, node, self._to.path)
        team = self._to.staff.get(node.worker) if node.acts and node.acts[-1].open else None
        if team is not None and team.is_team and not team.is_gone:
            key = LaneKey(team.id, None, key.without)  # it gave way there, and what is finished of it is there
        deadline = math.inf if state.deadline is None else state.deadline
        age = self.queue.age_of(node.ticket)
        self._priorities.add(state.task.priority)
        node.ticket = self.queue.push(key, state.task.priority, deadline, (state, node), age)

    def requeue_all(self, state: TaskState) -> None:
        """Others may do it now than before."""
        for node in state.nodes.values():
            if node.status is SubtaskStatus.QUEUED:
                self.queue.withdraw(node.ticket)
                self.put_in_queue(state, node)

    def changed(self, entry: Entry) -> None:
        """A worker has room again, or is gone: those who wait for it may be served otherwise."""
        if entry.lanes:
            lanes, entry.lanes = entry.lanes, set()
            for key in lanes:
                self.queue.reopen(key)

    # -- starting ------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Start whatever can be started now."""
        queue, most = self.queue, self._to.settings.max_parallel
        while len(self.running) - self.waiting < most and self._to.delegating.returns():
            pass
        while queue.size:
            if len(self.running) - self.waiting >= most:
                self._preempt_for_a_slot()
                return
            found = queue.take(self._serve)
            if found is None:
                self._preempt_for_a_worker()
                return
            (state, node), served = found
            if isinstance(served, Failure):
                self._to.trying.failed(state, node, nobody(served, state, node, self._to), None)
            else:
                self._launch(state, node, served)  # type: ignore[arg-type]

    def _serve(self, key: LaneKey) -> Entry | Failure | None:
        return serve(self._to.staff, key, self._to.time())

    def _launch(self, state: TaskState, node: Node, entry: Entry) -> None:
        to, now = self._to, self._to.time()
        number = node.made + 1
        spec, executable = node.spec, entry.executable
        to.record(state, events.SubtaskStarted(to.path, state.id, now, node.id, entry.id, number, node.act))
        timeout_s = spec.timeout_s if spec.timeout_s is not None else executable.timeout_s
        attempt = Attempt(
            attempt_key(state, node, number),
            to.desk,
            state.id,
            instructed(spec, state.task.goal),
            entry.id,
            entry.path,
            chain=to.course.addresses(state, node),
            lineage=(*state.lineage, *node.lineage) if node.lineage or state.lineage else (),
            deadline=self._deadline(state, node),
            timeout_s=timeout_s,
        )
        attempt.adapter = entry.adapter
        attempt.priority, attempt.hops = state.task.priority, state.hops
        if entry.is_team:
            attempt.budget = _part_of(state, spec)
        attempt.context = Context(
            attempt,
            goal=state.task.goal,
            inputs=own({**state.task.inputs, **spec.inputs}) if state.task.inputs or spec.inputs else {},
            results=to.course.results_for(state, node),
            feedback=node.feedback,
            number=number,
            idempotency_key=f"{state.id}/{node.id}/{node.act}",
        )
        self._hold(attempt, node, entry)
        if entry.breaker is not None:
            attempt.token = entry.breaker.begin(now)
            if entry.breaker.state == "half_open":
                self._tell_breaker(entry, events.BreakerHalfOpened)
        box = entry.seat(attempt)
        to.act(self._give, attempt, entry, box)
        idle_s = spec.idle_timeout_s if spec.idle_timeout_s is not None else executable.idle_timeout_s
        if timeout_s is not None or idle_s is not None:
            self._watch(attempt, state, node, timeout_s, idle_s)

    def _deadline(self, state: TaskState, node: Node) -> float | None:
        """When its time is up, on the tree's clock: its task's time, or that of whoever asked for it."""
        ground = self._to.ground
        ask = ground.asks.get(node.ask) if node.ask is not None else None
        ends = [state.deadline and state.deadline - ground.epoch, ask and ask.due]
        return min((end for end in ends if end is not None), default=None)

    def _hold(self, attempt: Attempt, node: Node, entry: Entry) -> None:
        self._to.ground.attempts[attempt.key] = self.running[attempt.key] = node.live = attempt
        declared = "preemptible" in node.spec.model_fields_set
        has_undo = node.spec.undo is not None or entry.executable.undo is not None
        attempt.preemptible = node.spec.preemptible if declared else not has_undo
        attempt.preemptible &= entry.is_async or entry.is_team

    def _give(self, attempt: Attempt, entry: Entry, box: Any) -> None:
        """Put it where it is done: the last thing that happens to it here before its end."""
        if not attempt.give_once():
            return
        if box is None:
            if not self._to.teamwork.give(attempt, entry):
                attempt.reply_refused = True
                attempt.fail(self._to.desk.down())
            return
        refusal = box.admit((attempt, attempt, attempt.origin(Origin)))
        if refusal is not None:
            attempt.reply_refused = True
            attempt.fail(self._to.system.stopped_error(box.path, refusal))

    # -- resuming ------------------------------------------------------------------------------------------

    def adopt(self, state: TaskState, node: Node) -> None:
        """A subtask whose attempt was under way when the last incarnation ended: wait for it, or run it again."""
        attempt = self._to.ground.attempts.get(attempt_key(state, node, node.attempt))
        entry = None if attempt is None else self._to.staff.get(attempt.worker)
        if attempt is None or (entry is None and not attempt.given):
            self.enqueue(state, node, "nothing is known of its attempt")
            return
        self._priorities.add(attempt.priority)
        node.live = self.running[attempt.key] = attempt
        if entry is not None:
            entry.occupy(attempt)
            attempt.token = 0  # one from before a trip counts for nothing
            if entry.breaker is not None and node.started_at > (entry.breaker.opened_at or 0.0):
                attempt.token = entry.breaker.begin(self._to.time())
            spec, executable = node.spec, entry.executable
            idle_s = spec.idle_timeout_s if spec.idle_timeout_s is not None else executable.idle_timeout_s
            if attempt.timeout_s is not None or idle_s is not None:
                self._watch(attempt, state, node, attempt.timeout_s, idle_s)
        if not attempt.given and entry is not None:
            self._to.act(self._give, attempt, entry, attempt.member)
        attempt.waits = frozenset(key for key, ask in list(self._to.ground.asks.items()) if ask.attempt is attempt)
        self.waiting += bool(attempt.waits)
        if attempt.done:
            self._to.desk.post(attempt)  # its outcome may have come while there was no mailbox for it
        elif attempt.ended_by is not None:
            self._insist(attempt)

    def forget_strangers(self) -> None:
        """Attempts whose end is recorded already, or whose task is."""
        to = self._to
        for key, attempt in list(to.ground.attempts.items()):
            if attempt.desk is to.desk and attempt.done and attempt.role == "work" and key not in self.running:
                to.ground.attempts.pop(key, None)

    # -- ending --------------------------------------------------------------------------------------------

    def end(self, attempt: Attempt, why: str, *, at_once: bool = False) -> None:
        """Have an attempt end: taken back, cancelled, or given up with its worker's incarnation."""
        if attempt.done or attempt.withdraw(why):
            return
        if attempt.errand is not None:
            attempt.ended_by = attempt.ended_by or why
            attempt.errand.kill()
            return
        entry = self._to.staff.get(attempt.worker)
        if entry is not None and entry.is_team:
            self._to.teamwork.end(attempt, why)
            return
        life: Any = attempt.life
        if attempt.ended_by is None and life is not None and getattr(life, "task", None) is not None:
            life.cancel_attempt(why)
            at_once = False
        attempt.ended_by = attempt.ended_by or why
        if at_once:
            self._replace(attempt)
        else:
            self._insist(attempt)

    def _insist(self, attempt: Attempt) -> None:
        attempt.timer = self._to.at(self._to.time() + GRACE_S, lambda: self._replace(attempt))

    def _replace(self, attempt: Attempt) -> None:
        """It does not end: its incarnation is replaced, which counts in no restart window."""
        if not attempt.done and attempt.life is not None:
            message = ReplaceChild(attempt.life, self._to.settings.max_abandoned)
            box: Any = self._to.system.boxes.get(self._to.path)
            if box is not None:
                box.post(message)

    def _watch(
        self, attempt: Attempt, state: TaskState, node: Node, timeout_s: float | None, idle_s: float | None
    ) -> None:
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
                self._watch(attempt, state, node, timeout_s, idle_s)

        attempt.timer = self._to.at(self._to.time() + left, look)

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
            outcome = classify(attempt, lambda name: self._limit_of(node, entry, name))
            self._count(attempt, entry, outcome)
            to.trying.over(state, node, attempt, outcome)  # type: ignore[arg-type]  # there is a node in it
        elif entry is not None and entry.breaker is not None:
            entry.breaker.neutral(attempt.token, to.time())
        attempt.context = None  # the two hold each other: a circle would wait for the garbage collector
        to.act(to.ground.forget, attempt)
        to.delegating.attempt_ended(attempt)
        if entry is not None:
            entry.release(attempt)
            if attempt.reply_refused:
                entry.shut(attempt)
            self.changed(entry)

    @staticmethod
    def _limit_of(node: Node, entry: Entry | None, name: str) -> float:
        own: float | None = getattr(node.spec, name)
        theirs: float | None = getattr(entry.executable, name) if entry is not None else None
        return own if own is not None else theirs or 0.0

    def _count(self, attempt: Attempt, entry: Entry | None, outcome: Outcome) -> None:
        """Tell the breaker how it ended."""
        if entry is None or entry.breaker is None:
            return
        now, before = self._to.time(), entry.breaker.state
        if attempt.counted:  # by an incarnation that died of what came next
            entry.breaker.neutral(attempt.token, now)
            return
        if isinstance(outcome, Done):
            changed = entry.breaker.succeeded(attempt.token, now)
        elif isinstance(outcome, Failure) and outcome.counts:
            changed = entry.breaker.failed(attempt.token, now)
        else:
            changed = entry.breaker.neutral(attempt.token, now)
        if changed:
            kinds = {"open": events.BreakerOpened, "closed": events.BreakerClosed}
            turned = entry.breaker.state != before
            self._tell_breaker(entry, kinds[entry.breaker.state] if turned else events.BreakerChanged)
            attempt.counted = True

    def _tell_breaker(self, entry: Entry, kind: type[events.BreakerChanged]) -> None:
        breaker = entry.breaker
        if breaker is not None:
            event = kind(entry.path, self._to.time(), breaker.state, tuple(breaker.failures), breaker.opened_at)
            self._to.record_breaker(event)
            self.cools_down(entry)

    def cools_down(self, entry: Entry) -> None:
        """Those who wait for others meanwhile may be served by it again when its breaker admits a probe."""
        if entry.breaker is not None and entry.breaker.state == "open":
            now = self._to.time()
            self._to.at(now + entry.breaker.retry_in_s(now), lambda: self.changed(entry))

    # -- preemption ----------------------------------------------------------------------------------------

    def _preempt_for_a_slot(self) -> None:
        """All slots are taken: the least urgent gives way, if what waits is more urgent and could have its slot."""
        if len(self._priorities) == 1:
            return
        worst = max((attempt.priority for attempt in self.running.values()), default=0)
        heads = () if self._giving_way else self.queue.heads()
        for key, rank, _ in sorted((head for head in heads if head[1][0] < worst), key=lambda head: head[1]):
            running = self._busy(key) if self._serve(key) is None else list(self.running.values())
            if self._preempt_one(rank[0], running):
                return

    def _preempt_for_a_worker(self) -> None:
        """Slots are free, but the workers that could do it are busy."""
        if len(self._priorities) == 1:
            return
        worst = max((attempt.priority for attempt in self.running.values()), default=0)
        for key, rank, _ in self.queue.heads():
            if rank[0] < worst:
                busy = self._busy(key)
                if not any(attempt.key in self._giving_way for attempt in busy):
                    self._preempt_one(rank[0], busy)

    def _busy(self, key: LaneKey) -> list[Attempt]:
        return [attempt for entry in self._to.staff.primaries(key) for attempt in entry.attempts.values()]

    def _preempt_one(self, urgent: int, running: list[Attempt]) -> bool:
        victims = [attempt for attempt in running if attempt.priority > urgent and self._may_preempt(attempt)]
        if victims:
            victim = max(victims, key=lambda attempt: (attempt.priority, attempt.started or 0.0))
            self._giving_way.add(victim.key)
            self.end(victim, "preempt")
        return bool(victims)

    def _may_preempt(self, attempt: Attempt) -> bool:
        state = self._to.states.get(attempt.task)
        node = state.nodes.get(attempt.subtask.id) if state is not None else None
        may = attempt.preemptible and attempt.ended_by is None and not attempt.waits and not attempt.done
        return may and node is not None and node.preemptions < self._to.settings.max_preemptions


def _part_of(state: TaskState, spec: Subtask) -> Budget | None:
    """What a team may use up: its own budget, and no more than is left of the whole task's."""
    left = state.task.budget.left(spent(state)) if state.task.budget is not None else None
    return left if spec.budget is None else spec.budget if left is None else spec.budget.within(left)


def attempt_key(state: TaskState, node: Node, number: int) -> str:
    """The same for the same attempt in every incarnation."""
    return f"{state.id}/{node.id}#{node.act}.{number}"
