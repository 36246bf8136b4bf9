"""SEMANTICS.md 21 to 23: what must stay true at any size, and after any number of restarts."""

from __future__ import annotations

import gc
import statistics
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from actors.testing import FaultyWorker, Hang, settle
from tests.support.crew import LONG_S, faulty, running, shop
from trees import Tree, WorkerSpec

FEW, MANY = 250, 5_000
SLACK = 8.0
"""How much longer the same may take among many: a cost per sibling would make it twenty times as long, or more."""


def echo(message: Any) -> Any:
    if isinstance(message, BaseException):
        raise message
    return message


def crowd(size: int, **words: Any) -> Any:
    return shop(WorkerSpec(id="crew", handle=echo, pool=size), faulty("last"), max_restarts=10**6, **words)


def median_s(act: Callable[[], object], times: int = 15) -> float:
    """The seconds that this process works for it, in all of its threads: a cost per sibling is work, a wait is none."""

    def once() -> float:
        before = time.process_time()
        act()
        return time.process_time() - before

    return statistics.median(once() for _ in range(times))


# -- 21 ----------------------------------------------------------------------------------------------------


def look_up(tree: Tree) -> None:
    for _ in range(100):
        tree.child("shop/crew#7")
        tree.ref("shop/crew#7").is_alive()


def exit_and_restart(tree: Tree) -> None:
    ref = tree.ref("shop/crew#7")
    for _ in range(10):
        ref.tell(ValueError())
    assert ref.ask("back?", timeout=LONG_S) == "back?"


def stop_one(tree: Tree) -> None:
    tree.terminate_child("shop/crew#7")
    tree.restart_child("shop/crew#7")


def add_and_delete(tree: Tree) -> None:
    tree.start_child("shop", WorkerSpec(id="new", handle=echo))
    tree.terminate_child("shop/new")
    tree.delete_child("shop/new")


def crash_the_last_of_a_rest(tree: Tree) -> None:
    ref = tree.ref("shop/last")
    ref.tell("raise ValueError")
    assert ref.ask("back?", timeout=LONG_S) == "back?"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "strategy"),
    [
        (look_up, "one_for_one"),
        (exit_and_restart, "one_for_one"),
        (stop_one, "one_for_one"),
        (add_and_delete, "one_for_one"),
        (crash_the_last_of_a_rest, "rest_for_one"),
    ],
)
def test_the_same_costs_the_same_among_few_and_among_many(act: Callable[[Tree], None], strategy: str) -> None:
    medians = []
    for size in (FEW, MANY):
        with running(crowd(size, strategy=strategy)) as tree:
            act(tree)
            medians.append(median_s(lambda tree=tree: act(tree)))

    assert medians[1] < SLACK * medians[0] + 0.002


# -- 22 ----------------------------------------------------------------------------------------------------


class Luggage:
    """Something that can be watched for being let go of."""


class Carrier(FaultyWorker):
    """Holds what it was given."""

    def __init__(self, luggage: Luggage, **faults: Any) -> None:
        super().__init__(**faults)
        self.luggage = luggage


def carrier(luggage: Luggage, dispatch: str, **words: Any) -> WorkerSpec:
    return WorkerSpec(id="t", actor=Carrier, args=(luggage,), restart="temporary", dispatch=dispatch, **words)  # type: ignore[arg-type]


class Goodbye:
    """Set once the object is gone."""

    def __init__(self, thing: object) -> None:
        self._gone = threading.Event()
        self._reference = weakref.ref(thing, lambda _: self._gone.set())

    def is_said(self) -> bool:
        """Collect garbage until it is; threads that are on their way back may still hold it for a moment."""
        end = time.monotonic() + LONG_S
        while not self._gone.wait(0.01) and time.monotonic() < end:
            gc.collect()
        return self._gone.is_set()


def test_a_temporary_child_that_is_abandoned_leaves_nothing_behind_once_its_thread_returns() -> None:
    luggage, hang = Luggage(), Hang(deaf=True)
    goodbye = Goodbye(luggage)
    with running(shop(faulty("a"))) as tree:
        tree.start_child("shop", carrier(luggage, "thread", shutdown=0.02))
        del luggage
        tree.ref("shop/t").tell(hang)
        hang.wait_until_entered()
        tree.terminate_child("shop/t")
        hang.release()

        assert goodbye.is_said()


# -- 23 ----------------------------------------------------------------------------------------------------


class HeavyError(ValueError):
    """An exception that can be watched."""


def test_nothing_keeps_the_exception_of_a_crash() -> None:
    with running(shop(faulty("a"))) as tree:
        error = HeavyError()
        goodbye = Goodbye(error)
        tree.ref("shop/a").tell(error)
        del error
        settle(tree)
        last_exit = tree.child("shop/a").last_exit

        assert goodbye.is_said()
        assert last_exit is not None
        assert last_exit.detail == "HeavyError"
