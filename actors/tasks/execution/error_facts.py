"""Facts about an error that has left user code, as plain data, made once and where that code runs.

Looking at an error runs the user's code: its text, its question, what ``retryable`` says. Whatever raises while it is
looked at makes of it an ``UnreadableError``. The orchestrator gets what is made here, and never touches the error.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Final, TypeAlias

from pydantic_core import PydanticSerializationError

from actors.model.errors import Escalated, Failed, Later, RecursionDetectedError, Rejected, UnknownEffectError
from actors.model.log_lines import place_of_error
from actors.model.process_errors import NotPicklableError, RemoteTraceback
from actors.model.raised import cause_of, is_a, kind_of
from actors.tasks.model.outcome import (
    FOR_GOOD,
    MOST_CHARS,
    Done,
    Failure,
    FailureKind,
    InvalidResultError,
    PutOff,
    name_of,
    plain_text,
    text_of,
)
from actors.tasks.model.task_errors import (
    LeaseLostError,
    NoCapableWorkerError,
    SubtaskFailedError,
    TaskFailedError,
    TeamFailedError,
)
from actors.validation.field_types import MAX_SECONDS
from actors.validation.json_form import LostInJsonError, json_form, require_size


class _Neutral(Enum):
    """Ended for reasons of others: no failure, and no attempt."""

    NEUTRAL = "neutral"


_OF_OTHERS: Final = (SubtaskFailedError, TaskFailedError, TeamFailedError)
Neutral: TypeAlias = _Neutral
NEUTRAL: Final = _Neutral.NEUTRAL
_NO_SECONDS: Final = Failed("Later(after_s) takes a number of seconds", retryable=False)
Outcome: TypeAlias = Done | Failure | Neutral | Later


class UnreadableError(Exception):
    """Stands for an error of user code that cannot even be looked at: what it is asked for raises."""

    def __init__(self, error: BaseException, broken: BaseException) -> None:
        super().__init__(f"an error of the type {name_of(error)} cannot be looked at: that raised {name_of(broken)}")


def _is_seconds(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value <= MAX_SECONDS


def error_facts(error: BaseException, *, crashed: bool) -> Outcome:
    """Outcome of an error that left the worker's code, as plain data. Raises whatever looking at the error raises."""
    outcome = _error_facts(error, crashed=crashed)
    if not isinstance(outcome, Failure):
        return outcome
    place = place_of_error(error, "")
    where = f"{place.file}:{place.line}" if place.line else ""
    return replace(outcome, told=text_of(outcome.error), types=_types(error), where=where)


def _error_facts(error: BaseException, *, crashed: bool) -> Outcome:  # noqa: PLR0911 - a table
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
    if isinstance(error, NoCapableWorkerError):
        needed, known = (tuple(plain_text(each) for each in names) for names in (error.needed, error.known))
        hint = plain_text(getattr(error, "hint", ""))
        error = NoCapableWorkerError(needed, known, task=plain_text(error.task), hint=hint)
    retryable = bool(error.retryable) if isinstance(error, Failed) else True
    return Failure(FailureKind.FAILED, error, retryable=retryable, counts=_says_something_of_the_worker(error))


def _for_good(error: BaseException) -> FailureKind | None:
    """Return how it has ended where nobody does it again: by itself, in a team, or in who was asked."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for each in error.exceptions if (found := _for_good(each)) is not None), None)
    if isinstance(error, RecursionDetectedError):
        return FailureKind.RECURSION
    if isinstance(error, UnknownEffectError):
        return FailureKind.IN_DOUBT
    kind = plain_text(error.kind) if isinstance(error, _OF_OTHERS) else ""
    return next((each for each in FOR_GOOD if each == kind), None)


def _escalated(error: Escalated) -> Failure:
    question: object = error.question
    try:
        state = None if error.state is None else json_form(error.state)
        require_size(state)
    except (PydanticSerializationError, ValueError, RecursionError) as broken:
        what = f"Escalated(state=...) cannot be kept: a {name_of(error.state)} is given, and it takes JSON"
        if type(broken) in {ValueError, LostInJsonError}:
            what = f"Escalated(state=...) cannot be kept: {broken}"
        return Failure(FailureKind.FAILED, Failed(what, retryable=False), retryable=False)
    said = "" if question is None else plain_text(question)
    resumes = state is not None and bool(error.resumes)
    return Failure(FailureKind.ESCALATED, error, question=said, state=state, resumes=resumes)


def _says_something_of_the_worker(error: BaseException) -> bool:
    """False where the request was at fault, or somebody else who had a part in it."""
    if isinstance(error, TeamFailedError):
        return error.counts
    return not isinstance(error, (Failed, NotPicklableError, *_OF_OTHERS))


def _later(error: Later) -> Later | Failure:
    after_s = error.after_s
    if not _is_seconds(after_s):
        return Failure(FailureKind.FAILED, _NO_SECONDS, retryable=False)
    kind = PutOff if isinstance(error, PutOff) else Later
    return kind(float(after_s), _why(error))


def _why(error: Later) -> str:
    """Return what keeps an attempt: what it says, else the text of what has caused it."""
    said, cause = plain_text(error.why, otherwise="its reason cannot be told"), cause_of(error)
    if not said and cause is not None and not is_a(cause, RemoteTraceback):
        said = text_of(cause)
    return said if len(said) <= MOST_CHARS else f"{said[:MOST_CHARS]} ..."


def _types(error: BaseException) -> tuple[type[BaseException], ...]:
    """Type of an error, and of the error that it has come from."""
    try:
        inner = getattr(error, "error", None)
    except Exception:  # noqa: BLE001 - a property of the user's; then there is none
        inner = None
    return (kind_of(error), kind_of(inner)) if isinstance(inner, BaseException) else (kind_of(error),)
