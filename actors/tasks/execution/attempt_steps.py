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
like it (name and arguments), so code that tries again by itself has the same numbers however often it had to.
A step within a step belongs to that one: it has numbers of its own, since a replay of the outer one skips it.

**Where.** All of this is where the code of the worker runs. What belongs to the attempt (may it go on, its usage, its
records) is asked of the ``Attempt``, or of the ``AttemptElsewhere`` in the process of a worker.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from pydantic import BaseModel

from actors.messaging.blocking import require_thread
from actors.tasks.execution.agent_results import unwrap_returned
from actors.tasks.execution.off_loop import off_loop
from actors.tasks.execution.stored_form import stored_form
from actors.tasks.journal.unit import KeptStep, step_key
from actors.tasks.model import Done, StepMismatchError, copied, is_small, name_of, usage_of

if TYPE_CHECKING:
    from actors.messaging.reply import Reply
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.execution.work_elsewhere import AttemptElsewhere

Keep: TypeAlias = Literal["attempt", "subtask"]
MOST_NAME_CHARS: Final = 200
"""Limit of the name of a step, in characters."""
_TOLD: Final = frozenset({"datetime", "decimal", "fractions", "ipaddress", "pathlib", "uuid", "zoneinfo"})
"""Modules of types whose values are told apart by their text."""


class StepCall(NamedTuple):
    """One call of a step, as it is recorded."""

    name: str
    """With the steps around it."""
    number: int
    fingerprint: str
    keep: Keep
    key: str
    """Key within the subtask: made once, and looked up wherever the call is known by it."""


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
        step.owner.attempt.use(usage_of(tokens, cost, 0.0))
    return step is not None


class AttemptSteps:
    """The steps of one run of an attempt."""

    def __init__(self, attempt: Attempt | AttemptElsewhere) -> None:
        self.attempt = attempt
        self._known: Mapping[str, KeptStep] = attempt.spec.steps
        """By key, those that were recorded before it began, and hold."""
        self._numbers: dict[str, Iterator[int]] = {}
        """By name, those that are free from here on."""
        self._free: dict[tuple[str, str], list[int]] = {}
        """By name and fingerprint: numbers of calls that have raised."""
        self._made: dict[str, tuple[Any, Reply | None]] = {}
        """By key, results of calls that were cancelled while their record was written, and what says that it is."""

    async def call(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, keep: Keep) -> Any:
        """Make a step, or replay it; on the loop."""
        call, leave = self._begun(name, function, args, kwargs, keep)
        if leave is not None:
            await leave
        if call.key in self._known:
            return copied(self._known[call.key].value)
        made = self._made.pop(call.key, None)
        if made is None:
            with self._runs(call):
                result = function(*args, **kwargs)
                if hasattr(type(result), "__await__"):
                    result = await result
                result = self._answer_in(result)
                as_json = partial(stored_form, result, f"the result of step {name!r}")
                value = as_json() if is_small(result, of_json=False) else await off_loop(as_json)
            made = value, self.attempt.keep_step(call, value)
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
        require_thread(self.attempt.spec.path, "await context.step(...)")
        call, leave = self._begun(name, function, args, kwargs, keep)
        if leave is not None:
            leave.get()
        if call.key in self._known:
            return copied(self._known[call.key].value)
        with self._runs(call):
            result = self._answer_in(function(*args, **kwargs))
            value = stored_form(result, f"the result of step {name!r}")
        kept = self.attempt.keep_step(call, value)
        if kept is not None:
            kept.get()
        return copied(value)

    def _begun(self, name: Any, function: object, args: Any, kwargs: Any, keep: Keep) -> tuple[StepCall, Reply | None]:
        """Give a call its number, and ask whether it may be made; None: it may, else what is returned says so.

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
        print_ = _fingerprint(args, kwargs)
        try:
            number = self._free.get((name, print_), []).pop(0)
        except IndexError:  # none is free, or another thread was faster
            number = next(self._numbers.setdefault(name, itertools.count(1)))
        key = step_key(name, number)
        recorded = self._known.get(key)
        if recorded is not None and recorded.fingerprint != print_:
            if recorded.is_of_subtask or not self.attempt.spec.was_put_off:
                raise StepMismatchError(self.attempt.subtask.id, name, number, recorded.fingerprint, print_)
            self._known = {key: step for key, step in self._known.items() if step.is_of_subtask}
        return StepCall(name, number, print_, keep, key), self.attempt.ask_leave(name)

    @contextmanager
    def _runs(self, call: StepCall) -> Iterator[None]:
        """Run the function of a step, and make JSON of its result; if that raises, its number may be had again."""
        with self.attempt.step_trace(call.name) or nullcontext():
            outer = _STEP.set(_Running(self, call))
            try:
                yield
            except BaseException:
                self._give_back(call)
                self.attempt.tell_usage()
                raise
            finally:
                _STEP.reset(outer)

    def _give_back(self, call: StepCall) -> None:
        self._free.setdefault((call.name, call.fingerprint), []).append(call.number)

    def _answer_in(self, result: Any) -> Any:
        """Take the answer out of a framework's result; what it took is recorded with it."""
        found = unwrap_returned(result)
        if type(found) is Done:
            self.attempt.use(found.usage)
            return found.value
        return found

    def key_here(self) -> str:
        """Key of the step that runs here, for its effect.

        Raises:
            RuntimeError: none does.
        """
        step = _STEP.get()
        if step is None or step.owner is not self:
            message = "context.step_key is known within a step only: in the function that context.step(...) calls"
            raise RuntimeError(message)
        return f"{self.attempt.spec.values.idempotency_key}/{quote(step.call.name, safe='/#')}#{step.call.number}"


# -- fingerprints --------------------------------------------------------------------------------------------------


def _fingerprint(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return the fingerprint of the arguments of a step: equal for equal arguments, in every process.

    A value is taken by what JSON would say of it: models and dataclasses by their fields, enums by their value, sets in
    sorted order, bytes by what is in them, dates, numbers and paths by their text. What has no such form counts by the
    name of its type, a function by its own: a step that is called with another client or open file is the same step.
    Arguments that hold themselves, or dicts with keys that cannot be sorted, count by their types alone.

    Returns:
        16 hexadecimal digits.
    """
    try:
        text = _text([args, kwargs])
    except (TypeError, ValueError, RecursionError):
        text = _text([[_named(type(each)) for each in args], sorted(kwargs)])
    return blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:  # noqa: PLR0911 - a table
    """Return what stands for a value that JSON has no form of."""
    if isinstance(value, (Mapping, BaseModel)):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(map(_text, value))
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return value.hex()
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if type(value).__module__.partition(".")[0] in _TOLD:
        return str(value)
    return _named(value if hasattr(value, "__qualname__") else type(value))


def _named(value: Any) -> str:
    """Name of a function or a class, which every process has."""
    return f"<{getattr(value, '__module__', '')}.{value.__qualname__}>"
