"""Run of one attempt in its worker: calls its code, and makes of what comes back an outcome that can be kept.

The one door through which anything of user code comes to the orchestrator: a result, usage, an error and what it says,
a plan, a verdict, a synthesis. All of it becomes plain data here, in the worker, where it may raise, block or lie as it
likes: at worst it is a failed attempt. The orchestrator meets no object whose methods are a user's.

It runs inside the worker's crash boundary (``actors.execution.crash_boundary``), which completes the attempt: with what
is returned here, or with what is raised here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from actors.messaging.envelope import CURRENT, CurrentMessage, MessageContext
from actors.model.errors import Escalated, Failed, Later, Rejected
from actors.model.spec import LOOP
from actors.tasks.execution.agent_results import unwrap_result, unwrap_returned
from actors.tasks.execution.attempt_spec import AttemptOutcome
from actors.tasks.execution.context import Context, unpack
from actors.tasks.execution.error_facts import UnreadableError, error_facts
from actors.tasks.execution.limited_code import RESULTS_CLASS, LimitedCode
from actors.tasks.execution.off_loop import off_loop
from actors.tasks.execution.stored_form import of_size, stored_form
from actors.tasks.model.attempt_end import STOP, AttemptEnded
from actors.tasks.model.outcome import MOST_CHARS, Done, InvalidResultError, plain_text
from actors.tasks.model.policy import Rung
from actors.tasks.model.shared_values import SMALL_CHARS, is_small
from actors.tasks.model.task import NO_USAGE, Usage, usage_of
from actors.tasks.model.work import Work
from actors.validation.json_form import LostInJsonError, is_whole, json_form_as
from actors.validation.validation_messages import not_json_phrase, type_phrase

if TYPE_CHECKING:
    from actors.execution.crash_boundary import WorkerIncarnation
    from actors.tasks.execution.attempt import Attempt

_PLAIN = frozenset({str, int, bool, type(None)})
"""Types of which every value is JSON as it is."""


def run_attempt(call: Callable[..., Any], attempt: Attempt) -> Any:
    """Run an attempt; what is returned is its ``Done``, or a coroutine of that."""
    current = CURRENT.get()
    assert current is not None  # noqa: S101 - an attempt comes with an origin, so the boundary has set it
    incarnation: Any = current.incarnation
    now = incarnation.system.now()
    if not attempt.owner.may_start():
        attempt.fail(AttemptEnded(STOP))  # nobody's failure: whoever leads now runs it
        return None
    if not attempt.begin(incarnation, now):
        attempt.fail_as_ended()  # else what is returned here could complete it first
        return None
    if attempt.spec.timeout_s is not None:
        _limit(attempt, current, now)
    context = Context(attempt, attempt.spec.values)
    if incarnation.recipe.where is LOOP and not attempt.spec.values.is_light:
        return _awaited(attempt, incarnation, _unpacked(call, attempt, context))
    try:
        result = call(Work.of(attempt.subtask), context)
        if hasattr(type(result), "__await__"):
            if incarnation.recipe.where is not LOOP:
                _refuse_off_loop(attempt, incarnation, result)
            return _awaited(attempt, incarnation, result)
        return _bare_outcome(attempt, result) or to_outcome(attempt, result)
    except BaseException as error:
        stand_in = record_error(attempt, error, incarnation.is_failure)
        if stand_in is None:
            raise
    raise stand_in


def record_error(
    attempt: Attempt, error: BaseException, is_failure: Callable[[BaseException], bool]
) -> UnreadableError | None:
    """Note what left the worker's code, as plain data; what is to be raised in its place, where it is unreadable."""
    stand_in: UnreadableError | None = None
    try:
        crashed = not is_failure(error)
        said = error_facts(error, crashed=crashed)
    except BaseException as broken:  # noqa: BLE001 - looking at it runs the user's code once more
        stand_in = UnreadableError(error, broken)
        crashed = not is_failure(stand_in)
        said = error_facts(stand_in, crashed=crashed)
    attempt.note(AttemptOutcome(stand_in or error, crashed, said))
    return stand_in


def _limit(attempt: Attempt, current: CurrentMessage, now: float) -> None:
    """Limit what it asks others for to the time that it has itself."""
    due = now + (attempt.spec.timeout_s or 0.0)
    origin = current.origin
    if origin is not None and (origin.deadline is None or due < origin.deadline):
        current.origin = MessageContext(origin.sender, origin.chain, due, origin.hops, origin.lineage, origin.variables)


def _refuse_off_loop(attempt: Attempt, incarnation: WorkerIncarnation, awaitable: Any) -> NoReturn:
    """Refuse an awaitable on a thread: there is no loop to await it on."""
    getattr(awaitable, "close", lambda: None)()
    raise TypeError(
        f"{attempt.spec.path}: its code returned an awaitable but runs on the {incarnation.recipe.where}. "
        "Declare it with dispatch='loop', or make it 'async def'"
    )


async def _unpacked(code: Callable[..., Any], attempt: Attempt, context: Context) -> Any:
    """Large inputs and results are copied for the code before it begins: by itself it would do so on the loop."""
    await off_loop(partial(unpack, context))
    result = code(Work.of(attempt.subtask), context)
    return await result if hasattr(type(result), "__await__") else result


def _is_quick(attempt: Attempt, result: Any) -> bool:
    """True where nothing of the user's runs when this result is made what is kept, and it is soon done."""
    if attempt.spec.form is not None or attempt.spec.adapter is not None:
        return False
    value = result.value if type(result) is Done else result
    return is_small(value, of_json=False)


async def _looked_at(attempt: Attempt, result: Any) -> Done:
    """Make what is kept of a result, off the loop where that may take a moment or runs code of the user's."""
    make = partial(to_outcome, attempt, result)
    return make() if _is_quick(attempt, result) else await off_loop(make)


async def _awaited(attempt: Attempt, incarnation: WorkerIncarnation, awaitable: Awaitable[Any]) -> Any:
    stand_in: Exception | None
    try:
        result = await awaitable
        return _bare_outcome(attempt, result) or await _looked_at(attempt, result)
    except asyncio.CancelledError as error:
        if attempt.ended_by is None or incarnation.is_cut_off:
            record_error(attempt, error, lambda _: incarnation.is_cut_off)
            raise
        stand_in = AttemptEnded(attempt.ended_by)
    except BaseException as error:
        stand_in = record_error(attempt, error, incarnation.is_failure)
        if stand_in is None:
            raise
    finally:
        if attempt.ended_by is not None and incarnation.task is not None:
            while incarnation.task.cancelling():
                incarnation.task.uncancel()  # the attempt was cancelled, the worker is not
    raise stand_in  # here: in a handler it would keep the frames of the code, and they lead back to the attempt


def _bare_outcome(attempt: Attempt, result: Any) -> Done | None:
    """Return at once what ``to_outcome`` makes of a text, a number or nothing, as most return; None: that has to look.

    Nothing of the user's is declared that would have to see it, and it came with nothing.
    """
    if type(result) not in _PLAIN or (type(result) is str and not _is_kept_as_it_is(result)):
        return None
    spec = attempt.spec
    is_bare = spec.form is None and spec.adapter is None
    return Done(result, attempt.used) if is_bare else None


def _is_kept_as_it_is(text: str) -> bool:
    """True where a moment shows that a text can be kept, and is read back as it is written."""
    return len(text) <= SMALL_CHARS and is_whole(text)


def to_outcome(attempt: Attempt, result: Any) -> Done:
    """The result in the form in which it is kept and shown to others: JSON.

    Raises:
        InvalidResultError: it does not fit the declared ``output``, or is nothing that can be stored.
        Exception: a signal that was returned.
    """
    said = _done_of(attempt, result)
    result = said.value
    if attempt.spec.form is not None:
        return Done(attempt.spec.form(result), attempt.used)
    adapter = attempt.spec.adapter
    if adapter is not None:
        with LimitedCode(attempt, "output="):
            result = of_size(validated(adapter, result), "the result")
    elif is_small(result, of_json=False):
        result = stored_form(result)
    else:  # serializers of its class may run
        with LimitedCode(attempt, RESULTS_CLASS):
            result = stored_form(result)
    return Done(result, attempt.used, said.summary, said.importance)


def _done_of(attempt: Attempt, result: Any) -> Done:
    """Return what it has said of its result, checked; usage is counted, also where the rest is no result."""
    result = unwrap_returned(result) if attempt.spec.form is None else unwrap_result(unwrap_returned(result))
    if isinstance(result, (Failed, Rejected, Later, Escalated)):
        raise result
    if isinstance(result, Rung):
        raise InvalidResultError(
            f"{type(result).__name__} is a rung of a ladder, for on_failure=[...], and no result. To ask a person "
            "write raise Escalated('...'); to be tried again raise an error."
        )
    if not isinstance(result, Done):
        return Done(result)
    usage = _counted(result.usage)
    if usage is not NO_USAGE:
        attempt.use(usage)
    summary: object = result.summary
    importance: object = result.importance
    if not isinstance(summary, str) or len(summary) > MOST_CHARS:
        raise InvalidResultError(f"Done.summary: expected a text of at most {MOST_CHARS:,} characters")
    if importance is not None and not (isinstance(importance, (int, float)) and 0 <= importance <= 1):
        raise InvalidResultError("Done.importance: expected a number from 0 to 1")
    return Done(result.value, usage, plain_text(summary), None if importance is None else float(importance))


def _counted(told: object) -> Usage:
    """Return the usage that a worker claims, in checked numbers."""
    if told is NO_USAGE:
        return NO_USAGE
    if not isinstance(told, Usage):
        raise InvalidResultError(
            f"Done.usage is {type_phrase(told)}. Give Usage(tokens=..., cost=...), or leave it out."
        )
    numbers = (told.tokens, told.cost, told.seconds)
    if type(numbers[0]) is not int or any(type(each) not in {int, float} or not each >= 0 for each in numbers):
        raise InvalidResultError("Done.usage holds no counts. Give Usage(tokens=..., cost=...), all at least 0.")
    return usage_of(*numbers)


def validated(adapter: TypeAdapter[Any], result: Any) -> Any:
    try:
        return json_form_as(adapter, adapter.validate_python(result))
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in detail['loc']) or 'result'}: {detail['msg']}"
            for detail in error.errors(include_input=False, include_url=False)
        )
        raise InvalidResultError(f"the result does not fit {error.title}: {wrong}") from error
    except (PydanticSerializationError, LostInJsonError, RecursionError) as error:
        raise InvalidResultError(f"{not_json_phrase(result, error)} cannot be stored as JSON") from error
