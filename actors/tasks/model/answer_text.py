"""JSON in the text that a model or a function answers with: in a fence, or with prose around it.

What stands inside an object or list that is broken (cut off, a comma too many) is no answer by itself: the checks of a
broken verdict may all have passed where the verdict says no. Pure. Nothing here knows what the JSON is to mean.
"""

from __future__ import annotations

import json
import re
from typing import Final

from actors.model.errors import ConfigError, Problem

_FENCE: Final = re.compile(r"```[a-zA-Z]*[^\S\n]*\n(.*?)```", re.DOTALL)
_BEGINS: Final = re.compile(r"[{\[]")
_BRACKET_OR_STRING: Final = re.compile(r'[{\[]|[}\]]|"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_MOST_BEGINNINGS: Final = 200
"""Brackets at which JSON is looked for, at most: prose has a few."""


_MOST_SHOWN: Final = 40
"""Characters of a text that is no JSON."""


class InvalidAnswerError(ConfigError):
    """What a planner or a reviewer returned is no plan, or no verdict. ``problems`` say why, also to a model."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


def answer_data(answer: object, at: str, hint: str) -> object:
    """Return an answer as data: of a text the JSON in it, anything else as it is.

    Raises:
        InvalidAnswerError: the text holds no JSON. Its problem is ``at`` this path, with this ``hint``.
    """
    if not isinstance(answer, (str, bytes, bytearray)):
        return answer
    try:
        return json_in(answer)
    except ValueError as error:
        where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        what = f"{len(answer)} characters that are no JSON{where}: {answer[:_MOST_SHOWN]!r}"
    raise InvalidAnswerError((Problem(at, what, hint),))


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
        except json.JSONDecodeError as error:
            if text[at + 1 : error.pos].strip():  # else it is a bracket of the prose
                end = _end_of_broken(text, at)
            continue
        except RecursionError:
            end = _end_of_broken(text, at)
            continue
        end = after
        if after - at > longest:
            best, longest = value, after - at
    return best


def _end_of_broken(text: str, at: int) -> int:
    """Return where the bracket at a place is closed; the end of the text where it never is."""
    depth = 0
    for match in _BRACKET_OR_STRING.finditer(text, at):
        mark = match.group()
        depth += (mark in "{[") - (mark in "}]")
        if not depth:
            return match.end()
    return len(text)
