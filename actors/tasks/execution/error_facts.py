"""Facts about an error that has left user code, as plain data, made once and where that code runs.

Looking at an error may run the user's code: its text, its question, what ``retryable`` says. The engine gets what is
made here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeAlias

from actors.model.errors import Escalated, Failed, Later, RecursionDetectedError, Rejected, UnknownEffectError
from actors.model.log_lines import place_of_error
from actors.model.process_errors import NotPicklableError, RemoteTraceback
from actors.model.raised import kind_of
from actors.tasks.execution.stored_form import stored_form
from actors.tasks.model import (
    FOR_GOOD,
    MOST_CHARS,
    Done,
    Failure,
    FailureKind,
    InvalidResultError,
    LeaseLostError,
    PutOff,
    SubtaskFailedError,
    TaskFailedError,
    plain_text,
    text_of,
)
from actors.validation.field_types import MAX_SECONDS

_OF_OTHERS: Final = (SubtaskFailedError, TaskFailedError)
NEUTRAL: Final = None
"""Outcome of an attempt that has ended for reasons of others: no failure, and no attempt."""
Outcome: TypeAlias = Done | Failure | Later | None


def error_facts(error: BaseException, *, crashed: bool) -> Outcome:
    """Return the outcome of an error that left the worker's code, as plain data."""
    try:
        outcome = _outcome(error, crashed=crashed)
    except Exception as broken:  # noqa: BLE001 - a property of the user's error; the attempt has failed nevertheless
        broken.__cause__ = error
        kind, says = FailureKind.CRASHED if crashed else FailureKind.FAILED, not isinstance(broken, Failed)
        outcome = Failure(kind, broken, retryable=says, counts=says)
    if not isinstance(outcome, Failure):
        return outcome
    place, inner = place_of_error(error, ""), getattr(error, "error", None)
    where = f"{place.file}:{place.line}" if place.line else ""
    types = (kind_of(error), kind_of(inner)) if isinstance(inner, BaseException) else (kind_of(error),)
    return replace(outcome, told=text_of(outcome.error), types=types, where=where)


def _outcome(error: BaseException, *, crashed: bool) -> Outcome:  # noqa: PLR0911 - a table
    if isinstance(error, LeaseLostError):
        return NEUTRAL  # its process may not lead any more: whoever leads runs it again
    if isinstance(error, Later):
        return _later(error)
    if isinstance(error, Rejected):
        return Failure(FailureKind.REJECTED, error)
    if isinstance(error, Escalated):
        return _escalated(error)
    for_good = _for_good(error)
    if for_good is not None:
        counts = for_good is not FailureKind.RECURSION and _says_something_of_the_worker(error)
        return Failure(for_good, error, retryable=False, counts=counts)
    if isinstance(error, InvalidResultError):
        return Failure(FailureKind.INVALID, error, retryable=bool(error.retryable))
    if crashed:
        return Failure(FailureKind.CRASHED, error, counts=True)
    retryable = bool(error.retryable) if isinstance(error, Failed) else True
    return Failure(FailureKind.FAILED, error, retryable=retryable, counts=_says_something_of_the_worker(error))


def _for_good(error: BaseException) -> FailureKind | None:
    """Return how it has ended if nobody does it again: by itself, in a team, or in who was asked."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for each in error.exceptions if (found := _for_good(each)) is not None), None)
    if isinstance(error, RecursionDetectedError):
        return FailureKind.RECURSION
    if isinstance(error, UnknownEffectError):
        return FailureKind.IN_DOUBT
    kind = error.kind if isinstance(error, _OF_OTHERS) else ""
    return next((each for each in FOR_GOOD if each == kind), None)


def _escalated(error: Escalated) -> Failure:
    state = None if error.state is None else stored_form(error.state, "Escalated(state=...)")
    said = plain_text(error.question or "")
    return Failure(
        FailureKind.ESCALATED, error, question=said, state=state, resumes=state is not None and bool(error.resumes)
    )


def _says_something_of_the_worker(error: BaseException) -> bool:
    """False if the request was at fault, or somebody else who had a part in it."""
    return not isinstance(error, (Failed, NotPicklableError, *_OF_OTHERS))


def _later(error: Later) -> Later:
    after_s: object = error.after_s
    why, cause = plain_text(error.why), error.__cause__
    if not isinstance(after_s, (int, float)) or not after_s <= MAX_SECONDS:
        raise InvalidResultError("Later(after_s) takes a number of seconds")
    if not why and cause is not None and not isinstance(cause, RemoteTraceback):
        why = text_of(cause)
    kind = PutOff if isinstance(error, PutOff) else Later
    return kind(float(after_s), why[:MOST_CHARS])
