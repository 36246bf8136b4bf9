"""The log lines of events: one subscriber of the stream more."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from actors.model.clock import local
from actors.model.errors import Failed, StartError
from actors.model.event_metadata import OUT_OF, SHOWN
from actors.model.events import Event, InternalError, RequestFailed
from actors.model.log_lines import Line, from_users, place_of, place_of_error, write
from actors.model.raised import cause_of, frames_of, is_a
from actors.validation.error_text import described, in_brief, is_secret

if TYPE_CHECKING:
    from actors.runtime.event_bus import Bus

ErrorsInLog: TypeAlias = Literal["text", "type"]
_ENDS_OF_TYPES: Final = ("Error", "Exception", "Warning")
"""Of the names of exceptions: a word of a private text hardly ends so."""


def line_of(event: Event, errors: ErrorsInLog = "text") -> Line:
    """Return the line of an event, and the traceback of its error where it has one.

    With ``errors="type"`` no error's text is in it. An error that a worker was declared to answer with (``Failed``, or
    a request that failed) has no traceback.
    """
    text, error, brief, frames = _told(event, errors)
    if error is None:
        place = place_of(None, event.name) if brief is None else place_of_error(brief, event.name)
        return Line(text, place, worker=event.subject)
    frames = frames or frames_of(error)
    place = place_of_error(error, event.name, frames)
    if is_a(error, StartError) and error.hint and cause_of(error) is None:
        return Line(text, place, worker=event.subject)  # it says what to do, and its frames are ours
    if is_a(event, RequestFailed) or is_a(error, Failed):
        where = f" at {place.file}:{place.line}" if place.line else ""
        return Line(f"{text}{where}", place, worker=event.subject)
    texts, is_whole = errors == "text", is_a(event, InternalError)
    trace = described(error, frames, texts=texts, is_whole=is_whole)
    shown = frames if is_whole else from_users(frames)
    given = None if not texts or is_secret(error) else (type(error), error, shown)
    return Line(text, place, trace, given, event.subject)


def _told(event: Event, errors: ErrorsInLog) -> tuple[str, Any, Any, Any]:
    """Return what an event says on one line, its error, one that is told in brief, and the frames of the error."""
    facts, why = list[str](), list[str]()
    error: Any = None
    brief: Any = None
    frames: Any = None
    told = {"worker"} if event.subject != event.path else set()
    for name, shown in _shown_fields(cast("Hashable", type(event))):
        value = getattr(event, name)
        if name == "frames":
            frames = value
        elif is_a(value, BaseException):
            why.append(f"{name}={in_brief(value, texts=errors == 'text')}")
            error, brief = (error, value) if shown == "in brief" else (value, brief)
        elif shown.startswith(OUT_OF):
            total = getattr(event, shown.removeprefix(OUT_OF))
            facts += [f"{name} {value} of {total}" if total else f"{name}={value}"] if value else []
        elif name in told:
            continue
        elif name == "stack":
            facts.append(f"\n{value}")
        elif shown == "at":
            why += [f"at {value}"] if value else []
        elif shown != "never" and not (shown == "error" and event.has_question):
            fact = _type_said(event, value) if shown == "error" and errors == "type" else _fact(value, shown)
            facts += [f"{name}={fact}"] if fact else []
    advice = event.advice and event.advice.format_map({each.name: getattr(event, each.name) for each in fields(event)})
    text = " ".join([f"{event.subject}: {type(event).__name__}", *facts, *why, *([advice] if advice else [])])
    return text, error, brief, frames


@cache
def _shown_fields(kind: Any) -> tuple[tuple[str, str], ...]:
    """Fields of a kind of event after its path, each with how it is shown."""
    return tuple(
        (each.name, each.metadata.get(SHOWN, "as it is" if each.repr else "never")) for each in fields(kind)[1:]
    )


def _type_said(event: Event, value: object) -> str:
    """Return the type of an error whose text begins with it, ``ValueError: no such id``; nothing where none is sure."""
    name = value.partition(": ")[0] if isinstance(value, str) and not event.has_feedback else ""
    is_type = name.endswith(_ENDS_OF_TYPES) and all(part.isidentifier() for part in name.split("."))
    return name if is_type else ""


def _fact(value: object, shown: str) -> str:
    """A field of a log line; nothing where it says nothing."""
    if value is None or value is False:
        return ""
    if shown == "time of day":
        return local(cast("float", value))
    if shown == "error":
        return "; ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return format(value, ".3g") if isinstance(value, float) else str(value)


_OF_ITS_KIND: Any = Event.severity
"""Property of the kinds whose lines all have one level: to ask it is a call for each event."""


class LogLines:
    """The subscriber that writes log lines.

    Where nobody hears a level, as with that of most events, it asks once for each round of events: whoever begins to
    hear it later hears what is published later, and that is no part of the round.

    Args:
        errors: ``"type"``: no error's text is in them.
    """

    __slots__ = ("_errors", "_unheard")

    def __init__(self, errors: ErrorsInLog = "text") -> None:
        self._errors = errors
        self._unheard: set[str] = set()
        """Levels that nobody hears in this round. Touched by the job that delivers it only."""

    def begin(self) -> None:
        """Ask again: all events up to the next call were published before it."""
        self._unheard.clear()

    def log(self, event: Event) -> None:
        """Write the line of an event."""
        level = event.level if type(event).severity is _OF_ITS_KIND else event.severity
        if level in self._unheard:
            return
        if not write(level, lambda: line_of(event, self._errors)):
            self._unheard.add(level)


def write_lines(bus: Bus, errors: ErrorsInLog = "text") -> None:
    """Have a line written for each event from now on."""
    lines = LogLines(errors)
    bus.subscribe(lines.log, lasting=True, begins=lines.begin)
