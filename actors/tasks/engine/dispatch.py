"""Who is next, and with whom: the line of subtasks that are ready, workers and teams with room, and who gives way.

A subtask that is recorded as queued stands in line. When a worker and a slot are free it gets both and begins. A team
holds no slot: what it has is a part of the task with units of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from actors.tasks.decide import attempt as of_attempt
from actors.tasks.decide import ends
from actors.tasks.engine.attempts import goes_on_above
from actors.tasks.engine.making import attempt_of_work, key_of
from actors.tasks.execution.attempt import Attempt
from actors.tasks.journal.unit import Unit
from actors.tasks.model import (
    QUEUED,
    RUNNING,
    AttemptLostError,
    Failure,
    FailureKind,
    TaskStatus,
    TaskStranded,
    task_events,
)
from actors.tasks.scheduling.ready_queue import LaneKey, ReadyQueue, Ticket
from actors.tasks.scheduling.selection import choose_worker, lane_of, no_worker_failure

if TYPE_CHECKING:
    from actors.tasks.engine.engine import Engine
    from actors.tasks.engine.run import Run
    from actors.tasks.engine.scope import Scope
    from actors.tasks.journal.course import Course
    from actors.tasks.scheduling.worker_registry import RegistryEntry


class Dispatch:
    """The line, and the teams, of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.queue: ReadyQueue[tuple[Run, Unit]] = ReadyQueue(engine.scope.settings.age_s)
        self._tickets: dict[Unit, Ticket[tuple[Run, Unit]]] = {}
        self._teams: dict[str, RegistryEntry] = {}
        """Teams that have a part of a task, by its key."""

    # -- in line -------------------------------------------------------------------------------------------

    def enqueue(self, run: Run, unit: Unit) -> None:
        """Put a queued subtask in line, unless it was asked for and its asker does not wait for it now."""
        engine, state = self._engine, run.state
        if unit.status is not QUEUED or unit in run.paused:
            return
        if state.has_asks and not engine.asks.is_claimed(run, unit):
            return
        known = self._tickets.get(unit)
        if known is not None:
            self.queue.withdraw(known)
        deadline = math.inf if state.deadline is None else state.deadline
        since = unit.queued_at - unit.queued_s - engine.service.epoch
        lane, scope = lane_of(state, unit), engine.scope_of(unit)
        if known is None and scope is not None and not scope.workers.has_had(lane):
            run.act(engine.system.publish, TaskStranded(scope.path, run.id))
        self._tickets[unit] = self.queue.push(
            lane, state.task.priority, deadline, (run, unit), born=state.born, since=since
        )

    def leave(self, unit: Unit) -> None:
        """Take a subtask out of the line, where it stands in it."""
        ticket = self._tickets.pop(unit, None)
        if ticket is not None:
            self.queue.withdraw(ticket)

    def requeue_all(self, run: Run) -> None:
        """Put all queued subtasks of a task in line anew: their workers or their rank have changed."""
        for unit in run.state.units.values():
            if unit.status is QUEUED:
                self.enqueue(run, unit)

    def rank(self, run: Run) -> None:
        """Give the queued subtasks and the attempts of a task its present priority."""
        priority = run.state.task.priority
        for attempt in self._engine.attempts.of_task(run):
            attempt.rank += priority - attempt.priority
            attempt.priority = priority
        self.requeue_all(run)

    def forget(self, run: Run) -> None:
        """Forget a task that is over."""
        for unit in run.state.units.values():
            self.leave(unit)

    def has_ended_below(self, run: Run, path: str) -> None:
        """Put a queued team in line again: it may start when all attempts of its last run have ended."""
        while "/" in path:
            path = path.rpartition("/")[0]
            above = run.state.units.get(path)
            if above is not None:
                self.enqueue(run, above)

    # -- beginning -----------------------------------------------------------------------------------------

    def pump(self) -> bool:
        """Start what can start now; return True if that has changed a task that is to be settled first."""
        self._engine.asks.let_return()
        while (taken := self.queue.take_next(self._serve)) is not None:
            ticket, (run, unit), served = taken
            self._tickets.pop(unit, None)
            if self._may_start(run, unit):
                self._engine.decide(run, self._start, run, unit, served, ticket)
                if run.state.touched:
                    return True
        if self.queue.size:
            self._preempt()
        return False

    def _may_start(self, run: Run, unit: Unit) -> bool:
        """Return False for a ticket that is out of date: its subtask is not queued any more, or its team is not up."""
        engine = self._engine
        if engine.runs.get(run.id) is not run or unit.status is not QUEUED or run.has_left:
            return False
        if unit.course is not None:  # what a team had begun of it has yet to end: see ``has_ended_below``
            below = f"{unit.path}/"
            if any(each.spec.unit.startswith(below) and each.is_work for each in engine.attempts.of_task(run)):
                return False
        return goes_on_above(unit)

    def _serve(self, key: LaneKey) -> RegistryEntry | Failure | None:
        scope = self._engine.service.scopes.get(key.scope)
        if scope is None:
            return None  # its supervisor is not in the tree: it waits
        if not scope.is_up:
            scope.lanes.add(key)
            return None
        chosen = choose_worker(scope.workers, key, self._engine.now)
        is_full = scope.running >= scope.settings.max_parallel
        if is_full and chosen is not None and not isinstance(chosen, Failure) and not chosen.is_team:
            scope.lanes.add(key)
            return None
        return chosen

    def _start(self, run: Run, unit: Unit, served: RegistryEntry | Failure, ticket: Ticket[tuple[Run, Unit]]) -> None:
        engine, scope = self._engine, self._engine.scope_of(unit)
        if scope is None:
            return
        if isinstance(served, Failure):
            failure = no_worker_failure(run.state, unit, scope.workers)
            run.record(of_attempt.failed(unit, failure, of_attempt.NO_ATTEMPT, engine.facts(run, unit)))
        elif unit.losses >= scope.settings.max_losses:
            self._is_lost(run, unit, scope)
        elif served.is_team:
            self._begin_team(run, unit, served)
        else:
            undoable = served.executable.undo is not None
            run.emit(unit, task_events.SubtaskStarted, served.id, unit.made + 1, unit.epoch, undoable)
            attempt = Attempt(attempt_of_work(engine, run, unit, scope, served))
            box = served.assign(attempt.key)
            assert box is not None  # noqa: S101 - only a team has none
            attempt.target = box
            rank = self.queue.present_priority(ticket, engine.system.now())
            engine.attempts.tell_breaker(served, attempt.key, begins=True)
            engine.attempts.begin(run, attempt, served, rank=rank)

    def _is_lost(self, run: Run, unit: Unit, scope: Scope) -> None:
        """Record a failure after ``max_losses`` processes have ended with a subtask. Its last worker is at fault."""
        engine, entry = self._engine, scope.workers.get(unit.worker)
        failure = Failure(FailureKind.LOST, AttemptLostError(unit.id, unit.losses), counts=True)
        end = of_attempt.AttemptEnd(unit.worker or "", began=True)
        engine.attempts.fails(run, unit, failure, end, entry)

    # -- teams ---------------------------------------------------------------------------------------------

    def _begin_team(self, run: Run, unit: Unit, entry: RegistryEntry) -> None:
        timeout_s = unit.spec.timeout_s if unit.spec.timeout_s is not None else entry.executable.timeout_s
        due = None if timeout_s is None else self._engine.now + timeout_s
        said = (entry.id, unit.made + 1, unit.epoch, entry.executable.undo is not None)
        run.emit(unit, task_events.SubtaskStarted, *said, is_team=True, due=due)
        self._has_team(run, unit, entry)

    def _has_team(self, run: Run, unit: Unit, entry: RegistryEntry) -> None:
        key, engine = key_of(run, unit), self._engine
        entry.attempts[key] = None
        self._teams[key] = entry
        engine.attempts.tell_breaker(entry, key, begins=True)
        engine.limits.watch_team(run, unit, entry)
        engine.dirty[run.id] = run

    def part(self, key: str) -> tuple[Run, Unit] | None:
        """Return the part that a team has under this key."""
        task, _, path = key.partition("@")
        run = self._engine.runs.get(task)
        unit = run.state.units.get(path.rpartition("#")[0]) if run is not None else None
        is_present = run is not None and unit is not None and unit.status is RUNNING and key_of(run, unit) == key
        return (run, unit) if is_present else None  # type: ignore[return-value]  # both are there

    def adopt_team(self, run: Run, unit: Unit) -> None:
        """Go on with what a team has; if the team is gone, queue it again, unless its task is ending."""
        scope, worker, reason = self._engine.scope_of(unit), unit.worker or "", of_attempt.cut_off(unit)
        entry = scope.workers.get(worker) if scope is not None else None
        if entry is not None and entry.is_team and not entry.is_gone:
            self._has_team(run, unit, entry)
        elif reason:
            run.emit(unit, task_events.SubtaskCancelled, reason, True, worker)  # noqa: FBT003 - a field
        else:
            run.emit(unit, task_events.SubtaskRequeued, "stopped", worker)

    def team_fails(self, run: Run, unit: Unit, course: Course) -> None:
        """Record that a team has failed; its breaker is told."""
        entry = self._teams.get(key_of(run, unit))
        failure = ends.failure_of(course, None if entry is None else entry.executable)
        end = of_attempt.AttemptEnd(unit.worker or "", began=True)
        self._engine.attempts.fails(run, unit, failure, end, entry)

    def team_ended(self, run: Run, unit: Unit, *, succeeded: bool = False) -> None:
        """Note that a team has ended with a subtask: it has room for another one."""
        key, attempts = key_of(run, unit), self._engine.attempts
        entry = self._teams.pop(key, None)
        if entry is None:
            return
        if (tracer := self._engine.system.tracer) is not None:
            tracer.end_part(run.state, unit)
        attempts.tell_breaker(entry, key, fails=False if succeeded else None)
        entry.attempts.pop(key, None)
        attempts.reopen(entry)

    def worker_changed(self, entry: RegistryEntry) -> None:
        """Look again at what waits for a worker, or a team, whose state has changed."""
        team = self._engine.service.scopes.get(entry.path) if entry.is_team else None
        if entry.is_team and entry.is_gone:
            self._team_gone(entry)
        if team is not None:
            if not team.workers.entries:
                team.is_open = entry.is_up  # else a member says so
            self._engine.attempts.reopen(team)
            self._engine.roles.reopen(team)
        self._engine.attempts.reopen(entry)

    def _team_gone(self, entry: RegistryEntry) -> None:
        """Queue again what a team had that is down for good."""
        for key in list(entry.attempts):
            found = self.part(key)
            if found is not None:
                self._engine.decide(found[0], self._requeue_team, *found)

    def _requeue_team(self, run: Run, unit: Unit) -> None:
        self._engine.attempts.end_below(run, unit)
        self.team_ended(run, unit)
        run.emit(unit, task_events.SubtaskRequeued, "stopped", unit.worker or "")

    # -- who gives way -------------------------------------------------------------------------------------

    def withdraw(self, run: Run, unit: Unit) -> None:
        """End a subtask that was asked for, when its asker waits no longer."""
        attempt = self._engine.attempts.of(run, unit)
        if unit.is_done:
            return
        if attempt is not None:
            self._engine.limits.end(attempt, "withdrawn")
        elif unit.status is RUNNING and unit.is_composite:
            self._engine.end(run, unit, TaskStatus.CANCELLED, "cancel", of_attempt.UNWANTED)
        else:
            self.leave(unit)
            run.emit(unit, task_events.SubtaskCancelled, of_attempt.UNWANTED, False)  # noqa: FBT003 - a field

    def _preempt(self) -> None:
        """Have the least urgent attempt give way, where something more urgent waits for its slot, or its worker."""
        held = self._engine.attempts.held.values()
        worst = max((each.rank for each in held), default=0)
        heads = [head for head in self.queue.heads() if head[2][0].state.task.priority < worst]
        for key, _, (run, _unit) in sorted(heads, key=lambda head: head[1].rank):
            victims = [each for each in self._in_the_way(key) if each.rank > run.state.task.priority]
            if any(each.ended_by == "preempt" for each in victims):
                continue
            able = [each for each in victims if self._may_preempt(each)]
            if able:
                victim = max(able, key=lambda each: (each.rank, each.started or 0.0))
                self._engine.limits.end(victim, "preempt")
                return

    def _in_the_way(self, key: LaneKey) -> Iterator[Attempt]:
        """Yield the attempts whose end would let a lane start: those of its workers; of its scope, if that is full."""
        scope, held = self._engine.service.scopes.get(key.scope), self._engine.attempts.held
        if scope is None or not scope.is_up:
            return
        primaries = [entry for entry in scope.workers.primaries(key) if entry.admits(self._engine.now)]
        is_full = scope.running >= scope.settings.max_parallel
        if is_full and any(entry.has_room() for entry in primaries):
            yield from (each for each in held.values() if each.owner is scope and each.has_slot and each.is_work)
            return
        for entry in primaries:
            yield from (held[each] for each in entry.attempts if each in held)

    def _may_preempt(self, attempt: Attempt) -> bool:
        run = self._engine.runs.get(attempt.task)
        unit = run.state.units.get(attempt.spec.unit) if run is not None else None
        may = attempt.spec.preemptible and attempt.ended_by is None and not attempt.done and attempt.has_slot
        return may and unit is not None and unit.preemptions < attempt.owner.settings.max_preemptions
