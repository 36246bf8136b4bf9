"""Where the code of a worker stands: the stack of its thread, or of the coroutine that awaits something.

A stack shows files, lines and source text, never a value. It is read from outside while that code runs on: right at
some moment, or missing.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

from actors.concurrency.thread_state import stack_of
from actors.execution.incarnation import Incarnation

_DEEPEST = 200


def stack_of_incarnation(incarnation: Incarnation) -> str | None:
    """Stack of an incarnation's code, the innermost call last; None while it runs none."""
    ident, task = incarnation.running_on, incarnation.task
    if ident is None:
        return None
    if task is not None:
        coroutine = task.get_coro()
        frames = [] if getattr(coroutine, "cr_running", False) else list(_frames(coroutine))
        if frames:
            return "".join(traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames).format())
    stack = stack_of(ident)
    # A thread that has gone on to other work meanwhile would show a stranger's stack.
    return stack if stack and incarnation.running_on == ident else None


def _frames(awaited: Any) -> Iterator[FrameType]:
    """The frames of a coroutine that is suspended, and of what it awaits."""
    for _ in range(_DEEPEST):
        frame = next((found for name in _FRAME if (found := getattr(awaited, name, None)) is not None), None)
        if frame is None:
            return
        yield frame
        awaited = next((found for name in _AWAITS if (found := getattr(awaited, name, None)) is not None), None)


_FRAME = ("cr_frame", "gi_frame", "ag_frame")
_AWAITS = ("cr_await", "gi_yieldfrom", "ag_await")
