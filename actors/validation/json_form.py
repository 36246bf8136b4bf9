"""The JSON of what users give: the one form in which a value is recorded, and given to others.

Comes in: a result, inputs, an answer, a state: anything. Goes out: dicts, lists, texts, numbers, bools and None, which
a journal writes and reads back as they are. What has another type takes the form that pydantic gives it: a tuple is a
list, a date its text, a key of a dict a text. That form is made once, at the door, so that whoever sees the value
before it was written and whoever reads it later see the same.

A form that leaves something out without a word is no form, and refused (``LostInJsonError``): two keys of a dict that
are one key in JSON, and two halves of a character side by side, which are read back as one character. This module must
never import threads, a clock or Pykka.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from actors.model.raised import cause_of, is_a

_ATOMS: Final = frozenset({int, float, bool, type(None)})
_TEXTS: Final = frozenset({str})
_HALVES: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_OF_A_FUNCTION: Final = "Error calling function"
"""Beginning of the text where a function of a serializer has raised."""
_SAME_KEYS: Final = ("with two keys that are the same key in JSON, as 1 and '1' are,", "Use texts for keys.")
_TWO_HALVES: Final = (
    "with two halves of a character side by side, which would be read as one character,",
    "Decode the bytes that it came from as one text.",
)


MOST_BYTES: Final = 16 * 1024 * 1024
"""Limit of a value (an input, a result, a step, a state): bytes of its JSON in UTF-8."""
_PIECE: Final = 1_000
"""Items of a list that are worked on in one step of C, which no other thread can interrupt."""


class LostInJsonError(ValueError):
    """A value would not be read back as it was written.

    ``what`` says what in it is lost, to go after what it is, and ``hint`` what to give in its place.
    """

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"a value {what} cannot be kept as JSON. {hint}")
        self.what = what
        self.hint = hint


class NotJsonError(ValueError):
    """No JSON can be made of ``value``, which stands at ``place`` (``['rows'][1]['n']``) in what was given."""

    def __init__(self, place: str, value: object, error: Exception) -> None:
        super().__init__(f"{place or 'it'}: {error}")
        self.place = place
        self.value = value
        self.error = error


def json_form(value: object, *, exclude_none: bool = False) -> Any:
    """The JSON of a value; ``exclude_none`` leaves out the fields of models that are None. A number of numpy is one.

    Raises:
        LostInJsonError: something of it would be lost.
        NotJsonError: something in it is nothing that JSON can be made of.
        RecursionError: it is nested too deeply, or holds itself.
    """
    form = partial(to_jsonable_python, exclude_none=exclude_none, fallback=_plain_number)
    try:
        made = _in_pieces(value, form)
    except ValueError as error:  # PydanticSerializationError is one
        raise_interrupt(error)
        made = _by_hand(value, "", form)
        if _has_objects(made):  # an iterator, which pydantic has used up
            raise
    return _kept(value, made, partial(to_json, exclude_none=exclude_none, fallback=_plain_number))


def _in_pieces(value: Any, form: Callable[[object], Any]) -> Any:
    """Make the JSON of a value, a long list in pieces; also of a dict of long lists."""
    if type(value) is list and len(value) > _PIECE:
        return [made for at in range(0, len(value), _PIECE) for made in form(value[at : at + _PIECE])]
    if type(value) is dict and any(type(each) is list and len(each) > _PIECE for each in value.values()):
        keys = form(dict.fromkeys(value))
        return dict(zip(keys, (_in_pieces(each, form) for each in value.values()), strict=True))
    return form(value)


def require_size(value: object) -> None:
    """Refuse a value, which is JSON, that is larger than what is kept.

    Raises:
        ValueError: it is more than ``MOST_BYTES`` as JSON.
    """
    size = _size(value)
    if size > MOST_BYTES:
        limit = f"{MOST_BYTES // 1024**2} MB"
        what = f"it is {size / 1024**2:,.1f} MB of JSON, and a value has at most {limit}"
        raise ValueError(f"{what}. Keep it elsewhere, and give its address")


def _size(value: Any) -> int:
    """Bytes of a value as JSON."""
    if type(value) is list and len(value) > _PIECE:
        return sum(_size(value[at : at + _PIECE]) for at in range(0, len(value), _PIECE))
    if type(value) is dict:
        return 2 + sum(_size(key) + _size(each) + 2 for key, each in value.items())
    try:
        return len(to_json(value))
    except ValueError:  # half a character
        return len(json.dumps(value))


def _plain_number(value: Any) -> object:
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.generic) or type(value.item()) is type(value):
        raise PydanticSerializationError(f"Unable to serialize unknown type: {type(value)}")
    return value.item()


def _by_hand(value: Any, place: str, form: Callable[[object], Any]) -> Any:
    """The JSON of what pydantic has refused: it takes half a character for a value of a dict, and not for a key.

    Raises:
        NotJsonError: it was refused for something else, which this says.
        RecursionError: it is nested too deeply, or holds itself.
    """
    if type(value) is dict:
        keys = [key if type(key) is str else next(iter(_leaf({key: None}, f"{place} (a key)", form))) for key in value]
        values = [_by_hand(each, f"{place}[{key!r:.60}]", form) for key, each in value.items()]
        return dict(zip(keys, values, strict=True))
    if type(value) in {list, tuple}:
        return [_by_hand(each, f"{place}[{index}]", form) for index, each in enumerate(value)]
    return _leaf(value, place, form)


def _leaf(value: Any, place: str, form: Callable[[object], Any]) -> Any:
    try:
        return value if isinstance(value, Iterator) else form(value)
    except ValueError as error:
        raise_interrupt(error)
        raise NotJsonError(place, value, error) from error


def json_form_as(adapter: TypeAdapter[Any], value: object, *, warnings: bool = True) -> Any:
    """The JSON of a value, as an adapter writes it; ``warnings`` tells of what does not fit that.

    Raises:
        LostInJsonError: something of it would be lost.
        PydanticSerializationError: it is nothing that JSON can be made of.
        RecursionError: it is nested too deeply.
    """
    try:
        made = adapter.dump_python(value, mode="json", warnings=warnings)
    except PydanticSerializationError as error:
        raise_interrupt(error)
        raise
    return _kept(value, made, partial(adapter.dump_json, warnings=False))


def raise_interrupt(error: Exception) -> None:
    """Raise what pydantic has made an error of its own, where that is none: a signal handler's Ctrl-C, most of all.

    Whatever a function of a serializer raises becomes such an error, wherever a signal comes in that function.
    """
    cause = cause_of(error)
    if cause is not None and not is_a(cause, Exception):
        raise cause


def is_whole(text: str) -> bool:
    """True where a text is read back as it is written: no two halves of a character stand side by side in it."""
    return text.isascii() or _HALVES.search(text) is None


def made_whole(text: str) -> str:
    """Return a text that is read back as it is written: two halves of a character side by side are made that one."""
    return text if is_whole(text) else _HALVES.sub(_joined, text)


def _joined(halves: re.Match[str]) -> str:
    return halves.group().encode("utf-16", "surrogatepass").decode("utf-16")


def _kept(value: object, made: Any, text_of: Callable[[object], bytes]) -> Any:
    """Return what was made of a value, where nothing of that is lost."""
    if _has_objects(value):
        _require_whole_texts(made)
        _require_keys(value, text_of)
    return made


def _has_objects(value: object) -> bool:
    """True where there is more in it than builtin containers, texts and atoms; these lose nothing.

    Raises:
        LostInJsonError: they do.
    """
    found, left = False, [value]
    while left:
        each: Any = left.pop()
        kind = type(each)
        if kind is str:
            if not is_whole(each):
                raise LostInJsonError(*_TWO_HALVES)
        elif kind is dict:
            if not _TEXTS.issuperset(map(type, each)):
                _require_distinct(each)
            left += each.values()
        elif kind is list or kind is tuple:
            left += each
        elif kind not in _ATOMS:
            found = True
    return found


def _require_distinct(entries: dict[Any, Any]) -> None:
    if len(to_jsonable_python(dict.fromkeys(entries), fallback=_plain_number)) < len(entries):
        raise LostInJsonError(*_SAME_KEYS)


def _require_whole_texts(made: Any) -> None:
    _has_objects(made)  # it has none, so each of its texts is looked at


def _require_keys(value: object, text_of: Callable[[object], bytes]) -> None:
    """Look for the same key twice in the text of it: the objects of a user's classes make dicts as they like."""
    try:
        text = text_of(value)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        if _OF_A_FUNCTION in str(error):  # it did not raise a moment ago: a Ctrl-C, as far as anybody can tell
            raise
        return  # half a character: pydantic makes no text of that, and nobody can look
    _READER.decode(text.decode())


def _require_other_keys(entries: list[tuple[str, Any]]) -> None:
    if len(dict(entries)) < len(entries):
        raise LostInJsonError(*_SAME_KEYS)


_READER: Final = json.JSONDecoder(
    object_pairs_hook=_require_other_keys, parse_int=len, parse_float=len, parse_constant=len
)
"""Makes nothing of what it reads, and no number of any length."""
