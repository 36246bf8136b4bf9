"""A store that keeps what it is told only when it is let, for the tests that look at who waits for that."""

from __future__ import annotations

import threading
import time
from typing import Any

from actors import Reply
from actors.tasks.journal.store import DurableStore
from trees import StoreError
from trees.store import MemoryStore


class LateStore(MemoryStore, DurableStore):
    """From ``hold`` to ``keep`` nothing is kept."""

    name = "late"
    token = 0

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Reply] = []
        self.held = False
        self.flushed = threading.Semaphore(0)
        """Released for each wait."""
        self.listener: Any = None
        self.forgotten: list[Any] = []
        self.closed = 0

    def flush(self) -> Reply | None:  # type: ignore[override]
        if not self.held:
            return None
        reply = Reply()
        self.waiting.append(reply)
        self.flushed.release()
        return reply

    def hold(self) -> None:
        """Keep nothing from now on."""
        self.held = True

    def keep(self) -> None:
        """All is kept, also what comes later."""
        self.held = False
        for reply in self.waiting:
            reply.complete()

    def lose(self, error: StoreError) -> None:
        """It will keep nothing more, and says so."""
        for reply in self.waiting:
            reply.fail(error)
        self.listener.lost(error)

    def time(self) -> float:
        return time.time()

    def heard_orders(self) -> Reply:
        reply = Reply()
        reply.complete()
        return reply

    def order_done(self, order: Any) -> None:
        self.forgotten.append(order)

    def close(self) -> None:
        self.closed += 1
