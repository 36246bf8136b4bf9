"""Protocols of what an incarnation works with: its tree, its place, the owner that is told of it, its counter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from actors.messaging.ports import Host

if TYPE_CHECKING:
    from actors.concurrency.disposal import Disposal
    from actors.concurrency.thread_state import JobRunner
    from actors.execution.crash_boundary import WorkerIncarnation
    from actors.execution.incarnation import Incarnation
    from actors.execution.loop import Loop
    from actors.messaging.reply import Reply
    from actors.model.spec import WorkerRecipe


class Dispatcher(Protocol):
    """Interface that an incarnation needs of the place where it runs: the pool, the event loop, a pinned thread."""

    def schedule(self, incarnation: WorkerIncarnation) -> None:
        """Run ``incarnation.drive()`` soon. Never blocks, waits for no lock, and may be done once too often.

        One thread at a time runs it: a run begins with ``Mailbox.hold``.
        """

    def cancel(self, incarnation: WorkerIncarnation) -> None:
        """Cancel what the incarnation is awaiting, where that is possible. Never blocks."""


class IncarnationOwner(Protocol):
    """Receiver of the reports of an incarnation: its supervisor's mailbox, or the tree for the root."""

    def post(self, message: Any, reply: Reply | None = None) -> bool:
        """Take an ``Started``, ``Stopping`` or ``Exited``."""


class RestartCount(Protocol):
    """Counter of a child's restarts. Only the incarnation that comes up adds to it."""

    restarts: int


class Strays(Protocol):
    """Knows the abandoned incarnations."""

    def add(self, incarnation: Incarnation) -> None:
        """Note that an incarnation was abandoned."""

    def returned(self, incarnation: Incarnation) -> None:
        """Note that the thread of an abandoned incarnation has returned."""


class IncarnationHost(Host, Protocol):
    """Tree, as an incarnation sees it: where it runs, and where it reports what becomes of it."""

    @property
    def epoch(self) -> float:
        """Seconds since 1970 at which the tree's clock stood at 0."""

    @property
    def pool(self) -> JobRunner:
        """Runs what may block."""

    @property
    def loop(self) -> Loop:
        """Runs what is async."""

    @property
    def disposal(self) -> Disposal:
        """Lets go of what may have finalizers of users."""

    def place_of(self, recipe: WorkerRecipe) -> Dispatcher:
        """Return the place of a worker."""

    @property
    def strays(self) -> Strays:
        """Knows the abandoned incarnations."""
