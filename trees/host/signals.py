"""A dump on a signal, for programs that seem to hang.

A Python signal handler runs in the main thread between any two of its steps, so whatever lock the main thread holds it
holds during the handler too. ``threading.Thread`` and ``print`` take such locks; starting a bare thread takes none. So
the handler does nothing else, and the bare thread takes the dump and writes it.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, TextIO

SIGUSR1: Final[int] = getattr(signal, "SIGUSR1", signal.SIGTERM)
"""Where a system has no SIGUSR1, the nearest that a program may want."""


def on_signal(signum: int, show: Callable[[], str], file: TextIO | None) -> Callable[[], None]:
    """Write ``show()`` to ``file`` (None: stderr, as it is then) at each signal; returns how to undo that.

    Raises:
        ValueError: not called in the main thread, where Python wants it; or no such signal.
    """

    def write() -> None:
        target = sys.stderr if file is None else file
        text = show()
        target.write(f"{text}\n\n")
        target.flush()

    def handle(_signum: int, _frame: FrameType | None) -> None:
        try:
            _thread.start_new_thread(write, ())
        except RuntimeError:
            os.write(2, b"regrow: no thread left to take the dump with\n")

    before: Any = signal.signal(signum, handle)

    def restore() -> None:
        if signal.getsignal(signum) is handle:
            signal.signal(signum, signal.SIG_DFL if before is None else before)

    return restore
