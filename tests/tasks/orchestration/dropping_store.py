"""A durable store in memory that holds no large value, however small it is: all are to be fetched."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any

from actors import Event, Reply
from actors.tasks.journal.dropped import without_large
from actors.tasks.journal.store import DurableStore, RemoteCommand
from tests.faults.cut_points import CuttingStore


class DroppingStore(CuttingStore, DurableStore):
    """Reads back what it has dropped in a thread of its own, as soon as ``gate`` is open."""

    name = "dropping"
    token = 1

    def __init__(self, at: int = 0, **words: Any) -> None:
        super().__init__(at, **words)
        self.gate = threading.Event()
        self.gate.set()
        self.fetched: list[tuple[str, int]] = []
        """What was asked for, in that order."""
        self.asked = threading.Event()
        self.damaged: Callable[[str, int], Exception | None] = lambda _stream, _number: None
        self._wanted: queue.SimpleQueue[tuple[str, Collection[int], Reply] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._starting = threading.Lock()
        """Two threads may be the first to ask: one of them starts it."""

    def outline(self, stream: str, start: int = 0) -> Sequence[Event]:
        return [without_large(record, stream, n) for n, record in enumerate(self.read(stream, start), start)]

    def fetch(self, stream: str, numbers: Collection[int]) -> Reply:
        with self._starting:
            if not self._thread.ident:
                self._thread.start()
        reply = Reply()
        self.fetched += [(stream, number) for number in numbers]
        self._wanted.put((stream, numbers, reply))
        self.asked.set()
        return reply

    def _serve(self) -> None:
        while (wanted := self._wanted.get()) is not None:
            self.gate.wait(60)
            stream, numbers, reply = wanted
            damage = next((found for n in numbers if (found := self.damaged(stream, n)) is not None), None)
            if damage is not None:
                reply.fail(damage)
            else:
                reply.complete({number: self.read(stream)[number] for number in numbers})

    def time(self) -> float:
        return 1_900_000_000.0

    def heard_orders(self) -> Reply:
        heard = Reply()
        heard.complete()
        return heard

    def order_done(self, order: RemoteCommand) -> None:
        raise AssertionError("nobody has sent one")

    def close(self) -> None:
        self.gate.set()
        self._wanted.put(None)
        if self._thread.ident:
            self._thread.join(60)
