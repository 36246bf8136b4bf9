"""``python -m tests.faults.interrupts --seconds 20 [--seed N]``: Ctrl-C in the middle of tells and asks.

Another thread sends SIGINT to the main thread, which tells and asks all kinds of workers. A call that was cut short may
or may not have been carried out. After it every worker still answers, and the tree stops.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import secrets
import signal
import threading
import time
from typing import Any, Self

from loguru import logger

from actors import MailboxFullError, Ref
from trees import Mailbox, SupervisorSpec, WorkerSpec, start

ANSWER_S = 30.0
LONGEST_S = 0.0008
"""Between two signals."""


def echo(message: Any) -> Any:
    return message


async def echo_async(message: Any) -> Any:
    return message


TREE = SupervisorSpec(
    id="t",
    children=[
        WorkerSpec(id="plain", handle=echo, pool=20),
        WorkerSpec(id="loop", handle=echo_async),
        WorkerSpec(id="bounded", handle=echo, mailbox=Mailbox(capacity=4, overflow="reject")),
        WorkerSpec(id="thread", handle=echo, dispatch="thread"),
    ],
)


class Interrupts:
    """Sends SIGINT to the main thread until it is told to end; it raises there only while ``armed``."""

    def __init__(self, dice: random.Random) -> None:
        self.armed = False
        self._over = threading.Event()
        self._dice = dice
        self._thread = threading.Thread(target=self._shoot, name="interrupts")

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._hear)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        signal.signal(signal.SIGINT, self._before)

    def _hear(self, *_: object) -> None:
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt

    def _shoot(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        while not self._over.wait(self._dice.uniform(0.0, LONGEST_S)):
            signal.pthread_kill(main, signal.SIGINT)


def burst(refs: list[Ref], dice: random.Random) -> None:
    """Fifty messages, told or asked."""
    for number in range(50):
        with contextlib.suppress(MailboxFullError):
            ref = dice.choice(refs)
            if dice.random() < 0.7:
                ref.tell(number)
            else:
                ref.ask(number, timeout=ANSWER_S)


def interrupts(seconds: float, seed: int) -> int:
    """Run so long; how many calls were cut short.

    Raises:
        ReplyTimeoutError: a worker does not answer any more.
    """
    dice = random.Random(seed)  # noqa: S311 - to be repeated
    cut = 0
    end = time.monotonic() + seconds
    with start(TREE) as tree, Interrupts(random.Random(seed + 1)) as signals:  # noqa: S311 - the same
        refs = [tree.ref(f"t/{each.id}") for each in TREE.children]
        while time.monotonic() < end:
            try:
                signals.armed = True
                burst(refs, dice)
                signals.armed = False
            except KeyboardInterrupt:
                cut += 1
            for ref in refs if cut % 50 == 0 else ():
                with contextlib.suppress(MailboxFullError):
                    assert ref.ask("still there", timeout=ANSWER_S) == "still there"
    return cut


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.interrupts", description="Ctrl-C at any moment.")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=None)
    chosen = parser.parse_args()
    logger.remove()
    seed = chosen.seed if chosen.seed is not None else secrets.randbits(32)
    print(f"seed {seed}", flush=True)
    print(f"{interrupts(chosen.seconds, seed)} calls were cut short, and every worker answers")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
