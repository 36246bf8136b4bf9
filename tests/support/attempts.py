"""A shop whose attempts fail on command: what the tests of failures, breakers, questions and undos have in common."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from actors.testing import ManualClock, ScriptedExecutable, settle
from trees import (
    Failover,
    Report,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskCancelledError,
    TaskEvent,
    TaskFailedError,
    TaskHandle,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

LONG_S = 60.0
"""How long a test waits for what should happen at once."""
AT_ONCE = Retry(max_attempts=3, initial_s=0.0, max_s=0.0, jitter=0.0)
"""Three attempts without a delay."""
SLOWLY = Retry(max_attempts=3, initial_s=10.0, factor=2.0, max_s=100.0, jitter=0.0)
"""Three attempts, ten and twenty seconds apart."""


def no(*_: object) -> ValueError:
    """Step: the attempt fails."""
    return ValueError("no")


class Shop:
    """A tree on a manual clock, with one task."""

    def __init__(self, tree: Tree, clock: ManualClock) -> None:
        self.tree = tree
        self.clock = clock
        self._handles = list[TaskHandle]()
        self._submitted = threading.Event()

    @property
    def handle(self) -> TaskHandle:
        """The task submitted last. Work that begins before ``submit`` has returned waits here until it has."""
        assert self._submitted.wait(LONG_S), "no task was submitted"
        return self._handles[-1]

    def take(self, handle: TaskHandle) -> TaskHandle:
        """This is the task from here on."""
        self._handles.append(handle)
        self._submitted.set()
        return handle

    def submit(self, **words: Any) -> TaskHandle:
        """The task, as far as it comes by itself."""
        handle = self.begin(**words)
        settle(self.tree)
        return handle

    def begin(self, **words: Any) -> TaskHandle:
        """The task, whose attempts may go on for long."""
        self._submitted.clear()
        try:
            return self.take(self.tree.submit(Task(goal="sell", **words)))
        finally:
            self._submitted.set()

    def pass_(self, seconds: float = 0.0) -> None:
        """Let time pass, and the orchestrator look at what it has heard, while attempts go on."""
        self.clock.advance(seconds)
        for _ in range(3):  # what it hears of may have it tell itself, or a worker, something
            quiet = self.tree._system.children["shop/orchestrator"].mailbox.when_quiet()
            assert quiet.wait(LONG_S)

    def until(self, kind: type[TaskEvent], count: int = 1) -> None:
        """Wait until it has happened so often."""
        found = (event for event in self.handle.events() if isinstance(event, kind))
        for _ in range(count):
            next(found)

    def advance(self, seconds: float) -> None:
        """Let time pass, and all that follows from it happen."""
        self.clock.advance(seconds)
        settle(self.tree)

    def report(self) -> Report:
        """How the task has ended, well or not."""
        with suppress(TaskFailedError, TaskCancelledError):
            self.handle.result(timeout=LONG_S)
        report = self.handle.report
        assert report is not None
        return report

    def events(self, *kinds: type[TaskEvent]) -> list[Any]:
        """What has happened to the task so far, of these kinds."""
        records = self.tree._system.services["tasks"].store.read(self.handle.id)
        return [event for event in records if isinstance(event, kinds)]

    def status(self, subtask: str) -> str:
        """Where a subtask stands."""
        service = self.tree._system.services["tasks"]
        return str(service.state(self.handle.id).units[subtask].status)

    def replace_orchestrator(self, *, settled: bool = True) -> None:
        """Terminate it and start it again."""
        self.tree.terminate_child("shop/orchestrator")
        self.tree.restart_child("shop/orchestrator")
        self.advance(0.0) if settled else self.pass_()

    def crash_orchestrator(self, *, settled: bool = True) -> None:
        """The same: nothing that a test can do makes it crash."""
        self.replace_orchestrator(settled=settled)


def spec_of(plan: Sequence[Subtask], *workers: WorkerSpec | SupervisorSpec, **tasks: Any) -> SupervisorSpec:
    """A shop with these workers and this plan."""
    tasks.setdefault("on_failure", [AT_ONCE, Failover()])
    if plan:
        tasks["planner"] = StaticPlan(list(plan))
    return SupervisorSpec(id="shop", tasks=Tasks(**tasks), children=list(workers))


@contextmanager
def shop(plan: Sequence[Subtask], *workers: WorkerSpec | SupervisorSpec, **tasks: Any) -> Iterator[Shop]:
    """The same, running."""
    clock = ManualClock()
    with start(spec_of(plan, *workers, **tasks), clock=clock) as tree:
        yield Shop(tree, clock)


def run(plan: Sequence[Subtask], *workers: WorkerSpec | SupervisorSpec, **tasks: Any) -> Report:
    """How its task ends, where no time has to pass for that."""
    with shop(plan, *workers, **tasks) as it:
        it.submit()
        return it.report()


LINE = (
    Subtask("pay", worker="pay"),
    Subtask("pack", worker="pack", depends_on=["pay"]),
    Subtask("send", worker="bad", depends_on=["pack"]),
)
"""Of which the last one fails, where ``bad`` is there."""


def undoable(id_: str, *steps: object, **words: Any) -> tuple[ScriptedExecutable, WorkerSpec]:
    """A worker with an undo, which follows ``undos``."""
    script = ScriptedExecutable(*steps, undo=words.pop("undos", ()))
    words.setdefault("undo", script.undo)
    return script, WorkerSpec(id=id_, execute=script.execute, **words)


def bad() -> WorkerSpec:
    """A worker that fails, cleanly, and has nothing to undo."""
    return WorkerSpec(id="bad", execute=ScriptedExecutable(no).execute)
