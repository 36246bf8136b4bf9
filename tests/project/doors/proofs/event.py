"""An event of a task is kept, read back and folded by another process, logged, and counted by the registry alone."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from loguru import logger
from prometheus_client import CollectorRegistry, generate_latest

from actors.model.events import kinds, measured_by, metric_of
from actors.tasks.model.task import Task
from actors.tasks.model.task_events import TaskRemarked, TaskSubmitted
from actors.testing import settle
from trees import StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec, start
from trees.observe.metrics import metrics
from trees.store import SqlStore

URL = f"sqlite:///{Path('tasks.db').absolute()}"
LARGE = "é" * 1_000_000
RECORDS = [TaskSubmitted("p", "t", 1.0, Task(goal="do it"), None), TaskRemarked("p", "t", 2.0, LARGE, 0.25)]

if len(sys.argv) == 1:  # the first process writes, and a second one goes on
    store = SqlStore(URL, root="p")
    store.open()
    store.create("t", "p", RECORDS[0])
    store.append("t", RECORDS[1])
    store.close()
    sys.exit(subprocess.run([sys.executable, __file__, "again"], check=False).returncode)

store = SqlStore(URL, root="p")
store.open()
assert list(store.read("t")) == RECORDS
store.close()

counts: Counter[str] = Counter()
sums: Counter[str] = Counter()
lines: list[Any] = []
seen = threading.Event()
logger.remove()
logger.add(lambda line: lines.append((line.record["level"].name, str(line))), level="DEBUG")


def count(event: Any) -> None:
    """Every metric there is, without a table."""
    counts[metric_of(type(event))] += 1
    for field in measured_by(type(event)):
        sums[f"{metric_of(type(event))}.{field}"] += getattr(event, field)
    if isinstance(event, TaskRemarked):
        seen.set()


spec = SupervisorSpec(
    id="p",
    tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])),
    children=[WorkerSpec(id="w", execute=lambda task, context: "done")],
)
with start(spec, store=URL) as tree:
    registry: Any = metrics(tree, CollectorRegistry())
    tree.subscribe(count)
    report = tree.task("t").result(timeout=60)
    assert report.output == {"a": "done"}
    assert LARGE in report.notes, report.notes
    before = generate_latest(registry).decode()
    assert "regrow_task_remarked_total 0.0" in before, before
    tree._system.publish(RECORDS[1])
    assert seen.wait(60)
    settle(tree)
    after = generate_latest(registry).decode()
    assert "# HELP regrow_task_remarked_total Remarks on tasks" in after
    assert "regrow_task_remarked_total 1.0" in after, after
assert TaskRemarked in kinds()
assert counts["task_remarked"] == 1
assert counts["task_finished"] == 1
assert sums["task_remarked.took_s"] == 0.25
((level, line),) = [each for each in lines if "TaskRemarked" in each[1]]
assert level == "WARNING"
assert "took_s=0.25" in line
assert LARGE[:9] not in line
print("works")
