"""Reading of requests: queries and bodies become plain values of the right types, or a refusal with one sentence.

=====================  ======
no JSON                400
more than 64 KiB       413
too slow               408
another shape          422
=====================  ======

Text with a NUL byte or half of a surrogate pair is refused (422): no store, and no path of a tree, can have it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request

from trees.observe.web.refusals import TOO_LARGE, TOO_SLOW, Refusal

MOST_BODY: Final = 64 * 1024
MOST_DISCARDED: Final = 1024 * 1024
"""Bytes of a longer one that are read and thrown away, so that who is still sending them sees the answer."""
BODY_S: Final = 10.0
MOST_TEXT: Final = 4096
"""Characters of a path or an id."""
MOST_ROWS: Final = 5000
"""Rows that a list may be asked for."""
_WORDS: Final = {str: "a text", int: "a number", bool: "true or false"}


async def body_of(request: Request) -> dict[str, Any]:
    """Read the body, which must be an object of JSON; an empty one is an empty object."""
    try:
        async with asyncio.timeout(BODY_S):
            text = await _bytes(request)
    except TimeoutError:
        raise Refusal(408, TOO_SLOW) from None
    except ClientDisconnect:
        raise Refusal(400, "The request ended before its body did.") from None
    if not text.strip():
        return {}
    try:
        found = json.loads(text.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Refusal(400, "The body of the request is not JSON.") from None
    if not isinstance(found, dict):
        raise Refusal(422, 'The body of the request must be a JSON object, such as {"answer": "approve"}.')
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(name)


async def _bytes(request: Request) -> bytes:
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 9 or int(length) > MOST_DISCARDED:  # noqa: PLR2004 - digits
        raise Refusal(413, TOO_LARGE)
    text, came = bytearray(), 0
    async for piece in request.stream():
        came += len(piece)
        if came <= MOST_BODY:
            text += piece
        elif came > MOST_DISCARDED:
            break
    if came > MOST_BODY:
        raise Refusal(413, TOO_LARGE)
    return bytes(text)


def only(found: Mapping[str, Any], *names: str) -> None:
    """Refuse fields that nobody knows: a misspelt one would be overlooked."""
    stranger = next((name for name in found if name not in names), None)
    if stranger is not None:
        known = ", ".join(names) if names else "none"
        raise Refusal(422, f"The field {stranger[:40]!a} is not known; known are: {known}.")


def text_of(found: Mapping[str, Any], name: str, *, most: int = MOST_TEXT, required: bool = True) -> str | None:
    """Return a field with text."""
    value = found.get(name)
    if value is None:
        if required:
            raise Refusal(422, f"The field '{name}' is missing.")
        return None
    if not isinstance(value, str):
        raise Refusal(422, f"The field '{name}' must be a text.")
    return checked(value, name, most)


def checked(text: str, name: str, most: int = MOST_TEXT) -> str:
    """Refuse text that nothing here can have."""
    if len(text) > most:
        raise Refusal(422, f"The field '{name}' is longer than {most} characters.")
    if "\0" in text or any("\ud800" <= each <= "\udfff" for each in text):
        raise Refusal(422, f"The field '{name}' holds a character that no text here can have.")
    return text


def checked_value(value: object, name: str) -> Any:
    """Refuse such text anywhere in a value of JSON."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            checked(each, name, MOST_BODY)
        elif isinstance(each, dict):
            waiting += [*each, *each.values()]
        elif isinstance(each, list):
            waiting += each
    return value


def number_of(query: Mapping[str, str], name: str, default: int, most: int = MOST_ROWS) -> int:
    """Return a number of the query, from 1 to the most."""
    text = query.get(name)
    if text is None or text == "":
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and 1 <= int(text) <= most):  # noqa: PLR2004
        raise Refusal(422, f"'{name}' must be a number from 1 to {most}.")
    return int(text)


def query_of(query: Mapping[str, str], name: str, *, required: bool = False) -> str | None:
    """Return a text of the query; None: it is not there, or empty."""
    value = query.get(name)
    if not value:
        if required:
            raise Refusal(422, f"'{name}' is missing in the query.")
        return None
    return checked(value, name)
