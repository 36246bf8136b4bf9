"""``python -m tests.faults.finalizers --messages 20000``: objects whose ``__del__`` tells, collected at any moment.

The garbage collector runs after every third allocation, so finalizers run in the middle of tells and asks of the thread
that drops the objects, and on the threads of the library. No message is lost.
"""

from __future__ import annotations

import argparse
import gc
import threading
import time
from collections.abc import Callable
from typing import Any

from loguru import logger

from actors import Ref
from trees import Mailbox, SupervisorSpec, WorkerSpec, start

PATIENCE_S = 60.0


class Count:
    """Counts, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer may run in the middle
        self.value = 0

    def add(self, message: Any = None) -> Any:
        with self._lock:
            self.value += 1
        return message


class Circle:
    """Garbage that only the collector finds, and that tells everybody when it does."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self.me = self
        self._tell = tell

    def __del__(self) -> None:
        self._tell()


def finalizers(messages: int) -> tuple[int, int]:
    """Send so many, and as many objects more; how many messages were sent and how many came."""
    came, sent = Count(), Count()
    tree_of = SupervisorSpec(
        id="t",
        children=[
            WorkerSpec(id="plain", handle=came.add),
            WorkerSpec(id="bounded", handle=came.add, mailbox=Mailbox(capacity=1_000_000, overflow="reject")),
            WorkerSpec(id="pool", handle=came.add, pool=3),
        ],
    )
    thresholds = gc.get_threshold()
    with start(tree_of) as tree:
        refs: list[Ref] = [tree.ref(f"t/{each.id}") for each in tree_of.children]

        def tell() -> None:
            for ref in refs:
                ref.tell("dropped")
                sent.add()

        gc.set_threshold(3, 2, 2)
        try:
            for number in range(messages):
                Circle(tell)
                ref = refs[number % len(refs)]
                if number % 4:
                    ref.tell(number)
                else:
                    ref.ask(number, timeout=PATIENCE_S)
                sent.add()
        finally:
            gc.set_threshold(*thresholds)
        gc.collect()
        end = time.monotonic() + PATIENCE_S
        while came.value < sent.value and time.monotonic() < end:
            time.sleep(0.01)
    return sent.value, came.value


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.finalizers", description="Finalizers that tell.")
    parser.add_argument("--messages", type=int, default=20_000)
    logger.remove()
    sent, came = finalizers(parser.parse_args().messages)
    print(f"{sent} messages were sent, {came} came")
    return int(sent != came)


if __name__ == "__main__":
    raise SystemExit(main())
