"""``context.ask``: an attempt that runs asks for one more subtask of its task, with its own ladder; and its steps.

Whoever waits holds its worker but no slot. The ask lives in the tree, so its answer is found by its key, also by an
engine that was not there when it was asked. The n-th ask in the same words is the same child, in whatever attempt of
its asker: after a crash the child is found in the journal, and not done a second time. A child that nobody claims by
the end of its asker's attempt ends, and is undone.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from actors.messaging.caller_variables import caller_variables
from actors.messaging.envelope import CURRENT, own_error
from actors.messaging.reply import Reply
from actors.model.errors import RecursionDetectedError
from actors.tasks.execution.attempt import STOP, AttemptEnded
from actors.tasks.journal.fold import host_of
from actors.tasks.journal.unit import Unit, step_key
from actors.tasks.model import task_events
from actors.tasks.model.task import QUEUED, RUNNING, SUCCEEDED
from actors.tasks.model.task_errors import NoCapableWorkerError, SubtaskFailedError
from actors.tasks.scheduling.selection import awaited, lane_of

if TYPE_CHECKING:
    from contextvars import Context as Variables

    from actors.tasks.engine.engine import Engine
    from actors.tasks.engine.run import Run
    from actors.tasks.engine.scope import Scope
    from actors.tasks.engine.service import TaskService
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


@dataclass(slots=True, eq=False)
class OpenAsk:
    """An attempt that waits in ``context.ask``, or for the end of a task. It is open until its reply is done."""

    attempt: Attempt
    """The attempt that waits."""
    number: int
    """How often that had asked by then, with this one."""
    reply: Reply
    due: float | None = None
    """Until when, on the tree's clock."""
    variables: Variables | None = None
    """Contextvars of the code that waits."""
    task: str = ""
    """The task whose end it waits for, where that was submitted, and not asked for."""
    where: tuple[str, str] | None = None
    """Task and path of the unit that was asked for, once there is one."""


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
    system, spec = own.system, attempt.spec
    if spec.role != "work":
        raise own_error(SubtaskFailedError(attempt.task, attempt.subtask.id, _NOT_OF_AN_UNDO))
    scope, found = who_can(own, work.to, attempt)
    chain = (*(address.path for address in spec.chain), spec.path)
    others = sorted((each for each in found if each.path not in chain), key=lambda each: not each.is_up)
    target = others[0].path if others else None
    if target is None or work.words in spec.lineage:
        system.recursion_refused(target or found[0].path, own.addresses(chain))
        raise own_error(RecursionDetectedError((*chain, target or found[0].path), same_words=target is not None))
    reply = Reply(system.boxes.get(target), spec.path, None if limit is None else limit + BACKSTOP_S)
    due = None if limit is None else system.now() + limit
    asks = OpenAsk(attempt, next(attempt.numbers), reply, due, caller_variables(CURRENT))
    wait_in(asks)
    asked = _Asked(scope.path, work, found[0].id == work.to, chain, (*spec.lineage, work.words))
    own.port.post(lambda engine: engine.asks.begin(asks, asked))
    stops, stopped = partial(_stops, asks), attempt.incarnation.stop_signal()  # type: ignore[union-attr]  # it runs
    stopped.when_done(stops)
    reply.when_done(partial(stopped.not_when_done, stops))
    if system.is_down:
        reply.fail(system.down_error(own.path))  # nobody else will
    return reply


def wait_in(ask: OpenAsk) -> None:
    """Note that an attempt waits, until its reply is done. Each step is one that no other thread cuts in two."""
    service: TaskService = ask.attempt.owner.service
    ask.attempt.asks.add(ask)  # first: who finds the ask finds that its attempt waits
    service.asks.add(ask)
    ask.reply.when_done(partial(_close, service, ask))


def _stops(ask: OpenAsk) -> None:
    """The worker that waits is told to stop: it need not wait for who was stopped before it."""
    ask.attempt.end_for(STOP)
    ask.reply.fail(AttemptEnded("its worker is told to stop"))


def _close(service: TaskService, ask: OpenAsk) -> None:
    service.asks.discard(ask)
    ask.attempt.asks.discard(ask)
    ask.attempt.owner.port.post(lambda engine: engine.asks.closed(ask))


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
        self._claims: dict[tuple[str, str], OpenAsk] = {}
        """By task and path of a unit that was asked for, the ask that waits for it."""
        self._is_looking = False
        self.returning: deque[tuple[OpenAsk, Any, BaseException | None]] = deque()
        """Answers of asks whose asker has yet to get its slot back."""

    # -- who waits for what --------------------------------------------------------------------------------

    def of(self, run: Run, unit: Unit) -> OpenAsk | None:
        """Return the open ask that waits for a unit; None: nobody waits for it in one."""
        return self._claims.get((run.id, unit.path)) if unit.asker is not None else None

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
        """In a new engine: know the asks that are open; who still waits for what has ended hears of it."""
        for ask in self._engine.service.asks.copy():
            run, spec = self._engine.runs.get(ask.attempt.task), ask.attempt.spec
            asker = run.state.units.get(spec.unit) if run is not None else None
            for unit in (asker.asked if asker is not None else None) or ():
                if run is not None and (unit.ask.attempt, unit.ask.number) == (spec.start_number, ask.number):
                    self._claim(run, unit, ask)
        self._look_later()

    def _claim(self, run: Run, unit: Unit, ask: OpenAsk) -> None:
        ask.where = run.id, unit.path
        self._claims[ask.where] = ask
        if unit.is_done:
            self.tell(run, unit)

    def forget(self, run: Run) -> None:
        """Forget the asks of a task that is over."""
        for where in [each for each in self._claims if each[0] == run.id]:
            del self._claims[where]

    # -- beginning -----------------------------------------------------------------------------------------

    def begin(self, ask: OpenAsk, asked: _Asked) -> None:
        """An attempt asks for something."""
        attempt = ask.attempt
        if ask.reply.done:
            return  # whoever asked waits no longer
        self.waits(attempt)
        if self._engine.closing:
            ask.reply.fail(self._engine.port.down())
            return
        found = self._engine.attempts.present(attempt)
        if found is None or found[1].is_ending:
            ask.reply.fail(SubtaskFailedError(attempt.task, attempt.subtask.id, "the task has ended"))
            return
        self._engine.decide(found[0], self._begin, *found, ask, asked)

    def _begin(self, run: Run, asker: Unit, ask: OpenAsk, asked: _Asked) -> None:
        number = ask.attempt.spec.start_number
        host = host_of(asker, asked.scope)
        course = run.state.course_of(host)
        unit = self._known(run, asker, number, asked.work)
        if unit is None:
            spec = asked.work.subtask(host.spec.id, is_worker=asked.is_worker)
            unit = Unit(f"{host.path}/@{host.asks + 1}", "work", course.unit, spec, course.scope)
        anew = unit.is_done and unit.status is not SUCCEEDED and not unit.stays_ended
        said = (asker.path, unit.spec, ask.number, number, asked.chain, asked.lineage)
        run.emit(unit, task_events.SubtaskDelegated, *said, anew=anew)
        unit = run.state.units[unit.path]
        self._claim(run, unit, ask)
        if ask.due is not None:
            late = partial(SubtaskFailedError, run.id, unit.id, "no result in the time there was")
            self._engine.at(ask.due + self._engine.service.epoch, lambda _: ask.reply.fail(late()))
        if not unit.is_done:
            for each in (unit, *unit.below()):
                self._engine.dispatch.enqueue(run, each)
            self.look_at(ask)

    def _known(self, run: Run, asker: Unit, number: int, work: AskedWork) -> Unit | None:
        """Find what an earlier run of the asker had asked for in the same words, and this one not yet."""
        for unit in asker.asked or ():
            spec = unit.spec
            is_same = (spec.worker or spec.capability, spec.tool) == (work.to, work.tool)
            is_same = is_same and spec.instruction == work.instruction and spec.inputs == work.inputs
            is_left = unit.ask.epoch == asker.epoch and unit.ask.attempt != number
            if is_same and is_left and (run.id, unit.path) not in self._claims:
                return unit
        return None

    def waits(self, attempt: Attempt) -> None:
        """Note that an attempt waits in an ask, or for a task: it holds no slot meanwhile."""
        if self._engine.attempts.is_held(attempt) and attempt.has_slot and attempt.asks:
            attempt.has_slot = False
            attempt.owner.running -= 1
            self._engine.attempts.reopen(attempt.owner)

    def _has_left_slot(self, attempt: Attempt) -> bool:
        """True for an attempt that goes on and has given up its slot."""
        return self._engine.attempts.is_held(attempt) and not attempt.has_slot

    # -- the answer ----------------------------------------------------------------------------------------

    def tell(self, run: Run, unit: Unit) -> None:
        """A unit that was asked for has ended: whoever waits hears of that once it is kept."""
        ask = self.of(run, unit)
        if ask is None:
            return
        if unit.status is SUCCEEDED:
            run.act(self.answer, ask, unit.value)
        else:
            run.act(self.answer, ask, None, SubtaskFailedError(run.id, unit.path, unit.error, unit.kind))

    def answer(self, ask: OpenAsk, value: Any = None, error: BaseException | None = None) -> None:
        """Answer an ask; an asker that waits for nothing else needs its slot back first."""
        if not ask.reply.done and self._has_left_slot(ask.attempt) and len(ask.attempt.asks) == 1:
            self.returning.append((ask, value, error))
            self._engine.port.call()
        else:
            ask.reply.complete(value, error=error)

    def let_return(self) -> None:
        """Give answers to those whose slots are free, the oldest first."""
        for _ in range(len(self.returning)):
            ask, value, error = self.returning.popleft()
            scope = ask.attempt.owner
            if not ask.reply.done and self._has_left_slot(ask.attempt):
                if scope.running >= scope.settings.max_parallel:
                    self.returning.append((ask, value, error))
                    continue
                self._takes_slot(ask.attempt)
            ask.reply.complete(value, error=error)

    @staticmethod
    def _takes_slot(attempt: Attempt) -> None:
        attempt.has_slot = True
        attempt.owner.running += 1

    def closed(self, ask: OpenAsk) -> None:
        """An ask has its answer, or whoever asked waits no longer: then what was asked for ends."""
        attempt = ask.attempt
        if not attempt.asks and self._has_left_slot(attempt):
            self._takes_slot(attempt)
        if ask.where is None or self._claims.get(ask.where) is not ask:
            return
        found = self._waited_for(ask)
        del self._claims[ask.where]
        for run, unit in found:
            if not unit.is_done and not self._waits_for_asker(unit, attempt):
                self._engine.decide(run, self._engine.dispatch.withdraw, run, unit)

    def _waits_for_asker(self, unit: Unit, attempt: Attempt) -> bool:
        """True where the asker was broken off and is to run once more, or that will be known when it has ended."""
        if unit.is_ending or unit.asker is None or unit.asker.status not in _MAY_ASK_AGAIN:
            return False
        is_over = attempt.done and unit.asker.seq == attempt.spec.start_number and unit.asker.status is RUNNING
        return self._engine.closing or attempt.ended_by in {STOP, "preempt"} or is_over

    def attempt_ended(self, attempt: Attempt) -> None:
        """An attempt has ended: what it waits for is answered, and what it had asked for and nobody claims ends."""
        for ask in attempt.asks.copy():
            if not ask.task:
                ask.reply.fail(SubtaskFailedError(attempt.task, attempt.subtask.id, "its attempt has ended"))
        run = self._engine.runs.get(attempt.task)
        asker = run.state.units.get(attempt.spec.unit) if run is not None else None
        if run is not None and asker is not None and asker.status not in _MAY_ASK_AGAIN:
            self._engine.decide(run, self.end_unclaimed, run, asker)

    def end_unclaimed(self, run: Run, asker: Unit) -> None:
        """End what a unit had asked for that does not ask again, where nobody waits for it."""
        for unit in asker.asked or ():
            if not unit.is_done and (run.id, unit.path) not in self._claims:
                self._engine.dispatch.withdraw(run, unit)

    # -- waits that end in themselves ----------------------------------------------------------------------

    def _look_later(self) -> None:
        service = self._engine.service
        if not self._is_looking and (service.asks or service.waits.all()):
            self._is_looking = True
            self._engine.at(self._engine.now + LOOK_S, lambda engine: engine.asks.look())

    def look(self) -> None:
        """Refuse what can only wait by now, among all asks and waits for tasks that are open."""
        self._is_looking = False
        for ask in self._engine.service.asks.copy():
            self.look_at(ask)
        for wait in self._engine.service.waits.all():
            errors = [wait.circle_with(current) for current in set(wait.waiters)]
            if error := next((each for each in errors if each is not None), None):
                wait.fail(error)
        self._look_later()

    def look_at(self, ask: OpenAsk) -> None:
        """Refuse an ask, or a wait for a task, that can only wait: everybody who could end it waits for that."""
        chain: list[str] = []
        if self._is_in_vain(ask, set(), chain) and chain:
            ask.reply.fail(RecursionDetectedError((*chain, chain[0])))
        self._look_later()

    def _is_in_vain(self, ask: OpenAsk, seen: set[str], chain: list[str]) -> bool:
        found = self._waited_for(ask)
        return bool(found) and all(self._is_stuck(run, unit, seen, chain) for run, unit in found)

    def _waited_for(self, ask: OpenAsk) -> list[tuple[Run, Unit]]:
        """Return the open units that an ask waits for; none: nobody has taken it up yet, or it is answered."""
        task, path = ask.where if ask.where is not None else (ask.task, None)
        run = self._engine.runs.get(task)
        if run is None:
            return []
        if path is not None:
            return [(run, run.state.units[path])] if path in run.state.units else []
        return [
            (run, each) for each in run.state.units.values() if each.role == "work" and each.status in _MAY_ASK_AGAIN
        ]

    def _is_stuck(self, run: Run, unit: Unit, seen: set[str], chain: list[str]) -> bool:
        """True if everybody who could do a unit waits in vain."""
        where = f"{run.id}@{unit.path}"
        if where in seen or unit.status not in _MAY_ASK_AGAIN:
            return where in seen
        seen.add(where)
        if unit.status is RUNNING and unit.is_composite:
            below = [each for each in unit.below() if each.status in _MAY_ASK_AGAIN and not each.is_composite]
            return bool(below) and all(self._is_stuck(run, each, seen, chain) for each in below)
        if unit.status is RUNNING:
            attempt = self._engine.attempts.of(run, unit)
            return attempt is not None and self._is_held_in_vain(attempt.key, seen, chain)
        scope = self._engine.scope_of(unit)
        entries = awaited(scope.workers, lane_of(run.state, unit), self._engine.now) if scope is not None else []
        keys = [key for entry in entries for key in entry.attempts]
        return bool(keys) and all(self._is_held_in_vain(key, seen, chain) for key in keys)

    def _is_held_in_vain(self, key: str, seen: set[str], chain: list[str]) -> bool:
        """True if an attempt, or a part that a team has, keeps its worker or team busy and waits in vain."""
        attempt, part = self._engine.attempts.held.get(key), self._engine.dispatch.part(key)
        if attempt is None:
            return part is not None and self._is_stuck(*part, seen, chain)
        if key in seen or not attempt.asks:
            return key in seen
        seen.add(key)
        chain.append(attempt.spec.path)
        return all(self._is_in_vain(ask, seen, chain) for ask in attempt.asks.copy())

    # -- steps ---------------------------------------------------------------------------------------------

    def record_step(self, attempt: Attempt, step: StepCall, value: Any, kept: Reply) -> None:
        """Record a step of an attempt that goes on, where it is not recorded yet; ``kept`` hears when it is kept."""
        found = self._engine.attempts.present(attempt)
        if found is None or attempt.done:
            kept.fail(AttemptEnded(f"the attempt is over: step {step.name!r} is not recorded"))
            return
        self._engine.decide(found[0], self._record_step, *found, attempt, step, value)
        found[0].act(kept.complete)

    def _record_step(self, run: Run, unit: Unit, attempt: Attempt, step: StepCall, value: Any) -> None:
        known = unit.steps.get(step_key(step.name, step.number))
        if known is not None and known.fingerprint == step.fingerprint:
            return
        fields = (unit.worker or "", unit.attempt, step.name, step.number, step.fingerprint, value)
        more = {"is_of_subtask": step.keep == "subtask", "usage": attempt.take_used()}
        run.emit(unit, task_events.SubtaskStepped, *fields, **more)
