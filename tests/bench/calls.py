"""What one small task runs through: Python calls, functions and files of the library that it enters.

`python -m tests.bench.calls` prints a line for each of these; 1 where a limit is exceeded:

* a task of two subtasks, the first of which is tried once more, from ``submit`` to the report;
* the same task on SQLite, whose process is killed in the second subtask: from ``start`` to the report in the next one.

Calls of the standard library, pydantic and SQLAlchemy are not counted: a figure says how far a reader has to follow.
``--list`` prints each function with its calls.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import actors
from actors.testing import settle
from trees import Retry, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start

LIMITS = {"one task": 850, "a resume": 1_900}
ROOT = str(Path(actors.__file__).parents[1])
OURS = (f"{ROOT}/actors/", f"{ROOT}/trees/")
PLAN = StaticPlan([Subtask("first"), Subtask("second", depends_on=["first"])])


class Count:
    """Calls of the library in all threads that are started once it is on."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.is_on = False

    def listen(self) -> None:
        """Be told of all calls of this thread, and of those that begin later."""
        threading.setprofile(self._hear)
        sys.setprofile(self._hear)

    def _hear(self, frame: FrameType, event: str, _: Any) -> None:
        if self.is_on and event == "call" and frame.f_code.co_filename.startswith(OURS):
            self.calls[frame.f_code.co_filename, frame.f_code.co_qualname] += 1

    def line(self, what: str) -> str:
        """Say how much it was."""
        files = {file for file, _ in self.calls}
        return f"{what}: {self.calls.total():,} calls of {len(self.calls)} functions in {len(files)} files"

    def table(self) -> str:
        """Return each function with its calls."""
        rows = self.calls.most_common()
        return "\n".join(f"{number:6} {name}  {file.removeprefix(ROOT + '/')}" for (file, name), number in rows)


def spec(second: Any) -> SupervisorSpec:
    """The tree; the first attempt of its first worker fails."""

    async def first(task: str, context: Any) -> int:
        if context.attempt == 1:
            raise ValueError("once")
        return 1

    ladder = [Retry(max_attempts=2, initial_s=0.0, max_s=0.0)]
    children = [WorkerSpec(id="first", execute=first, on_failure=ladder), WorkerSpec(id="second", execute=second)]
    return SupervisorSpec(id="shop", tasks=Tasks(planner=PLAN), children=children)


async def second(task: str, context: Any) -> int:
    """Do what depends on the first."""
    return int(context["first"]) + 1


async def deadly(task: str, context: Any) -> None:
    """End the process in the middle of the second subtask."""
    os.kill(os.getpid(), signal.SIGKILL)


def one_task() -> Count:
    """A task in memory, in a tree that is up."""
    count = Count()
    count.listen()
    with start(spec(second)) as tree:
        tree.run(Task("warm up"))  # what is made once is not counted
        settle(tree)
        count.is_on = True
        report = tree.run(Task("go"))
        count.is_on = False
    sys.setprofile(None)
    assert report.results == {"first": 1, "second": 2}
    return count


def resume() -> Count:
    """A task that goes on where its process was killed."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/tasks.db"
        killed = subprocess.run([sys.executable, "-m", "tests.bench.calls", "--die", store], check=False)
        assert killed.returncode == -signal.SIGKILL
        count = Count()
        count.listen()
        count.is_on = True
        with start(spec(second), store=store) as tree:
            report = tree.submit(Task("go", id="t-1")).result(timeout=30)
            count.is_on = False
        sys.setprofile(None)
    assert report.results == {"first": 1, "second": 2}
    return count


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.calls", description="Calls of one task.")
    parser.add_argument("--die", metavar="STORE", help="begin the task on this store, and be killed in it")
    parser.add_argument("--list", action="store_true", help="print each function with its calls")
    chosen = parser.parse_args()
    if chosen.die:
        with start(spec(deadly), store=chosen.die) as tree:
            tree.run(Task("go", id="t-1"))
    is_below = True
    for what, counted in (("one task", one_task()), ("a resume", resume())):
        print(f"{counted.line(what)} (limit {LIMITS[what]:,})")
        if chosen.list:
            print(counted.table())
        is_below &= counted.calls.total() <= LIMITS[what]
    return 0 if is_below else 1


if __name__ == "__main__":
    sys.exit(main())
