"""How a tree is ended by its host, and what its host hears of an end that nobody had asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.concurrency.thread_state import in_background
from actors.messaging.reply import Reply
from actors.validation.validation_messages import require_seconds

if TYPE_CHECKING:
    from actors.runtime.system import System
    from trees.host.console import Console

_KILL_S = 30.0
"""How long a kill may take. Cancelled coroutines have a short grace, threads are abandoned at once; a database that
does not answer is given up after 20 s."""


class Shutdown:
    """The part of a ``Tree`` that ends it. When it returns, store, console and page are closed as well."""

    def __init__(self, system: System, console: Console | None) -> None:
        self._system = system
        self._closing: list[Callable[[], object]] = []
        """Ends of what shows the tree; each may be called again."""
        if console is not None:
            self._closing.append(console.close)
            system.ended.when_done(console.close)

    def also(self, close: Callable[[], object], end: Callable[[], object]) -> None:
        """Close something with the tree: ``end()`` when it is down, and ``close()`` before a stop returns."""
        self._closing.append(close)
        self._system.ended.when_done(end)

    def _close(self) -> None:
        while self._closing:
            self._closing.pop()()

    def stop(self, timeout: float | None) -> bool:
        """Stop everything, and kill what is left after ``timeout`` seconds; True if nothing was."""
        require_seconds("stop", timeout)
        self._system.refuse_to_wait_for_end()
        ended = self._system.stop()
        in_order = ended.wait(timeout)
        if not in_order:
            self._system.kill().wait(_KILL_S)
        self._close()
        return in_order

    async def astop(self) -> None:
        """Stop everything, without holding up the event loop."""
        self._system.refuse_to_wait_for_end(awaits=True)
        await self._system.stop()
        closed = Reply()

        def close() -> None:
            self._close()
            closed.complete()

        in_background(f"{self._system.root_path}-close", close)
        await closed

    def wait(self, timeout: float | None) -> bool:
        """Wait until the tree is down; raises why, where nobody had asked for that."""
        require_seconds("wait", timeout)
        self._system.refuse_to_wait_for_end()
        ended = self._system.ended.wait(timeout)
        if ended:
            self.raise_cause()
        return ended

    def raise_cause(self) -> None:
        """Raise why the tree has ended, where nobody had asked for that."""
        if self._system.cause is not None:
            raise self._system.cause
