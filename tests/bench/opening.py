"""What a start costs on a store that has much in it: what is finished, and what is not.

Each figure is that of a fresh process, from ``start`` until what was unfinished goes on, without the time to import
what a store needs. The store is filled before, by rows as the library writes them.
`python -m tests.bench.opening URL` prints the seconds of one start.
"""

import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import perf_counter

from actors import Event
from actors.tasks.journal.codec import encode
from actors.tasks.model import task_events
from tests.bench.sides import logs_to_nowhere
from tests.bench.table import QUICK, Row, Size, limit, seconds
from trees import Plan, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, TaskStatus, WorkerSpec, start
from trees.store import Keep, SqlStore, open_store

ROOT = "bench"
FINISHED, UNFINISHED = 100_000, 20_000
FLOOR_FINISHED_S, FLOOR_UNFINISHED_S = 0.5, 3.0
RUNS = 3
PLAN = [Subtask("one", worker="w")]


def opening(size: Size) -> Iterator[Row]:
    """A start with so many finished tasks, and with so many that are not."""
    part = 1_000 if size is QUICK else 1
    for number, is_finished, floor in (
        (FINISHED // part, True, FLOOR_FINISHED_S),
        (UNFINISHED // part, False, FLOOR_UNFINISHED_S),
    ):
        with tempfile.TemporaryDirectory() as folder:
            cost = statistics.median(_started(Path(folder), run, number, is_finished) for run in range(RUNS))
        what = "finished" if is_finished else "unfinished"
        yield limit(f"start with {number:,} {what}, SQLite", cost, show=seconds, floor=floor)


def _started(folder: Path, run: int, number: int, is_finished: bool) -> float:
    file = folder / f"{run}.db"
    _fill(file, number, is_finished)
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.opening", f"sqlite:///{file}"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return float(done.stdout)


def _journal(task: str, is_finished: bool) -> list[Event]:
    at = 1_700_000_000.0
    begun: list[Event] = [
        task_events.TaskSubmitted(ROOT, task, at, Task(goal="go", id=task), None),
        task_events.Planned(ROOT, task, at, Plan(PLAN)),
        task_events.SubtaskQueued(ROOT, task, at, "one"),
        task_events.SubtaskStarted(ROOT, task, at, "one", "w", 1, 1),
    ]
    if not is_finished:
        return begun
    ended = task_events.TaskFinished(ROOT, task, at, TaskStatus.SUCCEEDED)
    return [*begun, task_events.SubtaskSucceeded(ROOT, task, at, "one", "w", 1, 1), ended]


def _fill(file: Path, number: int, is_finished: bool) -> None:
    store = open_store(f"sqlite:///{file}", root=ROOT)
    store.close()  # type: ignore[attr-defined]
    texts = [encode(record) for record in _journal("NAME", is_finished)]
    names = [f"task-{n:07}" for n in range(number)]
    ended, last = (1_700_000_000.0, " ".join(texts[-1])) if is_finished else (None, None)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executemany(
            "INSERT INTO regrow_streams (root, id, owner, seq, finished_at, last) VALUES (?, ?, ?, ?, ?, ?)",
            ((ROOT, name, ROOT, n, ended, last) for n, name in enumerate(names, 1)),
        )
        rows = ((name, n, kind, body) for name in names for n, (kind, body) in enumerate(texts))
        connection.executemany(
            "INSERT INTO regrow_records (root, stream, n, kind, body) VALUES (?, ?, ?, ?, ?)",
            ((ROOT, name, n, kind, body.replace("NAME", name)) for name, n, kind, body in rows),
        )


def _start(url: str) -> float:
    async def work(*_: object) -> int:
        return 1

    worker = WorkerSpec(id="w", execute=work)
    tree = SupervisorSpec(id=ROOT, tasks=Tasks(planner=StaticPlan(PLAN)), children=[worker])
    SqlStore.look  # noqa: B018 - imports what it needs
    began = perf_counter()
    with logs_to_nowhere(), start(tree, store=url, keep=Keep(count=None)) as running:
        running._system.services["tasks"].resumed().wait(300)
        return perf_counter() - began


if __name__ == "__main__":
    sys.stdout.write(f"{_start(sys.argv[1])}\n")
