"""A store passes the suite of all stores, and that of the durable ones; what is unfinished in it goes on."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

from tests.support.store_conformance import CHECKS, DURABLE_CHECKS, Medium
from trees import StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec, start
from trees.store.line_store import LineStore

NUMBERS = itertools.count()


def new() -> LineStore:
    return LineStore(Path(f"{next(NUMBERS)}.lines"))


for check in CHECKS:
    store = new()
    check(store)
    store.close()

for durable_check in DURABLE_CHECKS:
    path, opened = Path(f"{next(NUMBERS)}.lines"), []

    def opens(path: Path = path, opened: list[LineStore] = opened) -> LineStore:
        opened.append(LineStore(path))
        return opened[-1]

    durable_check(Medium(opens))
    for store in opened:
        store.close()

begun, calls = threading.Event(), []


def work(_: Any, context: Any) -> Any:
    calls.append(context.token)
    begun.set()
    if len(calls) == 1:
        context.sleep(60)
    return len(calls)


PLAN = StaticPlan([Subtask("a", worker="w")])
TREE = SupervisorSpec(id="p", tasks=Tasks(planner=PLAN), children=[WorkerSpec(id="w", execute=work, shutdown=0.1)])
file = Path("tasks.lines")
store = LineStore(file)
with start(TREE, store=store) as tree:
    task = tree.submit("do it").id
    assert begun.wait(60)
store.close()

store = LineStore(file)
with start(TREE, store=store) as tree:
    assert tree.task(task).result(timeout=60).output == {"a": 2}
store.close()
assert calls == [1, 2], calls
print("works")
