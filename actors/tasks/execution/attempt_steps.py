"""Steps of an attempt: calls whose results are recorded, so that the same attempt does not make them twice.

A step is ``await context.step(name, function, *args)``: the function is called, its result is made JSON and recorded
(``SubtaskStepped``), and only when the store has acknowledged that the call returns. When the same attempt runs again,
in a new process or for a new engine, a step that is recorded returns its record and calls nothing. A process that dies
before the record is acknowledged calls the step again, with the same ``context.step_key``.

**Who may record.** Only the engine records, on the loop, and only for an attempt that has not ended. A process that was
frozen and is followed by another one is refused by the store's fencing token, so what it returns is never acknowledged.

**What is the same attempt.** An attempt has a worker, an act and a number (``SubtaskStarted``). After a crash of its
process, a preemption or a stop the subtask is started once more with the same number. A retry, a failover, ``Later``,
the answer of a person and a revision begin a new attempt: it has the steps with ``keep="subtask"`` only. An agent whose
provider says when to come back (``PutOff``) goes on after its steps then; if it makes one of them with other arguments,
it begins anew from there. See ``actors.tasks.journal.unit``.

**Keys.** A name, and how often it came before in the attempt. A call that raises gives its number back to the next call
like it (name, arguments and ``keep``), so code that tries again by itself has the same numbers however often it had to.
A step within a step belongs to that one: it has numbers of its own, since a replay of the outer one skips it.

**Where.** All of this is where the code of the worker runs. What belongs to the attempt (may it go on, its usage, its
records) is its host: ``AttemptStepHost``, or ``StepHostElsewhere`` in the process of a worker.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from actors.messaging.blocking import require_thread
from actors.messaging.envelope import own_error
from actors.tasks.execution.agent_results import unwrap_returned
from actors.tasks.execution.fingerprint import fingerprint
from actors.tasks.execution.off_loop import off_loop
from actors.tasks.execution.stored_form import is_plain, of_size
from actors.tasks.journal.unit import step_key
from actors.tasks.model.outcome import STOP, AttemptEnded, Done, InvalidResultError, name_of
from actors.tasks.model.shared_values import copied, is_small
from actors.tasks.model.task_errors import LeaseLostError, StepMismatchError
from actors.tasks.model.usage import NO_USAGE, Usage, usage_of
from actors.validation.json_form import LostInJsonError, json_form
from actors.validation.validation_messages import not_json_phrase

if TYPE_CHECKING:
    from actors.messaging.ports import Crossing
    from actors.messaging.reply import Reply
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.execution.work_elsewhere import StepHostElsewhere

Keep: TypeAlias = Literal["attempt", "subtask"]
MOST_NAME_CHARS: Final = 200
"""Limit of the name of a step, in characters."""
_NUMBERS: Final = itertools.count(1)
"""Numbers of traces, in all attempts of this process."""


class KnownSteps(NamedTuple):
    """Steps that an attempt finds recorded when it begins."""

    fingerprints: Mapping[str, str]
    """By key."""
    results: dict[str, Any]
    """By key, as JSON."""
    passing: frozenset[str] = frozenset()
    """Keys of those of an attempt that was put off. It would begin anew without them, and does if it takes another
    way."""

    def lasting(self) -> KnownSteps:
        """Return those that are not of an attempt that was put off."""
        prints = {key: each for key, each in self.fingerprints.items() if key not in self.passing}
        return KnownSteps(prints, {key: self.results[key] for key in prints})


NO_STEPS: Final = KnownSteps({}, {})


class StepCall(NamedTuple):
    """One call of a step, as it is recorded."""

    name: str
    """With the steps around it."""
    number: int
    fingerprint: str
    keep: Keep
    key: str
    """Key within the subtask: made once, and looked up wherever the call is known by it."""


class AttemptStepHost:
    """Attempt in its own process, as the steps of its code see it. May be used from any thread."""

    __slots__ = ("_attempt", "_traced", "known", "path", "subtask")

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self.path = attempt.spec.path
        self.subtask = attempt.subtask.id
        self.known = attempt.spec.steps
        """Steps that are recorded already."""
        self._traced: dict[int, tuple[AbstractContextManager[object], contextvars.Context]] = {}
        """Traces of steps that run in another process now, each with the variables that it was entered in."""

    def ask_leave(self, name: str) -> None:
        """Refuse a step if none may be made any more.

        Raises:
            LeaseLostError: this process leads no more.
            AttemptEnded: the attempt was ended.
        """
        attempt = self._attempt
        if not attempt.owner.may_start():
            try:
                attempt.owner.token()
            except LeaseLostError as error:
                raise own_error(error) from None
            raise AttemptEnded(STOP)
        if attempt.done or attempt.ended_by is not None:
            what = f"the attempt was ended ({attempt.ended_by or 'it is over'}): step {name!r} is not made"
            raise AttemptEnded(what)
        attempt.shows_life()

    def trace(self, name: str) -> AbstractContextManager[object] | None:
        """Return the trace of a step, if its attempt is traced."""
        trace = self._attempt.trace
        return None if trace is None else trace.step(name)

    def begin_trace(self, name: str) -> tuple[int, Crossing | None] | None:
        """Begin the trace of a step that runs in another process; on the loop, as the two that follow.

        Returns:
            Its number, and the span that is to be current there; None: its attempt is not traced.
        """
        trace, tracer = self.trace(name), self._attempt.owner.system.tracer
        if trace is None or tracer is None:
            return None
        variables = contextvars.copy_context()
        variables.run(trace.__enter__)
        number = next(_NUMBERS)
        self._traced[number] = trace, variables
        return number, tracer.crossing(variables)

    def end_trace(self, number: int, error_type: str = "", text: str = "") -> None:
        """End the trace of that step, unless it has; with an error that it has left by, if any."""
        trace, variables = self._traced.pop(number, (None, None))
        if trace is not None and variables is not None:  # else code that outlives its attempt tells of its step
            # Of the type of an error nothing but its name has crossed.
            error = type(error_type, (Exception,), {})(text) if error_type else None
            variables.run(trace.__exit__, error and type(error), error, None)

    def end_traces(self) -> None:
        """End the traces of all steps: their process does nothing for this attempt any more."""
        for number in list(self._traced):
            self.end_trace(number)

    def use(self, usage: Usage) -> None:
        """Count what the step that runs has used up: that is recorded with its result, or told if it has none."""
        self._attempt.use(usage)

    def tell_usage(self) -> None:
        """Tell what was used up, if no record has it."""
        if self._attempt.unrecorded is not NO_USAGE:
            self._attempt.owner.tell_usage(self._attempt)

    def keep_step(self, call: StepCall, value: Any) -> Reply | None:
        """Have a step recorded. None: it is kept; else what is returned is completed when it is."""
        self._attempt.shows_life()
        if self._attempt.spec.role == "work":
            return self._attempt.owner.keep_step(self._attempt, call, value)
        self.tell_usage()
        return None  # an undo is called whole


class _Running(NamedTuple):
    """A step that runs."""

    owner: AttemptSteps
    call: StepCall


_STEP: ContextVar[_Running | None] = ContextVar("regrow_step", default=None)
"""Step that runs here."""


def use_in_step(tokens: int, cost: float) -> bool:
    """Count what the call of the step that runs here has used up, right before it returns; False: no step runs here."""
    step = _STEP.get()
    if step is not None:
        step.owner.host.use(usage_of(tokens, cost, 0.0))
    return step is not None


class AttemptSteps:
    """The steps of one run of an attempt."""

    __slots__ = ("_free", "_idempotency_key", "_known", "_made", "_numbers", "host")

    def __init__(self, host: AttemptStepHost | StepHostElsewhere, idempotency_key: str) -> None:
        self.host = host
        self._idempotency_key = idempotency_key
        self._known = host.known
        self._numbers: dict[str, Iterator[int]] = {}
        """By name, those that are free from here on."""
        self._free: dict[tuple[str, str, Keep], list[int]] = {}
        """By name, fingerprint and keep: numbers of calls that have raised."""
        self._made: dict[str, tuple[Any, Reply | None]] = {}
        """By key, results of calls that were cancelled while their record was written, and what says that it is."""

    async def call(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, keep: Keep) -> Any:
        """Make a step, or replay it; on the loop."""
        call = self._numbered(name, function, args, kwargs, keep)
        leave = self.host.ask_leave(call.name)
        if leave is not None:
            await leave
        if call.key in self._known.fingerprints:
            return copied(self._known.results[call.key])
        made = self._made.pop(call.key, None)
        if made is None:
            with self._runs(call):
                result = function(*args, **kwargs)
                if hasattr(type(result), "__await__"):
                    result = await result
                result = self._answer_in(result)
                as_json = partial(_as_json, call, result)
                value = as_json() if is_small(result, of_json=False) else await off_loop(as_json)
            made = value, self.host.keep_step(call, value)
        value, kept = made
        if kept is not None:
            try:
                await kept
            except asyncio.CancelledError:
                self._made[call.key] = made  # the next call like it is the same step, and waits for the same record
                self._give_back(call)
                raise
        return copied(value)

    def call_sync(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, keep: Keep) -> Any:
        """Make a step, or replay it; on a thread."""
        require_thread(self.host.path, "await context.step(...)")
        call = self._numbered(name, function, args, kwargs, keep)
        leave = self.host.ask_leave(call.name)
        if leave is not None:
            leave.get()
        if call.key in self._known.fingerprints:
            return copied(self._known.results[call.key])
        with self._runs(call):
            result = function(*args, **kwargs)
            if hasattr(type(result), "__await__"):
                getattr(result, "close", lambda: None)()
                message = f"step {name!r}: its function is async, and a thread has no loop. Use await context.step(...)"
                raise TypeError(message)
            value = _as_json(call, self._answer_in(result))
        kept = self.host.keep_step(call, value)
        if kept is not None:
            kept.get()
        return copied(value)

    def _numbered(self, name: Any, function: object, args: Any, kwargs: Any, keep: Keep) -> StepCall:
        """Give a call its number.

        Raises:
            StepMismatchError: a step of this key is recorded with other arguments.
        """
        if not isinstance(name, str) or not 0 < len(name) <= MOST_NAME_CHARS:
            message = f"context.step: the name of a step is a text of 1 to {MOST_NAME_CHARS} characters"
            raise ValueError(message)
        if not callable(function):
            message = f"step {name!r}: {name_of(function)} cannot be called. Give the function and its arguments apart"
            raise TypeError(message)
        if keep not in {"attempt", "subtask"}:
            raise ValueError(f"step {name!r}: keep is 'attempt' or 'subtask'")
        outer = _STEP.get()
        if outer is not None and outer.owner is self:
            name = f"{outer.call.key}/{name}"
        print_ = fingerprint(args, kwargs)
        free = self._free.get((name, print_, keep))
        try:
            number = free.pop(0) if free else None
        except IndexError:  # another thread was faster
            number = None
        if number is None:
            number = next(self._numbers.get(name) or self._numbers.setdefault(name, itertools.count(1)))
        key = step_key(name, number)
        recorded = self._known.fingerprints.get(key)
        if recorded is not None and recorded != print_:
            if key not in self._known.passing:
                raise StepMismatchError(self.host.subtask, name, number, recorded, print_)
            self._known = self._known.lasting()
        return StepCall(name, number, print_, keep, key)

    @contextmanager
    def _runs(self, call: StepCall) -> Iterator[None]:
        """Run the function of a step, and make JSON of its result; if that raises, its number may be had again."""
        with self.host.trace(call.name) or nullcontext():
            outer = _STEP.set(_Running(self, call))
            try:
                yield
            except BaseException:
                self._give_back(call)
                self.host.tell_usage()
                raise
            finally:
                _STEP.reset(outer)

    def _give_back(self, call: StepCall) -> None:
        self._free.setdefault((call.name, call.fingerprint, call.keep), []).append(call.number)

    def _answer_in(self, result: Any) -> Any:
        """Take the answer out of a framework's result; what it took is recorded with it."""
        found = unwrap_returned(result)
        if found is result or type(found) is not Done:
            return found
        self.host.use(found.usage)
        return found.value

    def key_here(self) -> str:
        """Key of the step that runs here, for its effect.

        Raises:
            RuntimeError: none does.
        """
        step = _STEP.get()
        if step is None or step.owner is not self:
            message = "context.step_key is known within a step only: in the function that context.step(...) calls"
            raise RuntimeError(message)
        return f"{self._idempotency_key}/{quote(step.call.name, safe='/#')}#{step.call.number}"


def _as_json(call: StepCall, result: Any) -> Any:
    """Make the form in which a result is recorded, and given to the code in every run alike."""
    if is_plain(result):
        return result
    what = f"the result of step {call.name!r}"
    try:
        return of_size(json_form(result), what)
    except LostInJsonError as error:
        raise InvalidResultError(f"{what}: {not_json_phrase(result, error)} cannot be recorded. {error.hint}") from None
    except (ValueError, RecursionError) as error:
        phrase = not_json_phrase(result, error)
        message = f"{what} cannot be recorded: {phrase} is not JSON (dicts, lists, str, models)"
        raise InvalidResultError(message) from None
