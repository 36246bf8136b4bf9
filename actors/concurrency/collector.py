"""Pauses the cyclic garbage collector while much is built that stays: it looks at all of it again and again.

The collector counts what is made and not what is garbage. While a journal of thousands of tasks is read it would go
through the growing heap dozens of times, and find nothing: a third of the time of such a start. What becomes garbage
meanwhile is collected right after.

There is one switch for the process. Whoever finds it on turns it on again, so whoever ends last finds it as the first
one did, in whatever order they begin and end; one that runs longest may be slower for it. Nothing is locked. A user who
turned it off finds it off. In the child of a fork nobody is left who would turn it on: that is done there.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from actors.concurrency.thread_state import after_fork


class _Pause:
    """One who will turn it on again."""

    __slots__ = ("__weakref__",)

    def forked(self) -> None:
        """Turn it on again: in the child of a fork no other thread will."""
        gc.enable()


@contextmanager
def paused() -> Iterator[None]:
    """Nothing is collected within, unless somebody else's pause ends meanwhile."""
    if not gc.isenabled():
        yield
        return
    pause = _Pause()
    after_fork(pause)
    try:
        gc.disable()  # inside: a signal handler may raise right after it
        yield
    finally:
        gc.enable()
