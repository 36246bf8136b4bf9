"""The traps that the trial of this library fell into, each forced again: the pool, its threads, and wake-ups."""

import threading
from typing import Any

import pytest

from actors import ChildExited
from actors.testing import settle
from tests.support.hardening import (
    LONG_S,
    Witness,
    in_thread,
    obey_async,
    switching_fast,
    tree_of,
    worker,
)


def test_workers_that_block_unseen_are_compensated_until_all_run() -> None:
    """Trap 1: sixty wait for each other in something that the pool knows nothing of."""
    barrier = threading.Barrier(60)
    with tree_of(worker("w", pool=60)) as tree:
        replies = [
            tree.ref(f"t/w#{n}").ask(lambda: barrier.wait(LONG_S), timeout=LONG_S, block=False) for n in range(60)
        ]

        assert sorted(reply.get() for reply in replies) == list(range(60))


def test_blocking_asks_are_compensated_at_once() -> None:
    """Trap 1: a chain of a hundred asks, each of which holds a thread of the pool."""

    def chain(n: int) -> int:
        return 0 if n == 100 else 1 + tree.ref(f"t/x{n + 1}").ask(lambda: chain(n + 1), timeout=None)

    with tree_of(*(worker(f"x{n}") for n in range(101))) as tree:
        assert tree.ref("t/x0").ask(lambda: chain(0), timeout=LONG_S) == 100


@pytest.mark.parametrize("handler", [lambda message: message, obey_async])
def test_no_wake_up_is_lost_when_a_worker_goes_idle(handler: Any) -> None:
    """Trap 3: each message finds the worker just going idle."""
    with tree_of(worker("w", handler)) as tree, switching_fast():
        ref = tree.ref("t/w")

        assert [ref.ask(n, timeout=LONG_S) for n in range(1500)] == list(range(1500))


def test_no_wake_up_is_lost_when_a_worker_comes_up() -> None:
    """Trap 3: messages are sent while it restarts."""
    count, most = 0, 400

    def handle(message: object) -> object:
        if message == "crash":
            raise ValueError
        return message

    with tree_of(worker("w", handle)) as tree, switching_fast():
        ref = tree.ref("t/w")
        for n in range(most):
            ref.tell("crash")
            count += ref.ask(n, timeout=LONG_S) == n

    assert count == most


def test_stops_of_many_blocked_members_do_not_each_take_a_thread() -> None:
    """Trap 9: a pool of ten thousand idle members is stopped all at once, on no more threads than before."""
    with tree_of(worker("w", pool=10_000)) as tree:
        seen = Witness(tree)
        before = threading.active_count()
        most = 0

        def look(event: object) -> None:
            nonlocal most
            most = max(most, threading.active_count())

        tree.subscribe(look)
        stopped = in_thread(lambda: tree.terminate_child("t/w"))
        stopped()
        settle(tree)

        assert len(seen.of(ChildExited)) == 10_000
        assert most - before < 20
