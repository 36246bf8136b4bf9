"""The real side of a random run: workers that wait until they are let go, and note what they have done."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from actors import Escalated, Failed, Later, Rejected, Reply, Worker
from actors.messaging.envelope import CURRENT
from tests.random_plans.declared import Hand, Job, Run
from trees import (
    Breaker,
    Escalate,
    Failover,
    Plan,
    Retry,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    WorkerSpec,
)

CLEAN = frozenset({"raise", "no", "later", "reject", "ask"})
"""Deeds that have no effect, and say so."""
LADDERS: dict[str, list[Any]] = {
    "retry": [Retry(max_attempts=2, initial_s=1.0, jitter=0.0)],
    "retry,failover": [Retry(max_attempts=2, initial_s=1.0, jitter=0.0), Failover()],
    "failover,ask": [Failover(), Escalate(timeout_s=20.0)],
}


class BoomError(Exception):
    """What goes wrong."""


class Act(NamedTuple):
    """What is to have its effect once."""

    task: str
    subtask: str
    worker: str
    number: int


class Hold:
    """An attempt that runs: it waits until it is let go."""

    def __init__(self, hand: Hand, act: Act, attempt: Any, incarnation: Any, deed: str) -> None:
        self.act = act
        self.attempt = attempt
        self.incarnation = incarnation
        self.path: str = incarnation.mailbox.path
        self.deed = deed
        self.is_async = hand.kind.lower().startswith("async")
        self.is_object = hand.kind.endswith("Worker")
        """What leaves its code is a crash."""
        self.gate = Reply()

    def __repr__(self) -> str:
        return f"<{self.attempt.key} on {self.path}: {self.deed}>"

    @property
    def is_lost(self) -> bool:
        """Its incarnation was given up; the thread is still here."""
        return bool(self.incarnation.is_over)

    @property
    def waits(self) -> bool:
        """It will not move by itself."""
        if self.gate.done or self.is_lost:
            return False
        return not (self.is_async and self.attempt.ended_by) and not self.incarnation.must_stop


class World:
    """What happens in one run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.changed = threading.Condition()
        self.holds: list[Hold] = []
        """Those that run now, the oldest first."""
        self.deeds = {(f"t{at}", sub.id): list(sub.deeds) for at, job in enumerate(run.jobs) for sub in job.subs}
        self.begun: Counter[Act] = Counter()
        self.done: list[tuple[Act, str]] = []
        """Deeds, as they were done; lost: nobody may have heard that it had no effect."""
        self.undone: list[Act] = []
        self.wrong: list[str] = []
        """What must not be, and was seen by the workers."""
        self.finished: set[tuple[str, str]] = set()
        """Subtasks of which a result is recorded."""

    # -- attempts ------------------------------------------------------------------------------------------

    def enter(self, hand: Hand, context: Any) -> Hold:
        """An attempt begins."""
        task, subtask, number = context.idempotency_key.split("/")
        current = CURRENT.get()
        assert current is not None
        act = Act(task, subtask, hand.id, int(number))
        with self.changed:
            deeds = self.deeds[task, subtask]
            hold = Hold(hand, act, context._attempt, current.incarnation, deeds.pop(0) if deeds else "ok")
            live = [each for each in self.holds if not each.is_lost]
            if any(each.path == hold.path for each in live):
                self.wrong.append(f"{hold.path} has two attempts at a time: {hold}")
            if any(each.act[:2] == act[:2] for each in live):
                self.wrong.append(f"{hold} was started while it ran")
            if act[:2] in self.finished:
                self.wrong.append(f"{hold} was started after it had a result")
            self.begun[act] += 1
            self.holds.append(hold)
            self.changed.notify_all()
        return hold

    def leave(self, hold: Hold) -> None:
        """It is over, or is about to be."""
        with self.changed:
            self.holds.remove(hold)
            self.changed.notify_all()

    def perform(self, hold: Hold) -> Any:
        """What it does when it is let go."""
        deed = hold.deed
        with self.changed:
            lost = hold.is_lost or hold.attempt.done or hold.attempt.ended_by is not None or hold.incarnation.must_stop
            told = "crash" if deed == "raise" and hold.is_object else deed
            self.done.append((hold.act, "lost" if lost and told in CLEAN else told))
        errors: dict[str, Callable[[], BaseException]] = {
            "raise": BoomError,
            "crash": SystemExit,
            "no": lambda: Failed("no", retryable=False),
            "later": lambda: Later(2.0),
            "reject": Rejected,
            "ask": lambda: Escalated("may I?"),
        }
        if deed in errors:
            error = errors[deed]()
            raise error
        return object() if deed == "rubbish" else hold.act.subtask

    def execute(self, hand: Hand, context: Any) -> Any:
        """On a thread."""
        hold = self.enter(hand, context)
        over = Reply()
        hold.gate.when_done(over.complete)
        hold.incarnation.stop_signal().when_done(over.complete)
        over.wait(None)
        self.leave(hold)
        return self.perform(hold)

    async def execute_async(self, hand: Hand, context: Any) -> Any:
        """On the loop."""
        hold = self.enter(hand, context)
        try:
            await hold.gate
        finally:
            self.leave(hold)
        return self.perform(hold)

    def undo(self, context: Any) -> None:
        """What undoing does: it fails for every subtask with a 3 in its name."""
        task, subtask, number, _ = context.idempotency_key.split("/")
        if "3" in subtask:
            raise BoomError
        worker = context._attempt.key.partition("#")[2].partition("~")[0].partition(".")[2]
        with self.changed:
            self.undone.append(Act(task, subtask, worker, int(number)))


class Doer(Worker):
    """A worker object; what leaves its ``execute`` is a crash."""

    def __init__(self, world: World, hand: Hand) -> None:
        super().__init__()
        self.world, self.hand = world, hand

    def execute(self, task: Any, context: Any) -> Any:
        return self.world.execute(self.hand, context)


class AsyncDoer(Doer):
    async def execute(self, task: Any, context: Any) -> Any:
        return await self.world.execute_async(self.hand, context)


def spec_of(run: Run, world: World) -> SupervisorSpec:
    """The tree of a run."""
    undoer = WorkerSpec(id="u", execute=lambda _, context: world.undo(context))
    strategy: Any = run.strategy
    tasks = Tasks(planner=planner(run), max_parallel=run.max_parallel, on_failure=LADDERS[run.ladder])
    children = [undoer, *(_worker(hand, world) for hand in run.hands)]
    return SupervisorSpec(id="r", strategy=strategy, max_restarts=1000, period_s=1.0, tasks=tasks, children=children)


def planner(run: Run) -> Callable[..., Plan]:
    """Knows the plan of each task by its goal."""
    can = {each for hand in run.hands for each in hand.can}

    def plan(task: Task, *_: object) -> Plan:
        job: Job = run.jobs[int(task.goal)]
        return Plan(
            [
                Subtask(
                    id=sub.id,
                    worker=None if sub.to in can else sub.to,
                    capability=sub.to if sub.to in can else None,
                    depends_on=list(sub.needs),
                    required=sub.required,
                )
                for sub in job.subs
            ]
        )

    return plan


def _worker(hand: Hand, world: World) -> WorkerSpec:
    common: dict[str, Any] = {
        "id": hand.id,
        "pool": hand.pool,
        "capabilities": set(hand.can),
        "backup": hand.backup,
        "timeout_s": hand.timeout_s,
        "undo": _undo(hand, world),
        "breaker": Breaker(failure_threshold=2, cooldown_s=10.0) if hand.breaker else None,
    }
    if hand.kind.endswith("Worker"):
        return WorkerSpec(actor=AsyncDoer if hand.kind == "AsyncWorker" else Doer, args=(world, hand), **common)

    async def execute_async(_: Any, context: Any) -> Any:
        return await world.execute_async(hand, context)

    def execute(_: Any, context: Any) -> Any:
        return world.execute(hand, context)

    return WorkerSpec(execute=execute_async if hand.kind == "async def" else execute, **common)


def _undo(hand: Hand, world: World) -> Any:
    async def undo_async(_task: Any, _result: Any, context: Any) -> None:
        world.undo(context)

    def undo(_task: Any, _result: Any, context: Any) -> None:
        world.undo(context)

    return {"": None, "u": "u", "def": undo, "async def": undo_async}[hand.undo]
