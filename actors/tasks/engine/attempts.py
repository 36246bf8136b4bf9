"""Attempts at the subtasks of all tasks: who is next, with whom, and what becomes of each.

A subtask that is ready stands in line. When a worker and a slot are free it gets both, its start is recorded, and once
that is kept the attempt is put into the worker's mailbox. A slot is given back on every path on which an attempt ends.
A team holds no slot: what it has is a part of the task with units of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from actors.messaging.envelope import MessageContext
from actors.tasks.decide import attempt as of_attempt
from actors.tasks.decide import ends
from actors.tasks.engine.breakers import Breakers
from actors.tasks.engine.classify import classify, dead_end_met
from actors.tasks.engine.making import attempt_spec, key_of
from actors.tasks.execution.attempt import Attempt
from actors.tasks.execution.error_facts import NEUTRAL
from actors.tasks.journal.unit import LOST, Unit
from actors.tasks.model import task_events
from actors.tasks.model.attempt_end import LOST as ENDED_LOST
from actors.tasks.model.attempt_end import STOP, AttemptEnded
from actors.tasks.model.outcome import Done, Failure, FailureKind
from actors.tasks.model.task import NO_USAGE, QUEUED, RUNNING, TaskStatus
from actors.tasks.model.task_errors import AttemptLostError
from actors.tasks.scheduling.ready_queue import LaneKey, ReadyQueue, Ticket
from actors.tasks.scheduling.selection import choose_worker, lane_of, no_worker_failure

if TYPE_CHECKING:
    from actors.tasks.decide.drafts import Draft
    from actors.tasks.engine.engine import Engine
    from actors.tasks.engine.run import Run
    from actors.tasks.engine.scope import Scope
    from actors.tasks.execution.error_facts import Outcome
    from actors.tasks.scheduling.worker_registry import RegistryEntry

FIRST_PAUSE_S: Final = 0.05
"""How soon something begins once more that was cut off."""
MOST_PAUSE_S: Final = 1.0


class Row:
    """One attempt that holds a worker, and what the engine has to know of it."""

    __slots__ = ("attempt", "breaker_token", "entry", "has_slot", "path", "rank", "scope")

    def __init__(self, attempt: Attempt, scope: Scope, entry: RegistryEntry | None, path: str, rank: int) -> None:
        self.attempt, self.scope, self.entry, self.path, self.rank = attempt, scope, entry, path, rank
        self.breaker_token = 0
        """Token of its worker's breaker; 0: its end counts for nothing there."""
        self.has_slot = True
        """False while it waits for what it has asked for."""


class TeamRow:
    """One part of a task that a team has."""

    __slots__ = ("breaker_token", "entry", "part")

    def __init__(self, entry: RegistryEntry, run: Run, unit: Unit) -> None:
        self.entry: RegistryEntry | None = entry
        self.part = run, unit
        self.breaker_token = 0


class Attempts:
    """Attempts of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.queue: ReadyQueue[tuple[Run, Unit]] = ReadyQueue(engine.scope.settings.age_s)
        self.rows: dict[str, Row] = {}
        """Attempts that run, or are about to, by key."""
        self._tickets: dict[Unit, Ticket[tuple[Run, Unit]]] = {}
        self._teams: dict[str, TeamRow] = {}
        """Parts that teams have, by key."""
        self._suspect: str | None = None
        """Key of the attempt on its last chance that runs: all others on theirs wait for it."""
        self._suspects: list[tuple[Run, Unit]] = []
        self._pauses: dict[Unit, float] = {}
        """By what was cut off once or more in a row, the last pause after that, in seconds."""
        self.paused: set[Unit] = set()
        """Subtasks and undos whose pause is not over."""
        self.breakers = Breakers(engine)

    # -- in line -------------------------------------------------------------------------------------------

    def enqueue(self, run: Run, unit: Unit) -> None:
        """Put a subtask in line that is recorded as queued; what was asked for waits as long as nobody waits for it."""
        if unit.status is not QUEUED or unit in self.paused or not self._engine.asks.is_claimed(run, unit):
            return
        state = run.state
        known = self._tickets.get(unit)
        if known is not None:
            self.queue.withdraw(known)
        key = lane_of(state, unit)
        deadline = math.inf if state.deadline is None else state.deadline
        since = unit.queued_at - unit.queued_s - self._engine.service.epoch
        self._tickets[unit] = self.queue.push(
            key, state.task.priority, deadline, (run, unit), born=state.born, since=since
        )

    def leave(self, run: Run, unit: Unit) -> None:  # noqa: ARG002 - as enqueue
        """Take a subtask out of the line, where it stands in it."""
        ticket = self._tickets.pop(unit, None)
        if ticket is not None:
            self.queue.withdraw(ticket)

    def requeue_all(self, run: Run) -> None:
        """Others may do what waits now than before, or it has another rank."""
        for unit in run.state.units.values():
            if unit.status is QUEUED:
                self.enqueue(run, unit)

    def rank(self, run: Run) -> None:
        """Have all that waits and all that runs of a task take its priority."""
        priority = run.state.task.priority
        for row in self._rows_of(run):
            row.rank += priority - row.attempt.priority
            row.attempt.priority = priority
        self.requeue_all(run)

    def forget(self, run: Run) -> None:
        """Forget a task that is over."""
        for unit in run.state.units.values():
            self.leave(run, unit)
            self.goes_on(unit)

    def pump(self) -> bool:
        """Start what can start now; True where something could not, and its task is to be looked at."""
        found = True
        self._release_suspects()
        self._engine.asks.let_return()
        while found:
            taken = self.queue.take_next(self._serve)
            if taken is None:
                return self._preempt()
            ticket, (run, unit), served = taken
            self._tickets.pop(unit, None)
            if not self._may_start(run, unit):
                continue
            self._engine.decide(run, self._start, run, unit, served, ticket)
            found = not run.state.touched
        return True

    def _may_start(self, run: Run, unit: Unit) -> bool:
        """Look again at what was first in line: it may have been left behind by what has happened since."""
        engine = self._engine
        if engine.runs.get(run.id) is not run or unit.status is not QUEUED or engine.begins_nothing_of(run):
            return False
        if not _goes_on_above(unit):
            return False
        if unit.course is not None and any(row.path.startswith(f"{unit.path}/") for row in self._rows_of(run)):
            return False  # what a team had begun of it has yet to end: see ``hear``
        if self._suspect is not None and _is_suspect(unit, engine.scope_of(unit)):
            self._suspects.append((run, unit))
            return False
        return True

    def _release_suspects(self) -> None:
        row = self.rows.get(self._suspect) if self._suspect is not None else None
        if self._suspects and (row is None or not row.has_slot):
            self._suspect = None
            those, self._suspects = self._suspects, []
            for run, unit in those:
                self.enqueue(run, unit)

    def _serve(self, key: LaneKey) -> RegistryEntry | Failure | None:
        scope = self._engine.service.scopes.get(key.scope)
        if scope is None:
            return None  # its supervisor is not in the tree: it waits
        if not scope.is_up:
            scope.lanes.add(key)
            return None
        chosen = choose_worker(scope.workers, key, self._engine.time())
        needs_slot = not isinstance(chosen, Failure) and chosen is not None and not chosen.is_team
        if needs_slot and scope.running >= scope.settings.max_parallel:
            scope.lanes.add(key)
            return None
        return chosen

    def _start(self, run: Run, unit: Unit, served: Any, ticket: Ticket[Any]) -> None:
        scope = self._engine.scope_of(unit)
        if scope is None:
            return
        if isinstance(served, Failure):
            failure = no_worker_failure(run.state, unit, scope.workers)
            facts = self._engine.facts(scope)
            run.record(of_attempt.failed(unit, failure, None, facts, self._engine.question_id(run, unit)))
        elif served.is_team:
            self._begin_team(run, unit, served)
        else:
            rank = self.queue.present_priority(ticket, self._engine.system.now())
            self._begin(run, unit, scope, served, rank)

    # -- one attempt ---------------------------------------------------------------------------------------

    def _begin(self, run: Run, unit: Unit, scope: Scope, entry: RegistryEntry, rank: int) -> None:
        started = run.emit(
            unit,
            task_events.SubtaskStarted,
            entry.id,
            unit.made + 1,
            unit.epoch,
            entry.executable.undo is not None,
        )
        attempt = Attempt(attempt_spec(self._engine, run, unit, scope, entry))
        box = entry.assign(attempt.key)
        if box is not None:
            attempt.target = box
        row = self._hold(Row(attempt, scope, entry, unit.path, rank))
        self._engine.asks.refuse_joined(attempt)
        if _is_suspect(unit, scope):
            self._suspect = attempt.key
        self.breakers.begin(row, entry, started.at)
        run.act(self._give, attempt)
        self._engine.limits.watch(attempt, unit, entry)

    def _hold(self, row: Row) -> Row:
        """Take a slot for an attempt, which outlives this engine from here on."""
        self._engine.service.attempts[row.attempt.key] = row.attempt
        self.rows[row.attempt.key] = row
        row.scope.running += 1
        return row

    def _give(self, attempt: Attempt) -> None:
        """Put an attempt into the mailbox of its worker, unless it has been ended since it was decided upon."""
        if attempt.done or not self._engine.service.may_start() or not attempt.give_once():
            return
        box: Any = attempt.target
        refusal = box.put_unbounded((attempt, attempt, attempt.origin(MessageContext)))
        if refusal is not None:
            attempt.refuse(self._engine.system.stopped_error(box.path, refusal))

    def hear(self, attempt: Attempt) -> None:
        """An attempt has ended: its slot is given back, and what follows is decided."""
        engine = self._engine
        if attempt.spec.role != "work":
            engine.roles.hear(attempt)
            return
        row = self.rows.pop(attempt.key, None)
        run = engine.runs.get(attempt.task)
        if row is None or row.attempt is not attempt:
            if row is not None:
                self.rows[attempt.key] = row
            engine.service.forget(attempt)  # heard already
            return
        unit = run.state.units.get(row.path) if run is not None else None
        is_current = unit is not None and unit.status is RUNNING and unit.seq == attempt.spec.start_number
        if run is not None and unit is not None and is_current:
            engine.decide(run, self._ended, run, unit, row)
        else:
            self.breakers.left(row)
        if run is not None:
            engine.decide(run, self.count, run, attempt)
            run.act(engine.service.forget, attempt)
        else:
            engine.service.forget(attempt)
        engine.asks.attempt_ended(attempt)
        self._release(row)
        if run is not None and unit is not None and not _goes_on_above(unit):
            for each in unit.upwards():  # a team that has it once more waits for the end of all that ran of it
                self.enqueue(run, each)

    def _release(self, row: Row) -> None:
        if row.has_slot:
            row.scope.running -= 1
        entry = row.entry
        if entry is not None:
            entry.release(row.attempt.key, was_refused=row.attempt.was_refused)
            self.reopen(entry)
        self.reopen_scope(row.scope)

    def reopen_scope(self, scope: Scope) -> None:
        """A slot of a scope is free: the lanes that wait for one are looked at."""
        lanes, scope.lanes = scope.lanes, set()
        for key in lanes:
            self.queue.reopen(key)

    def reopen(self, entry: RegistryEntry) -> None:
        """A worker has room again, or is gone: those who wait for it may be served otherwise."""
        lanes, entry.lanes = entry.lanes, set()
        for key in lanes:
            self.queue.reopen(key)

    def _ended(self, run: Run, unit: Unit, row: Row) -> None:
        attempt, entry = row.attempt, row.entry
        before = NO_USAGE if unit.spec.budget is None else unit.total_usage
        limit_of = partial(_limit_of, unit, entry)
        outcome = classify(attempt, limit_of, before, is_ending=self._engine.is_ending)
        if outcome is NEUTRAL:
            run.has_left = run.has_left or self._engine.system.is_ending
            if (dead_end := dead_end_met(attempt)) is not None:
                self.pause(run, unit)
                self._engine.asks.met_dead_end(run, unit, dead_end)
        else:
            self.goes_on(unit)
        self._record_end(run, unit, row, outcome)

    def _record_end(self, run: Run, unit: Unit, row: Row, outcome: Outcome) -> None:
        attempt, entry = row.attempt, row.entry
        if isinstance(outcome, Done):
            self.breakers.ended(row, unit, outcome, is_left=True)
            used = attempt.take_used()
            more = {"usage": used, "summary": outcome.summary, "importance": outcome.importance}
            more["tokens"] = attempt.code_outcome.tokens
            run.emit(unit, task_events.SubtaskSucceeded, attempt.spec.worker, unit.attempt, outcome.value, **more)
            return
        began = attempt.started is not None
        end = of_attempt.AttemptEnd(attempt.spec.worker, began, attempt.ended_by, attempt.take_used())
        facts, escalation = self._engine.facts(row.scope), self._engine.question_id(run, unit)
        is_wanted = self._engine.asks.is_wanted(run, unit)
        following = of_attempt.after(unit, end, outcome, facts, escalation=escalation, is_wanted=is_wanted)
        if entry is not None and self.breakers.ended(
            row, unit, outcome, is_left=not of_attempt.goes_on_with(following, unit)
        ):
            following = following.with_fields(counted=True)
        run.record(following)

    def pause(self, run: Run, unit: Unit) -> None:
        """Have one that was cut off wait a moment: the group of its worker is being restarted, which may take long."""
        pause = self._pauses[unit] = min(2 * self._pauses.get(unit, FIRST_PAUSE_S / 2), MOST_PAUSE_S)
        self.paused.add(unit)

        def is_over(engine: Engine) -> None:
            engine.attempts.paused.discard(unit)
            if engine.runs.get(run.id) is not run:
                return  # another engine has taken up the task, and pauses for nothing
            if unit.role == "work":
                engine.attempts.enqueue(run, unit)
            else:
                run.state.touch(unit)
                engine.dirty[run.id] = run

        self._engine.at(self._engine.time() + pause, is_over)

    def goes_on(self, unit: Unit) -> None:
        """Note that something was not cut off this time."""
        self._pauses.pop(unit, None)

    def count(self, run: Run, attempt: Attempt) -> None:
        """Record what an attempt has used up that no other record has."""
        if attempt.unrecorded is NO_USAGE or run.state.final is not None:
            return
        role = attempt.spec.role
        unit = run.state.units.get(attempt.spec.unit)
        used = attempt.take_used()
        if unit is None or used is NO_USAGE:
            return
        if role == "undo" and unit.undo is not None:
            unit = unit.undo
        elif role not in {"work", "undo"} and unit.course is not None:
            unit = unit.course.call(role)
        run.emit(unit, task_events.UsageTold, used, attempt.spec.worker if unit.role == "work" else "")

    def reported(self, attempt: Attempt) -> None:
        """An attempt has used up something, or is held up by code beside its work that takes too long."""
        run = self._engine.runs.get(attempt.task)
        if run is not None:
            self._engine.decide(run, self.count, run, attempt)
        if attempt.overdue is not None and attempt.ended_by is None:
            self._engine.limits.end(attempt, "timeout", at_once=True)

    # -- teams ---------------------------------------------------------------------------------------------

    def _begin_team(self, run: Run, unit: Unit, entry: RegistryEntry) -> None:
        timeout_s = unit.spec.timeout_s if unit.spec.timeout_s is not None else entry.executable.timeout_s
        due = None if timeout_s is None else self._engine.time() + timeout_s
        undoable = entry.executable.undo is not None
        more = {"is_team": True, "due": due}
        run.emit(unit, task_events.SubtaskStarted, entry.id, unit.made + 1, unit.epoch, undoable, **more)
        self._has_team(run, unit, entry)

    def _has_team(self, run: Run, unit: Unit, entry: RegistryEntry) -> None:
        key = key_of(run, unit)
        entry.attempts[key] = None
        row = self._teams[key] = TeamRow(entry, run, unit)
        self.breakers.begin(row, entry, unit.started_at)
        self._engine.service.begin_part(run.state, unit)
        self._engine.limits.watch_team(run, unit, entry)
        self._engine.dirty[run.id] = run

    def part(self, key: str) -> tuple[Run, Unit] | None:
        """Return the part that a team has under this key."""
        row = self._teams.get(key)
        return row.part if row is not None else None

    def adopt_team(self, run: Run, unit: Unit) -> None:
        """Go on with the part that a team has; where the team is gone somebody else may have it."""
        scope = self._engine.scope_of(unit)
        entry = scope.workers.get(unit.worker) if scope is not None else None
        if scope is None or self._engine.service.scopes.get(f"{unit.scope}/{unit.worker}") is None:
            return  # its supervisor is not in the tree: it waits
        if entry is None or not entry.is_team or entry.is_gone:
            run.emit(unit, task_events.SubtaskRequeued, "stopped", unit.worker or "")
        else:
            self._has_team(run, unit, entry)

    def team_failed(self, run: Run, unit: Unit, failure: Failure, end: of_attempt.AttemptEnd) -> Draft:
        """Return the record that follows from the failure of a team."""
        facts, escalation = self._engine.facts(self._engine.scope_of(unit)), self._engine.question_id(run, unit)
        is_wanted = self._engine.asks.is_wanted(run, unit)
        return of_attempt.after(unit, end, failure, facts, escalation=escalation, is_wanted=is_wanted)

    def record_team_failed(self, run: Run, unit: Unit, failure: Failure, following: Draft) -> None:
        """Record that, and tell the breaker of the team."""
        row = self._teams.get(key_of(run, unit))
        is_left = not of_attempt.goes_on_with(following, unit)
        if row is not None and self.breakers.ended(row, unit, failure, is_left=is_left):
            following = following.with_fields(counted=True)
        run.record(following)

    def team_ended(self, run: Run, unit: Unit, *, succeeded: bool = False) -> None:
        """A team has no part of a task any more: it has room for another one."""
        row = self._teams.pop(key_of(run, unit), None)
        if row is None or row.entry is None:
            return
        self._engine.service.end_part(run.state, unit)
        if succeeded:
            self.breakers.ended(row, unit, Done(None), is_left=True)
        else:
            self.breakers.left(row)
        row.entry.attempts.pop(key_of(run, unit), None)
        self.reopen(row.entry)

    def worker_changed(self, entry: RegistryEntry) -> None:
        """A worker, or a team, stands somewhere else now."""
        if entry.is_team:
            if entry.is_gone:
                self._team_gone(entry)
            team = self._engine.service.scopes.get(entry.path)
            if team is not None:
                self.reopen_scope(team)
        self.reopen(entry)
        self._engine.asks.look_at_all()

    def _team_gone(self, entry: RegistryEntry) -> None:
        """A team is down for good: what it had goes to somebody else."""
        for key in list(entry.attempts):
            task, _, path = key.partition("@")
            run = self._engine.runs.get(task)
            unit = run.state.units.get(path.rpartition("#")[0]) if run is not None else None
            if run is None or unit is None or unit.status is not RUNNING or key_of(run, unit) != key:
                continue
            self.end_below(run, unit)
            self._engine.decide(run, self._requeue_team, run, unit)

    def _requeue_team(self, run: Run, unit: Unit) -> None:
        self._engine.roles.end_calls_of(run, unit)
        self.team_ended(run, unit)
        run.emit(unit, task_events.SubtaskRequeued, "stopped", unit.worker or "")

    # -- ended from outside --------------------------------------------------------------------------------

    def _rows_of(self, run: Run) -> list[Row]:
        return [row for row in self.rows.values() if row.attempt.task == run.id]

    def of(self, run: Run, unit: Unit) -> Row | None:
        """Return the attempt that a subtask has now."""
        row = self.rows.get(key_of(run, unit))
        return row if row is not None and row.attempt.spec.start_number == unit.seq else None

    def end_below(self, run: Run, unit: Unit, why: str = "cancel") -> None:
        """Have all attempts end that are a part of a unit."""
        prefix = f"{unit.path}/" if unit.path else ""
        for row in self._rows_of(run):
            if row.path.startswith(prefix):
                self._engine.limits.end(row.attempt, why)

    def withdraw(self, run: Run, unit: Unit) -> None:
        """End a subtask that was asked for and that nobody waits for any longer."""
        if unit.is_done:
            return
        row = self.of(run, unit)
        if row is not None:
            self._engine.limits.end(row.attempt, "withdrawn")
        elif unit.status is RUNNING and unit.is_composite:
            self._engine.end(run, unit, TaskStatus.CANCELLED, "cancel", of_attempt.UNWANTED)
        else:
            self.leave(run, unit)
            run.record(ends.unwanted(unit))

    def let_go_of(self, task: str) -> None:
        """End all attempts of a task that nobody goes on with."""
        for row in [row for row in self.rows.values() if row.attempt.task == task]:
            self._engine.limits.end(row.attempt, "cancel")

    def closes(self) -> None:
        """All is being stopped: record what has ended by now, and what was broken off by that."""
        for row in list(self.rows.values()):
            if row.attempt.done:
                self.hear(row.attempt)
            else:
                run = self._engine.runs.get(row.attempt.task)
                if run is not None:
                    self._engine.decide(run, self.count, run, row.attempt)

    # -- adoption ------------------------------------------------------------------------------------------

    def adopt(self, run: Run, unit: Unit) -> None:
        """A subtask whose attempt was under way when the last engine ended: wait for it, or run it again."""
        engine = self._engine
        attempt = engine.service.attempts.get(key_of(run, unit))
        if attempt is not None and attempt.spec.start_number != unit.seq:
            attempt = None  # one from before, of which all is recorded
        scope = engine.scope_of(unit)
        if scope is None:
            return  # its supervisor is not in the tree: it waits
        if attempt is None:
            self._is_lost(run, unit, scope)
            return
        entry = scope.workers.get(unit.worker)
        row = self._hold(Row(attempt, scope, entry, unit.path, attempt.priority))
        engine.asks.waits(attempt)
        if not _goes_on_above(unit):
            engine.limits.end(attempt, "cancel")
        if _is_suspect(unit, scope):
            self._suspect = attempt.key
        if entry is not None:
            entry.reassign(attempt.key, attempt.target, was_refused=attempt.was_refused)  # type: ignore[arg-type]
            self.breakers.resume(row, unit)
            engine.limits.watch(attempt, unit, entry)
        if not attempt.was_given:
            run.act(self._give, attempt)
        if attempt.done:
            engine.port.tell(attempt)  # its outcome may have come while there was no engine
        elif attempt.ended_by is not None:
            engine.limits.replace_after_grace(attempt)

    def _is_lost(self, run: Run, unit: Unit, scope: Scope) -> None:
        """Its process is gone: it runs once more, unless its task is ending, or that has happened too often."""
        if of_attempt.is_cut_off(unit):
            reason = of_attempt.reason_of(unit)
            run.emit(unit, task_events.SubtaskCancelled, reason, True, unit.worker or "")  # noqa: FBT003 - a field
            return
        losses = unit.losses + 1
        if losses < scope.settings.max_losses:
            ended_at = self._engine.heard_last(run)
            run.emit(unit, task_events.SubtaskRequeued, LOST, unit.worker or "", ended_at=ended_at)
            return
        attempt = Attempt(attempt_spec(self._engine, run, unit, scope, None))
        attempt.end_for(ENDED_LOST)
        attempt.fail(AttemptEnded(ENDED_LOST))
        entry = scope.workers.get(unit.worker)
        row = Row(attempt, scope, entry, unit.path, run.state.task.priority)
        if entry is not None:
            self.breakers.begin(row, entry, self._engine.time())
        failure = Failure(FailureKind.LOST, AttemptLostError(unit.id, losses), counts=True)
        self._record_end(run, unit, row, failure)

    def drop_stale(self) -> None:
        """Forget attempts of an engine before of which all is recorded, and that nobody waits for."""
        held = {*self.rows, *self._engine.roles.live}
        for key, attempt in list(self._engine.service.attempts.items()):
            if key not in held and attempt.owner.port is self._engine.port:
                self._engine.service.forget(attempt)
                if not attempt.done:
                    self._engine.limits.end(attempt, STOP)

    # -- preemption ----------------------------------------------------------------------------------------

    def _preempt(self) -> bool:
        """Have the least urgent attempt give way, where something more urgent waits for its slot, or its worker."""
        if not self.queue:
            return False
        ranks = {row.rank for row in self.rows.values()}
        if len(ranks | {run.state.task.priority for run in self._engine.runs.values()}) <= 1:
            return False
        worst = max((row.rank for row in self.rows.values()), default=0)
        heads = [head for head in self.queue.heads() if head[2][0].state.task.priority < worst]
        for key, _, (run, _unit) in sorted(heads, key=lambda head: head[1].rank):
            victims = [row for row in self._in_the_way(key) if row.rank > run.state.task.priority]
            if any(row.attempt.gives_way for row in victims):
                continue
            able = [row for row in victims if self._may_preempt(row)]
            if able:
                victim = max(able, key=lambda row: (row.rank, row.attempt.started or 0.0))
                self._engine.limits.end(victim.attempt, "preempt")
                break
        return False

    def _in_the_way(self, key: LaneKey) -> Iterator[Row]:
        """Yield attempts whose end would be of use to a lane: those of its workers; of its scope, if that is full."""
        scope = self._engine.service.scopes.get(key.scope)
        if scope is None or not scope.is_up:
            return
        now = self._engine.time()
        primaries = [entry for entry in scope.workers.primaries(key) if entry.admits(now)]
        is_full = scope.running >= scope.settings.max_parallel
        if is_full and any(entry.has_room() for entry in primaries):
            yield from (row for row in self.rows.values() if row.scope is scope and row.has_slot)
            return
        for entry in primaries:
            yield from (row for each in entry.attempts if (row := self.rows.get(each)) is not None)

    def _may_preempt(self, row: Row) -> bool:
        attempt = row.attempt
        run = self._engine.runs.get(attempt.task)
        unit = run.state.units.get(row.path) if run is not None else None
        may = attempt.spec.preemptible and attempt.ended_by is None and not attempt.done and row.has_slot
        return may and unit is not None and unit.preemptions < row.scope.settings.max_preemptions


def _is_suspect(unit: Unit, scope: Scope | None) -> bool:
    """Return True for what has perhaps ended process after process, and is on its last chance."""
    return scope is not None and unit.losses >= max(1, scope.settings.max_losses - 1)


def _goes_on_above(unit: Unit) -> bool:
    """Return False where a team that a unit is in does not have its part now."""
    for each in unit.over:  # noqa: SIM110 - as in ``Unit.is_ending``
        if each.status is not RUNNING:
            return False
    return True


def _limit_of(unit: Unit, entry: RegistryEntry | None, name: str) -> float:
    own: float | None = getattr(unit.spec, name)
    theirs: float | None = getattr(entry.executable, name) if entry is not None else None
    return own if own is not None else theirs or 0.0
