"""``context.ask``: an attempt that runs asks for one more subtask of its task, with its own ladder; and its steps.

Whoever waits holds its worker but no slot. The ask lives in the tree, so its answer is found by its key, also by an
engine that was not there when it was asked. The n-th ask in the same words is the same child, in whatever attempt of
its asker: after a crash the child is found in the journal, and not done a second time. A child that nobody claims by
the end of its asker's attempt ends, and is undone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from actors.messaging.caller_variables import caller_variables
from actors.messaging.envelope import CURRENT, STOP, own_error
from actors.messaging.reply import Reply
from actors.model.errors import RecursionDetectedError
from actors.tasks.journal.fold import host_of
from actors.tasks.journal.unit import Unit, step_key
from actors.tasks.model import (
    QUEUED,
    RUNNING,
    SUCCEEDED,
    AttemptEnded,
    NoCapableWorkerError,
    SubtaskFailedError,
    task_events,
)
from actors.tasks.scheduling.selection import awaited, chain_of, lane_of

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
"""How often open asks are looked at: by now some of them may only wait for each other."""
_NOT_OF_AN_UNDO: Final = (
    "an undo cannot ask for work: nothing new begins of what is undone. Name the worker that undoes it: undo='its id'"
)
_OPEN: Final = frozenset({QUEUED, RUNNING})
"""Where a subtask stands that may wait for others."""


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
    """The task whose end it waits for, if that was submitted, and not asked for."""

    @property
    def key(self) -> tuple[str, int, int]:
        """Key by which the unit that is asked for names its ask (``Unit.ask``)."""
        return self.attempt.task, self.attempt.spec.start_number, self.number


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
    waiting = *spec.chain, system.boxes.get(spec.path)
    others = sorted(
        (each for each in found if system.boxes.get(each.path) not in waiting), key=lambda each: not each.is_up
    )
    target = others[0].path if others else None
    if target is None or work.words in spec.lineage:
        chain = (*(address.path for address in spec.chain), spec.path, target or found[0].path)
        system.recursion_refused(chain[-1], spec.chain)
        raise own_error(RecursionDetectedError(chain, same_words=target is not None))
    reply = Reply(system.boxes.get(target), spec.path)
    due = None if limit is None else system.now() + limit
    ask = OpenAsk(attempt, next(attempt.numbers), reply, due, caller_variables(CURRENT))
    wait_in(ask)
    own.port.post(lambda engine: engine.asks.begin(ask, work, scope, is_worker=found[0].id == work.to))
    if due is not None:
        late = SubtaskFailedError(attempt.task, work.to, f"no result in {limit:.3g} s")
        reply.when_done(system.timers.call_at(due, partial(reply.fail, late)).cancel)
    stops, stopped = partial(_stops, ask), attempt.incarnation.stop_signal()  # type: ignore[union-attr]  # it runs
    stopped.when_done(stops)
    reply.when_done(partial(stopped.not_when_done, stops))
    if system.is_down:
        reply.fail(system.down_error(own.path))  # nobody else will
    return reply


def wait_in(ask: OpenAsk) -> None:
    """Note that an attempt waits, until its reply is done. Each step is one that no other thread cuts in two."""
    service: TaskService = ask.attempt.owner.service
    ask.attempt.asks.add(ask)  # first: who finds the ask finds that its attempt waits
    service.asks[ask.key] = ask
    ask.reply.when_done(partial(_close, service, ask))


def _stops(ask: OpenAsk) -> None:
    """The worker that waits is told to stop: it need not wait for who was stopped before it."""
    ask.attempt.end_for(STOP)
    ask.reply.fail(AttemptEnded("its worker is told to stop"))


def _close(service: TaskService, ask: OpenAsk) -> None:
    service.asks.pop(ask.key, None)
    ask.attempt.asks.discard(ask)
    ask.attempt.owner.port.post(lambda engine: engine.asks.closed(ask))


# -- the engine's side -----------------------------------------------------------------------------------------


class Asks:
    """Open asks that concern one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._is_looking = False

    # -- who waits for what --------------------------------------------------------------------------------

    def of(self, run: Run, unit: Unit) -> OpenAsk | None:
        """Return the open ask that waits for a unit; None: nobody waits for it in one."""
        return self._engine.service.asks.get(_key(run, unit))

    def _asked_in(self, ask: OpenAsk) -> tuple[Run, Unit] | None:
        """Return the unit that was asked for; None: it is not recorded yet, or the ask waits for a task."""
        run = self._engine.runs.get(ask.attempt.task)
        asker = run.state.units.get(ask.attempt.spec.unit) if run is not None else None
        for unit in (asker.asked if asker is not None else None) or ():
            if run is not None and _key(run, unit) == ask.key:
                return run, unit
        return None

    def is_claimed(self, run: Run, unit: Unit) -> bool:
        """True where nobody had to ask for a unit or a team that it is in, or whoever has asked waits now."""
        for each in unit.line:  # noqa: SIM110 - as in ``Unit.is_ending``
            if each.asker is not None and self.of(run, each) is None:
                return False
        return True

    def is_wanted(self, run: Run, unit: Unit) -> bool:
        """True if somebody waits for a unit, or may again: it is in the plan, or its asker runs once more."""
        asker = unit.asker
        if asker is None or self.of(run, unit) is not None or asker.status is QUEUED:
            return True
        attempt = self._engine.attempts.of(run, asker)
        goes_on = attempt is not None and not attempt.done and attempt.ended_by is None
        return asker.status is RUNNING and not (goes_on and unit.ask.attempt == asker.seq)

    def recall(self) -> None:
        """In a new engine: who still waits for what has ended hears of it."""
        for ask in list(self._engine.service.asks.values()):
            found = self._asked_in(ask)
            if found is not None and found[1].is_done:
                self.tell(*found)

    # -- beginning -----------------------------------------------------------------------------------------

    def begin(self, ask: OpenAsk, work: AskedWork, scope: Scope, *, is_worker: bool) -> None:
        """An attempt asks for something, of the workers of this scope."""
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
        self._engine.decide(found[0], self._begin, *found, ask, work, scope, is_worker)

    def _begin(self, run: Run, asker: Unit, ask: OpenAsk, work: AskedWork, scope: Scope, is_worker: bool) -> None:
        attempt = ask.attempt.spec
        unit = self._known(run, asker, attempt.start_number, work)
        if unit is None:
            host = host_of(asker, scope.path)
            course = run.state.course_of(host)
            spec = work.subtask(host.spec.id, is_worker=is_worker)
            unit = Unit(f"{host.path}/@{host.asks + 1}", "work", course.unit, spec, course.scope)
        anew = unit.is_done and unit.status is not SUCCEEDED and not unit.stays_ended
        chain, lineage = (*chain_of(run.state, asker), attempt.path), (*attempt.lineage, work.words)
        said = (asker.path, unit.spec, ask.number, attempt.start_number, chain, lineage)
        run.emit(unit, task_events.SubtaskDelegated, *said, anew=anew)
        unit = run.state.units[unit.path]
        if unit.is_done:
            self.tell(run, unit)
        else:
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
            if is_same and is_left and self.of(run, unit) is None:
                return unit
        return None

    def waits(self, attempt: Attempt) -> None:
        """Note that an attempt waits in an ask, or for a task: it holds no slot meanwhile."""
        if self._engine.attempts.is_held(attempt) and attempt.has_slot and attempt.is_work and attempt.asks:
            attempt.has_slot = False
            attempt.owner.running -= 1
            self._engine.attempts.reopen(attempt.owner)
            self._look_later()

    def _has_left_slot(self, attempt: Attempt) -> bool:
        """True for an attempt that goes on and has given up its slot."""
        return self._engine.attempts.is_held(attempt) and not attempt.has_slot

    # -- the answer ----------------------------------------------------------------------------------------

    def tell(self, run: Run, unit: Unit) -> None:
        """A unit that was asked for has ended: whoever waits hears of that once it is kept."""
        ask = self.of(run, unit)
        if ask is not None:
            has_failed = unit.status is not SUCCEEDED
            error = SubtaskFailedError(run.id, unit.path, unit.error, unit.kind) if has_failed else None
            run.act(self.answer, ask, unit.value, error)

    def answer(self, ask: OpenAsk, value: Any = None, error: BaseException | None = None) -> None:
        """Answer an ask once its asker has its slot back."""
        self._engine.port.returning.append((ask, value, error))
        self._engine.port.call()

    def let_return(self) -> None:
        """Give answers to those who need no slot, or get one, the oldest first."""
        returning = self._engine.port.returning
        for _ in range(len(returning)):
            ask, value, error = returning.popleft()
            attempt, scope = ask.attempt, ask.attempt.owner
            if self._has_left_slot(attempt) and not ask.reply.done and len(attempt.asks) == 1:
                if scope.running >= scope.settings.max_parallel:
                    returning.append((ask, value, error))
                    continue
                self._takes_slot(attempt)
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
        found = self._asked_in(ask)
        if found is not None and not (found[1].is_done or self._engine.closing or self.is_wanted(*found)):
            self._engine.decide(found[0], self._engine.dispatch.withdraw, *found)

    def attempt_ended(self, attempt: Attempt) -> None:
        """An attempt has ended: what it waits for is answered, and what it had asked for and nobody claims ends."""
        for ask in attempt.asks.copy():
            if not ask.task:
                ask.reply.fail(SubtaskFailedError(attempt.task, attempt.subtask.id, "its attempt has ended"))
        run = self._engine.runs.get(attempt.task)
        asker = run.state.units.get(attempt.spec.unit) if run is not None else None
        if run is not None and asker is not None:
            self._engine.decide(run, self.end_unwanted, run, asker)

    def end_unwanted(self, run: Run, asker: Unit) -> None:
        """End what a unit had asked for and nobody waits for any more."""
        for unit in asker.asked or ():
            if not unit.is_done and not self.is_wanted(run, unit):
                self._engine.dispatch.withdraw(run, unit)

    # -- waits that end in themselves ----------------------------------------------------------------------

    def _look_later(self) -> None:
        if not self._is_looking and self._engine.service.asks:
            self._is_looking = True
            self._engine.at(self._engine.now + LOOK_S, lambda engine: engine.asks.look())

    def look(self) -> None:
        """Look at all asks: something else than an ask may have closed a circle, such as the end of a worker."""
        self._is_looking = False
        for ask in list(self._engine.service.asks.values()):
            self.look_at(ask)
        self._look_later()

    def look_at(self, ask: OpenAsk) -> None:
        """Refuse an ask, or a wait for a task, if all attempts that could end it wait in a circle with its own."""
        circle: tuple[str, ...] = ()
        seen = set[OpenAsk]()
        todo: list[tuple[OpenAsk, tuple[str, ...]]] = [(ask, (ask.attempt.spec.path,))]
        while todo:
            each, trail = todo.pop()
            if each in seen:
                continue
            seen.add(each)
            needs = set(self._needs(each))
            asks = [(attempt, attempt.asks.copy()) for attempt in needs if attempt is not None]
            if not asks or len(asks) < len(needs) or not all(further for _, further in asks):
                return  # something goes on by itself
            for attempt, further in asks:
                longer = (*trail, attempt.spec.path)
                circle = longer if attempt is ask.attempt else circle
                todo += [(one, longer) for one in further]
        if circle:
            ask.reply.fail(RecursionDetectedError(circle))

    def _needs(self, ask: OpenAsk) -> Iterator[Attempt | None]:
        """Yield the attempts that must end before an ask is answered; None: something that goes on by itself."""
        found, run = self._asked_in(ask), self._engine.runs.get(ask.task)
        if found is not None:
            yield from self._held_by(*found)
        elif run is not None:
            for unit in run.state.units.values():
                if unit.role == "work" and unit.status in _OPEN:
                    yield from self._held_by(run, unit)

    def _held_by(self, run: Run, unit: Unit) -> Iterator[Attempt | None]:
        """Yield the attempts that a unit waits for: its own, those of its team, or those that keep its workers busy."""
        engine = self._engine
        if unit.status is RUNNING and unit.is_composite:
            for each in unit.below():
                if each.status in _OPEN and not each.is_composite:
                    yield from self._held_by(run, each)
        elif unit.status is QUEUED:
            scope = engine.scope_of(unit)
            for entry in awaited(scope.workers, lane_of(run.state, unit), engine.now) if scope is not None else ():
                for key in entry.attempts:
                    attempt, part = engine.attempts.held.get(key), engine.dispatch.part(key)
                    if attempt is None and part is not None:
                        yield from self._held_by(*part)
                    else:
                        yield attempt
        else:
            yield engine.attempts.of(run, unit)

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


def _key(run: Run, unit: Unit) -> tuple[str, int, int]:
    """Return the key of the ask that has asked for a unit last."""
    return run.id, unit.ask.attempt, unit.ask.number
