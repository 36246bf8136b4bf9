"""Nothing is begun before the whole tree is up: neither by the root's orchestrator nor by one further down."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from actors import StartError, Worker
from tests.tasks.resuming import NotingStore
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start

WAIT_S = 60.0


class Later(Worker):
    """A sibling that comes up last, as soon as it may; or does not."""

    gate: threading.Event
    fails = False

    def on_start(self) -> None:
        assert self.gate.wait(WAIT_S)
        if self.fails:
            raise OSError("its database cannot be reached")

    def on_receive(self, message: Any) -> Any:
        return message


def late(*, fails: bool) -> type[Later]:
    return type("Late", (Later,), {"gate": threading.Event(), "fails": fails})


def spec(runs: list[str], began: threading.Event, last: type[Later], *, nested: bool) -> SupervisorSpec:
    def execute(task: Any, context: Any) -> str:
        runs.append(context.idempotency_key)
        began.set()
        return "done"

    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]))
    worker = WorkerSpec(id="w", execute=execute)
    if nested:
        inner = SupervisorSpec(id="inner", tasks=tasks, children=[worker])
        return SupervisorSpec(id="p", children=[inner, WorkerSpec(id="late", actor=last)])
    return SupervisorSpec(id="p", tasks=tasks, children=[worker, WorkerSpec(id="late", actor=last)])


def unfinished(path: str) -> NotingStore:
    """A store with a task that an earlier process has begun."""
    notes, gate = NotingStore(), threading.Event()
    gate.set()
    opened = type("Open", (Later,), {"gate": gate})
    hang, is_noted = threading.Event(), threading.Event()

    def execute(task: Any, context: Any) -> None:
        hang.set()
        is_noted.wait(WAIT_S)

    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]))
    inner = SupervisorSpec(id=path.rpartition("/")[2], tasks=tasks, children=[WorkerSpec(id="w", execute=execute)])
    whole = inner if path == "p" else SupervisorSpec(id="p", children=[inner, WorkerSpec(id="late", actor=opened)])
    with start(whole, store=notes) as tree:
        tree.submit(Task("go", id="t"), path)
        assert hang.wait(WAIT_S)
        changes = list(notes.changes)
        is_noted.set()
    return NotingStore(changes)


@pytest.mark.parametrize("path", ["p", "p/inner"])
def test_what_was_resumed_has_no_effect_where_the_start_fails_in_the_end(path: str) -> None:
    store, runs = unfinished(path), list[str]()
    for _ in range(3):
        last = late(fails=True)
        last.gate.set()
        with pytest.raises(StartError):
            start(spec(runs, threading.Event(), last, nested=path != "p"), store=store)

    assert runs == []


@pytest.mark.parametrize("path", ["p", "p/inner"])
def test_it_begins_as_soon_as_the_whole_tree_is_up(path: str) -> None:
    store, runs, began, last = unfinished(path), list[str](), threading.Event(), late(fails=False)
    trees: list[Any] = []
    starting = threading.Thread(
        target=lambda: trees.append(start(spec(runs, began, last, nested=path != "p"), store=store))
    )
    starting.start()
    try:
        assert not began.wait(0.3)
    finally:
        last.gate.set()
        starting.join(WAIT_S)
    with trees[0] as tree:
        assert began.wait(WAIT_S)
        assert tree.task("t").result(timeout=WAIT_S).results == {"a": "done"}
    assert runs == ["t@a:1"]
