"""Something done before the first instruction of some code, before its second, and so on to its end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any


class AlarmError(Exception):
    """What the signal handler raises."""


@contextmanager
def at_step(number: int, act: Callable[[], None], files: set[str]) -> Iterator[list[int]]:
    """Have ``act`` called before the ``number``-th instruction in these files, on this thread; how many there were."""
    seen = [0]

    def trace_in(frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            seen[0] += 1
            if seen[0] == number:
                act()
        return trace_in

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event != "call" or frame.f_code.co_filename not in files:
            return None
        if sys.version_info >= (3, 13):
            frame.f_trace = trace_in  # else the opcodes of this frame are not traced there
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return trace_in

    before = sys.gettrace()
    if sys.version_info[:2] == (3, 12):  # there settrace traces instructions only where a frame has asked for it before
        sys._getframe().f_trace_opcodes = True
    sys.settrace(trace)
    try:
        yield seen
    finally:
        sys.settrace(before)


def alarm() -> None:
    raise AlarmError


def rounds(act: Callable[[], None], files: set[str], again: Callable[[], None], do: Callable[[], None]) -> int:
    """``do()`` again and again, with ``act`` at its first step, its second ... until there are no more; how many."""
    number = 0
    while True:
        number += 1
        with at_step(number, act, files) as seen, suppress(AlarmError):
            do()
        again()
        if seen[0] < number:
            return number
