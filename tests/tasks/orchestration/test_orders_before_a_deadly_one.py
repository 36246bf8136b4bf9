"""Orders carried out in the same turn as one that the orchestrator dies of: whoever waits for them hears of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors.tasks.orchestration.messages import Cancel, RunOnLoop, StepMade
from tests.support.asking import LONG_S, Stuck, shop
from tests.tasks.dispatching import until
from tests.tasks.orchestrators import kill_orchestrator
from trees import TaskCancelledError, Tree, WorkerSpec, start

pytestmark = pytest.mark.usefixtures("quiet_log")


@contextmanager
def one_turn(tree: Tree) -> Iterator[Any]:
    """What is ordered within is carried out in one turn of the orchestrator, which dies at the end of that."""
    port: Any = tree._system.services["tasks"].ports["p"]
    held, goes_on = threading.Event(), threading.Event()
    port.tell(RunOnLoop(lambda: (held.set(), goes_on.wait(LONG_S))))
    try:
        assert held.wait(LONG_S)
        yield port
        kill_orchestrator(tree)
    finally:
        goes_on.set()


def is_ordered(port: Any, kind: type) -> bool:
    return any(isinstance(each, kind) for each in list(port.orders))


def test_a_step_whose_record_was_made_is_acknowledged() -> None:
    begun, may_step, called = threading.Event(), threading.Event(), []

    def steps(_: Any, context: Any) -> Any:
        begun.set()
        assert may_step.wait(LONG_S)
        return context.step_sync("pay", lambda: called.append(1) or len(called))

    with start(shop(WorkerSpec(id="w", execute=steps))) as tree:
        handle = tree.submit("the goal")
        assert begun.wait(LONG_S)
        with one_turn(tree) as port:
            may_step.set()
            until(lambda: is_ordered(port, StepMade))

        assert handle.result(LONG_S).results == {"only": 1}
    assert called == [1]


def test_a_cancel_that_was_recorded_is_acknowledged_before_the_task_has_ended() -> None:
    undoing, may_undo, stuck = threading.Event(), threading.Event(), Stuck()

    def undo(*_: Any) -> None:
        undoing.set()
        assert may_undo.wait(LONG_S)

    with start(shop(WorkerSpec(id="w", execute=stuck, undo=undo))) as tree:
        handle = tree.submit("the goal")
        assert stuck.begun.wait(LONG_S)
        with one_turn(tree) as port:
            recorded = handle.cancel()
            assert is_ordered(port, Cancel)

        assert undoing.wait(LONG_S)
        assert recorded.wait(5.0)
        may_undo.set()
        with pytest.raises(TaskCancelledError):
            handle.result(LONG_S)
