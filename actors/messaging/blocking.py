"""Blocking calls on an event loop: refused on a tree's own, and reported on any other."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable
from typing import Final

from actors.concurrency.thread_state import HERE, ON_A_THREAD, blocks_a_loop
from actors.messaging.envelope import own_error
from actors.model.errors import BlockingAskError

A_REPLY: Final = "this wait"
"""In place of a path, for a reply that comes from no worker."""
_OURS: Final = ("actors", "trees")
Reporter = Callable[[str, str, int, str], object]
_REPORTERS: Final[list[Reporter]] = []


def on_a_loop() -> bool:
    """True if an event loop of asyncio runs the code that this thread is in."""
    return asyncio._get_running_loop() is not None  # noqa: SLF001 - documented, and as fast as it has to be


def report_blocking(report: Reporter) -> None:
    """Have ``report(path, file, line, instead)`` called for blocking calls in code that an event loop runs."""
    _REPORTERS.append(report)


def require_thread(path: str, instead: str = "await it") -> None:
    """Refuse to block the thread of a tree's event loop, before anything is done; report that of another loop.

    Args:
        path: of whom the caller is about to wait for.
        instead: what to write, for the error.

    Raises:
        BlockingAskError: this is the thread of a tree's event loop.
    """
    if HERE.never_blocks and blocks_a_loop():
        between = HERE.in_between
        raise own_error(BlockingAskError(path, ON_A_THREAD if between else instead, is_in_between=between))
    if on_a_loop():
        _report(path, instead)


def _report(path: str, instead: str) -> None:
    """Report the line of the user's code that blocks. A coroutine of this library that blocks is no fault of theirs."""
    frame = sys._getframe(2)  # noqa: SLF001 - there is no other way to the line of the caller
    while frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        if frame.f_code.co_flags & inspect.CO_COROUTINE or frame.f_back is None:
            return
        frame = frame.f_back
    for report in _REPORTERS:
        report(path, frame.f_code.co_filename, frame.f_lineno, instead)
