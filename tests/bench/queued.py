"""Many small tasks queued at once: that they all finish, what each costs, and what stays of one that has finished.

Each figure is that of a fresh process: times and the peak by the operating system's count, what stays by Python's own
(which makes everything slower, so that is a process for itself).
`python -m tests.bench.queued costs|kept NUMBER` prints the figures of one such process as JSON.
"""

import contextlib
import gc
import json
import statistics
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from actors import Reply
from actors.testing import settle
from tests.bench.sides import logs_to_nowhere
from tests.bench.table import Row, Size, count, kibi, limit, micros, times
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start

RUNS = 3
WAIT_S = 300.0
AT_ONCE = 10
WARM = 100
PLAN = [Subtask("first", worker="w"), Subtask("second", worker="w", depends_on=["first"])]
FLOOR_PEAK, WISHED_PEAK = 16 * 1024, 8 * 1024
FLOOR_KEPT, WISHED_KEPT = 8 * 1024, 4 * 1024
FLOOR_AGAIN, WISHED_AGAIN = 1.5, 1.2


@dataclass(frozen=True)
class Costs:
    """Of one process; seconds and bytes are those of one task."""

    submit: float
    """Before any subtask could end."""
    run: float
    """From the moment they could, to the report of the last one."""
    unfinished: int
    peak: float
    """The most that it took while it was queued and run."""


@dataclass(frozen=True)
class Kept:
    """Of one process."""

    each: float
    """Bytes that are left of a task that has finished: its journal, and the newest reports."""
    again: float
    """What is left after as many again, for each byte that was left before: the store is bounded."""


def queued(size: Size) -> Iterator[Row]:
    """Tasks of two subtasks, of which the second waits for the first; none can end before all are queued."""
    number = size.queued
    runs = [Costs(**_fresh("costs", number)) for _ in range(min(RUNS, size.pairs))]
    kept = Kept(**_fresh("kept", number))
    name = f"{number:,} tasks of two, queued at once"

    def median(of: str) -> float:
        return statistics.median(getattr(costs, of) for costs in runs)

    yield limit(f"{name}: not finished", max(costs.unfinished for costs in runs), show=count, floor=0)
    yield limit(f"{name}: submit, each", median("submit"), show=micros)
    yield limit(f"{name}: run, each", median("run"), show=micros)
    yield limit(f"{name}: peak, each", median("peak"), show=kibi, floor=FLOOR_PEAK, wish=WISHED_PEAK)
    yield limit("a finished task kept", kept.each, show=kibi, floor=FLOOR_KEPT, wish=WISHED_KEPT)
    name = f"kept after {number:,} more: growth"
    yield limit(name, kept.again, show=times, floor=FLOOR_AGAIN, wish=WISHED_AGAIN)


def _fresh(kind: str, number: int) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.queued", kind, str(number)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_S,
    )
    return json.loads(done.stdout)


class Gate:
    """Work that cannot end before the gate is opened."""

    def __init__(self) -> None:
        self.opened = Reply()

    async def execute(self, task: Subtask, _: Any) -> str:
        if not self.opened.done:
            await self.opened
        return "done"


def _status(field: str) -> int:
    """Bytes of this process: VmRSS, or VmHWM for the most so far."""
    gc.collect()
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def _batch(tree: Tree, gate: Gate, number: int) -> tuple[float, float, int]:
    """Seconds to submit and to run so many tasks, and how many of them have not succeeded."""
    gate.opened = Reply()
    began = perf_counter()
    handles = [tree.submit(Task(goal="go")) for _ in range(number)]
    submitted = perf_counter()
    assert not any(handle.report for handle in handles)
    opened = perf_counter()
    gate.opened.complete()
    reports = [handle.result(WAIT_S) for handle in handles]
    finished = perf_counter()
    settle(tree, WAIT_S)
    return submitted - began, finished - opened, sum(len(report.results) != len(PLAN) for report in reports)


@contextlib.contextmanager
def _warm() -> Iterator[Callable[[int], tuple[float, float, int]]]:
    """A tree that has had tasks before; called, it has so many more done."""
    gate = Gate()
    worker = WorkerSpec(id="w", execute=gate.execute, pool=AT_ONCE)
    tasks = Tasks(planner=StaticPlan(PLAN), max_parallel=AT_ONCE)
    with logs_to_nowhere(), start(SupervisorSpec(id="bench", tasks=tasks, children=[worker])) as tree:
        tree.subscribe(lambda _: None)
        _batch(tree, gate, WARM)
        yield lambda number: _batch(tree, gate, number)


def _costs(number: int) -> Costs:
    with _warm() as batch:
        before = _status("VmRSS")
        submit, run, unfinished = batch(number)
        return Costs(submit / number, run / number, unfinished, (_status("VmHWM") - before) / number)


def _kept(number: int) -> Kept:
    with _warm() as batch:
        tracemalloc.start()
        before = _traced()
        batch(number)
        once = _traced() - before
        batch(number)
        return Kept(once / number, (_traced() - before) / once)


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


if __name__ == "__main__":
    figures: dict[str, Callable[[int], Costs | Kept]] = {"costs": _costs, "kept": _kept}
    print(json.dumps(asdict(figures[sys.argv[1]](int(sys.argv[2])))))
