"""How many tokens a text or a value is worth, without a vocabulary: an estimate, quick also where the text is not.

Comes in: any text, or any JSON value. Goes out: about what the tokenizers of today's models count. The measure is
cl100k, within some 25 % for prose and for code. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from typing import Any

from pydantic_core import to_json

from actors.tasks.model.shared_values import SMALL_CHARS, is_small

SHORT = 64
"""Characters: a text of at most so many is worth a token for each four of them, and one more."""
_WHOLE = 4096
"""Characters; so much of a text is counted and not sampled."""
_SAMPLE = 256
"""Characters; one sample."""
_SHARE = 16
"""After ``_WHOLE`` one sample speaks for as much as a sixteenth of all that stands before it."""

_DEPTH = 4
"""Depth of large values in large values: below that each entry counts as one token."""
_PARTS = 64
"""Sample size: so many entries of a large dict or list stand for all of them."""

_DENSE = r"\u0370-\u03ff\u0530-\u05ff\u0700-\u1fff\u2e80-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
"""Greek, Hebrew, Indic, Chinese, Japanese, Korean: about one token a character."""
_PIECE = re.compile(
    rf"""
      [ _.(/]?[A-Z]?[a-z]{{1,8}}
    | [ _.(/]?[A-Z]{{1,4}}
    | [0-9]{{1,3}}
    | ([-=*#_.~/])\1{{3,60}}
    | [ ]?[!-/:-@\[-`{{-~]{{1,3}}\n*
    | [\r\n]+
    | [^\S\r\n]{{1,80}}
    | [{_DENSE}]
    | [ ]?[\u0400-\u052f]{{1,3}}
    | [^\x00-\x7f{_DENSE}\u0400-\u052f\U00010000-\U0001ffff]{{1,2}}
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
"""Each match is about one token: a piece of a word with what stands before it, some digits, a run of signs."""
_PICTURE = re.compile(r"[\U00010000-\U0001ffff]")
"""Emoji and the like: about two tokens, so they are counted once more."""


def estimate_tokens(text: str) -> int:
    """How many tokens it is worth, about; 0 only for no text.

    A longer text that begins with this one never counts less. Beyond a few thousand characters the rest is sampled,
    the more thinly the longer it is: 50 MB take milliseconds.
    """
    size = len(text)
    if size <= _WHOLE:
        return _pieces(text) if size else 0
    total = float(_pieces(text[:_WHOLE]))
    start = _WHOLE
    while start < size:
        # No two steps are alike, so that a text which repeats itself is not always met at the same place.
        stop = min(start + start // _SHARE, size)
        sampled = min(_SAMPLE, stop - start)
        total += _pieces(text[start : start + sampled]) * (stop - start) / sampled
        start = stop
    return round(total)


def tokens_of_short(texts: dict[str, Any]) -> int | None:
    """Rough number of tokens of short texts and their names; None where one of them is no text, or is long.

    Most results are short, and a task may have thousands of them.
    """
    values = texts.values()
    if set(map(type, values)) != {str} or max(map(len, values)) > SHORT:
        return None
    return (sum(map(len, texts)) + sum(map(len, values))) // 4 + len(texts)


def tokens_of(value: Any, count: Callable[[str], int] = estimate_tokens) -> int:
    """How many tokens a JSON value is worth: a text as it is, anything else as JSON.

    The estimate of this module looks at a sample of a large value; a counter of somebody else's at all of it.
    """
    if isinstance(value, str):
        return count(value)
    if count is estimate_tokens:
        return round(_sampled(value))
    try:
        text = to_json(value, serialize_unknown=True).decode()
    except ValueError:
        text = repr(value)
    return count(text)


def _sampled(value: Any, depth: int = _DEPTH) -> float:
    """About how many tokens a value is worth as JSON: of a large one from a sample of what is in it."""
    if type(value) is str and len(value) > SMALL_CHARS:
        return float(estimate_tokens(value))  # as JSON it would be made anew, all of it in one step
    if type(value) not in {dict, list} or is_small(value):
        return _of_json(value)
    if not depth:
        return float(len(value))
    parts = list(islice(value.items() if type(value) is dict else value, 0, None, max(1, len(value) // _PARTS)))
    found = 0.0
    for part in parts:
        key, inner = part if type(value) is dict else ("", part)
        found += _sampled(inner, depth - 1) + (_pieces(f'"{key}"'[:_WHOLE]) + 1 if key else 0)
    return found * len(value) / len(parts)


def _of_json(value: Any) -> float:
    try:
        text = to_json(value, serialize_unknown=True).decode()
    except ValueError:
        text = repr(value)
    return estimate_tokens(text)


def _pieces(text: str) -> int:
    pieces = len(_PIECE.findall(text))
    return pieces if text.isascii() else pieces + len(_PICTURE.findall(text))
