"""``python -m tests.faults.candidate URL EFFECTS NAME LEASE_S``: one of the processes that ``two_leaders`` ill-treats.

It is a candidate for a tree that works on a long task. Whatever a worker does is a line in EFFECTS: the token, read
right before, the name of this process, the subtask, and the time before even that. On its output it says what it is,
and that the task is in the store, each time with the time on the clock that all processes of a machine share; on its
input it hears ``submit`` and ``stop``. Where it has lost the lease it starts the tree again, as a service would.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from loguru import logger

from actors import ActorsError, Event
from actors.model.clock import unstopped
from trees import (
    HA,
    RoleChanged,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFinished,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

TASK = "long"
LAYERS, WIDTH = 25, 4
WORK_S, EFFECTS = 0.06, 3
"""What a piece of work takes, and how many lines it writes, one after the other."""
_PAUSE = threading.Event()


def say(*words: object) -> None:
    """One line, with the time."""
    print(f"{unstopped():.6f}", *words, flush=True)


class Process:
    """One tree after the other, until it is told to stop."""

    def __init__(self, url: str, effects: str, name: str, lease_s: float) -> None:
        self._url = url
        self._ha = HA(lease_s=lease_s, name=name)
        self._file = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._tree: Tree | None = None
        self._over = False

    def _effect(self, subtask: str, context: Any) -> None:
        began = unstopped()
        os.write(self._file, f"{context.token} {self._ha.holder} {subtask} {began:.6f}\n".encode())

    def work(self, task: Subtask, context: Any) -> str:
        for _ in range(EFFECTS):
            _PAUSE.wait(WORK_S / EFFECTS)
            self._effect(task.id, context)
        return task.id

    def spec(self) -> SupervisorSpec:
        plan = [
            Subtask(
                id=f"s{layer}.{place}",
                capability="work",
                depends_on=[f"s{layer - 1}.{other}" for other in range(WIDTH)] if layer else [],
            )
            for layer in range(LAYERS)
            for place in range(WIDTH)
        ]
        workers = [WorkerSpec(id=f"w{n}", execute=self.work, capabilities=["work"]) for n in range(WIDTH)]
        tasks = Tasks(planner=StaticPlan(plan), max_subtasks=len(plan))
        return SupervisorSpec(id="two", tasks=tasks, children=workers)

    def tell(self, event: Event) -> None:
        if isinstance(event, RoleChanged):
            say("role", event.role, event.token, event.reason.replace("\n", " "))
        elif isinstance(event, TaskFinished) and event.task == TASK:
            say("finished", event.status)

    def run(self) -> None:
        """Until it is told to stop."""
        while not self._over:
            try:
                self._tree = tree = start(self.spec(), store=self._url, ha=self._ha)
                tree.subscribe(self.tell)
                role = tree.role
                say("role", role, tree.snapshot().token, "from the start")
                tree.wait()
            except ActorsError as error:
                say("ended", type(error).__name__, str(error).replace("\n", " "))
                _PAUSE.wait(0.2)
        say("over")

    def hear(self) -> None:
        """Do what the input says."""
        for line in sys.stdin:
            tree = self._tree
            if tree is None:
                continue
            if line.strip() == "dump":
                say("dump", tree.dump(verbose=True).partition("\n")[0])
            elif line.strip() == "submit":
                tree.submit(Task(goal="a long one", id=TASK))
                say("submitted")
            elif line.strip() == "stop":
                self._over = True
                tree.stop()


def main() -> None:
    url, effects, name, lease_s = sys.argv[1:]
    logger.remove()
    process = Process(url, effects, name, float(lease_s))
    threading.Thread(target=process.hear, daemon=True).start()
    say("loaded")
    process.run()


if __name__ == "__main__":
    main()
