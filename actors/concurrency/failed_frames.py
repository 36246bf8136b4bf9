"""Frames of a handler that has failed: which ones are its worker's, and which of those can never run again.

An exception keeps its traceback, the traceback keeps frames, and frames keep locals: the message, the actor. So the
worker clears the frames of a handler that has failed. Two rules keep that safe:

* Frames belong to whoever ran in them. An error that came with the reply of another worker brings that worker's frames
  along, behind the frame of ``Reply.outcome``. They are cleared by the other worker, after its own end.
* A generator or a coroutine may be suspended with the exception in hand: it has caught it, passed it on by a future,
  and goes on. Up to Python 3.12 ``frame.clear()`` closes a suspended one (it gets a ``GeneratorExit`` out of nowhere),
  and only later versions refuse. So such a frame is cleared only where it is known to have ended for good.

What tells them apart differs by version (tests/actors/concurrency/test_failed_frames.py holds this against each kind of
frame):

* 3.11: a generator that has ended has no caller (it does not run), and its last instruction is no ``YIELD_VALUE`` (it
  is not suspended).
* 3.12: a suspended one has no caller. One that runs has, and ``clear`` refuses it; one that has ended keeps the last.
* 3.13 and later: ``clear`` itself refuses what runs or is suspended.

Between the look and ``clear`` there is no call and no loop, so no other thread gets its turn there.

A plain function's frame is never suspended, and ``clear`` refuses one that runs.
"""

from __future__ import annotations

import inspect
import opcode
import sys
from types import FrameType, TracebackType
from typing import Final

_RESUMABLE: Final = (
    inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
)
_YIELD_VALUE: Final = opcode.opmap["YIELD_VALUE"]


class Frames:
    """The frames of one failed handler, to be cleared when nobody waits for that."""

    __slots__ = ("_frames",)

    def __init__(self, frames: TracebackType | None) -> None:
        self._frames = frames

    def clear(self) -> None:
        """Let go of their locals. Finalizers of users may run here."""
        frames, self._frames = self._frames, None
        clear_own(frames)


def clear_own(frames: TracebackType | None) -> None:
    """Clear the frames that a failed handler ran in, and that can never run again.

    Args:
        frames: the traceback of its error, as caught by the library: its first entry is the library's own frame.
    """
    entry = frames.tb_next if frames is not None else None
    while entry is not None:
        frame, entry = entry.tb_frame, entry.tb_next
        if frame.f_code in _BORDERS:
            return
        try:
            _clear(frame)
        except RuntimeError:  # it runs, or is suspended: then it is not the worker's to clear
            continue


def _clear(frame: FrameType) -> None:
    code = frame.f_code
    if sys.version_info >= (3, 13) or not code.co_flags & _RESUMABLE:
        frame.clear()
    elif sys.version_info >= (3, 12):
        if frame.f_back is not None:
            frame.clear()
    else:
        instructions = code.co_code
        if frame.f_back is None and instructions[frame.f_lasti] != _YIELD_VALUE:
            frame.clear()


_BORDERS: set[object] = set()


def border(function: object) -> None:
    """Take note that frames behind this function's frame, in a traceback, belong to another worker."""
    _BORDERS.add(function.__code__)  # type: ignore[attr-defined]
