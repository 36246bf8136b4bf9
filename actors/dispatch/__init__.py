"""Where a handler runs: the elastic pool, the event loop, a pinned thread.

A dispatcher is told that a life has something to do (``schedule``) and sees to it that ``life.drive()`` is run, by
one thread at a time: a job may be queued once too often, and a run begins with ``Mailbox.hold``.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from actors.boundary import WorkerLife


class Dispatcher(Protocol):
    """What a life needs of the place where it runs."""

    def schedule(self, life: WorkerLife) -> None:
        """Run ``life.drive()`` soon. Never blocks, waits for no lock, and may be done once too often."""

    def cancel(self, life: WorkerLife) -> None:
        """Cancel what the life is awaiting, where that is possible. Never blocks."""


class _Here(threading.local):
    """What this thread is: set by the pool and by the loop in their own threads."""

    blocking: AbstractContextManager[None] | None = None
    soon: AbstractContextManager[None] | None = None
    never_blocks = False
    """True on the thread of a tree's event loop: see ``actors.reply.require_thread``."""
    in_turn = False
    """True there while lives are run that need no task: see ``in_turn``."""


HERE: Final = _Here()
_NOT_POOLED: Final = nullcontext()


def blocking() -> AbstractContextManager[None]:
    """Mark a wait: a pool thread inside it counts as blocked, and the pool makes up for it with another."""
    return HERE.blocking or _NOT_POOLED


def soon() -> AbstractContextManager[None]:
    """Mark the last act of a run: a pool thread inside it may keep the job that it submits for itself."""
    return HERE.soon or _NOT_POOLED


def in_turn(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether code that this loop runs, on this thread, is what runs here: the loop looks again before it sleeps.

    A finalizer or a signal handler may run on its thread when it has looked and is about to sleep, or sleeps. It must
    wake the loop as if it were another thread.
    """
    return HERE.in_turn or asyncio.current_task(loop) is not None


def start_thread(thread: threading.Thread) -> None:
    """Start a thread: the one door for each thread of a running tree.

    While the interpreter ends, finalizers and coroutines that are destroyed may still tell a worker. A new thread would
    never run then, and ``Thread.start`` of Python 3.11 waits for it for ever; from 3.12 on it refuses, as this does.

    Raises:
        RuntimeError: the machine gives no more threads, or the interpreter is ending.
    """
    if sys.is_finalizing():
        raise RuntimeError("no thread can be started while the interpreter ends")
    thread.start()
