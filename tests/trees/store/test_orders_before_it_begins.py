"""What was wanted while nobody was there to do it came before what begins now, so it is carried out first.

Two orders of things in the process that goes on: its store tells of the orders before the orchestrator has begun, or
only afterwards. Nothing new begins before they are heard and done, in both.
"""

from __future__ import annotations

import asyncio
from threading import Event
from typing import Any, Final

import pytest

from actors.testing import AsyncScriptedExecutable, Echo, Hang
from tests.support.crew import LONG_S
from tests.support.databases import sqlite_url
from trees import Plan, StaticPlan, Subtask, SupervisorSpec, Task, TaskCancelledError, Tasks, Tree, WorkerSpec, start
from trees.command.store_client import StoreClient
from trees.store import SqlStore

__all__ = ["sqlite_url"]
ORCHESTRATOR: Final = "p/orchestrator"


def spec_of(work: Any, planner: Any = None) -> SupervisorSpec:
    tasks = Tasks(planner=planner or StaticPlan([Subtask("a")]))
    return SupervisorSpec(id="p", tasks=tasks, children=[WorkerSpec(id="a", execute=work.execute)])


def cancelled_by_hand(tree: Tree, _: str) -> None:
    """It lies at the port of an orchestrator that is down, and is left to the next process."""
    tree.terminate_child(ORCHESTRATOR)
    tree.task("t").cancel("enough")
    tree.stop()


def cancelled_from_outside(tree: Tree, url: str) -> None:
    """``regrow tasks cancel``, while no process has the tree."""
    tree.stop()
    with StoreClient(url) as outside:
        outside.cancel(outside.task("t")[0], "enough", 0.0)


@pytest.mark.parametrize("cancelled", [cancelled_by_hand, cancelled_from_outside])
@pytest.mark.parametrize("is_late", [False, True], ids=["heard before it begins", "heard after it has begun"])
def test_an_attempt_of_a_task_that_was_cancelled_while_nobody_was_there_is_not_made_again(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, cancelled: Any, is_late: bool
) -> None:
    work, again = AsyncScriptedExecutable(Hang(), by="call"), AsyncScriptedExecutable(Echo())
    let, hear = Event(), SqlStore._hear
    with start(spec_of(work), store=sqlite_url) as tree:
        tree.submit(Task("do it", id="t"))
        work.wait_for_calls(1)
        cancelled(tree, sqlite_url)
    if is_late:
        monkeypatch.setattr(SqlStore, "_hear", lambda store: hear(store) if let.wait(LONG_S) else None)

    with start(spec_of(again), store=sqlite_url) as tree:
        tree._system.services["tasks"].ports["p"].resumed.get(timeout=LONG_S)
        let.set()
        with pytest.raises(TaskCancelledError, match="enough"):
            tree.task("t").result(timeout=LONG_S)

    assert again.calls == []


def test_a_planner_is_not_called_again_for_a_task_that_was_cancelled_while_nobody_was_there(sqlite_url: str) -> None:
    called, is_first, calls = Event(), [True], list[str]()

    async def plan(task: Task, _: Any, __: Any) -> Plan:
        called.set()
        calls.append(task.goal)
        if is_first:
            await asyncio.Event().wait()
        return Plan([Subtask("a")])

    spec = spec_of(AsyncScriptedExecutable(Echo()), plan)
    with start(spec, store=sqlite_url) as tree:
        tree.submit(Task("do it", id="t"))
        assert called.wait(LONG_S)
        cancelled_by_hand(tree, sqlite_url)
    is_first.clear()
    with start(spec, store=sqlite_url) as tree, pytest.raises(TaskCancelledError, match="enough"):
        tree.task("t").result(timeout=LONG_S)

    assert calls == ["do it"]


def test_a_task_that_was_given_and_cancelled_while_the_orchestrator_was_down_is_not_begun_when_it_is_up_again() -> None:
    with start(spec_of(AsyncScriptedExecutable(Echo()))) as tree:
        tree.terminate_child(ORCHESTRATOR)
        handle = tree.submit(Task("do it", id="t"))
        handle.cancel("enough")
        tree.restart_child(ORCHESTRATOR)
        seen = [event.name for event in handle.events()]

    assert (seen[-1], "subtask_started" in seen) == ("task_finished", False)
