"""A tree whose store was taken over by another process ends, and nobody can miss why."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from actors import TreeDownError, TreeFailed, TreeStopped
from actors.runtime import system
from actors.testing import AsyncScriptedExecutable, Hang, ScriptedExecutable, settle
from tests.support.crew import LONG_S
from tests.support.databases import postgres, postgres_url, sqlite_url, store_url
from tests.tasks.late_store import LateStore
from trees import LeaseLostError, StaticPlan, StoreError, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start
from trees import start_async as begin
from trees.store import SqlStore
from trees.store.database import Database
from trees.store.schema import take_token

__all__ = ["postgres", "postgres_url", "sqlite_url", "store_url"]
ONE = StaticPlan([Subtask("a")])


def spec_of(a: Any, *others: WorkerSpec) -> SupervisorSpec:
    worker = WorkerSpec(id="a", execute=a.execute)
    return SupervisorSpec(id="p", tasks=Tasks(planner=ONE), children=[worker, *others])


def take_over(url: str) -> None:
    """What another process does that takes the root, by whatever right."""
    with Database(url).transaction() as connection:
        take_token(connection, "p", "somebody else")


@pytest.mark.slow
def test_a_tree_whose_store_is_taken_over_ends_with_that_error(store_url: str) -> None:
    seen: list[Any] = []
    hang = Hang()
    a = AsyncScriptedExecutable(hang, by="call")
    tree = start(spec_of(a), store=store_url)
    tree.subscribe(seen.append)
    handle = tree.submit("do it")
    a.wait_for_calls(1)
    take_over(store_url)
    with pytest.raises(LeaseLostError) as waited:
        tree.wait(LONG_S)
    with pytest.raises(TreeDownError) as asked:
        handle.result(timeout=LONG_S)
    with pytest.raises(TreeDownError):
        tree.submit("that")

    assert tree.stop()
    assert "somebody else has taken over 'p'" in str(waited.value)
    assert asked.value.__cause__ is waited.value
    assert "somebody else has taken over" in str(asked.value)
    assert [event.error for event in seen if isinstance(event, TreeFailed)] == [waited.value]
    assert [event.gave_up for event in seen if isinstance(event, TreeStopped)] == [True]
    assert a.calls[0].ended == "CancelledError"
    assert "has taken over" in tree.dump()


def test_leaving_the_block_of_a_tree_that_lost_its_store_raises_why(sqlite_url: str) -> None:
    spec = spec_of(ScriptedExecutable("ok"))

    async def host() -> None:
        async with begin(spec, store=sqlite_url) as tree:
            take_over(sqlite_url)
            await tree._system.ended

    def leave(another: Exception | None = None) -> None:
        with start(spec, store=sqlite_url) as tree:
            take_over(sqlite_url)
            assert tree._system.ended.wait(LONG_S)
            if another is not None:
                raise another

    with pytest.raises(LeaseLostError):
        leave()
    with pytest.raises(ZeroDivisionError):
        leave(ZeroDivisionError())
    with pytest.raises(LeaseLostError):
        asyncio.run(host())


def test_what_waits_for_the_store_when_it_is_lost_hears_it_and_is_not_begun() -> None:
    script, store = ScriptedExecutable("ok", by="call"), LateStore()
    heard: list[BaseException] = []

    def submit() -> None:
        try:
            tree.submit(Task("do it", id="t"))
        except StoreError as error:
            heard.append(error)

    tree = start(spec_of(script), store=store)
    settle(tree)
    store.hold()
    thread = threading.Thread(target=submit)
    thread.start()
    assert store.flushed.acquire(timeout=LONG_S)
    store.lose(LeaseLostError("late", "p", "somebody else"))
    thread.join(LONG_S)
    with pytest.raises(LeaseLostError):
        tree.wait(LONG_S)

    (error,) = heard
    assert isinstance(error, StoreError)
    assert error.may_be_taken
    assert isinstance(error.__cause__, LeaseLostError)
    assert script.calls == []


def test_what_does_not_stop_soon_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "GRACE_S", 0.05)
    gate, held = threading.Event(), threading.Event()

    def deaf() -> None:
        held.set()
        gate.wait(LONG_S)

    store = LateStore()
    tree = start(spec_of(ScriptedExecutable("ok"), WorkerSpec(id="deaf", run=deaf, shutdown="infinity")), store=store)
    assert held.wait(LONG_S)
    store.lose(LeaseLostError("late", "p", "somebody else"))
    with pytest.raises(LeaseLostError):
        tree.wait(LONG_S)
    abandoned = "abandoned 1" in tree.dump()
    gate.set()

    assert abandoned


def test_a_store_of_ones_own_is_not_closed_by_the_tree() -> None:
    store = LateStore()
    with start(spec_of(ScriptedExecutable("ok")), store=store) as tree:
        tree.run("do it", timeout=LONG_S)

    assert store.closed == 0


def test_a_store_that_was_lost_before_the_tree_began_is_found_out(sqlite_url: str) -> None:
    store = SqlStore(sqlite_url, root="p")
    store.open()
    take_over(sqlite_url)
    assert store._writer is not None
    store._writer._thread.join(LONG_S)
    with pytest.raises(LeaseLostError):
        start(spec_of(ScriptedExecutable("ok")), store=store)
    store.close()
