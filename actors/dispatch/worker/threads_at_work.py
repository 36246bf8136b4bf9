"""Threads that an async worker's code keeps at work in its process.

An agent of a framework is async, and its sync tools run on threads: of asyncio, of anyio, or its own. A cancel ends the
wait for such a call, never the call. So a cancelled attempt has ended once its threads have as well. Until then its
host hears of no end, and kills the process when the grace is over.

A thread is at work while there is a frame on its stack that is no machinery of threads: an idle one of a pool has none.
A call of a function of C alone shows no frame of its own. Those of the loop's own threads are counted there
(``Loop.has_hanging_calls``).
"""

from __future__ import annotations

from types import FrameType
from typing import Final

from actors.concurrency.thread_state import innermost_frames

_MACHINERY: Final = ("threading", "queue", "concurrent", "asyncio", "selectors", "anyio", "actors")
"""Packages that run threads, and this library, whose own threads end with the process."""


def threads_at_work() -> frozenset[int]:
    """Return the threads of this process that run code of others now."""
    return frozenset(ident for ident, frame in innermost_frames().items() if _is_at_work(frame))


def _is_at_work(frame: FrameType | None) -> bool:
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if not isinstance(module, str) or module.partition(".")[0] not in _MACHINERY:
            return True
        frame = frame.f_back
    return False
