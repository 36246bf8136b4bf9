"""A record of an event as a dict for JSON: what a page, a metric or a client of an API is told of it.

Comes in: an event. Goes out: plain values, with the name of its kind and the version of this form. Fields that have no
place in a repr (goals, inputs, results, questions, answers) are content: they are left out unless they are asked for.
Pure; the code of a user that may run here is the ``__str__`` of an exception, which may raise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import Field, fields, is_dataclass
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from actors.model.events import Event

VERSION: Final = 1
"""Version of the form. A field may be added to it; one that is renamed, or means something else, makes a new one."""
ErrorTexts: TypeAlias = Literal["text", "type"]
TOLD: Final = "in dicts"
"""Key of the metadata of a field that is told though no repr shows it, because it is no content."""
KEPT: Final = "in journals"
"""Key of the metadata of a field that says whether a journal keeps it; by default it does."""
_MOST_DEPTH: Final = 100


def kept_fields(kind: type[Any]) -> list[Field[Any]]:
    """Fields of an event that a journal keeps."""
    return [each for each in fields(kind) if each.metadata.get(KEPT, True)]


def to_dict(event: Event, is_error: Iterable[str], *, content: bool, errors: ErrorTexts) -> dict[str, Any]:
    """Make the dict of an event.

    Args:
        event: any.
        is_error: names of its fields that hold the text of an error.
        content: with goals, inputs, results, questions and answers.
        errors: ``"type"``: without the texts of errors.
    """
    texts, found = {*is_error}, dict[str, Any]()
    for each in fields(event):
        value = getattr(event, each.name)
        if isinstance(value, BaseException):
            found[each.name] = _error(value, texts=errors == "text" and (content or not _is_private(value)))
            found[f"{each.name}_type"] = _name(type(value))
        elif each.name == "frames":
            found[each.name] = _frames(value)
        elif each.name in texts:
            if errors == "text" and (content or not event.has_question):
                found[each.name] = to_plain(value)
        elif content or each.repr or each.metadata.get(TOLD):
            found[each.name] = to_plain(value)
    return {"version": VERSION, "name": event.name, "at": event.at, **found}


def to_plain(value: object, depth: int = 0) -> Any:
    """Convert any value to one that JSON has a form for; of what has none, the name of its type."""
    if value is None or isinstance(value, (bool, str, int, float, Enum)):
        return _scalar(value)
    if depth < _MOST_DEPTH:
        dump = getattr(type(value), "model_dump", None)
        if dump is not None:
            value = dump(value)
        elif is_dataclass(value) and not isinstance(value, type):
            value = {each.name: getattr(value, each.name) for each in fields(value)}
        if isinstance(value, Mapping):
            return {_key(key): to_plain(each, depth + 1) for key, each in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [to_plain(each, depth + 1) for each in value]
    return f"<{_name(type(value))}>"


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


def _is_private(error: BaseException) -> bool:
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
