"""Steps of an attempt: calls whose results are recorded, so that the same attempt does not make them twice.

A step is ``await context.step(name, function, *args)``: the function is called, its result is made JSON and recorded
(``SubtaskStepped``), and only when the store has acknowledged that the call returns. When the same attempt runs again,
in a new process or for a new orchestrator, a step that is recorded returns its record and calls nothing.

One step, from its call to its return::

    called --- its key is known -----------------------------> replayed: the record is returned
      |  '---- known, and the arguments are others -----------> StepMismatchError: the attempt fails
      |  '---- the attempt was ended, or the lease is over ---> refused: nothing is called
      v
    running -- it raises -------------------------------------> nothing is recorded; the number may be had again
      |  '---- CRASH -----------------------------------------> it runs again, with the same ``context.step_key``
      v
    made ----- no JSON can be made of it --------------------> InvalidResultError: nothing is recorded
      |  '---- CRASH -----------------------------------------> the same: at least once
      v
    told ----- the orchestrator records it; where it dies of that, or has died before, the next incarnation does
      |  '---- the attempt has ended meanwhile --------------> refused: an abandoned thread records nothing
      |  '---- the call is cancelled --------------------------> the next one like it waits for this, and calls nothing
      v
    kept ----- acknowledged by the store ---------------------> the result is returned
         '---- another process leads: the store refuses -----> never acknowledged; the tree ends, and so does the call

**Who may record when.** Only the orchestrator records, on the loop, and only for an attempt that is on its books and
has not ended. A process that was frozen and is followed by another one is refused by the store's fencing token, so what
it returns is never acknowledged. Code on the tree's own loop has the record made at once: the orchestrator runs there,
and is never in the middle of something meanwhile. From elsewhere, or where that is down or behind, a step waits on its
port, as every order does, until it is carried out; whoever finds it recorded already acknowledges it and no more.

**What is the same attempt.** An attempt has a worker, an act and a number (``SubtaskStarted``). After a crash of its
process the subtask is queued and started once more with the same number and the same idempotency key, and the worker
that has its steps comes first in line; so does one that was preempted, or stopped with its group. An orchestrator that
dies leaves the attempt running. A retry, a failover, ``Later``, the answer of a person and a revision begin a new
attempt: it has the steps with ``keep="subtask"`` only. An agent whose provider says when to come back (``PutOff``) goes
on after its steps then; where it makes one of them with other arguments, it begins anew from there.
See ``actors.tasks.journal.kept_steps``.

**Keys.** A name, and how often it came before in the attempt. A call that raises gives its number back to the next call
like it (name, arguments and ``keep``) that is made after that: so code that tries again by itself has the same numbers
however often it had to. A call that was made before, and waits for its fingerprint, has no part in it: else it would
depend on that time which number the calls behind it have. A step within a step belongs to that one: it has numbers of
its own, since a replay of the outer one skips it. Calls that tasks of one loop make at once (``asyncio.gather``) have
their numbers in the order in which they are made, however long their fingerprints take: else another run would give the
same calls other numbers.

**Where.** All of this is where the code of the worker runs. What belongs to the attempt (may it go on, its usage, its
records) is its ``StepHost``: the attempt itself (``actors.tasks.execution.step_host``), or back-calls to that from the
process of a worker, which has the steps that are known from the message that brought the work
(``actors.tasks.execution.work_elsewhere``). A process that dies between any two lines above leaves what its host has
been told, and nothing else: what was told is recorded where the attempt has not failed of that death before.

Threads: there is no lock. A number is taken, or given back, in one step of C. The record of a step is waited for by the
thread or the task that made it, and by nobody else; a loop is never held up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from functools import partial
from itertools import count
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias
from urllib.parse import quote

from actors.messaging.blocking import require_thread
from actors.messaging.reply import Reply
from actors.tasks.execution.agent_results import unwrap_returned
from actors.tasks.execution.fingerprint import fingerprint
from actors.tasks.execution.off_loop import off_loop
from actors.tasks.execution.stored_form import of_size
from actors.tasks.journal.kept_steps import step_key
from actors.tasks.model.outcome import Done, InvalidResultError, name_of
from actors.tasks.model.shared_values import SMALL_CHARS, copied, is_small
from actors.tasks.model.task_errors import StepMismatchError
from actors.tasks.model.usage import Usage, usage_of
from actors.validation.json_form import LostInJsonError, json_form
from actors.validation.validation_messages import not_json_phrase

Keep: TypeAlias = Literal["attempt", "subtask"]
_KEEPS: Final = frozenset({"attempt", "subtask"})
_SCALARS: Final = frozenset({int, bool, type(None)})
MOST_NAME_CHARS: Final = 200
"""Limit of the name of a step, in characters."""


class KnownSteps(NamedTuple):
    """Steps that an attempt finds recorded when it begins."""

    fingerprints: Mapping[str, str]
    """By key."""
    results: dict[str, Any]
    """By key, as JSON; one that is in the store only is put there before the attempt is given."""
    passing: frozenset[str] = frozenset()
    """Keys of those of an attempt that was put off. It would begin anew without them, and does where it takes another
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


class StepHost(Protocol):
    """Attempt that steps are made for, wherever they are made."""

    @property
    def path(self) -> str:
        """Path of the worker."""

    @property
    def subtask(self) -> str:
        """Id of the subtask."""

    @property
    def known(self) -> KnownSteps:
        """Steps that are recorded already."""

    def ask_leave(self, name: str) -> Reply | None:
        """Refuse a step where none may be made any more. None: it may be; else what is returned says so."""

    def trace(self, name: str) -> AbstractContextManager[object] | None:
        """Return the trace of a step, where its attempt is traced."""

    def use(self, usage: Usage) -> None:
        """Count what the step that runs has used up: that is recorded with its result, or told where it has none."""

    def tell_usage(self) -> None:
        """Tell what was used up, where no record has it."""

    def keep_step(self, call: StepCall, value: Any) -> Reply | None:
        """Have a step recorded. None: it is kept; else what is returned is completed when it is."""


class Step:
    """Context in which the function of a step is called, and what that returns is made JSON."""

    __slots__ = ("_outer", "_trace", "call", "key", "owner")
    _outer: Token[Step | None]
    _trace: AbstractContextManager[object] | None

    def __init__(self, owner: AttemptSteps, call: StepCall) -> None:
        self.owner = owner
        self.call = call
        self.key = call.key

    def __enter__(self) -> None:
        self._trace = self.owner.host.trace(self.call.name)
        if self._trace is not None:
            self._trace.__enter__()
        self._outer = _STEP.set(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _STEP.reset(self._outer)
        if kind is not None:
            self.owner.give_back(self)
            self.owner.host.tell_usage()
        if self._trace is not None:
            self._trace.__exit__(kind, error, traceback)


_STEP: ContextVar[Step | None] = ContextVar("regrow_step", default=None)
"""Step that runs here."""


def use_in_step(tokens: int, cost: float) -> bool:
    """Count what the call of the step that runs here has used up, right before it returns; False: no step runs here."""
    step = _STEP.get()
    if step is not None:
        step.owner.host.use(usage_of(tokens, cost, 0.0))
    return step is not None


class AttemptSteps:
    """The steps of one run of an attempt."""

    __slots__ = ("_free", "_given_back", "_idempotency_key", "_known", "_last", "_made", "_numbers", "host")

    def __init__(self, host: StepHost, idempotency_key: str) -> None:
        self.host = host
        self._idempotency_key = idempotency_key
        self._known = host.known
        self._numbers: dict[str, Iterator[int]] = {}
        """By name, those that are free from here on."""
        self._free: dict[tuple[str, str, Keep], list[tuple[int, int]]] = {}
        """By name, fingerprint and keep: when a call has raised, counted as ``_given_back``, and its number."""
        self._given_back = 0
        """How many numbers were given back so far."""
        self._made: dict[str, tuple[Any, Reply | None]] = {}
        """By key, results of calls that were cancelled while their record was written, and what says that it is."""
        self._last: dict[str, Reply] = {}
        """By name: done when the last call on a loop whose fingerprint took its time has a number, or needs none."""

    async def call(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, keep: Keep) -> Any:
        """Make a step, or replay it; on the loop."""
        step = await self._begin(self._full_name(name, function, keep), args, kwargs, keep)
        leave = self.host.ask_leave(step.call.name)
        if leave is not None:
            await leave
        if step.key in self._known.fingerprints:
            return self._replayed(step)
        made = self._made.pop(step.key, None)
        if made is None:
            with step:
                result = function(*args, **kwargs)
                if hasattr(type(result), "__await__"):
                    result = await result
                if _is_its_json(result):
                    value = result
                elif is_small(result := self._answer_in(result), of_json=False):
                    value = _as_json(step, result)
                else:
                    value = await off_loop(partial(_long_as_json, step, result))
            made = value, self.host.keep_step(step.call, value)
        value, kept = made
        if kept is not None:
            try:
                await kept
            except asyncio.CancelledError:
                self._made[step.key] = made  # the next call like it is the same step, and waits for the same record
                self.give_back(step)
                raise
        return copied(value)

    def call_sync(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, keep: Keep) -> Any:
        """Make a step, or replay it; on a thread."""
        require_thread(self.host.path, "await context.step(...)")
        made_at = self._given_back
        step = self._numbered(self._full_name(name, function, keep), fingerprint(args, kwargs), keep, made_at)
        leave = self.host.ask_leave(step.call.name)
        if leave is not None:
            leave.get()
        if step.key in self._known.fingerprints:
            return self._replayed(step)
        with step:
            result = function(*args, **kwargs)
            _refuse_awaitable(name, result)
            value = _long_as_json(step, self._answer_in(result))
        kept = self.host.keep_step(step.call, value)
        if kept is not None:
            kept.get()
        return copied(value)

    # -- its parts -----------------------------------------------------------------------------------------

    def _full_name(self, name: str, function: object, keep: Keep) -> str:
        """Name of a call, with the steps around it, which only its caller knows; refuses what is no step."""
        _require(name, function, keep)
        outer = _STEP.get()
        return f"{outer.key}/{name}" if outer is not None and outer.owner is self else name

    async def _begin(self, name: str, args: Any, kwargs: Any, keep: Keep) -> Step:
        """Number a call on a loop: behind those of its name that were made before, and have no fingerprint yet."""
        behind, are_small, made_at = self._last.get(name), _are_small(args, kwargs), self._given_back
        if are_small and (behind is None or behind.done):
            return self._numbered(name, fingerprint(args, kwargs), keep, made_at)
        turn = self._last[name] = Reply()
        try:
            make = partial(fingerprint, args, kwargs)
            print_ = make() if are_small else await off_loop(make)
            if behind is not None:
                await behind
            return self._numbered(name, print_, keep, made_at)
        finally:
            if behind is None:
                turn.complete()
            else:
                behind.when_done(turn.complete)  # one that is cancelled before its turn does not let others pass

    def _numbered(self, name: str, print_: str, keep: Keep, made_at: int) -> Step:
        """Give a call its number; ``made_at``: how many numbers had been given back when it was made.

        Raises:
            StepMismatchError: a step of this key is recorded with other arguments.
        """
        free = self._free.get((name, print_, keep))
        try:
            number = free.pop(0)[1] if free and free[0][0] <= made_at else self._next_number(name)
        except IndexError:  # another thread was faster
            number = self._next_number(name)
        step = Step(self, StepCall(name, number, print_, keep, step_key(name, number)))
        recorded = self._known.fingerprints.get(step.key)
        if recorded is not None and recorded != print_ and step.key in self._known.passing:
            self._known = self._known.lasting()
        elif recorded is not None and recorded != print_:
            raise StepMismatchError(self.host.subtask, name, number, recorded, print_)
        return step

    def _next_number(self, name: str) -> int:
        return next(self._numbers.get(name) or self._numbers.setdefault(name, count(1)))

    def give_back(self, step: Step) -> None:
        """A call has raised: the next one like it is the same step."""
        call = step.call
        self._given_back += 1
        self._free.setdefault((call.name, call.fingerprint, call.keep), []).append((self._given_back, call.number))

    def _answer_in(self, result: Any) -> Any:
        """Take the answer out of a framework's result; what it took is recorded with it."""
        found = unwrap_returned(result)
        if found is result or type(found) is not Done:
            return found
        self.host.use(found.usage)
        return found.value

    def _replayed(self, step: Step) -> Any:
        return copied(self._known.results[step.key])

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


def _require(name: object, function: object, keep: object) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= MOST_NAME_CHARS:
        message = f"context.step: the name of a step is a text of 1 to {MOST_NAME_CHARS} characters"
        raise ValueError(message)
    if not callable(function):
        message = f"step {name!r}: {name_of(function)} cannot be called. Give the function and its arguments apart"
        raise TypeError(message)
    if keep not in _KEEPS:
        raise ValueError(f"step {name!r}: keep is 'attempt' or 'subtask'")


def _are_small(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True where a fingerprint of them is made in a moment, and runs nothing of the user's."""
    for each in args:
        kind = type(each)
        if kind not in _SCALARS and (kind is not str or len(each) > SMALL_CHARS):
            return is_small([*args, *kwargs.values()], of_json=False)
    return not kwargs or is_small([*args, *kwargs.values()], of_json=False)


def _is_its_json(result: Any) -> bool:
    """True for what is its own JSON, which is seen at once: most results are a number, or a short text."""
    kind = type(result)
    return kind in _SCALARS or (kind is str and len(result) <= SMALL_CHARS and result.isascii())


def _refuse_awaitable(name: str, result: Any) -> None:
    if hasattr(type(result), "__await__"):
        getattr(result, "close", lambda: None)()
        message = f"step {name!r}: its function is async, and a thread has no loop. Use await context.step(...)"
        raise TypeError(message)


def _as_json(step: Step, result: Any) -> Any:
    """Make the form in which a result is recorded, and given to the code in every run alike."""
    if _is_its_json(result):
        return result
    try:
        return json_form(result)
    except LostInJsonError as error:
        what = f"{not_json_phrase(result, error)} cannot be recorded. {error.hint}"
        raise InvalidResultError(f"the result of step {step.call.name!r}: {what}") from None
    except (ValueError, RecursionError) as error:
        what = f"the result of step {step.call.name!r} cannot be recorded"
        phrase = not_json_phrase(result, error)
        raise InvalidResultError(f"{what}: {phrase} is not JSON (dicts, lists, str, models)") from None


def _long_as_json(step: Step, result: Any) -> Any:
    """As ``_as_json``, of a result that may be of any length."""
    return of_size(_as_json(step, result), f"the result of step {step.call.name!r}")
