"""Reading of requests: queries and bodies become plain values of the right types, or a refusal with one sentence.

=====================  ======
no JSON                400
more than 64 KiB       413
too slow               408
another shape          422
=====================  ======

Text with a NUL byte or half of a surrogate pair is refused (422): no store, and no path of a tree, can have it.

A refusal comes before its request was read, and then the connection is closed. TCP resets one that is closed with bytes
on it that nobody has read, and a reset overtakes the answer. So what is left of a body is read first (``UnreadBody``).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from trees.observe.web.refusals import TOO_LARGE, TOO_SLOW, Refusal

MOST_BODY: Final = 64 * 1024
MOST_DISCARDED: Final = 1024 * 1024
"""Bytes of a refused one that are read and thrown away, so that who is still sending them sees the answer."""
BODY_S: Final = 10.0
LINGER_S: Final = 1.0
"""Seconds in which what is left of a refused one must come."""
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
    if declared_length(request.headers) > MOST_DISCARDED:
        raise Refusal(413, TOO_LARGE)
    text = bytearray()
    async for piece in request.stream():
        text += piece
        if len(text) > MOST_BODY:
            raise Refusal(413, TOO_LARGE)
    return bytes(text)


def declared_length(headers: Mapping[str, str]) -> int:
    """Return how long a body is said to be; one of unknown length, or none: 0."""
    length = headers.get("content-length", "0")
    return int(length) if length.isdecimal() and len(length) <= 9 else 10**9  # noqa: PLR2004 - digits


class UnreadBody:
    """Body of one request, as the server hands it out: knows whether something of it is left."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._is_read = False

    async def receive(self) -> Message:
        """Return the next message of the request."""
        message = await self._receive()
        self._is_read = self._is_read or not message.get("more_body", False)
        return message

    async def discard(self, length: int) -> None:
        """Read what is left of it and throw that away, within bounds of size and time.

        Args:
            length: of the whole body as its head declares it; one beyond the bound is not begun with.
        """
        came = 0 if length <= MOST_DISCARDED else length
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                while not self._is_read and came <= MOST_DISCARDED:
                    came += len((await self.receive()).get("body", b""))


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
    """Refuse such text anywhere in a value of JSON, and numbers that were too large to be read (``1e999``)."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            checked(each, name, MOST_BODY)
        elif isinstance(each, float) and not isfinite(each):
            raise Refusal(422, f"The field '{name}' holds a number that is too large.")
        elif isinstance(each, dict):
            waiting += [*each, *each.values()]
        elif isinstance(each, list):
            waiting += each
    return value


def limit_of(query: Mapping[str, str], default: int) -> int:
    """Return the limit of rows that a query has, from 1 to the most."""
    text = query.get("limit")
    if text is None or text == "":
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and 1 <= int(text) <= MOST_ROWS):  # noqa: PLR2004
        raise Refusal(422, f"'limit' must be a number from 1 to {MOST_ROWS}.")
    return int(text)


def query_of(query: Mapping[str, str], name: str, *, required: bool = False) -> str | None:
    """Return a text of the query; None: it is not there, or empty."""
    value = query.get(name)
    if not value:
        if required:
            raise Refusal(422, f"'{name}' is missing in the query.")
        return None
    return checked(value, name)


def choice_of(query: Mapping[str, str], name: str, *words: str) -> str | None:
    """Return a word of the query that must be one of some; None: it is not there, or empty."""
    value = query_of(query, name)
    if value is not None and value not in words:
        raise Refusal(422, f"'{name}' must be {' or '.join(map(repr, words))}.")
    return value
