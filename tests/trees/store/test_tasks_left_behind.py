"""Tasks that nobody goes on with, and handles of tasks that the store has no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest

from actors.tasks.model import task_events
from tests.support.hardening import eventually
from tests.trees.store.stores import OWNER, PATIENCE_S, kept, opened, submitted
from tests.trees.store.test_damaged_rows import damage, done
from tests.trees.store.test_task_removal import rows_of
from trees import (
    Report,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskCancelledError,
    TaskHandle,
    Tasks,
    TaskStatus,
    Tree,
    UnknownTaskError,
    WorkerSpec,
    start,
)
from trees.command.store_client import StoreClient
from trees.host.task_removal import NotRemovableError
from trees.store import Keep

PART = "t@a:1.1"
GONE = f"{OWNER}/team"


def tree_of(*more: SupervisorSpec) -> SupervisorSpec:
    worker = WorkerSpec(id="w", execute=lambda *_: 1)
    return SupervisorSpec(
        id=OWNER, tasks=Tasks(planner=StaticPlan([Subtask("s", worker="w")])), children=[worker, *more]
    )


def team() -> SupervisorSpec:
    member = WorkerSpec(id="m", execute=lambda *_: 2)
    return SupervisorSpec(id="team", tasks=Tasks(planner=StaticPlan([Subtask("m")])), children=[member])


def left(url: str, *, whole: bool = True) -> None:
    """A task that has ended, and its part, and another task, of a team that was in the tree then."""
    with closing(opened(url)) as store:
        if whole:
            done(store, "t")
        for name in (PART, "u"):
            parent = "t/a#1.1" if name == PART else None
            store.create(name, GONE, replace(submitted(name), path=GONE, parent=parent))
            store.append(name, task_events.StepStarted(GONE, name, 2.5, "plan", 1))
        kept(store)


def by_the_tree(tree: Tree, url: str, name: str) -> None:
    tree.remove_task(name)


def from_outside(tree: Tree, url: str, name: str) -> None:
    with closing(StoreClient(url)) as outside:
        assert outside.remove(name, None, PATIENCE_S) == f"task {name}: removed"


@pytest.mark.parametrize("damaged", [False, True], ids=["whole", "damaged"])
def test_a_part_of_a_team_that_is_gone_goes_with_its_task_when_that_is_too_old(damaged: bool, store_url: str) -> None:
    left(store_url)
    if damaged:
        damage(store_url, PART, "DELETE FROM regrow_records WHERE {of} AND n = 0")

    with start(tree_of(), store=store_url, keep=Keep(count=0)):
        eventually(lambda: rows_of(store_url, "t") == 0)
        assert rows_of(store_url, PART) == 0
        assert rows_of(store_url, "u") > 0, "a task of its own waits for its supervisor"


def test_a_part_of_a_team_that_is_there_ends_first_and_goes_then(store_url: str) -> None:
    left(store_url)

    with start(tree_of(team()), store=store_url) as tree:
        assert tree.task(PART).cancel().wait(PATIENCE_S)
        assert tree.task("u").result(PATIENCE_S).status is TaskStatus.SUCCEEDED
        with pytest.raises(TaskCancelledError):
            tree.task(PART).result(PATIENCE_S)
    with start(tree_of(team()), store=store_url, keep=Keep(count=0)):
        eventually(lambda: rows_of(store_url, "t") + rows_of(store_url, "u") + rows_of(store_url, PART) == 0)


@pytest.mark.parametrize("remove", [by_the_tree, from_outside])
def test_a_task_that_nobody_in_the_tree_can_go_on_with_or_cancel_is_removed(
    remove: Callable[[Tree, str, str], None], store_url: str
) -> None:
    left(store_url, whole=False)

    with start(tree_of(), store=store_url) as tree:
        for name in (PART, "u"):
            handle = tree.task(name)
            remove(tree, store_url, name)
            assert rows_of(store_url, name) == 0
            with pytest.raises(UnknownTaskError):
                handle.result(PATIENCE_S)


def test_a_part_of_a_team_that_is_gone_is_removed_with_its_task_and_not_alone(store_url: str) -> None:
    left(store_url)

    with start(tree_of(), store=store_url) as tree:
        with pytest.raises(NotRemovableError, match="it is a part of task t"):
            tree.remove_task(PART)
        tree.remove_task("t")
        assert rows_of(store_url, "t") == rows_of(store_url, PART) == 0


async def awaited(handle: TaskHandle) -> Report:
    return await handle


FINDS: dict[str, Callable[[Tree], TaskHandle]] = {
    "found": lambda tree: tree.task("t"),
    "submitted again": lambda tree: tree.submit(Task("do it", id="t")),
}


@pytest.mark.parametrize("find", FINDS.values(), ids=FINDS.keys())
@pytest.mark.parametrize("durable", [False, True], ids=["memory", "durable"])
def test_who_asks_for_the_result_of_a_task_that_was_removed_hears_that_there_is_none(
    find: Callable[[Tree], TaskHandle], durable: bool, sqlite_url: str
) -> None:
    with start(tree_of(), store=sqlite_url if durable else None) as tree:
        tree.run(Task("do it", id="t"), PATIENCE_S)
        handle, late, other = find(tree), find(tree), find(tree)
        assert other.result(PATIENCE_S).results == {"s": 1}
        tree.remove_task("t")

        with pytest.raises(UnknownTaskError):
            handle.result(PATIENCE_S)
        with pytest.raises(UnknownTaskError):
            asyncio.run(awaited(late))
        assert other.result(PATIENCE_S).results == {"s": 1}, "who has it keeps it"
        assert tree.run(Task("do it", id="t"), PATIENCE_S).results == {"s": 1}
