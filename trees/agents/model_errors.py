"""Errors of models and their providers, as what the ladder understands: tried again, put off, or given up.

An error is looked at by what it carries: a status of HTTP and the headers of the answer, as the clients of OpenAI,
Anthropic, Mistral and httpx keep them. An error that another one has caused counts as that one. Everything else stays
what it is: a connection that breaks and an exception of a tool are tried again like any exception.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from actors.model.clock import SystemClock
from actors.model.errors import Failed, Later, Signal
from actors.tasks.model import PutOff

_PASSING: Final = frozenset({408, 409, 425, 429})
"""Statuses of requests that may succeed later, among those that say that the request is wrong."""
_MALFORMED: Final = frozenset({400, 422})
"""Statuses of a request with a field that the server does not take."""
_UNAVAILABLE: Final = frozenset({429, 503, 529})
"""Statuses whose answer may say when to come back."""
_MOST_CAUSES: Final = 10


def outcome_of(error: BaseException) -> BaseException:
    """Return what an error of an agent means for its attempt.

    Itself: it is tried again like any other. ``Later``: the provider said when to come back. A ``Failed`` that is not
    tried again: the request is wrong, and would be the next time.
    """
    if isinstance(error, Signal):
        return error
    for each in _causes(error):
        if isinstance(each, Signal):
            return each
        status = _status_of(each)
        if status is None:
            continue
        if getattr(each, "code", None) == "insufficient_quota":
            return given_up(error)
        if status in _UNAVAILABLE:
            after_s = retry_after_s(each)
            return error if after_s is None else PutOff(after_s)
        return given_up(error) if is_refused(status) else error
    return error


def is_refused(status: object) -> bool:
    """True for a status of HTTP that says that the request is wrong, and would be the next time."""
    return isinstance(status, int) and 400 <= status < 500 and status not in _PASSING  # noqa: PLR2004


def is_malformed(error: BaseException) -> bool:
    """True for an answer that says that the server does not take a field of the request, such as ``stream_options``."""
    return _status_of(error) in _MALFORMED


def raise_outcome(error: Exception, outcome: BaseException, *, has_steps: bool = False) -> None:
    """Raise what an error means for its attempt, or step, unless that is the error itself.

    Args:
        error: what was raised.
        outcome: what it means.
        has_steps: True where each request is a step: an attempt that is put off goes on after those that were answered.
    """
    if isinstance(outcome, PutOff) and not has_steps:
        raise Later(outcome.after_s) from error
    if outcome is not error:
        raise outcome from error


def given_up(error: BaseException) -> Failed:
    """Return the failure of an attempt that is not tried again, with this error in it."""
    failed = Failed(error, retryable=False)
    failed.__cause__ = error
    return failed


def retry_after_s(error: BaseException) -> float | None:
    """Seconds after which the provider wants the request again; None: it did not say."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    if not isinstance(headers, Mapping):
        headers = getattr(error, "headers", None)
    if not isinstance(headers, Mapping):
        return None
    told = {str(name).casefold(): str(value) for name, value in headers.items()}
    precise = _seconds(told.get("retry-after-ms", ""))
    if precise is not None:
        return precise / 1000
    said = told.get("retry-after", "")
    return _seconds(said) if _seconds(said) is not None else _until(said)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and those that have caused it."""
    found: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if found is None:
            return
        yield found
        found = found.__cause__


def _status_of(error: BaseException) -> int | None:
    for holder in (error, getattr(error, "response", None)):
        status: Any = getattr(holder, "status_code", None)
        if isinstance(status, int) and not isinstance(status, bool):
            return status
    return None


def _seconds(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return max(0.0, found) if math.isfinite(found) else None


def _until(text: str) -> float | None:
    """Seconds until a date of HTTP."""
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - SystemClock().wall())
    except (ValueError, TypeError, OverflowError):
        return None
