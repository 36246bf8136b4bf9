"""The lines of a traceback, with each place in code looked up once.

Most crashes of a program come from few places. To look a place up (its file, its line, the marks below the line) takes
longer than all else that a crash costs together, so its lines are kept. A place is an instruction of a code object.
The look-up and the text are those of ``traceback``, so a log shows what Python itself would show.
"""

from __future__ import annotations

import sys
from itertools import islice
from traceback import FrameSummary, StackSummary, TracebackException, extract_tb
from types import CodeType, TracebackType
from typing import Any, Final, TypeAlias

from actors.model.log_lines import entries_of, from_users
from actors.model.process_errors import RemoteTraceback
from actors.model.raised import cause_of, context_of, frames_of, members_of

MOST_PLACES = 1024
"""Places that are kept; when there are more, all are forgotten."""
_HEAD: Final = "Traceback (most recent call last):\n"
_TOLD_AT_LENGTH: Final = (SyntaxError, NameError, AttributeError, ImportError, BaseExceptionGroup)
"""Errors of which ``traceback`` tells more than their text: marks, suggestions, members."""
_Place: TypeAlias = tuple[CodeType, FrameSummary, str]

_places: Final[dict[tuple[int, int, int], _Place]] = {}
"""By the id of a code object, which its entry keeps alive, the instruction, and the line that the traceback gives it.
No lock: each use is one step of C."""


def exception_text(error: BaseException, frames: TracebackType | None, *, is_whole: bool = False) -> str:
    """Return what ``traceback.format_exception`` says of an error and all that led to it, from users' code on.

    Args:
        error: its own code may run here, and raise.
        frames: of the error, where they are not in it any more.
        is_whole: with the frames of this library that come first.
    """
    own, cause = _shown(frames or frames_of(error), is_whole=is_whole), cause_of(error)
    if own is None and isinstance(cause, RemoteTraceback):  # it was raised in a process, and by nobody here
        return f"{cause.text}\n"
    alone = _alone(error)
    if alone is not None:
        stack = None if own is None else stack_of(own)
        return "".join([_HEAD, *stack.format(), alone]) if stack else alone
    told = TracebackException(type(error), error, own, limit=0, compact=True)
    left: list[tuple[TracebackException, BaseException, TracebackType | None]] = [(told, error, own)]
    while left:
        text, each, where = left.pop()
        if where is not None:
            text.stack = stack_of(where)
        related = [(text.__cause__, cause_of(each)), (text.__context__, context_of(each))]
        related += zip(text.exceptions or (), members_of(each), strict=False)
        left += [(a, b, _shown(frames_of(b), is_whole=is_whole)) for a, b in related if a is not None and b is not None]
    return "".join(told.format())


def _shown(frames: TracebackType | None, *, is_whole: bool) -> TracebackType | None:
    return frames if is_whole else from_users(frames)


def _alone(error: BaseException) -> str | None:
    """Return the last line of an error that nothing led to, as most are; None where ``traceback`` has more to say."""
    kind = type(error)
    if issubclass(kind, _TOLD_AT_LENGTH) or cause_of(error) is not None or context_of(error) is not None:
        return None
    module, name = kind.__module__, kind.__qualname__
    if type(module) is not str or getattr(error, "__notes__", None) is not None:
        return None
    try:
        said = str(error)
    except BaseException:  # noqa: BLE001 - it is user code: ``traceback`` has words for that
        return None
    name = name if module in {"__main__", "builtins"} else f"{module}.{name}"
    return f"{name}: {said}\n" if said else f"{name}\n"


def stack_of(frames: TracebackType) -> StackSummary:
    """Return the places that a traceback names, as many as ``sys.tracebacklimit`` allows."""
    limit: int | None = getattr(sys, "tracebacklimit", None)
    stack = _Stack()
    for each in islice(entries_of(frames), None if limit is None else max(0, limit)):
        _, place, text = _place_of(each)
        stack.append(place)
        stack.texts[id(place)] = text
    return stack


class _Stack(StackSummary):
    """Places with the lines that they were given when they were looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[int, str] = {}

    def format_frame_summary(self, frame_summary: FrameSummary, **_: Any) -> str:
        return self.texts[id(frame_summary)]


def _place_of(entry: TracebackType) -> _Place:
    code = entry.tb_frame.f_code
    key = id(code), entry.tb_lasti, entry.tb_lineno
    place = _places.get(key)
    if place is None:
        found = extract_tb(entry, limit=1)
        if len(_places) >= MOST_PLACES:
            _places.clear()
        place = _places[key] = (code, found[0], "".join(found.format()))
    return place
