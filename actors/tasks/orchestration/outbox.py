"""What others see of an orchestrator's decisions: done in their order, each once the records that say so are kept.

With a store that writes in groups that is when the group is written, which is told on the store's own thread. The
effects are done on the tree's event loop, where the orchestrators are, and so never in the middle of a decision; also
where the one that decided has died meanwhile. Whoever comes after it may decide the same once more from the journal:
every effect is harmless the second time. What is not kept when the tree is down has no effect; the next process finds
the records, or does not, and goes on from there.

Locking: none. Only the loop touches the queue. ``_woken`` is set by any thread; one wake-up too many does nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from actors.messaging.reply import Reply

if TYPE_CHECKING:
    from actors.runtime.system import System

Effect: TypeAlias = tuple[Callable[..., object], tuple[Any, ...], str | None]
"""What is to be called, with what, and for which task where that is known."""


class Outbox:
    """Those of one orchestrator, over all its incarnations."""

    def __init__(self, system: System, failed: Callable[[Exception, str | None], object]) -> None:
        self._system = system
        self._failed = failed
        self._queue: deque[tuple[Reply | None, list[Effect]]] = deque()
        self._woken = False

    def __len__(self) -> int:
        """How many groups wait."""
        return len(self._queue)

    def after(self, kept: Reply | None, effects: list[Effect]) -> None:
        """Do them now where all is kept, else when it is; never before those that came before."""
        if kept is None and not self._queue:
            self._do(effects)
            return
        self._queue.append((kept, effects))
        if kept is not None:
            kept.when_done(self._wake)

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._system.loop.call(self._do_kept)

    def _do_kept(self) -> None:
        self._woken = False
        while self._queue and not self._system.is_down:
            kept, effects = self._queue[0]
            if kept is not None and not kept.done:
                return
            self._queue.popleft()
            if kept is None or kept.succeeded:  # else it never will be, so nothing may follow from it
                self._do(effects)

    def _do(self, effects: list[Effect]) -> None:
        for function, args, task in effects:
            try:
                function(*args)
            except Exception as error:  # noqa: BLE001 - a bug of ours; the others must be done all the same
                self._failed(error, task)
