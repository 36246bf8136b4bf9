"""Work for a worker that somebody starts again waits for it, as it waits for one that its supervisor starts again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors import StartError, Worker
from tests.support.crew import crash
from tests.tasks.dispatching import LONG_S, failure, heard, one, shop, submitted
from trees import SupervisorSpec, Tree, WorkerSpec, start


class Slow(Worker):
    """Its starts after the first wait at a gate, and may fail there."""

    begun = threading.Event()
    gate = threading.Event()
    starts = 0
    fails = False

    def on_start(self) -> None:
        cls = type(self)
        cls.starts += 1
        if cls.starts > 1:
            cls.begun.set()
            assert cls.gate.wait(LONG_S)
            if cls.fails:
                raise ValueError("no")

    def on_receive(self, message: object) -> None:
        raise ValueError(message)

    def execute(self, task: Any, context: Any) -> str:
        return "done"


@pytest.fixture
def slow() -> Iterator[type[Slow]]:
    """A class of its own for each test; its gate is open in the end."""
    own = type("Own", (Slow,), {"begun": threading.Event(), "gate": threading.Event()})
    yield own
    own.gate.set()


@contextmanager
def restarting(tree: Tree, slow: type[Slow], path: str = "shop/w") -> Iterator[list[BaseException]]:
    """``restart_child`` on another thread, inside of its ``on_start``; what it raised."""
    raised: list[BaseException] = []

    def call() -> None:
        try:
            tree.restart_child(path)
        except StartError as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        assert slow.begun.wait(LONG_S)
        heard(tree)
        yield raised
    finally:
        slow.gate.set()
        thread.join(LONG_S)


def tree_of(slow: type[Slow]) -> SupervisorSpec:
    return shop(WorkerSpec(id="w", actor=slow), plans={"go": [one("w")]})


def test_work_waits_for_a_worker_that_somebody_restarts(slow: type[Slow]) -> None:
    with start(tree_of(slow)) as tree:
        tree.terminate_child("shop/w")
        with restarting(tree, slow):
            handle = submitted(tree, "go")
            assert [row.state for row in tree.registry()] == ["restarting"]
            assert handle.report is None

        assert handle.result(timeout=LONG_S).results == {"w": "done"}


def test_work_waits_for_a_parked_worker_that_somebody_restarts(slow: type[Slow]) -> None:
    worker = WorkerSpec(id="w", actor=slow, on_exhausted="park")
    with start(shop(worker, plans={"go": [one("w")]}, words={"max_restarts": 0})) as tree:
        crash(tree, "shop/w")
        assert tree.child("shop/w").state == "parked"
        with restarting(tree, slow):
            handle = submitted(tree, "go")

        assert handle.result(timeout=LONG_S).results == {"w": "done"}


def test_work_that_waits_for_one_that_does_not_start_has_nobody(slow: type[Slow]) -> None:
    slow.fails = True
    with start(tree_of(slow)) as tree:
        tree.terminate_child("shop/w")
        with restarting(tree, slow) as raised:
            handle = submitted(tree, "go")

        assert "shop/w is stopped" in failure(handle).failed["w"]
    assert len(raised) == 1
