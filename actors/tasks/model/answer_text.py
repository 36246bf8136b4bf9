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
        return _json_in(answer if isinstance(answer, str) else answer.decode())
    except ValueError as error:
        where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        what = f"{len(answer)} characters that are no JSON{where}: {answer[:_MOST_SHOWN]!r}"
    raise InvalidAnswerError((Problem(at, what, hint),))


def _json_in(text: str) -> object:
    """Return the JSON of a text: all of it, or what is in a fence, or the longest object or list among prose.

    Raises:
        ValueError: it holds none; the error is of the text, or of the fence.
    """
    fenced = _FENCE.search(text)
    try:
        found: object = json.loads(fenced.group(1) if fenced else text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError:
        found = _among_prose(text)
        if found is None:
            raise
    return found


def _among_prose(text: str) -> object:
    best: object = None
    longest = at = 0
    decode = json.JSONDecoder().raw_decode
    while begins := _BEGINS.search(text, at):
        start = begins.start()
        try:
            value, at = decode(text, start)
        except (json.JSONDecodeError, RecursionError) as error:
            is_prose = not text[start + 1 : getattr(error, "pos", len(text))].strip()
            at = start + 1 if is_prose else _end_of_broken(text, start)
        else:
            if at - start > longest:
                best, longest = value, at - start
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
