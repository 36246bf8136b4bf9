"""Run of one attempt in its worker: calls its code, and makes of what comes back an outcome that can be kept.

The one door through which anything of user code comes to the engine: a result, usage, an error and what it says, a
plan, a verdict, a synthesis. All of it becomes plain data here, in the worker, where it may raise or block: at worst it
is a failed attempt.

It runs inside the worker's crash boundary (``actors.execution.crash_boundary``), which completes the attempt: with what
is returned here, or with what is raised here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from actors.messaging.envelope import CURRENT, STOP, MessageContext
from actors.model.errors import Escalated, Failed, Later, Rejected
from actors.model.spec import LOOP
from actors.tasks.execution.agent_results import unwrap_result, unwrap_returned
from actors.tasks.execution.context import Context
from actors.tasks.execution.off_loop import off_loop
from actors.tasks.execution.stored_form import of_size, stored_form, wrong_in
from actors.tasks.model import (
    MOST_CHARS,
    NO_USAGE,
    AttemptEnded,
    Done,
    InvalidResultError,
    Rung,
    Usage,
    Work,
    is_small,
)
from actors.validation.json_form import LostInJsonError, json_form_as
from actors.validation.validation_messages import not_json_phrase, value_phrase

if TYPE_CHECKING:
    from actors.execution.crash_boundary import WorkerIncarnation
    from actors.tasks.execution.attempt import Attempt


def run_attempt(call: Callable[..., Any], attempt: Attempt) -> Any:
    """Run an attempt; what is returned is its ``Done``, or a coroutine of that."""
    current, spec = CURRENT.get(), attempt.spec
    assert current is not None  # noqa: S101 - an attempt comes with an origin, so the boundary has set it
    incarnation: Any = current.incarnation
    now = incarnation.system.now()
    if not attempt.owner.service.may_start():
        attempt.fail(AttemptEnded(STOP))  # nobody's failure: whoever leads now runs it
        return None
    with attempt.lock:
        is_ended = attempt.done or attempt.ended_by is not None
        if not is_ended:
            attempt.incarnation, attempt.last_sign = incarnation, now  # first: limits count from this sign
            attempt.started = now
    if is_ended:
        attempt.fail(AttemptEnded(attempt.ended_by or "cancel"))  # else what is returned here could complete it first
        return None
    origin = current.origin
    if spec.timeout_s is not None and origin is not None:  # what it asks others for has no more time than it has
        due = now + spec.timeout_s
        if origin.deadline is None or due < origin.deadline:
            current.origin = MessageContext(
                origin.sender, origin.chain, due, origin.hops, origin.lineage, origin.variables
            )
    values, is_on_loop = spec.values, incarnation.recipe.where is LOOP
    context = Context(attempt)
    if is_on_loop and not values.is_light:
        return _awaited(attempt, incarnation, _unpacked(call, attempt, context))
    try:
        result = call(Work.of(attempt.subtask, values.part or values.goal), context)
        if is_on_loop and hasattr(type(result), "__await__"):
            return _awaited(attempt, incarnation, result)
        return _outcome(attempt, result)
    except BaseException as error:
        attempt.note_caught(error, crashed=not incarnation.is_failure(error))
        raise


async def _unpacked(code: Callable[..., Any], attempt: Attempt, context: Context) -> Any:
    """Large inputs and results are copied for the code before it begins: by itself it would do so on the loop."""
    await off_loop(context._regrow_unpack)  # noqa: SLF001 - a name of ours that users have no need of
    result = code(Work.of(attempt.subtask, context.part or context.goal), context)
    return await result if hasattr(type(result), "__await__") else result


async def _awaited(attempt: Attempt, incarnation: WorkerIncarnation, awaitable: Awaitable[Any]) -> Any:
    try:
        result, spec = await awaitable, attempt.spec
        value = result.value if type(result) is Done else result
        if spec.form is None and spec.adapter is None and is_small(value, of_json=False):
            return _outcome(attempt, result)
        return await off_loop(partial(_outcome, attempt, result))  # code of the user's may run in it, or it takes long
    except asyncio.CancelledError as error:
        if attempt.ended_by is None or incarnation.is_cut_off:
            attempt.note_caught(error, crashed=not incarnation.is_cut_off)
            raise
        why = attempt.ended_by
    except BaseException as error:
        attempt.note_caught(error, crashed=not incarnation.is_failure(error))
        raise
    finally:
        if attempt.ended_by is not None and incarnation.task is not None:
            while incarnation.task.cancelling():
                incarnation.task.uncancel()  # the attempt was cancelled, the worker is not
    raise AttemptEnded(why)  # here: in a handler it would keep the frames of the code, and they lead to the attempt


def _outcome(attempt: Attempt, result: Any) -> Done:
    """Return the result in the form in which it is kept and shown to others: JSON.

    Raises:
        InvalidResultError: it does not fit the declared ``output``, or is nothing that can be stored.
        Exception: a signal that was returned.
    """
    spec = attempt.spec
    said = _done_of(attempt, result)
    result = said.value
    if spec.form is not None:
        return Done(spec.form(result), attempt.used)
    adapter = spec.adapter  # None: serializers of its class may run
    result = stored_form(result) if adapter is None else of_size(validated(adapter, result), "the result")
    return Done(result, attempt.used, said.summary, said.importance)


def _done_of(attempt: Attempt, result: Any) -> Done:
    """Return what it has said of its result, checked; usage is counted, also if the rest is no result."""
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
    usage: object = result.usage
    summary: object = result.summary
    importance: object = result.importance
    if isinstance(usage, Usage) and usage is not NO_USAGE:
        attempt.use(usage)
    is_text = isinstance(summary, str) and len(summary) <= MOST_CHARS
    is_share = importance is None or (isinstance(importance, (int, float)) and 0 <= importance <= 1)
    if not (isinstance(usage, Usage) and is_text and is_share):
        raise InvalidResultError(
            f"Done takes usage=Usage(tokens=..., cost=...), a summary of at most {MOST_CHARS:,} characters, and an "
            f"importance from 0 to 1; got {value_phrase(usage)}, {value_phrase(summary)}, {value_phrase(importance)}"
        )
    return result


def validated(adapter: TypeAdapter[Any], result: Any) -> Any:
    try:
        return json_form_as(adapter, adapter.validate_python(result))
    except ValidationError as error:
        raise InvalidResultError(f"the result does not fit {error.title}: {wrong_in(error, 'result')}") from error
    except (PydanticSerializationError, LostInJsonError, RecursionError) as error:
        raise InvalidResultError(f"{not_json_phrase(result, error)} cannot be stored as JSON") from error
