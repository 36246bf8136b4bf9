"""Attempts of all units: what each holds, what becomes of it, and how it is found again.

An attempt at a subtask holds a worker and a slot of its scope; a call of a planner, reviewer or synthesizer, and an
undo, hold one of the ``max_steps``. Its start is recorded first. Once that is kept it is given to whoever does it. What
it holds is given back on every path on which it ends. Who is next is decided in ``dispatch``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from actors.messaging.envelope import STOP, MessageContext
from actors.messaging.message_errors import ActorStoppedError
from actors.model.errors import Later
from actors.model.raised import is_a, origins_of
from actors.tasks.decide import attempt as of_attempt
from actors.tasks.engine.making import key_of
from actors.tasks.execution.attempt import Attempt
from actors.tasks.execution.error_facts import NEUTRAL
from actors.tasks.journal.unit import LOST, STAGES, Unit
from actors.tasks.model import (
    NO_USAGE,
    RUNNING,
    AttemptEnded,
    AttemptTimeoutError,
    BudgetExceededError,
    Done,
    Failure,
    FailureKind,
    Usage,
    live_events,
    task_events,
    text_of,
    usage_of,
)

if TYPE_CHECKING:
    from actors.tasks.engine.engine import Engine
    from actors.tasks.engine.run import Run
    from actors.tasks.engine.scope import Scope
    from actors.tasks.execution.error_facts import Outcome
    from actors.tasks.model import TimeoutPhase
    from actors.tasks.scheduling.circuit_breaker import CircuitBreaker
    from actors.tasks.scheduling.worker_registry import RegistryEntry

PAUSE_S = 0.25
"""Seconds before a unit starts again whose worker was stopped: the group of that worker is just being restarted."""
_TURNS: Final = {
    "open": live_events.BreakerOpened,
    "half_open": live_events.BreakerHalfOpened,
    "closed": live_events.BreakerClosed,
}


class Attempts:
    """Attempts of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.held: dict[str, Attempt] = {}
        """By key, the attempts that hold a slot, a worker, or a place among the calls of roles."""

    def of_task(self, run: Run) -> list[Attempt]:
        """Return all attempts of a task."""
        return [each for each in self.held.values() if each.task == run.id]

    def is_held(self, attempt: Attempt) -> bool:
        """Return True from the record of its start until the engine has heard of its end."""
        return self.held.get(attempt.key) is attempt

    def of(self, run: Run, unit: Unit) -> Attempt | None:
        """Return the attempt that a unit has now."""
        found = self.held.get(key_of(run, unit))
        return found if found is not None and found.spec.start_number == unit.seq else None

    # -- beginning -----------------------------------------------------------------------------------------

    def begin(self, run: Run, attempt: Attempt, entry: RegistryEntry | None = None, *, rank: int) -> None:
        """Have an attempt made, once its start is kept."""
        self.hold(attempt, entry, rank=rank)
        run.act(self.give, attempt)
        self._engine.limits.watch(attempt)

    def hold(self, attempt: Attempt, entry: RegistryEntry | None = None, *, rank: int) -> None:
        """Take a slot for an attempt, which outlives this engine from here on; none if it has one by this engine."""
        if self.held.get(attempt.key) is attempt:
            return
        attempt.entry, attempt.rank, attempt.has_slot = entry, rank, True
        self._engine.service.attempts[attempt.key] = self.held[attempt.key] = attempt
        if attempt.is_work:
            attempt.owner.running += 1
        else:
            attempt.owner.steps += 1

    def give(self, attempt: Attempt) -> None:
        """Give an attempt to whoever does it, unless it has been ended since it was decided upon."""
        if attempt.done or not self._engine.service.may_start() or not attempt.give_once():
            return
        if attempt.call is not None:
            attempt.call.incarnation.start()
            return
        box: Any = attempt.target
        refusal = box.put_unbounded((attempt, attempt, attempt.origin(MessageContext)))
        if refusal is not None:
            attempt.fail(self._engine.system.stopped_error(box.path, refusal))

    # -- its end -------------------------------------------------------------------------------------------

    def hear(self, attempt: Attempt) -> None:
        """Take the end of an attempt: decide what follows, and give its slot and its worker back."""
        engine = self._engine
        if not self.is_held(attempt):
            engine.service.forget(attempt)  # heard already
            return
        del self.held[attempt.key]
        run = engine.runs.get(attempt.task)
        if run is None:
            self.tell_breaker(attempt.entry, attempt.key, fails=None)
            engine.service.forget(attempt)
        else:
            engine.decide(run, self._has_ended, run, attempt)
        if attempt.is_work and (attempt.asks or (run is not None and run.state.has_asks)):
            engine.asks.attempt_ended(attempt)
        self._release(attempt)
        if run is not None and "/" in attempt.spec.unit:
            engine.dispatch.has_ended_below(run, attempt.spec.unit)

    def _has_ended(self, run: Run, attempt: Attempt) -> None:
        engine, found = self._engine, self.present(attempt)
        if found is None:
            self.tell_breaker(attempt.entry, attempt.key, fails=None)
        else:
            unit = found[1]
            before = NO_USAGE if unit.spec.budget is None or not attempt.is_work else unit.total_usage
            outcome = _outcome_of(attempt, before, is_ending=engine.closing or engine.system.is_ending)
            if outcome is NEUTRAL:
                run.has_left = run.has_left or engine.system.is_ending
            if attempt.is_work:
                self._work_ended(run, unit, attempt, outcome)
            elif unit.role == "undo" or (goes_on_above(unit) and not unit.is_ending):
                self._call_ended(run, unit, attempt, outcome)
        if attempt.unrecorded is not NO_USAGE:
            self.count(run, attempt)
        run.act(self._engine.service.forget, attempt)

    def present(self, attempt: Attempt) -> tuple[Run, Unit] | None:
        """Return the unit whose present attempt this is, and its task; None: it has another one, or none."""
        run, spec = self._engine.runs.get(attempt.task), attempt.spec
        try:
            unit = run.state.find(spec.unit, spec.role) if run is not None else None
        except LookupError:
            return None
        is_present = unit is not None and unit.status is RUNNING and unit.seq == spec.start_number
        return (run, unit) if is_present else None  # type: ignore[return-value]  # both are there

    def _release(self, attempt: Attempt) -> None:
        scope, entry = attempt.owner, attempt.entry
        if not attempt.is_work:
            scope.steps -= 1
            self._engine.roles.reopen(scope)
        elif attempt.has_slot:
            scope.running -= 1
        if entry is not None:
            entry.release(attempt.key)
            if entry.lanes:
                self.reopen(entry)
        if scope.lanes:
            self.reopen(scope)

    def reopen(self, who: Scope | RegistryEntry) -> None:
        """Look again at the lanes that wait for a slot of a scope, or for a worker."""
        lanes, who.lanes = who.lanes, set()
        for key in lanes:
            self._engine.dispatch.queue.reopen(key)

    def _work_ended(self, run: Run, unit: Unit, attempt: Attempt, outcome: Outcome) -> None:
        if isinstance(outcome, Done):
            self.tell_breaker(attempt.entry, attempt.key, fails=False)
            more = {"usage": attempt.take_used(), "summary": outcome.summary, "importance": outcome.importance}
            run.emit(unit, task_events.SubtaskSucceeded, attempt.spec.worker, unit.attempt, outcome.value, **more)
            return
        if outcome is NEUTRAL and attempt.is_own_error and attempt.ended_by is None:
            self.pause(run, unit)  # it has failed of somebody who is stopped: so would the next one
        end = of_attempt.AttemptEnd(
            attempt.spec.worker, attempt.started is not None, attempt.ended_by, attempt.take_used()
        )
        self.fails(run, unit, outcome, end, attempt.entry)

    def _call_ended(self, run: Run, unit: Unit, attempt: Attempt, outcome: Outcome) -> None:
        """Record the end of an undo, or of a call of a planner, reviewer or synthesizer."""
        if outcome is not NEUTRAL:
            if isinstance(outcome, Later):  # nobody may put off a step or an undo
                outcome = Failure(FailureKind.FAILED, outcome, told=text_of(outcome))
            ended = self._engine.undos.ended if unit.role == "undo" else self._engine.roles.ended
            ended(run, unit, attempt, outcome)
            return
        if unit.role == "undo":
            self.pause(run, unit)
        run.emit(unit, task_events.SubtaskRequeued, "stopped", usage=attempt.take_used())

    def fails(
        self,
        run: Run,
        unit: Unit,
        outcome: Outcome,
        end: of_attempt.AttemptEnd,
        entry: RegistryEntry | None,
    ) -> None:
        """Record what follows from the end of an attempt, or of a team, without a result; its breaker is told."""
        facts = self._engine.facts(run, unit)._replace(is_wanted=self._engine.asks.is_wanted(run, unit))
        following = of_attempt.after(unit, end, outcome, facts)  # type: ignore[arg-type]  # no Done
        fails = isinstance(outcome, Failure) and entry is not None and entry.counts(outcome)
        is_left = not of_attempt.goes_on_with(following, unit)
        self.tell_breaker(entry, key_of(run, unit), fails=fails or None, is_left=is_left)
        if fails:
            following = following.with_fields(at_fault=True)
        run.record(following)

    def tell_breaker(
        self,
        entry: RegistryEntry | None,
        key: str,
        *,
        begins: bool = False,
        fails: bool | None = None,
        is_left: bool = True,
    ) -> None:
        """Tell the breaker of a worker that an attempt begins, which may be its probe, or how it has ended.

        Breakers are kept in memory only: they stay with their workers when there is a new engine, and in a new process
        each begins closed.

        Args:
            entry: the worker; None: nobody is told.
            key: of the attempt.
            begins: True if it begins, else it has ended.
            fails: whether its end counts as a failure; None: it says nothing of the worker.
            is_left: False if the subtask is tried again with this worker. What a retry mends is no failure; while the
                breaker is half open, the first attempt decides.
        """
        breaker = entry.breaker if entry is not None else None
        if entry is None or breaker is None:
            return
        before, now = breaker.state, self._engine.now
        if begins:
            breaker.begin(key, now)
        else:
            breaker.ended(key, now, fails=fails if is_left or not fails or breaker.probe == key else None)
        if breaker.state != before:
            turn = _TURNS[breaker.state](entry.path, now, breaker.state, breaker.failures, breaker.opened_at)
            self._engine.system.publish(turn)
            self.look_at_breaker(entry, breaker)

    def look_at_breaker(self, entry: RegistryEntry, breaker: CircuitBreaker) -> None:
        """Look again, once an open breaker admits a probe, at what waits for its worker, or for others meanwhile."""
        wait_s = breaker.retry_in_s(self._engine.now)
        if not wait_s:
            self.reopen(entry)
        elif breaker.state == "open":
            due = self._engine.now + wait_s
            self._engine.at(due, lambda engine: engine.attempts.look_at_breaker(entry, breaker))

    def pause(self, run: Run, unit: Unit) -> None:
        """Start a unit whose worker was stopped only after ``PAUSE_S``."""
        run.paused = (*run.paused, unit)
        run.at(self._engine.now + PAUSE_S, self._has_paused, run, unit)

    def _has_paused(self, run: Run, unit: Unit) -> None:
        run.paused = tuple(each for each in run.paused if each is not unit)
        if unit.role == "work":
            self._engine.dispatch.enqueue(run, unit)
        else:
            run.state.touch(unit)

    def count(self, run: Run, attempt: Attempt) -> None:
        """Record what an attempt has used up that no other record has."""
        if run.state.final is not None:
            return
        used = attempt.take_used()
        if used is NO_USAGE:
            return
        try:
            unit = run.state.find(attempt.spec.unit, attempt.spec.role)
        except LookupError:
            unit = run.state.units.get(attempt.spec.unit, run.state.root)  # its undo, or its team, is gone
        run.emit(unit, task_events.UsageTold, used, attempt.spec.worker if unit.role == "work" else "")

    def reported(self, attempt: Attempt) -> None:
        """An attempt has used up something."""
        run = self._engine.runs.get(attempt.task)
        if run is not None:
            self._engine.decide(run, self.count, run, attempt)

    # -- ended from outside --------------------------------------------------------------------------------

    def end_below(self, run: Run, unit: Unit, *, calls_only: bool = False) -> None:
        """End all attempts that are a part of a unit, and the calls of its planner and the like. Undos go on."""
        prefix = f"{unit.path}/" if unit.path else ""
        for attempt in self.of_task(run):
            path, role = attempt.spec.unit, attempt.spec.role
            is_below = path.startswith(prefix)
            if role in STAGES and (is_below or path == unit.path):
                self.count(run, attempt)
                self._engine.limits.end(attempt, "cancel")
            elif role == "work" and is_below and not calls_only:
                self._engine.limits.end(attempt, "cancel")

    def closes(self) -> None:
        """When the scope stops: record attempts that have ended by now, and the usage of those that it breaks off."""
        for attempt in list(self.held.values()):
            run = self._engine.runs.get(attempt.task)
            if attempt.done:
                self.hear(attempt)
            elif run is not None:
                self._engine.decide(run, self.count, run, attempt)

    def end_calls(self) -> None:
        """When the scope stops: end the calls of roles and undos. The next engine calls them again."""
        for attempt in [each for each in self.held.values() if not each.is_work]:
            run = self._engine.runs.get(attempt.task)
            if attempt.call is not None and not attempt.done:
                attempt.call.kill()
            if run is not None and not attempt.succeeded:
                self._engine.decide(run, self._is_stopped, run, attempt)

    def _is_stopped(self, run: Run, attempt: Attempt) -> None:
        """Say in the journal that a call was stopped with its tree: that is no loss."""
        found = self.present(attempt)
        run.has_left = True
        if found is not None and run.state.final is None:
            run.emit(found[1], task_events.SubtaskRequeued, "stopped", usage=attempt.take_used())

    # -- adoption ------------------------------------------------------------------------------------------

    def adopt(self, run: Run, unit: Unit) -> None:
        """Wait for the attempt that a unit had when the last engine ended; start another if its process is gone."""
        engine, scope = self._engine, self._engine.scope_of(unit)
        attempt = engine.service.attempts.get(key_of(run, unit))
        # Of another start all is recorded. A supervisor that is not in the tree has no workers that run.
        if scope is None or attempt is None or attempt.spec.start_number != unit.seq:
            self._is_lost(run, unit)
            return
        entry = scope.workers.get(unit.worker) if unit.role == "work" else None
        self.hold(attempt, entry, rank=attempt.priority)
        if unit.role == "work":
            engine.asks.waits(attempt)
            if not goes_on_above(unit):
                engine.limits.end(attempt, "cancel")
        if entry is not None:
            entry.reassign(attempt.key, attempt.target)  # type: ignore[arg-type]
            if entry.breaker is not None and unit.started_at > (entry.breaker.opened_at or 0.0):
                self.tell_breaker(entry, attempt.key, begins=True)
        engine.limits.watch(attempt)
        if not attempt.was_given:
            run.act(self.give, attempt)
        if attempt.done:
            engine.port.tell(attempt)  # its outcome may have come while there was no engine
        elif attempt.ended_by is not None:
            engine.limits.replace_after_grace(attempt)

    def _is_lost(self, run: Run, unit: Unit) -> None:
        """Queue a unit again whose process is gone, unless its task is ending."""
        reason = of_attempt.cut_off(unit) if unit.role == "work" else ""
        if reason:
            run.emit(unit, task_events.SubtaskCancelled, reason, True, unit.worker or "")  # noqa: FBT003 - a field
        else:
            worker = unit.worker or "" if unit.role == "work" else ""
            run.emit(unit, task_events.SubtaskRequeued, LOST, worker, ended_at=run.heard_last)

    def drop_stale(self) -> None:
        """Forget attempts of an earlier engine whose ends are recorded; stop those that still run."""
        for key, attempt in list(self._engine.service.attempts.items()):
            if key not in self.held and attempt.owner.port is self._engine.port:
                self._engine.service.forget(attempt)
                if not attempt.done:
                    self._engine.limits.end(attempt, STOP)


def goes_on_above(unit: Unit) -> bool:
    """Return False if a team above a unit has no attempt that runs."""
    for each in unit.over:  # noqa: SIM110 - as in ``Unit.is_ending``
        if each.status is not RUNNING:
            return False
    return True


# -- what the end of an attempt means ------------------------------------------------------------------------


def _outcome_of(attempt: Attempt, before: Usage, *, is_ending: bool) -> Outcome:
    """Classify the end of an attempt: done, a failure of its own, or neutral.

    An error that leaves user code was made plain data where that code runs (``actors.tasks.execution.error_facts``).

    A budget of a subtask is for all of its attempts together: ``before`` is what is recorded of them by now. Once it is
    used up nothing is tried again, however this one has ended. While all is being stopped (``is_ending``), or the group
    of its worker is restarted, it is no failure of its own that a helper was stopped first.
    """
    caught, outcome = attempt.caught, NEUTRAL
    if attempt.error is None:
        outcome = attempt.value
    elif caught is not None and attempt.is_own_error and not _is_of_others(attempt, caught, is_ending=is_ending):
        outcome = attempt.said
    elif attempt.ended_by in {"timeout", "idle"}:
        phase: TimeoutPhase = "idle" if attempt.ended_by == "idle" else "running" if attempt.is_work else "step"
        limit_s = attempt.spec.idle_timeout_s if phase == "idle" else attempt.spec.timeout_s
        late = AttemptTimeoutError(attempt.subtask.id, attempt.spec.values.number, phase, limit_s or 0.0)
        outcome = Failure(FailureKind.TIMEOUT, late, counts=True)
    budget = attempt.subtask.budget
    if budget is None or not isinstance(outcome, (Done, Failure)):
        return outcome
    used = before + attempt.unrecorded
    if attempt.started is not None and not attempt.unrecorded.seconds:
        used += usage_of(0, 0.0, attempt.owner.system.now() - attempt.started)
    over = budget.exceeded_by(used)
    if not over:
        return outcome
    if isinstance(outcome, Failure):
        told = f"{outcome.told or text_of(outcome.error)}; its budget is used up: {over}"
        return replace(outcome, over_budget=True, told=told)
    error = BudgetExceededError(attempt.task, f"{attempt.subtask.id}: {over}")
    return Failure(FailureKind.INVALID, error, retryable=False, over_budget=True)


def _is_of_others(attempt: Attempt, caught: BaseException, *, is_ending: bool) -> bool:
    """True if its code has failed because the attempt was ended, or because a worker that it asked is stopped.

    While the attempt or all is being stopped, both workers are meant by that; else the error says so. Frameworks raise
    errors of their own from such an error, so it may be anywhere in what the error stems from.
    """
    is_stopped = is_ending or attempt.ended_by == STOP
    return any(
        (attempt.ended_by is not None and is_a(each, AttemptEnded))
        or (is_a(each, ActorStoppedError) and (is_stopped or each.asker_stops_first))
        for each in origins_of(caught)
    )
