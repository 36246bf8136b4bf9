"""Workers that wait for a task when their tree is stopped: the wait fails, and holds nothing up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from actors import ActorStoppedError
from tests.support.asking import LONG_S
from tests.support.load import beside_others
from trees import Plan, Subtask, SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start

STUCK = Task("go", plan=Plan([Subtask("stuck", worker="stuck")]))


def by_result(tree: Tree) -> Any:
    return tree.submit(STUCK).result()


def by_run(tree: Tree) -> Any:
    return tree.run(STUCK)


def by_map(tree: Tree) -> Any:
    return next(tree.map([STUCK], to="p", on_error="raise"))


def by_events(tree: Tree) -> Any:
    return list(tree.submit(STUCK).events())


@pytest.mark.parametrize("wait", [by_result, by_run, by_map, by_events])
def test_a_worker_that_waits_for_a_task_does_not_hold_up_the_stop_of_its_tree(wait: Callable[[Tree], Any]) -> None:
    begun, ended, trees, found = threading.Event(), threading.Event(), list[Tree](), list[BaseException]()

    async def stuck(*_: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    def waits(_: Any) -> None:
        try:
            wait(trees[0])
        except BaseException as error:
            found.append(error)
            raise
        finally:
            ended.set()

    workers = [WorkerSpec(id="stuck", execute=stuck), WorkerSpec(id="w", handle=waits, shutdown=1.0)]
    with start(SupervisorSpec(id="p", tasks=Tasks(), children=workers)) as tree:
        trees.append(tree)
        tree.ref("p/w").tell("wait")
        assert begun.wait(LONG_S)
        stopping = time.monotonic()
    assert time.monotonic() - stopping < beside_others(10.0)

    assert ended.wait(LONG_S)
    assert wait is by_events or isinstance(
        found[0], ActorStoppedError
    )  # a reading ends with its tree, without an error
