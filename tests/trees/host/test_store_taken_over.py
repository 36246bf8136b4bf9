"""A tree whose store was taken over by another process ends, and nobody can miss why."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from actors.testing import ScriptedExecutable, settle
from tests.support.crew import LONG_S
from tests.support.databases import postgres, postgres_url, sqlite_url, store_url
from tests.tasks.late_store import LateStore
from trees import LeaseLostError, StaticPlan, StoreError, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start

__all__ = ["postgres", "postgres_url", "sqlite_url", "store_url"]
ONE = StaticPlan([Subtask("a")])


def spec_of(a: Any, *others: WorkerSpec) -> SupervisorSpec:
    worker = WorkerSpec(id="a", execute=a.execute)
    return SupervisorSpec(id="p", tasks=Tasks(planner=ONE), children=[worker, *others])


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


def test_a_store_of_ones_own_is_not_closed_by_the_tree() -> None:
    store = LateStore()
    with start(spec_of(ScriptedExecutable("ok")), store=store) as tree:
        tree.run("do it", timeout=LONG_S)

    assert store.closed == 0
