"""A record of an event as a dict for JSON: what a page, a metric or a client of an API is told of it.

Comes in: an event. Goes out: plain values, with the name of its kind and the version of this form. Fields that have no
place in a repr (goals, inputs, results, questions, answers) are content: they are left out unless they are asked for.
What a kind of record tells, and how, is found once: this runs for each event that a page is told of. Pure; the code
of a user that may run here is the ``__str__`` of an exception, which may raise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from enum import Enum
from functools import cache, lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from actors.model.event_metadata import KEPT, SHOWN, TOLD

if TYPE_CHECKING:
    from actors.model.events import Event

VERSION: Final = 1
"""Version of the form. A field may be added to it; one that is renamed, or means something else, makes a new one."""
ErrorTexts: TypeAlias = Literal["text", "type"]
_MOST_DEPTH: Final = 100
_AS_THEY_ARE: Final = frozenset({type(None), bool, int})
_Tells: TypeAlias = Literal["always", "as content", "as error", "as frames"]


def kept_fields(kind: type[Any]) -> list[Field[Any]]:
    """Fields of an event that a journal keeps."""
    return [each for each in fields(kind) if each.metadata.get(KEPT, True)]


def to_dict(event: Event, *, content: bool, errors: ErrorTexts) -> dict[str, Any]:
    """Make the dict of an event.

    Args:
        event: any.
        content: with goals, inputs, results, feedback, questions and answers.
        errors: ``"type"``: without the texts of errors.
    """
    told: dict[str, Any] = {"version": VERSION, "name": event.name, "at": event.at}
    texts = errors == "text"
    kind: Any = type(event)
    for name, tells in _plan(kind):
        value = getattr(event, name)
        if issubclass(type(value), BaseException):  # as ``is_a``, without a call for each field
            told[name] = _error(value, texts=texts and (content or not is_private(value)))
            told[f"{name}_type"] = _name(type(value))
        elif tells == "always" or (tells == "as content" and content):
            told[name] = to_plain(value)
        elif tells == "as frames":
            told[name] = _frames(value)
        elif tells == "as error" and texts and (content or not (event.has_question or event.has_feedback)):
            told[name] = to_plain(value)
    return told


@cache
def _plan(kind: type[Any]) -> tuple[tuple[str, _Tells], ...]:
    """Return the fields of a kind of record, and when each is told where it is no exception."""
    return tuple((each.name, _tells(each)) for each in fields(kind))


def _tells(field: Field[Any]) -> _Tells:
    if field.name == "frames":
        return "as frames"
    if field.metadata.get(SHOWN) == "error":
        return "as error"
    return "always" if field.repr or field.metadata.get(TOLD) else "as content"


def to_plain(value: object, depth: int = 0) -> Any:
    """Convert any value to one that JSON has a form for; of what has none, the name of its type."""
    kind: Any = type(value)
    if kind in _AS_THEY_ARE or (kind is str and value.isascii()):  # type: ignore[attr-defined]
        return value  # most are
    if kind is float:
        return value if math.isfinite(value) else None  # type: ignore[arg-type]
    if isinstance(value, (bool, str, int, float, Enum)):
        return _scalar(value)
    if depth < _MOST_DEPTH:
        dump = getattr(kind, "model_dump", None)
        if dump is not None:
            value = dump(value)
        elif is_dataclass(value) and not isinstance(value, type):
            value = {name: getattr(value, name) for name in _field_names(kind)}
        if isinstance(value, Mapping):
            return {_key(key): to_plain(each, depth + 1) for key, each in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [to_plain(each, depth + 1) for each in value]
    return f"<{_name(type(value))}>"


@lru_cache(1024)
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def _scalar(value: object) -> Any:
    if isinstance(value, Enum):
        return to_plain(value.value, _MOST_DEPTH)
    if isinstance(value, str):
        return str(value) if value.isascii() else value.encode(errors="backslashreplace").decode()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _key(key: object) -> str:
    plain = to_plain(key, _MOST_DEPTH)
    return plain if isinstance(plain, str) else str(plain)


def _name(kind: type[Any]) -> str:
    """Name of a type, which no metaclass of a user has a say in."""
    return str(type.__dict__["__name__"].__get__(kind))


def is_private(error: BaseException) -> bool:
    """True where its text is what a person was asked, or has answered."""
    return any(vars(base).get("private_text", False) for base in type.mro(type(error)))


def _error(error: BaseException, *, texts: bool) -> str:
    name = _name(type(error))
    if not texts:
        return name
    try:
        said = str.__str__(str(error))
    except BaseException as broken:  # noqa: BLE001 - it is the code of a user, and a text is all that is wanted
        said = f"<no text: its own code raised {_name(type(broken))}>"
    return str(to_plain(f"{name}: {said}" if said else name))


def _frames(frames: TracebackType | None) -> list[str]:
    """Places that an error has come through: file, line and function, the innermost last."""
    found = list[str]()
    while frames is not None:
        code = frames.tb_frame.f_code
        found.append(f"{code.co_filename}:{frames.tb_lineno} in {code.co_qualname}")
        frames = frames.tb_next
    return found
