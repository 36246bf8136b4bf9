"""Form in which a result is kept where nothing is declared of it: JSON, or an error that says why it has none."""

from __future__ import annotations

import inspect
from typing import Any

from actors.tasks.model.outcome import InvalidResultError
from actors.validation.json_form import json_form
from actors.validation.validation_messages import not_json_phrase


def stored_form(result: Any) -> Any:
    """Return a result as JSON. Code of the user's may run here.

    Raises:
        InvalidResultError: it has no such form.
    """
    try:
        return json_form(result)
    except (ValueError, RecursionError) as error:
        if inspect.iscoroutine(result):
            result.close()  # else it complains that nobody has awaited it
        raise InvalidResultError(
            f"{not_json_phrase(result, error)} cannot be stored: results are JSON (dicts, lists, str, numbers, models)"
        ) from error
