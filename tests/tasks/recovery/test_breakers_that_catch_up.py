"""A breaker that lacks what the journals of tasks know counts it, whenever it is there and whatever dies meanwhile.

The failure of an attempt is recorded with its task, and then with the breaker of its worker. Whoever dies in between
leaves a breaker that lacks a failure, perhaps the one that opens it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.model.events import Event
from actors.tasks.model.task_ids import BREAKER
from tests.faults.cut_points import Cut
from tests.support.dispatching import heard, until
from trees import (
    Breaker,
    Plan,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)
from trees.store import MemoryStore

TWICE = Breaker(failure_threshold=2, window_s=600.0, cooldown_s=300.0)
PLAN = Plan([*(Subtask(f"x{n}", worker="a", required=False) for n in (1, 2)), Subtask("long", worker="w")])


class Losing(MemoryStore):
    """A store that loses what breakers record, as a process does that dies before it is written."""

    loses = True
    dies = ""
    """The orchestrator dies "before" the next record of a breaker is written, or "after" that; else it does not."""

    def replace(self, stream: str, owner: str, record: Event) -> None:
        if stream.startswith(BREAKER) and self.loses:
            return
        dies = self.dies if stream.startswith(BREAKER) else ""
        if dies != "before":
            super().replace(stream, owner, record)
        if dies:
            self.dies = ""
            raise Cut


async def long(_: Any, context: Any) -> None:
    await asyncio.get_running_loop().create_future()


def fails(_: Any, context: Any) -> None:
    raise OSError("disk")


A = WorkerSpec(id="a", execute=fails, breaker=TWICE)


def shop(*others: WorkerSpec) -> SupervisorSpec:
    tasks = Tasks(planner=lambda *_: PLAN, on_failure=[])
    return SupervisorSpec(id="p", tasks=tasks, children=[WorkerSpec(id="w", execute=long), *others])


@pytest.fixture
def store() -> Losing:
    """A store of a process in which both failures of a worker were recorded, and nothing of its breaker."""
    store = Losing()
    with start(shop(A), store=store) as tree:
        handle = tree.submit(Task("go", id="t"))
        until(lambda: {str(node.status) for node in handle._state().nodes.values() if node.id != "long"} == {"failed"})
        heard(tree, "p")
    store.loses = False
    return store


def breaker_of(tree: Tree) -> Any:
    heard(tree, "p")
    return next(row.breaker for row in tree.registry() if row.id == "a")


def test_one_that_is_there_from_the_beginning_is_open_in_the_next_process(store: Losing) -> None:
    with start(shop(A), store=store) as tree:
        assert breaker_of(tree) == "open"


@pytest.mark.parametrize("dies", ["before", "after"])
def test_it_is_open_also_where_the_orchestrator_dies_at_a_record_of_it(store: Losing, dies: str) -> None:
    store.dies = dies
    with start(shop(A), store=store) as tree:
        until(lambda: not store.dies and tree.child("p/orchestrator").incarnation == 2)
        assert breaker_of(tree) == "open"


def test_one_of_a_worker_that_comes_later_is_open_when_it_comes(store: Losing) -> None:
    with start(shop(), store=store) as tree:
        heard(tree, "p")
        tree.start_child("p", A)
        assert breaker_of(tree) == "open"
        tree.terminate_child("p/a")
        tree.delete_child("p/a")
        tree.start_child("p", A)
        assert breaker_of(tree) == "open"


def test_what_it_has_counted_is_not_counted_once_more(store: Losing) -> None:
    """Neither by the next orchestrator nor by the next process."""
    thrice = A.model_copy(update={"breaker": Breaker(failure_threshold=3, window_s=600.0, cooldown_s=300.0)})
    for _ in range(3):
        with start(shop(thrice), store=store) as tree:
            assert breaker_of(tree) == "closed"
            tree.terminate_child("p/orchestrator")
            tree.restart_child("p/orchestrator")
            assert breaker_of(tree) == "closed"
