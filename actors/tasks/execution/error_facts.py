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
        says = not isinstance(broken, Failed)
        outcome = Failure(FailureKind.CRASHED if crashed else FailureKind.FAILED, broken, retryable=says, counts=says)
    if not isinstance(outcome, Failure):
        return outcome
    place = place_of_error(error, "")
    where = f"{place.file}:{place.line}" if place.line else ""
    types = tuple(kind_of(each) for each in (error, getattr(error, "error", None)) if isinstance(each, BaseException))
    return replace(outcome, told=text_of(outcome.error), types=types, where=where)


def _outcome(error: BaseException, *, crashed: bool) -> Outcome:  # noqa: PLR0911 - a table
    if isinstance(error, LeaseLostError):
        return NEUTRAL  # its process may not lead any more: whoever leads runs it again
    if isinstance(error, Later):
        return _later(error)
    if isinstance(error, Rejected):
        return Failure(FailureKind.REJECTED, error)
    if isinstance(error, Escalated):
        state = None if error.state is None else stored_form(error.state, "Escalated(state=...)")
        said, resumes = plain_text(error.question or ""), state is not None and bool(error.resumes)
        return Failure(FailureKind.ESCALATED, error, question=said, state=state, resumes=resumes)
    counts = not isinstance(error, (Failed, NotPicklableError, *_OF_OTHERS))  # else the request, or others, had a part
    for_good = _for_good(error)
    if for_good is not None:
        counts = counts and for_good is not FailureKind.RECURSION
        return Failure(for_good, error, retryable=False, counts=counts)
    if isinstance(error, InvalidResultError):
        return Failure(FailureKind.INVALID, error, retryable=bool(error.retryable))
    if crashed:
        return Failure(FailureKind.CRASHED, error, counts=True)
    retryable = bool(error.retryable) if isinstance(error, Failed) else True
    return Failure(FailureKind.FAILED, error, retryable=retryable, counts=counts)


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


def _later(error: Later) -> Later:
    after_s: object = error.after_s
    why, cause = plain_text(error.why), error.__cause__
    if not isinstance(after_s, (int, float)) or not after_s <= MAX_SECONDS:
        raise InvalidResultError("Later(after_s) takes a number of seconds")
    if not why and cause is not None and not isinstance(cause, RemoteTraceback):
        why = text_of(cause)
    kind = PutOff if isinstance(error, PutOff) else Later
    return kind(float(after_s), why[:MOST_CHARS])
