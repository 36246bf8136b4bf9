"""``context.ask``: an attempt that runs asks for one more subtask of its task, with its own ladder; and its steps.

Whoever waits holds its worker but no slot. The ask lives in the tree, so its answer is found by its key, also by an
engine that was not there when it was asked. The n-th ask in the same words is the same child, in whatever attempt of
its asker: after a crash the child is found in the journal, and not done a second time. A child that nobody claims by
the end of its asker's attempt ends, and is undone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from actors.messaging.caller_variables import caller_variables
from actors.messaging.envelope import CURRENT, own_error
from actors.messaging.message_errors import ActorStoppedError
from actors.messaging.pool_address import PoolAddress
from actors.messaging.reply import Reply
from actors.model.errors import RecursionDetectedError
from actors.model.raised import is_a
from actors.tasks.engine.task_waits import AskReply
from actors.tasks.execution.attempt import STOP, AttemptEnded
from actors.tasks.journal.fold import host_of
from actors.tasks.journal.kept_steps import step_key
from actors.tasks.journal.unit import Unit
from actors.tasks.model import task_events
from actors.tasks.model.task import QUEUED, RUNNING, SUCCEEDED
from actors.tasks.model.task_errors import NoCapableWorkerError, SubtaskFailedError
from actors.tasks.scheduling.selection import awaited, in_reach, lane_of

if TYPE_CHECKING:
    from contextvars import Context as Variables

    from actors.tasks.engine.attempts import Row
    from actors.tasks.engine.engine import Engine
    from actors.tasks.engine.run import Run
    from actors.tasks.engine.scope import Scope
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.execution.attempt_steps import StepCall
    from actors.tasks.execution.context import AskedWork
    from actors.tasks.scheduling.worker_registry import RegistryEntry

LOOK_S: Final = 0.5
"""How often open asks are looked at, which may only wait for each other by now."""
BACKSTOP_S: Final = 5.0
"""How much longer than its limit somebody waits in an ask, should there be no engine to end it."""
_NOT_OF_AN_UNDO: Final = (
    "an undo cannot ask for work: nothing new begins of what is undone. Name the worker that undoes it: undo='its id'"
)
_MAY_ASK_AGAIN: Final = frozenset({QUEUED, RUNNING})
"""Where a subtask stands whose attempt was broken off, and that runs once more."""


class OpenAsk(NamedTuple):
    """An attempt that waits in ``context.ask``, or for the end of a task."""

    key: str
    reply: AskReply
    attempt: Attempt
    """The attempt that waits."""
    due: float | None
    """Until when, on the tree's clock."""
    variables: Variables | None = None
    """Contextvars of the code that waits."""
    task: str = ""
    """The task whose end it waits for, where that was submitted, and not asked for."""


class _Asked(NamedTuple):
    """What the engine is to have done."""

    scope: str
    """Path of the supervisor whose workers do it."""
    work: AskedWork
    is_worker: bool
    chain: tuple[str, ...]
    lineage: tuple[str, ...]


# -- called by the attempt, on any thread ----------------------------------------------------------------------


def who_can(own: Scope, to: str, attempt: Attempt) -> tuple[Scope, list[RegistryEntry]]:
    """Find the workers that could do it: those of the asker's supervisor, else of one above.

    Raises:
        NoCapableWorkerError: nobody can.
    """
    scope: Scope | None = own
    while scope is not None:
        entries = list(scope.workers)
        found = [each for each in entries if each.id == to] or [
            each for each in entries if to in each.executable.capabilities
        ]
        if found:
            return scope, found
        scope = scope.above
    known = [name for each in own.workers for name in (each.id, *sorted(each.executable.capabilities))]
    raise own_error(NoCapableWorkerError(to, known, task=attempt.task))


def ask(own: Scope, attempt: Attempt, work: AskedWork, limit: float | None) -> Reply:
    """Refuse what could only wait for itself, else have it done; a Reply of the result.

    Raises:
        RecursionDetectedError: everybody who could do it waits for this attempt, or it is asked for already.
        NoCapableWorkerError: nobody can do it.
        SubtaskFailedError: an undo asks.
    """
    service, system, spec = own.service, own.system, attempt.spec
    if spec.role != "work":
        raise own_error(SubtaskFailedError(attempt.task, attempt.subtask.id, _NOT_OF_AN_UNDO))
    scope, found = who_can(own, work.to, attempt)
    chain = (*(address.path for address in spec.chain), spec.path)
    others = sorted((each for each in found if each.path not in chain), key=lambda each: not each.is_up)
    target = others[0].path if others else None
    if target is None or work.words in spec.lineage:
        system.recursion_refused(target or found[0].path, own.addresses(chain))
        raise own_error(RecursionDetectedError((*chain, target or found[0].path), same_words=target is not None))
    key = f"{attempt.key}>{spec.start_number}.{next(attempt.numbers)}"
    reply = AskReply(system.boxes.get(target), spec.path, None if limit is None else limit + BACKSTOP_S)
    due = None if limit is None else system.now() + limit
    service.open_ask(OpenAsk(key, reply, attempt, due, caller_variables(CURRENT)))
    reply.when_done(partial(_is_closed, own, key, attempt, reply))
    asked = _Asked(scope.path, work, found[0].id == work.to, chain, (*spec.lineage, work.words))
    own.port.post(lambda engine: engine.asks.begin(key, asked))
    if system.is_down:
        reply.fail(system.down_error(own.path))  # nobody else will
    return reply


def _is_closed(own: Scope, key: str, attempt: Attempt, reply: AskReply) -> None:
    own.service.close_ask(key)
    error = reply.error
    is_dead_end = is_a(error, ActorStoppedError) and error.asker_stops_first
    own.port.post(lambda engine: engine.asks.closed(key, attempt, is_dead_end=is_dead_end))


def keep_step(own: Scope, attempt: Attempt, step: StepCall, value: Any) -> Reply | None:
    """Have a step recorded. None: it is kept; else what is returned is completed when it is. From any thread.

    Raises:
        AttemptEnded: the attempt is over.
    """
    engine, kept = own.port.at_work, Reply()
    own.service.expect(kept)
    if engine is not None and own.system.loop.is_here and not own.port.facts:
        engine.hear_at_once(lambda engine: engine.asks.record_step(attempt, step, value, kept))
        if kept.succeeded:
            return None
    else:
        own.port.post(lambda engine: engine.asks.record_step(attempt, step, value, kept))
    return kept


# -- the engine's side -----------------------------------------------------------------------------------------


class Asks:
    """Open asks that concern one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._claims: dict[tuple[str, str], str] = {}
        """By task and path of a unit that was asked for, the key of the ask that waits for it."""
        self._units: dict[str, tuple[str, str]] = {}
        """The other way round."""
        self._is_looking = False
        self.returning: deque[tuple[str, Any, BaseException | None]] = deque()
        """Answers of asks whose asker has yet to get its slot back."""

    # -- who waits for what --------------------------------------------------------------------------------

    def of(self, run: Run, unit: Unit) -> OpenAsk | None:
        """Return the open ask that waits for a unit; None: nobody waits for it in one."""
        key = self._claims.get((run.id, unit.path)) if unit.asker is not None else None
        return self._engine.service.asks.get(key) if key is not None else None

    def is_claimed(self, run: Run, unit: Unit) -> bool:
        """True where nobody had to ask for a unit or a team that it is in, or whoever has asked waits now."""
        for each in unit.line:  # noqa: SIM110 - as in ``Unit.is_ending``
            if each.asker is not None and (run.id, each.path) not in self._claims:
                return False
        return True

    def is_wanted(self, run: Run, unit: Unit) -> bool:
        """True if somebody waits for a unit, or may again: it is in the plan, or its asker runs once more."""
        asker = unit.asker
        return asker is None or (run.id, unit.path) in self._claims or asker.status in _MAY_ASK_AGAIN

    def recall(self) -> None:
        """In a new engine: know the asks that are open."""
        for key, each in self._engine.service.asks.copy().items():
            run = self._engine.runs.get(each.attempt.task)
            asker = run.state.units.get(each.attempt.spec.unit) if run is not None else None
            number = _number_in(key)
            child = next(
                (
                    unit
                    for unit in (asker.asked or () if asker is not None else ())
                    if _is_of(unit, each.attempt, number)
                ),
                None,
            )
            if run is not None and child is not None:
                self._claim(run, child, key)
        self._look_later()

    def found(self, run: Run, unit: Unit) -> None:
        """In a new engine: a unit that was asked for; who still waits for one that has ended hears of it."""
        if unit.is_done:
            self.tell(run, unit)

    def _claim(self, run: Run, unit: Unit, key: str) -> None:
        self._claims[run.id, unit.path] = key
        self._units[key] = (run.id, unit.path)

    def forget(self, run: Run) -> None:
        """Forget the asks of a task that is over."""
        for task, path in [each for each in self._claims if each[0] == run.id]:
            self._units.pop(self._claims.pop((task, path)), None)

    # -- beginning -----------------------------------------------------------------------------------------

    def begin(self, key: str, asked: _Asked) -> None:
        """An attempt asks for something."""
        open_ask = self._engine.service.asks.get(key)
        if open_ask is None:
            return  # whoever asked waits no longer
        attempt = open_ask.attempt
        self.waits(attempt)
        if self._engine.closing:
            open_ask.reply.fail(self._engine.port.down())
            return
        run = self._engine.runs.get(attempt.task)
        asker = run.state.units.get(attempt.spec.unit) if run is not None else None
        is_current = asker is not None and asker.status is RUNNING and asker.seq == attempt.spec.start_number
        if run is None or asker is None or not is_current or asker.is_ending:
            open_ask.reply.fail(SubtaskFailedError(attempt.task, attempt.subtask.id, "the task has ended"))
            return
        self._engine.decide(run, self._begin, run, asker, open_ask, asked)

    def _begin(self, run: Run, asker: Unit, open_ask: OpenAsk, asked: _Asked) -> None:
        attempt, number = open_ask.attempt, _number_in(open_ask.key)
        host = host_of(asker, asked.scope)
        course = run.state.course_of(host)
        known = self._known(run, asker, attempt, asked)
        if known is None:
            path = f"{host.path}/@{host.asks + 1}"
            spec = asked.work.subtask(host.spec.id, is_worker=asked.is_worker)
            unit = Unit(path, "work", course.unit, spec, course.scope)
            anew = False
        else:
            unit, spec = known, known.spec
            is_same = known.asked_in == attempt.spec.start_number
            anew = unit.is_done and unit.status is not SUCCEEDED and not (is_same or unit.stays_ended)
        if open_ask.reply.done:
            return
        run.emit(
            unit,
            task_events.SubtaskDelegated,
            asker.path,
            spec,
            number,
            attempt.spec.start_number,
            asked.chain,
            asked.lineage,
            anew=anew,
        )
        unit = run.state.units[unit.path]
        self._claim(run, unit, open_ask.key)
        if open_ask.due is not None:
            due = open_ask.due + self._engine.service.epoch
            self._engine.at(due, lambda engine: engine.asks.is_late(open_ask.key, unit.id))
        if unit.is_done:
            self.tell(run, unit)
        else:
            for each in (unit, *unit.below()):
                self._engine.dispatch.enqueue(run, each)
            self._look_at(run, unit)
            self._look_later()

    def _known(self, run: Run, asker: Unit, attempt: Attempt, asked: _Asked) -> Unit | None:
        """Find what an earlier run of the asker had asked for in the same words, and this one not yet."""
        work = asked.work
        for unit in asker.asked or ():
            spec = unit.spec
            is_same = (spec.worker or spec.capability, spec.tool) == (work.to, work.tool)
            is_same = is_same and spec.instruction == work.instruction and spec.inputs == work.inputs
            is_taken = (
                unit.asked_for != asker.epoch
                or unit.asked_in == attempt.spec.start_number
                or (run.id, unit.path) in self._claims
            )
            if is_same and not is_taken:
                return unit
        return None

    def waits(self, attempt: Attempt) -> None:
        """Note that an attempt waits in an ask, or for a task: it holds no slot meanwhile."""
        row = self._engine.attempts.rows.get(attempt.key)
        if row is not None and row.has_slot and attempt.asks:
            row.has_slot = False
            row.scope.running -= 1
            self._engine.attempts.reopen(row.scope)

    # -- the answer ----------------------------------------------------------------------------------------

    def tell(self, run: Run, unit: Unit) -> None:
        """A unit that was asked for has ended: whoever waits hears of that once it is kept."""
        key = self._claims.get((run.id, unit.path)) if unit.asker is not None else None
        if key is None:
            return
        if unit.status is SUCCEEDED:
            run.act(self._answer, key, unit.value, None)
        else:
            error = SubtaskFailedError(run.id, unit.path, unit.error, unit.kind)
            run.act(self._answer, key, None, error)

    def _answer(self, key: str, value: Any, error: BaseException | None) -> None:
        """Answer an ask; an asker that waits for nothing else needs its slot back first."""
        open_ask = self._engine.service.asks.get(key)
        if open_ask is None:
            return
        row = self._engine.attempts.rows.get(open_ask.attempt.key)
        if row is not None and not row.has_slot and len(open_ask.attempt.asks) == 1:
            self.returning.append((key, value, error))
            self._engine.port.call()
        else:
            _complete(open_ask, value, error)

    def answer_now(self, key: str, error: BaseException) -> None:
        """Refuse an ask."""
        open_ask = self._engine.service.asks.get(key)
        if open_ask is not None:
            open_ask.reply.fail(error)

    def task_ended(self, key: str) -> None:
        """A task has ended for which an attempt waits."""
        self._answer(key, None, None)

    def let_return(self) -> None:
        """Give answers to those whose slots are free, the oldest first."""
        for _ in range(len(self.returning)):
            key, value, error = self.returning.popleft()
            open_ask = self._engine.service.asks.get(key)
            if open_ask is None:
                continue
            row = self._engine.attempts.rows.get(open_ask.attempt.key)
            if row is not None and not row.has_slot and row.scope.running >= row.scope.settings.max_parallel:
                self.returning.append((key, value, error))
                continue
            if row is not None and not row.has_slot:
                row.has_slot = True
                row.scope.running += 1
            _complete(open_ask, value, error)

    def is_late(self, key: str, id_: str) -> None:
        """The time of an ask is up."""
        open_ask = self._engine.service.asks.get(key)
        if open_ask is not None:
            task = open_ask.attempt.task
            open_ask.reply.fail(SubtaskFailedError(task, id_, "no result in the time there was"))

    def closed(self, key: str, attempt: Attempt, *, is_dead_end: bool = False) -> None:
        """An ask has its answer, or whoever asked waits no longer: then what was asked for ends."""
        where = self._units.pop(key, None)
        row = self._engine.attempts.rows.get(attempt.key)
        if row is not None and not row.has_slot and not attempt.asks:
            row.has_slot = True
            row.scope.running += 1
        if where is None:
            return
        if self._claims.get(where) == key:
            del self._claims[where]
        run = self._engine.runs.get(where[0])
        unit = run.state.units.get(where[1]) if run is not None else None
        if (
            run is not None
            and unit is not None
            and not unit.is_done
            and not self._waits_for_asker(unit, attempt, is_dead_end)
        ):
            self._engine.decide(run, self._engine.dispatch.withdraw, run, unit)

    def _waits_for_asker(self, unit: Unit, attempt: Attempt, is_dead_end: bool) -> bool:
        """True where the asker was broken off and is to run once more, or that will be known when it has ended."""
        if unit.is_ending or unit.asker is None or unit.asker.status not in _MAY_ASK_AGAIN:
            return False
        is_over = attempt.done and unit.asker.seq == attempt.spec.start_number and unit.asker.status is RUNNING
        return is_dead_end or self._engine.closing or attempt.ended_by in {STOP, "preempt"} or is_over

    def attempt_ended(self, attempt: Attempt) -> None:
        """An attempt has ended: what it waits for is answered, and what it had asked for and nobody claims ends."""
        for key in attempt.asks.copy():
            open_ask = self._engine.service.asks.get(key)
            if open_ask is not None and not open_ask.task:
                id_ = attempt.subtask.id
                open_ask.reply.fail(SubtaskFailedError(attempt.task, id_, "its attempt has ended"))
        run = self._engine.runs.get(attempt.task)
        asker = run.state.units.get(attempt.spec.unit) if run is not None else None
        if run is not None and asker is not None and asker.status not in _MAY_ASK_AGAIN:
            self._engine.decide(run, self.end_unclaimed, run, asker)

    def end_unclaimed(self, run: Run, asker: Unit) -> None:
        """End what a unit had asked for that does not ask again, where nobody waits for it."""
        for unit in asker.asked or ():
            if not unit.is_done and (run.id, unit.path) not in self._claims:
                self._engine.dispatch.withdraw(run, unit)

    def close(self) -> None:
        """All is being stopped: nobody will do what is asked for, so nobody is held up by waiting for it."""
        for open_ask in list(self._engine.service.asks.values()):
            if open_ask.attempt.owner.port is self._engine.port and not open_ask.task:
                open_ask.attempt.end_for(STOP)
                open_ask.reply.fail(self._engine.port.down())

    # -- waits that end in themselves ----------------------------------------------------------------------

    def _look_later(self) -> None:
        service = self._engine.service
        if not self._is_looking and (service.asks or service.waits.all()):
            self._is_looking = True
            self._engine.at(self._engine.now + LOOK_S, lambda engine: engine.asks.look())

    def look(self) -> None:
        """Refuse what can only wait by now, among all asks and waits for tasks that are open."""
        self._is_looking = False
        for task, path in list(self._claims):
            run = self._engine.runs.get(task)
            unit = run.state.units.get(path) if run is not None else None
            if run is not None and unit is not None:
                self._engine.decide(run, self._look_at, run, unit)
        for key, each in self._engine.service.asks.copy().items():
            if each.task:
                self.look_at_wait(key)
        for wait in self._engine.service.waits.all():
            errors = [wait.circle_with(current) for current in set(wait.waiters)]
            if error := next((each for each in errors if each is not None), None):
                wait.fail(error)
        self._look_later()

    def _look_at(self, run: Run, unit: Unit) -> None:
        """Refuse an ask that can only wait: everybody who could do it waits for its asker, or is down before it."""
        key = self._claims.get((run.id, unit.path))
        chain: list[str] = []
        open_ask = self._engine.service.asks.get(key) if key is not None else None
        if (
            open_ask is not None
            and not unit.is_done
            and (error := self._dead_end(run, unit, open_ask.reply)) is not None
        ):
            open_ask.reply.fail(error)
            return
        if key is None or unit.is_done or not self._is_stuck(run, unit, set(), chain) or not chain:
            return
        target = unit.spec.worker or unit.spec.capability or "?"
        self.answer_now(key, RecursionDetectedError((*chain, target)))
        self._engine.dispatch.withdraw(run, unit)

    def _dead_end(self, run: Run, unit: Unit, reply: AskReply) -> ActorStoppedError | None:
        """Return why nobody begins a unit before one who waits for it has ended; None: somebody may, or has."""
        engine, scope = self._engine, self._engine.scope_of(unit)
        row = engine.attempts.of(run, unit) if unit.status is RUNNING else None
        if unit.status is QUEUED and scope is not None:
            paths = [entry.path for entry in in_reach(scope.workers, lane_of(run.state, unit), engine.now)]
        elif unit.is_composite or (row is not None and row.attempt.started is None):
            paths = [f"{unit.scope}/{unit.worker}"]
        else:
            paths = []
        targets = [engine.system.boxes.get(path) for path in paths]
        for current in set(reply.waiters):
            errors = [None if target is None else engine.system.dead_end(target, current) for target in targets]
            if errors and None not in errors:
                return errors[0]
        return None

    def met_dead_end(self, run: Run, unit: Unit, error: ActorStoppedError) -> None:
        """Refuse the ask of one who waits for an attempt that was cut off because he is to stop first.

        It would begin again and again, and be cut off, until whoever is to stop first is killed.
        """
        for each in unit.line:
            open_ask = self.of(run, each)
            if open_ask is not None and not _held_up(open_ask.reply).isdisjoint(error.stop_first):
                open_ask.reply.fail(error)
                return

    def look_at_wait(self, key: str) -> None:
        """Refuse the wait of an attempt for a task that can only wait for ever."""
        open_ask, chain = self._engine.service.asks.get(key), list[str]()
        row = self._engine.attempts.rows.get(open_ask.attempt.key) if open_ask is not None else None
        if row is not None and self._waits_in_vain(row, set(), chain) and chain:
            self.answer_now(key, RecursionDetectedError((*chain, chain[0])))
        self._look_later()

    def _is_stuck(self, run: Run, unit: Unit, seen: set[str], chain: list[str]) -> bool:
        """True if everybody who could do a unit waits in vain."""
        if unit.is_done or unit.status not in _MAY_ASK_AGAIN:
            return False
        where = f"{run.id}@{unit.path}"
        if where in seen:
            return True
        seen.add(where)
        if unit.status is RUNNING and unit.is_composite:
            below = [each for each in unit.below() if each.status in _MAY_ASK_AGAIN and not each.is_composite]
            return bool(below) and all(self._is_stuck(run, each, seen, chain) for each in below)
        attempts, scope = self._engine.attempts, self._engine.scope_of(unit)
        if unit.status is RUNNING:
            row = attempts.of(run, unit)
            return row is not None and self._waits_in_vain(row, seen, chain)
        entries = awaited(scope.workers, lane_of(run.state, unit), self._engine.now) if scope is not None else None
        keys = [key for entry in entries or () for key in entry.attempts]
        return bool(keys) and all(self._is_held_in_vain(key, seen, chain) for key in keys)

    def _is_held_in_vain(self, key: str, seen: set[str], chain: list[str]) -> bool:
        """True if an attempt, or a part that a team has, keeps its worker or team busy and waits in vain."""
        row, part = self._engine.attempts.rows.get(key), self._engine.dispatch.part(key)
        if row is not None:
            return self._waits_in_vain(row, seen, chain)
        return part is not None and self._is_stuck(*part, seen, chain)

    def _waits_in_vain(self, row: Row, seen: set[str], chain: list[str]) -> bool:
        attempt = row.attempt
        if attempt.key in seen:
            return True
        seen.add(attempt.key)
        if not attempt.asks:
            return False
        chain.append(attempt.spec.path)
        return all(
            self._is_stuck(run, unit, seen, chain) if unit is not None else False
            for key in attempt.asks.copy()
            for run, unit in self._waited_for(key)
        )

    def _waited_for(self, key: str) -> Iterator[tuple[Run, Unit | None]]:
        """Yield the units that an open ask waits for, each with its task."""
        open_ask = self._engine.service.asks.get(key)
        task, path = self._units.get(key, ("", ""))
        run = self._engine.runs.get(open_ask.task if open_ask is not None and open_ask.task else task)
        if run is None:
            yield None, None  # type: ignore[misc]  # nobody has taken it up yet, or it is answered
        elif path:
            yield run, run.state.units.get(path)
        else:
            open_ = [unit for unit in run.state.units.values() if unit.status in _MAY_ASK_AGAIN and unit.role == "work"]
            yield from ((run, unit) for unit in open_)
            if not open_:
                yield run, None

    def last_sign(self, attempt: Attempt, now: float) -> float:
        """When an attempt last gave a sign of life, be it by what it has asked for; now, while that waits."""
        sign = attempt.last_sign
        for key in attempt.asks.copy():
            for run, unit in self._waited_for(key):
                row = self._engine.attempts.of(run, unit) if unit is not None else None
                if row is None or row.attempt.started is None:
                    return now
                sign = max(sign, self.last_sign(row.attempt, now))
        return sign

    # -- steps ---------------------------------------------------------------------------------------------

    def record_step(self, attempt: Attempt, step: StepCall, value: Any, kept: Reply) -> None:
        """Record a step of an attempt that goes on, where it is not recorded yet; ``kept`` hears when it is kept."""
        engine = self._engine
        run = engine.runs.get(attempt.task)
        unit = run.state.units.get(attempt.spec.unit) if run is not None else None
        is_current = engine.service.attempts.get(attempt.key) is attempt and not attempt.done
        if run is None or unit is None or not is_current or unit.seq != attempt.spec.start_number:
            kept.fail(AttemptEnded(f"the attempt is over: step {step.name!r} is not recorded"))
            return
        engine.decide(run, self._record_step, run, unit, attempt, step, value)
        run.act(kept.complete)

    def _record_step(self, run: Run, unit: Unit, attempt: Attempt, step: StepCall, value: Any) -> None:
        known = unit.steps.by_key.get(step_key(step.name, step.number)) if unit.steps is not None else None
        if (known is not None and known.fingerprint == step.fingerprint) or unit.status is not RUNNING:
            return
        fields = (unit.worker or "", unit.attempt, step.name, step.number, step.fingerprint, value)
        more = {"is_of_subtask": step.keep == "subtask", "usage": attempt.take_used()}
        run.emit(unit, task_events.SubtaskStepped, *fields, **more)


def _complete(open_ask: OpenAsk, value: Any, error: BaseException | None) -> None:
    if error is None:
        open_ask.reply.complete(value)
    else:
        open_ask.reply.fail(error)


def _held_up(reply: Reply) -> set[str]:
    """Return the paths of those who wait while this reply is waited for; of a pool, those of all members."""
    boxes = {box for current in set(reply.waiters) for box in current.held_up()}
    return {member.path for box in boxes for member in (box.members if isinstance(box, PoolAddress) else (box,))}


def _number_in(key: str) -> int:
    return int(key.rpartition(".")[2])


def _is_of(unit: Unit, attempt: Attempt, number: int) -> bool:
    return (unit.asked_in, unit.ask) == (attempt.spec.start_number, number)
