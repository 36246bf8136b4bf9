"""The log lines of events: one subscriber of the stream more.

Of this package only this file imports loguru. Whoever wants silence says ``logger.disable("actors")``.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from loguru import logger

from actors.model.clock import local
from actors.model.errors import StartError
from actors.model.event_metadata import OUT_OF, SHOWN
from actors.model.events import Event
from actors.model.raised import cause_of, is_a
from actors.validation.error_text import described, in_brief

if TYPE_CHECKING:
    from actors.runtime.event_bus import Bus

ErrorsInLog: TypeAlias = Literal["text", "type"]


def describe(event: Event, errors: ErrorsInLog = "text") -> str:
    """One line, and the traceback of its error where it has one. With ``errors="type"`` no error's text is in it."""
    facts, why = list[str](), list[str]()
    error: Any = None
    frames: Any = None
    told = {"worker"} if event.subject != event.path else set()
    for name, shown in _shown_fields(cast("Hashable", type(event))):
        value = getattr(event, name)
        if name == "frames":
            frames = value
        elif is_a(value, BaseException):
            why.append(f"{name}={in_brief(value, texts=errors == 'text')}")
            error = value if shown != "in brief" else error
        elif shown.startswith(OUT_OF):
            total = getattr(event, shown.removeprefix(OUT_OF))
            facts += [f"{name} {value} of {total}" if total else f"{name}={value}"] if value else []
        elif name in told:
            continue
        elif name == "stack":
            facts.append(f"\n{value}")
        elif shown != "never" and not (shown == "error" and (errors == "type" or event.has_question)):
            text = _fact(value, shown)
            facts += [f"{name}={text}"] if text else []
    advice = event.advice and event.advice.format_map({each.name: getattr(event, each.name) for each in fields(event)})
    line = " ".join([f"{event.subject}: {type(event).__name__}", *facts, *why, *([advice] if advice else [])])
    if is_a(error, StartError) and error.hint and cause_of(error) is None:
        return line  # it says what to do, and its frames are ours
    return line if error is None else f"{line}\n{described(error, frames, texts=errors == 'text')}"


@cache
def _shown_fields(kind: Any) -> tuple[tuple[str, str], ...]:
    """Fields of a kind of event after its path, each with how it is shown."""
    return tuple(
        (each.name, each.metadata.get(SHOWN, "as it is" if each.repr else "never")) for each in fields(kind)[1:]
    )


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
_LAZY = logger.opt(lazy=True)  # made once: it costs as much as a line that is not written


class LogLines:
    """The subscriber that writes log lines.

    Where nobody hears a level, as with that of most events, it asks once for each round of events: whoever begins to
    hear it later hears what is published later, and that is no part of the round.

    Args:
        errors: ``"type"``: no error's text is in them.
    """

    __slots__ = ("_errors", "_is_heard", "_unheard")

    def __init__(self, errors: ErrorsInLog = "text") -> None:
        self._errors = errors
        self._unheard: set[str] = set()
        """Levels that nobody hears in this round. Touched, as the other, by the job that delivers it only."""
        self._is_heard = False
        """True once somebody takes the present line."""

    def begin(self) -> None:
        """Ask again: all events up to the next call were published before it."""
        self._unheard.clear()

    def log(self, event: Event) -> None:
        """Write the line of an event."""
        level = event.level if type(event).severity is _OF_ITS_KIND else event.severity
        if level in self._unheard:
            return
        self._is_heard = False
        _LAZY.log(level, "{}", lambda: self._heard(event))
        if not self._is_heard:
            self._unheard.add(level)

    def _heard(self, event: Event) -> str:
        self._is_heard = True
        return describe(event, self._errors)


def write_lines(bus: Bus, errors: ErrorsInLog = "text") -> None:
    """Have a line written for each event from now on."""
    lines = LogLines(errors)
    bus.subscribe(lines.log, lasting=True, begins=lines.begin)
