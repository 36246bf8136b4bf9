"""Form in which a result, a step or a state is kept: JSON, or an error that says why it has none."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ValidationError

from actors.tasks.model import SMALL_CHARS, InvalidResultError, is_small
from actors.validation.json_form import is_whole, json_form, require_size
from actors.validation.validation_messages import not_json_phrase

_PLAIN: Final = frozenset({int, bool, type(None)})


def of_size(value: Any, what: str) -> Any:
    """Return a value that is JSON and small enough to be kept.

    Raises:
        InvalidResultError: it is too large. It would be so again, so it is not tried again.
    """
    if not is_small(value):
        try:
            require_size(value)
        except ValueError as error:
            raise InvalidResultError(f"{what} cannot be kept: {error}", retryable=False) from None
    return value


def wrong_in(error: ValidationError, whole: str) -> str:
    """Say where a value does not fit its type, and why; ``whole``: name of the value itself."""
    details = error.errors(include_input=False, include_url=False)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or whole}: {each['msg']}" for each in details)


def stored_form(value: Any, what: str = "the result") -> Any:
    """Return a value as JSON. Code of the user's may run here.

    Raises:
        InvalidResultError: it has no such form, or is too large.
    """
    kind = type(value)
    if kind in _PLAIN or (kind is str and len(value) <= SMALL_CHARS and is_whole(value)):
        return value  # it is its own JSON
    try:
        return of_size(json_form(value), what)
    except (ValueError, RecursionError) as error:
        hint = getattr(error, "hint", "Use JSON: dicts, lists, str, numbers, models")
        if hasattr(type(value), "__await__"):
            getattr(value, "close", lambda: None)()  # else it complains that nobody has awaited it
            hint = "It is an awaitable: await it, in an 'async def'. Of a step write 'await context.step(...)'"
        raise InvalidResultError(f"{what}: {not_json_phrase(value, error)} cannot be stored. {hint}") from error
