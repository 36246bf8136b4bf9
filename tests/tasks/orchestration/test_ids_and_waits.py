"""Odd waits and ids: each right, or refused with what to do; the same in memory and on a store."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

from actors import ConfigError
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, TaskStatus, TaskTimeoutError, WorkerSpec, start

WAIT_S = 60.0


def spec(execute: Any = lambda task, context: "ok", *more: WorkerSpec) -> SupervisorSpec:
    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]))
    return SupervisorSpec(id="p", tasks=tasks, children=[WorkerSpec(id="w", execute=execute), *more])


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, sqlite_url: str) -> str | None:
    return sqlite_url if request.param == "sqlite" else None


@pytest.mark.parametrize("timeout", [math.nan, -1, -math.inf, "5", True, object()])
def test_what_is_no_time_to_wait_is_refused_before_anything_begins(timeout: Any, store: str | None) -> None:
    with start(spec(), store=store) as tree:
        with pytest.raises(ValueError, match=r"expected a timeout, got .*\. Give a number of seconds"):
            tree.run("go", timeout=timeout)
        assert tree.tasks() == []
        handle = tree.submit("go")
        with pytest.raises(ValueError, match=r"expected a timeout, got .*\. Give a number of seconds"):
            handle.result(timeout)
        assert handle.result(WAIT_S).status is TaskStatus.SUCCEEDED


@pytest.mark.parametrize("timeout", [math.nan, -1, "5", True])
def test_an_attempt_that_asks_with_no_time_to_wait_hears_so(timeout: Any, store: str | None) -> None:
    async def asks(task: Any, context: Any) -> str:
        try:
            await context.ask("helper", "help", timeout=timeout)
        except ValueError as error:
            return str(error)
        return "asked"

    helper = WorkerSpec(id="helper", execute=lambda task, context: "helped")
    with start(spec(asks, helper), store=store) as tree:
        assert "expected a timeout" in tree.run("go", timeout=WAIT_S).results["a"]


def test_not_to_wait_at_all_is_too_short_for_what_has_not_ended(store: str | None) -> None:
    gate = threading.Event()

    def wait(_: Any, __: Any) -> None:
        gate.wait(WAIT_S)

    with start(spec(wait), store=store) as tree:
        handle = tree.submit("go")
        with pytest.raises(TaskTimeoutError):
            handle.result(0)
        gate.set()
        assert handle.result(WAIT_S).status is TaskStatus.SUCCEEDED


@pytest.mark.parametrize("id_", ["", "a b", "ä", "a\n", "x" * 201, "x; drop table records;--", "t@a:1.1", "\x00"])
def test_an_id_that_cannot_be_one_is_refused(id_: str, store: str | None) -> None:
    with start(spec(), store=store) as tree:
        with pytest.raises(ConfigError):
            tree.run(Task("go", id=id_), timeout=WAIT_S)
        assert tree.tasks() == []


@pytest.mark.parametrize("id_", ["orchestrator", "t:", "breaker:p/w", "../../etc", "a/b", "-", ".", "x" * 200])
def test_an_id_that_only_looks_odd_is_one_like_any_other(id_: str, store: str | None) -> None:
    for _ in range(2):
        with start(spec(), store=store) as tree:
            assert tree.run(Task("go", id=id_), timeout=WAIT_S).results == {"a": "ok"}
            assert tree.task(id_).status is TaskStatus.SUCCEEDED
            assert [each.id for each in tree.tasks()] == [id_]
