"""JSON in the text that a model or a function answers with: in a fence, or with prose around it.

Pure. Nothing here knows what the JSON is to mean.
"""

from __future__ import annotations

import json
import re
from typing import Final

_FENCE: Final = re.compile(r"```[a-zA-Z]*\s*\n(.*?)```", re.DOTALL)
_BEGINS: Final = re.compile(r"[{\[]")
_MOST_BEGINNINGS: Final = 200
"""Brackets at which JSON is looked for, at most: prose has a few."""


def json_in(text: str | bytes | bytearray) -> object:
    """Return the JSON of a text: all of it, or what stands in a fence, or the longest object or list among prose.

    Raises:
        ValueError: it holds none; the error is of the text, or of the fence.
    """
    said = text if isinstance(text, str) else text.decode()
    fenced = _FENCE.search(said)
    try:
        found: object = json.loads(fenced.group(1) if fenced else said)
    except RecursionError:
        message = "nested too deeply"
        raise ValueError(message) from None
    except ValueError:
        among = _among_prose(said)
        if among is None:
            raise
        return among
    return found


def _among_prose(text: str) -> dict[str, object] | list[object] | None:
    best: dict[str, object] | list[object] | None = None
    longest = end = 0
    decode = json.JSONDecoder().raw_decode
    for tried, begins in enumerate(_BEGINS.finditer(text)):
        at = begins.start()
        if tried >= _MOST_BEGINNINGS:
            break
        if at < end:
            continue  # within what was read
        try:
            value, after = decode(text, at)
        except (ValueError, RecursionError):
            continue
        end = after
        if after - at > longest:
            best, longest = value, after - at
    return best
