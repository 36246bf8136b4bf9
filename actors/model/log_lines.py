"""The log lines of this library, and where they go: loguru, or ``logging`` of the standard library.

Whoever wants silence says ``logger.disable("actors")``, or sets the level of the logger ``regrow``.
"""

from __future__ import annotations

import logging
import sysconfig
from collections.abc import Callable
from pathlib import PurePath
from types import TracebackType
from typing import Any, Final, NamedTuple

from loguru import logger

from actors.model.process_errors import RemoteTraceback
from actors.model.raised import cause_of, frames_of

NAME: Final = "regrow"
_OURS: Final = {"actors", "trees"}
_LIBRARIES: Final = tuple({sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")})
_NUMBERS: Final = {"SUCCESS": logging.INFO, "TRACE": 5}
"""Levels of loguru that ``logging`` has no name for."""
_LAZY = logger.opt(lazy=True)  # made once: it costs as much as a line that is not written
_to: Final[list[logging.Logger]] = []
"""Logger that lines go to in place of loguru, if any."""


class Place(NamedTuple):
    """Place in code that a line is about."""

    module: str
    file: str
    function: str
    line: int


class Line(NamedTuple):
    """One line."""

    text: str
    place: Place
    trace: str = ""
    """Text of a traceback, for the lines below."""
    error: tuple[type[BaseException], BaseException, TracebackType | None] | None = None
    """The same, where it may be given away: its text is no secret."""
    worker: str | None = None
    """Path of the worker that it is about."""


def write(level: str, make: Callable[[], Line]) -> bool:
    """Write a line of a level of loguru; False where nobody hears that level, and it was not made."""
    if _to:
        return _write_to(_to[0], level, make)
    made: list[Line] = []

    def text() -> str:
        made.append(make())
        return "\n".join(filter(None, made[0][:3:2]))

    def put(record: Any) -> None:
        place = made[0].place
        record.update(name=place.module, function=place.function, line=place.line)
        record["file"].name, record["file"].path = PurePath(place.file).name, place.file

    _LAZY.patch(put).log(level, "{}", text)
    return bool(made)


def _write_to(to: logging.Logger, level: str, make: Callable[[], Line]) -> bool:
    number = _NUMBERS.get(level) or logger.level(level).no
    if not to.isEnabledFor(number):
        return False
    line = make()
    text = line.text if line.error is not None or not line.trace else f"{line.text}\n{line.trace}"
    place = line.place
    extra = {"worker": line.worker}
    record = to.makeRecord(to.name, number, place.file, place.line, text, (), line.error, place.function, extra)
    to.handle(record)
    return True


def to_stdlib() -> Callable[[], None]:
    """Send the log lines of this library to ``logging``, in place of loguru: to the logger ``regrow``.

    A second call changes nothing. Lines that your own code writes through loguru stay there.

    Levels keep their names; ``SUCCESS`` is ``INFO``, and ``TRACE`` is 5, below ``DEBUG``. A record has the place of
    your code that a line is about (``pathname``, ``lineno``, ``funcName``), ``exc_info`` where something was raised,
    and ``worker``: the path of a worker, or None.

    Returns:
        Function that takes it back: lines go to loguru again.
    """
    _to[:] = [logging.getLogger(NAME)]
    return _to.clear


# -- whose code a frame is of --------------------------------------------------------------------------------


def is_ours(entry: TracebackType) -> bool:
    """True for a frame of this library."""
    return str(entry.tb_frame.f_globals.get("__name__")).partition(".")[0] in _OURS


def of_users(entries: list[TracebackType]) -> list[TracebackType]:
    """Return the frames that are users' code; where none is, those that are not ours."""
    others = [each for each in entries if not is_ours(each)]
    return [each for each in others if not _is_of_library(each.tb_frame.f_code.co_filename)] or others


def _is_of_library(file: str) -> bool:
    return file.startswith((*_LIBRARIES, "<frozen"))


def entries_of(frames: TracebackType | None) -> list[TracebackType]:
    """Return the entries of a traceback."""
    found = []
    while frames is not None:
        found.append(frames)
        frames = frames.tb_next
    return found


def from_users(frames: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the first frame on that is users' code; None: there is no such frame."""
    first = of_users(entries_of(frames))
    return first[0] if first else None


def place_of_error(error: BaseException, otherwise: str, frames: TracebackType | None = None) -> Place:
    """Return the place of users' code that raised an error, in whatever process. ``otherwise`` names it without one."""
    cause = cause_of(error)
    if isinstance(cause, RemoteTraceback) and cause.place is not None:
        return Place(*cause.place)
    return place_of(frames or frames_of(error), otherwise)


def place_of(frames: TracebackType | None, otherwise: str) -> Place:
    """Return the innermost place of users' code in a traceback. ``otherwise`` names it where there is none."""
    found = of_users(entries_of(frames))
    if not found:
        return Place(NAME, NAME, otherwise, 0)
    code = found[-1].tb_frame.f_code
    module = str(found[-1].tb_frame.f_globals.get("__name__"))
    return Place(module, code.co_filename, code.co_name, found[-1].tb_lineno)
