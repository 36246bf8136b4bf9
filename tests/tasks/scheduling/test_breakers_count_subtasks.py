"""A breaker counts how a subtask ended with its worker, not its attempts: what a retry mended is no failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from actors import Event
from actors.testing import settle
from trees import (
    Breaker,
    BreakerClosed,
    BreakerHalfOpened,
    BreakerOpened,
    Escalate,
    Failover,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskStarted,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

WAIT_S = 20.0
PLAN = StaticPlan([Subtask("x", "work", capability="do")])
AT_ONCE = Retry(max_attempts=2, initial_s=0.0)
OPENS_AT_ONCE = Breaker(failure_threshold=1, cooldown_s=1000.0)


def office(work: Callable[..., Any], *others: WorkerSpec, on_failure: Sequence[Any], **fields: Any) -> SupervisorSpec:
    worker = WorkerSpec(id="work", execute=work, capabilities={"do"}, **fields)
    return SupervisorSpec(id="office", tasks=Tasks(planner=PLAN, on_failure=on_failure), children=[worker, *others])


def breaker_of(tree: Tree, worker: str = "work") -> str | None:
    settle(tree)
    return {row.id: row.breaker for row in tree.registry()}[worker]


def turns(events: list[Event]) -> list[str]:
    return [
        type(event).__name__ for event in events if isinstance(event, BreakerOpened | BreakerHalfOpened | BreakerClosed)
    ]


def always_fails(_task: Any, _context: Any) -> Any:
    raise ConnectionError("no route")


def fails_first(_task: Any, context: Any) -> str:
    if context.attempt == 1:
        raise ConnectionError("no route")
    return "done"


def run(tree: Tree) -> str:
    return str(tree.submit(Task("work")).result(timeout=WAIT_S).status)


def fail(tree: Tree) -> None:
    with pytest.raises(TaskFailedError):
        run(tree)


def test_failures_that_a_retry_mends_never_open_it() -> None:
    events: list[Event] = []
    with start(office(fails_first, on_failure=[AT_ONCE])) as tree:
        tree.subscribe(events.append)
        assert [run(tree) for _ in range(12)] == ["succeeded"] * 12
        assert breaker_of(tree) == "closed"
    assert turns(events) == []


def test_subtasks_that_fail_for_good_open_it_each_counted_once() -> None:
    spec = office(always_fails, on_failure=[AT_ONCE], breaker=Breaker(failure_threshold=3, cooldown_s=1000.0))
    with start(spec) as tree:
        seen = []
        for _ in range(3):
            fail(tree)
            seen.append(breaker_of(tree))
    assert seen == ["closed", "closed", "open"]


def test_a_subtask_that_goes_on_with_another_worker_has_failed_with_the_first() -> None:
    other = WorkerSpec(id="other", execute=lambda _task, _context: "done", capabilities={"do"}, breaker=OPENS_AT_ONCE)
    spec = office(always_fails, other, on_failure=[AT_ONCE, Failover()], breaker=OPENS_AT_ONCE)
    with start(spec) as tree:
        assert run(tree) == "succeeded"
        assert (breaker_of(tree), breaker_of(tree, "other")) == ("open", "closed")


def test_it_counts_when_a_person_is_asked_and_not_when_he_has_answered() -> None:
    with start(office(always_fails, on_failure=[AT_ONCE, Escalate()], breaker=OPENS_AT_ONCE)) as tree:
        handle = tree.submit(Task("work"))
        settle(tree)
        assert len(handle.escalations) == 1
        assert breaker_of(tree) == "open"


def test_while_it_is_half_open_the_first_attempt_of_the_probe_decides() -> None:
    events: list[Event] = []
    calls: list[int] = []

    def work(_task: Any, context: Any) -> str:
        calls.append(context.attempt)
        if len(calls) <= 3:
            raise ConnectionError("no route")
        return "done"

    spec = office(work, on_failure=[AT_ONCE], breaker=Breaker(failure_threshold=1, cooldown_s=0.3))
    with start(spec) as tree:
        tree.subscribe(events.append)
        fail(tree)
        assert run(tree) == "succeeded"
        settle(tree)
    kinds = [
        type(event).__name__ for event in events if isinstance(event, SubtaskStarted | BreakerOpened | BreakerClosed)
    ]
    assert calls == [1, 2, 1, 2]
    opened, closed, started = "BreakerOpened", "BreakerClosed", "SubtaskStarted"
    assert kinds == [started, started, opened, started, opened, started, closed]


def test_what_waits_for_an_open_breaker_loses_no_attempt() -> None:
    broken = [True]

    def work(_task: Any, context: Any) -> int:
        if broken[0]:
            raise ConnectionError("no route")
        return int(context.attempt)

    spec = office(work, on_failure=[], breaker=Breaker(failure_threshold=1, cooldown_s=0.3))
    with start(spec) as tree:
        fail(tree)
        waiting = tree.submit(Task("work"))
        settle(tree)
        assert "breaker of work open" in waiting.dump()
        broken[0] = False
        assert list(waiting.result(timeout=WAIT_S).results.values()) == [1]


def test_it_begins_closed_in_a_new_process(tmp_path: Path) -> None:
    spec, store = office(always_fails, on_failure=[], breaker=OPENS_AT_ONCE), f"sqlite:///{tmp_path}/tasks.db"
    with start(spec, store=store) as tree:
        fail(tree)
        assert breaker_of(tree) == "open"
    with start(spec, store=store) as tree:
        assert breaker_of(tree) == "closed"


def test_a_restart_of_the_worker_leaves_it_as_it_is() -> None:
    with start(office(always_fails, on_failure=[], breaker=OPENS_AT_ONCE)) as tree:
        fail(tree)
        tree.terminate_child("office/work")
        tree.restart_child("office/work")
        assert breaker_of(tree) == "open"
