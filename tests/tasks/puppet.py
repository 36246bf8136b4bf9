"""An executable that does what the test says, when it says it."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

from tests.support.crew import LONG_S


class Puppet:
    """A sync executable that does what the test says, one thing at a time; it ends when it is told None."""

    def __init__(self) -> None:
        self.orders: queue.Queue[Callable[[Any], object] | None] = queue.Queue()
        self.done: queue.Queue[object] = queue.Queue()

    def execute(self, _task: object, context: Any) -> str:
        """Follow orders until there is a None."""
        while (order := self.orders.get(timeout=LONG_S)) is not None:
            self.done.put(order(context))
        return "done"

    def does(self, order: Callable[[Any], object]) -> object:
        """Have it do something; what came of it."""
        self.orders.put(order)
        return self.done.get(timeout=LONG_S)
