"""Where a handler runs: the elastic pool, the event loop, a pinned thread.

A dispatcher is told that an incarnation has something to do (``schedule``) and sees to it that
``incarnation.drive()`` is run, by one thread at a time: a job may be queued once too often, and a run begins with
``Mailbox.hold``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from actors.execution.crash_boundary import WorkerIncarnation


class Dispatcher(Protocol):
    """Interface that an incarnation needs of the place where it runs."""

    def schedule(self, incarnation: WorkerIncarnation) -> None:
        """Run ``incarnation.drive()`` soon. Never blocks, waits for no lock, and may be done once too often."""

    def cancel(self, incarnation: WorkerIncarnation) -> None:
        """Cancel what the incarnation is awaiting, where that is possible. Never blocks."""
