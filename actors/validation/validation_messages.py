"""How a mistake in a declaration is worded.

Comes in: pydantic's ``ValidationError``, or a value that a rule of ours refuses. Goes out: ``Problem``s, so that a
user meets one error type. No text shows more of a value than a short word, a number or the name of a type: secrets
travel in declarations. This module must never import the specs themselves.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from actors.model.errors import ActorsError, Problem, UnknownPathError
from actors.model.raised import is_a
from actors.validation.error_text import in_brief
from actors.validation.introspection import NEVER_AWAITED, PLAIN_HINT, is_async
from actors.validation.json_form import LostInJsonError, NotJsonError

T = TypeVar("T")

_QUOTED = re.compile("'([^']*)'")
_UNKNOWN_TYPE = re.compile(r"unknown type: <class '(?:[^']*\.)?([^'.]+)'>")
_LONGEST_WORD = 40
_LONGEST_INT_BITS = 64

_WRONG_TYPE: dict[str, tuple[str, str]] = {
    "string_type": ("a str", "Write it in quotes."),
    "bool_type": ("a bool", "Write True or False."),
    "int_type": ("an int", "Write a whole number."),
    "float_type": ("a number", "Write a number."),
    "list_type": ("a list", "Write [...]."),
    "dict_type": ("a dict", "Write {...}."),
}
_BEYOND: dict[str, tuple[str, str, str]] = {
    "greater_than_equal": ("too small", "at least", "ge"),
    "greater_than": ("too small", "more than", "gt"),
    "less_than_equal": ("too large", "at most", "le"),
    "less_than": ("too large", "less than", "lt"),
}


def value_phrase(value: object) -> str:
    """A value in few words: a short str, a number or a bool as it is; of anything else only the kind."""
    if isinstance(value, str):
        return repr(value) if len(value) <= _LONGEST_WORD else f"a str of {len(value)} characters"
    if isinstance(value, int) and value.bit_length() > _LONGEST_INT_BITS:
        return f"an int of {value.bit_length()} bits"
    if isinstance(value, (bool, int, float)):
        return repr(value)
    return type_phrase(value)


def require_seconds(where: str, timeout: object) -> None:
    """Refuse what is no time to wait: None (as long as it takes), or seconds, 0 and infinity included.

    Raises:
        ValueError: it is none.
    """
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and timeout >= 0):  # type: ignore[operator]  # a number: it has just been looked at
        raise ValueError(
            f"{where}: expected a timeout, got {value_phrase(timeout)}. Give a number of seconds, 0 or more, or None"
        )


def require_text(where: str, value: object, hint: str) -> str:
    """Return a text as a plain str, also one of a class of the user's; ``hint`` says what to give instead.

    Raises:
        TypeError: it is none.
    """
    if not is_a(value, str):
        raise TypeError(f"{where} expected a str, got {value_phrase(value)}. {hint}")
    return str.__str__(value)  # one of a subclass becomes a plain one


def is_one_of(words: Collection[str], value: object) -> bool:
    """True if a value is one of these words. It may be of any type, and is asked nothing."""
    return is_a(value, str) and value in words


def fraction_of(value: Any) -> float:
    """Return how far an attempt says that it is, from 0 to 1.

    Raises:
        TypeError: it is no number.
    """
    try:
        return min(1.0, max(0.0, float(value)))
    except (TypeError, ValueError):
        hint = "Give a number from 0 to 1, and the text after it: context.progress(0.5, 'half')."
        raise TypeError(f"context.progress: {value_phrase(value)} is no number. {hint}") from None


def require_path(path: object) -> None:
    """Refuse what can be no path; ``None``, a list, a ``Ref``.

    Raises:
        UnknownPathError: it is no text.
    """
    if not is_a(path, str):
        raise UnknownPathError(value_phrase(path))


def require_callback(where: str, callback: object, hint: str) -> None:
    """Refuse what cannot be called, and what is async where nobody awaits it.

    Raises:
        TypeError: it is that; ``hint`` says what to give.
    """
    if not callable(callback):
        raise TypeError(f"{where} {type_phrase(callback)} cannot be called. {hint}")
    if is_async(callback):
        raise TypeError(f"{where} {type_phrase(callback)} {NEVER_AWAITED}. {PLAIN_HINT}")


def type_phrase(value: object) -> str:
    """Return what sort of thing a value is, and nothing of the value; a class by its name. It runs no code of it."""
    if value is None:
        return "None"
    if issubclass(type(value), type) and isinstance(value, type):  # isinstance alone would ask the value for its class
        return f"the class {value.__qualname__}"
    name = type(value).__qualname__
    return f"{_article(name)} {name}"


def not_json_phrase(value: object, error: Exception) -> str:
    """Return what sort of thing pydantic makes no JSON of, and what in it is the cause; nothing of the value."""
    if isinstance(error, NotJsonError):
        found = not_json_phrase(error.value, error.error)
        return f"{found} at {error.place}" if error.place else found
    whole, text = type_phrase(value), in_brief(error)  # the error may be of a serializer of the user's
    if isinstance(error, LostInJsonError):
        return f"{whole} {error.what}"
    if isinstance(error, UnicodeDecodeError):
        return f"{'' if issubclass(type(value), bytes) else f'{whole} with '}bytes that are no UTF-8"
    if isinstance(error, RecursionError) or "Circular reference" in text or "depth exceeded" in text:
        return f"{whole} that holds itself, or is nested too deeply,"
    unknown = _UNKNOWN_TYPE.search(text)
    if unknown is None or unknown[1] == type(value).__name__:
        return whole
    return f"{whole} with {_article(unknown[1])} {unknown[1]} in it"


def _article(word: str) -> str:
    return "an" if word[0].lower() in "aeiou" else "a"


def listed(words: Iterable[str], last: str = "or") -> str:
    """``'a', 'b' or 'c'``."""
    quoted = [repr(word) for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"


def nearest(word: str, known: Collection[str]) -> str:
    """``Did you mean 'x'? `` with the closest known word, or nothing where none is close."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"Did you mean {close[0]!r}? " if close else ""


def validation_error(what: str, hint: str, at: str = "") -> PydanticCustomError:
    """Return what a validator of ours raises to have its own words reported, ``at`` a place in the field (``[3]``)."""
    return validation_errors([(at, what, hint)])


def not_async(value: T) -> T:
    """Return a callback, or what stands in the place of one, where nobody would await it.

    Raises:
        PydanticCustomError: it is async, so nothing of it would ever run.
    """
    if is_async(value):
        raise validation_error(f"{value_phrase(value)} {NEVER_AWAITED}", PLAIN_HINT)
    return value


def validation_errors(found: list[tuple[str, str, str]]) -> PydanticCustomError:
    """Return that for several mistakes in one field, each as (place within the field, what, hint)."""
    return PydanticCustomError("refused", "refused", {"found": found})


def from_pydantic(error: ValidationError, owner: str, spec: str, known: Mapping[str, Collection[str]]) -> list[Problem]:
    """Every mistake that pydantic found, in our words.

    ``owner`` begins each path (the id where it is known), ``spec`` is the class that was to be made, and ``known``
    holds the field names of every class that a user writes, for the hints.
    """
    problems = []
    for detail in _united(error.errors(include_url=False)):
        at = f"{owner}.{detail['loc'][0]}" + "".join(f"[{each}]" for each in detail["loc"][1:] if isinstance(each, int))
        if detail["type"] == "refused":
            problems += [Problem(at + place, what, hint) for place, what, hint in detail["ctx"]["found"]]
        else:
            problems.append(Problem(at, *_worded(detail, spec, known)))
    return problems


def _united(details: Iterable[ErrorDetails]) -> list[ErrorDetails]:
    """Make one mistake of those that pydantic finds for one value: one for each thing that it could have been.

    A value that is neither one of some words nor of a class is refused once, by a text that names them all.
    """
    found, words = list[ErrorDetails](), dict[Any, ErrorDetails]()
    for detail in details:
        place = detail["loc"][:-1] or detail["loc"]
        if detail["type"] == "literal_error":
            words[place] = detail
        elif detail["type"] == "is_instance_of" and place in words:
            context = words[place].setdefault("ctx", {})
            context["expected"] = f"{context['expected'].replace(' or ', ', ')} or {detail['ctx']['class']}(...)"
            continue
        found.append(detail)
    return found


TASK_ID: Final = r"^[A-Za-z0-9_.:~/@-]{1,200}$"
"""Pattern of the id of a task. It has more letters than that of a child, and an end."""
_TASK_ID_HINT: Final = "Use letters, digits, '_', '.', ':', '~', '/' and '-', 1 to 200 of them."
_ID_HINT: Final = "Use letters, digits, '_', '.' and '-', at least one of them."


def _worded(detail: ErrorDetails, spec: str, known: Mapping[str, Collection[str]]) -> tuple[str, str]:
    """Return description and hint of one of pydantic's own mistakes."""
    context: dict[str, Any] = detail.get("ctx", {})
    value = value_phrase(detail["input"])
    match detail["type"]:
        case "extra_forbidden":
            worded = f"unknown field of {spec}", _unknown_field(str(detail["loc"][0]), spec, known)
        case "missing":
            worded = "is missing", f"Every {spec} needs one."
        case "literal_error":
            given = detail["input"]
            close = nearest(given, _QUOTED.findall(context["expected"])) if isinstance(given, str) else ""
            worded = f"{value} is not accepted", f"{close}Use {context['expected']}."
        case "string_pattern_mismatch":
            hint = _TASK_ID_HINT if context.get("pattern") == TASK_ID else _ID_HINT
            worded = f"expected an id, got {value}", hint
        case beyond if beyond in _BEYOND:
            what, bound, limit = _BEYOND[beyond]
            worded = f"{value} is {what}", f"Use {bound} {context[limit]}."
        case "string_too_short":
            least = context["min_length"]
            worded = f"{value} is too short", f"Write at least {least} character{'s' * (least != 1)}."
        case "sequence_str" | "is_instance_of" if context.get("class", "Sequence") == "Sequence":
            wanted, hint = _WRONG_TYPE["list_type"]
            worded = f"expected {wanted}, got {value}", hint
        case "is_instance_of" | "model_type":
            wanted = context.get("class") or context["class_name"]
            worded = f"expected {wanted}(...), got {value}", f"Write {wanted}(...)."
        case wrong_type if wrong_type in _WRONG_TYPE:
            wanted, hint = _WRONG_TYPE[wrong_type]
            worded = f"expected {wanted}, got {value}", hint
        case _:
            worded = f"{value} is refused", f"{detail['msg']}."
    return worded


def _unknown_field(name: str, spec: str, known: Mapping[str, Collection[str]]) -> str:
    """Where the word belongs, or the closest one that is known, or all of them."""
    elsewhere = [other for other, fields in known.items() if name in fields]
    found = (
        f"It is a field of {' and of '.join(elsewhere)}." if elsewhere else f"Its fields are {', '.join(known[spec])}."
    )
    return nearest(name, known[spec]).strip() or found


class PlacedError(ActorsError):
    """An error that says where, what, and what to do about it; the text is made of these three."""

    def __init__(self, where: str, what: str, hint: str) -> None:
        super().__init__(where, what, hint)
        self.where = where
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.where}: {self.what.removesuffix('.')}. {self.hint}"


def missing_name(owner: object, name: str, meant: Mapping[str, str]) -> AttributeError:
    """Make the error for an attribute that an object does not have.

    ``meant`` says what to write in place of a name, for those that are often tried.
    """
    what = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if name in meant:
        return AttributeError(f"{what}. {meant[name]}", name=name, obj=None)  # else Python would suggest others
    return AttributeError(what, name=name, obj=owner)
