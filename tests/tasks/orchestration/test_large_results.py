"""A task whose large result is being written holds up nobody else, and nothing of it goes on before that is kept."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from actors.model.clock import monotonic
from actors.tasks.results import result_cache
from tests.faults.cut_points import LONG_S
from trees import (
    Plan,
    StaticPlan,
    Subtask,
    SubtaskStarted,
    SupervisorSpec,
    Task,
    TaskCancelledError,
    TaskPriorityChanged,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)
from trees.store import large_values
from trees.store.large_values import LargeValue

LARGE = "x" * 10_000
PIECES = 6


class Gate:
    """Keeps the store from writing the ``at``-th piece of large values; all else goes on."""

    def __init__(self, patched: pytest.MonkeyPatch, at: int = 0) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        write = LargeValue.write

        def stopped(value: LargeValue, session: Any) -> bool:
            if value._written != at or self.go_on.is_set():
                return write(value, session)
            self.reached.set()
            value.next_at = monotonic() + 0.005
            return True

        patched.setattr(LargeValue, "write", stopped)


class Books:
    """Who was called, by the key of the call."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.results: dict[str, dict[str, Any]] = {}

    def large(self, task: Any, context: Any) -> str:
        self.calls[context.idempotency_key] += 1
        return LARGE

    async def endless(self, task: Any, context: Any) -> None:
        await asyncio.Event().wait()

    def small(self, task: Any, context: Any) -> int:
        self.calls[context.idempotency_key] += 1
        self.results[task.id] = dict(context.results)
        return 1


def plan_of(task: Any, catalogue: Any, feedback: str = "") -> Plan:
    if task.goal in {"small", "endless"}:
        return Plan([Subtask("only", worker=task.goal)])
    return Plan([Subtask("large", worker="large"), Subtask("after", worker="small", depends_on=["large"])])


def spec(books: Books) -> SupervisorSpec:
    children = [
        WorkerSpec(id="large", execute=books.large),
        WorkerSpec(id="small", execute=books.small),
        WorkerSpec(id="endless", execute=books.endless),
    ]
    return SupervisorSpec(id="p", tasks=Tasks(planner=plan_of, on_failure=[]), children=children)


def team(books: Books) -> SupervisorSpec:
    """The large result is that of a part; its parent goes on with another subtask meanwhile."""
    inner = SupervisorSpec(
        id="q",
        tasks=Tasks(planner=StaticPlan([Subtask("large", worker="large")])),
        children=[WorkerSpec(id="large", execute=books.large)],
    )
    plan = [
        Subtask("part", worker="q"),
        Subtask("beside", worker="small"),
        Subtask("after", worker="small", depends_on=["part", "beside"]),
    ]
    children = [inner, WorkerSpec(id="small", execute=books.small)]
    return SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan(plan), on_failure=[]), children=children)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_values, "PIECE", 2_000)
    monkeypatch.setattr(result_cache, "LARGE_TOKENS", 500)


@pytest.fixture
def books() -> Books:
    return Books()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(monkeypatch)
    yield gate
    gate.go_on.set()


@pytest.fixture
def tree(books: Books, store_url: str) -> Iterator[Tree]:
    with start(spec(books), store=store_url) as tree:
        yield tree


def test_small_tasks_have_the_worker_that_will_go_on_with_a_large_result_meanwhile(
    tree: Tree, gate: Gate, books: Books
) -> None:
    large = tree.submit("large")
    assert gate.reached.wait(LONG_S)

    for _ in range(3):
        assert tree.run("small", timeout=LONG_S).results == {"only": 1}
    assert large.status == "running"
    assert "after" not in books.results

    gate.go_on.set()
    assert large.result(LONG_S).results == {"large": LARGE, "after": 1}
    assert books.results["after"] == {"large": LARGE}


def test_what_is_small_is_submitted_and_cancelled_while_a_large_result_is_written(tree: Tree, gate: Gate) -> None:
    tree.submit("large")
    assert gate.reached.wait(LONG_S)
    other = tree.submit("endless")
    other.cancel("not wanted")

    with pytest.raises(TaskCancelledError):
        other.result(LONG_S)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [spec, team], ids=["one orchestrator", "a team"])
@pytest.mark.parametrize("at", range(PIECES))
def test_a_process_that_dies_at_any_piece_has_lost_no_more_than_that_result(
    shape: Any, at: int, books: Books, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in the file at that moment is what the next process finds."""
    copy = tmp_path / "two.db"
    with start(shape(books), store=f"sqlite:///{tmp_path}/one.db") as tree:
        gate = Gate(monkeypatch, at)
        handle = tree.submit("large")
        assert gate.reached.wait(LONG_S)
        with closing(sqlite3.connect(tmp_path / "one.db")) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        gate.go_on.set()
        whole = handle.result(LONG_S)
    once, books.calls = books.calls, Counter()

    with start(shape(books), store=f"sqlite:///{copy}") as tree:
        again = tree.task(handle.id).result(LONG_S)

    assert again.results == whole.results
    assert set(books.calls) <= set(once), "a key that was never there before"
    assert max(books.calls.values()) == 1
    assert "large" in {key.split("/")[1] for key in books.calls}


def test_what_follows_from_large_results_is_done_once_each_of_them_is_kept(
    tree: Tree, gate: Gate, books: Books
) -> None:
    handles = [tree.submit("large") for _ in range(4)]
    assert gate.reached.wait(LONG_S)
    assert "after" not in books.results
    gate.go_on.set()

    assert [handle.result(LONG_S).results["after"] for handle in handles] == [1] * 4


def test_a_task_that_is_cancelled_while_its_large_result_is_written_goes_on_with_nothing(
    tree: Tree, gate: Gate, books: Books
) -> None:
    large = tree.submit("large")
    assert gate.reached.wait(LONG_S)
    large.cancel("not wanted")
    assert tree.run("small", timeout=LONG_S).results == {"only": 1}
    gate.go_on.set()

    with pytest.raises(TaskCancelledError):
        large.result(LONG_S)
    assert "after" not in books.results


def test_an_orchestrator_that_is_replaced_meanwhile_goes_on_once_the_result_is_kept(
    tree: Tree, gate: Gate, books: Books
) -> None:
    large = tree.submit("large")
    assert gate.reached.wait(LONG_S)
    tree.terminate_child("p/orchestrator")
    tree.restart_child("p/orchestrator")
    assert "after" not in books.results
    gate.go_on.set()

    assert large.result(LONG_S).results == {"large": LARGE, "after": 1}
    assert max(books.calls.values()) == 1


def test_a_task_with_a_large_input_takes_another_priority_here_and_in_the_next_process(
    books: Books, gate: Gate, store_url: str
) -> None:
    gate.go_on.set()
    with start(spec(books), store=store_url) as tree:
        handle = tree.submit(Task("endless", id="t", inputs={"pages": LARGE * 20}))
        events = handle.events()
        next(event for event in events if isinstance(event, SubtaskStarted))
        handle.set_priority(7)
        assert next(event.priority for event in events if isinstance(event, TaskPriorityChanged)) == 7
        assert handle.status == "running"

    with start(spec(books), store=store_url) as tree:
        handle = tree.task("t")
        assert tree._system.services["tasks"].ports["p"].states["t"].task.priority == 7
        assert (handle.status, handle.task.inputs) == ("running", {"pages": 20 * LARGE})
        handle.cancel()
        with pytest.raises(TaskCancelledError):
            handle.result(LONG_S)
