"""A run of twenty subtasks of every kind, and stores that kill its orchestrator at a chosen record.

``World`` has the tree, and books of everything that its workers did. The same run gives the same books each time, so
what a run in which somebody died did twice, or not at all, is a difference between two books.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from actors import Event, Failed, Reply
from actors.tasks.journal.store import Store, StreamState, decode, encode
from actors.tasks.model import task_events
from actors.testing import settle
from tests.support.attempts import AT_ONCE
from trees import (
    Check,
    Failover,
    Report,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Tree,
    Verdict,
    WorkerSpec,
    start,
)
from trees.store import MemoryStore

LONG_S = 20.0


class Cut(Exception):  # noqa: N818 - a fault
    """The store breaks down, and with it whoever writes."""


class CuttingStore(Store):
    """A store in memory that does something at the ``at``-th record of the orchestrators, before or after it."""

    def __init__(
        self,
        at: int = 0,
        *,
        before: bool = False,
        then: Callable[[str], None] | None = None,
        kept: Store | None = None,
        look: Callable[[str, list[Event]], None] | None = None,
    ) -> None:
        self._kept: Store = kept or MemoryStore()
        self._look = look
        self._at = at
        self._before = before
        self._then = then or _break_down
        self._owners: dict[str, str] = {}
        self.written = 0
        self.journals: dict[str, list[Event]] = {}

    def _write(self, owner: str, write: Callable[[], Any]) -> Any:
        self.written += 1
        if self.written != self._at:
            return write()
        if self._before:
            self._then(owner)
        written = write()
        if not self._before:
            self._then(owner)
        return written

    def create(self, stream: str, owner: str, record: Event) -> bool:
        self._owners[stream] = owner

        def write() -> bool:
            created = self._kept.create(stream, owner, record)
            if created:
                self.journals[stream] = [record]
            return created

        return (
            write()
            if isinstance(record, task_events.TaskSubmitted) and record.parent is None
            else self._write(owner, write)
        )

    def append(self, stream: str, record: Event) -> None:
        if self._look is not None:
            self._look(stream, [*self.journals[stream], record])

        def write() -> None:
            self._kept.append(stream, record)
            self.journals[stream].append(record)

        self._write(self._owners[stream], write)

    def flush(self) -> Reply | None:
        return None

    def read(self, stream: str, start: int = 0) -> Sequence[Event]:
        return self._kept.read(stream, start)

    def streams(self, owner: str) -> list[str]:
        return self._kept.streams(owner)

    def last(self, stream: str) -> Event | None:
        return self._kept.last(stream)

    def finished(self, owner: str) -> list[str]:
        return self._kept.finished(owner)

    def firsts(self, streams: Iterable[str]) -> dict[str, Event]:
        return self._kept.firsts(streams)

    def owners(self) -> dict[str, str]:
        return self._kept.owners()

    def withdraw(self, stream: str) -> bool:
        return self._kept.withdraw(stream)

    def finish(self, stream: str) -> None:
        self._kept.finish(stream)

    def standing(self, stream: str) -> StreamState | None:
        return self._kept.standing(stream)

    def remove(self, stream: str) -> None:
        self._kept.remove(stream)


class WritingStore(MemoryStore):
    """Gives back what a file would: records that were made of kinds and texts."""

    def create(self, stream: str, owner: str, record: Event) -> bool:
        return super().create(stream, owner, decode(*encode(record)))

    def append(self, stream: str, record: Event) -> None:
        super().append(stream, decode(*encode(record)))

    def read(self, stream: str, start: int = 0) -> Sequence[Event]:
        return [decode(*encode(record)) for record in super().read(stream, start)]

    def last(self, stream: str) -> Event | None:
        record = super().last(stream)
        return None if record is None else decode(*encode(record))


def _break_down(_: str) -> None:
    raise Cut


class World:
    """The tree of one run, and its books."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.books: Counter[tuple[Any, ...]] = Counter()
        """What was done how often: attempts, undos, steps."""
        self._lock = threading.Lock()

    def _note(self, *what: Any) -> None:
        with self._lock:
            self.books[what] += 1

    # -- workers -------------------------------------------------------------------------------------------

    def sync(self, task: Any, context: Any) -> str:
        return self._done("sync", task, context)

    async def quick(self, task: Any, context: Any) -> str:
        for _ in range(3):
            await asyncio.sleep(0)
        return self._done("quick", task, context)

    async def flaky(self, task: Any, context: Any) -> str:
        text = self._done("flaky", task, context)
        await asyncio.sleep(0)
        if context.attempt == 1:
            raise Failed("the first time it always does", retryable=True)
        return text

    def weak(self, task: Any, context: Any) -> str:
        self._done("weak", task, context)
        raise Failed("it never can", retryable=False)

    async def asking(self, task: Any, context: Any) -> str:
        text = self._done("asking", task, context)
        context.use(tokens=3)
        return f"{text} and {await context.ask('lookup', f'look {task} up')}"

    def asking_sync(self, task: Any, context: Any) -> str:
        text = self._done("asking_sync", task, context)
        return f"{text} and {context.ask_sync('lookup', f'look {task} up')}"

    def _done(self, worker: str, task: Any, context: Any) -> str:
        self._note(worker, str(task), context.attempt, _without_numbers(context.idempotency_key))
        context.use(tokens=1)
        seen = ",".join(sorted(context.results))
        return f"{worker} did {task} for the {context.attempt}. time after [{seen}] {context.feedback}"

    def undo(self, task: Any, result: Any, context: Any) -> None:
        self._note("undo", str(task), str(result), context.idempotency_key)

    async def undo_async(self, task: Any, result: Any, context: Any) -> None:
        await asyncio.sleep(0)
        self._note("undo", str(task), str(result), context.idempotency_key)

    # -- steps ---------------------------------------------------------------------------------------------

    def plan(self, task: Any, catalogue: Any, feedback: str) -> Any:
        self._note("plan", feedback)
        return StaticPlan(self._subtasks()).plan(task, catalogue, feedback)

    async def review(self, _: Any, __: Any, results: dict[str, Any]) -> Verdict:
        second = "weigh it again" in results["weighed"]
        self._note("review", second)
        return Verdict(passed=second, checks=[Check("weighed", passed=second, feedback="weigh it again")])

    def combine(self, _: Any, results: dict[str, Any]) -> dict[str, int]:
        self._note("combine")
        return {id_: len(text) for id_, text in results.items()}

    # -- the tree ------------------------------------------------------------------------------------------

    def _subtasks(self) -> list[Subtask]:
        found = [
            Subtask("goal", "clarify", worker="sync"),
            *(Subtask(f"fetch{n}", f"fetch {n}", capability="fetch", depends_on=["goal"]) for n in range(5)),
            Subtask("flaky", "try", worker="flaky", depends_on=["goal"]),
            Subtask("weak", "lift", worker="weak", depends_on=["goal"]),
            Subtask("maybe", "perhaps", worker="hopeless", required=False, depends_on=["fetch0"]),
            Subtask("despite", "go on", worker="quick", depends_on=["maybe", "fetch1"]),
            Subtask("ask", "find out", worker="asking", depends_on=["fetch2"]),
            Subtask("ask_sync", "find more", worker="asking_sync", depends_on=["fetch3"]),
            Subtask("team", "work it out", worker="team", depends_on=["flaky", "weak"]),
            *(Subtask(f"read{n}", f"read {n}", worker="sync", depends_on=[f"fetch{n}"]) for n in range(4)),
            Subtask("weighed", "weigh", worker="quick", depends_on=["read0", "read1"]),
            Subtask("told", "tell", worker="sync", depends_on=["weighed"]),
            Subtask("end", "close", worker="quick", depends_on=["told", "team", "ask", "ask_sync", "despite"]),
        ]
        if self.fails:
            found[-1] = Subtask("end", "close", worker="hopeless", depends_on=["team", "weighed", "ask"])
        return found

    def tree(self) -> SupervisorSpec:
        team = SupervisorSpec(
            id="team",
            max_restarts=1000,
            tasks=Tasks(
                planner=StaticPlan(
                    [
                        Subtask("one", "begin", worker="inner"),
                        Subtask("two", "ask above", worker="upwards", depends_on=["one"]),
                        Subtask("three", "finish", worker="inner", depends_on=["one"]),
                    ]
                ),
                on_failure=[AT_ONCE],
            ),
            children=[
                WorkerSpec(id="inner", execute=self.sync, undo=self.undo),
                WorkerSpec(id="upwards", execute=self.asking, undo=self.undo_async),
            ],
        )
        return SupervisorSpec(
            id="p",
            max_restarts=1000,
            tasks=Tasks(
                planner=self.plan,
                reviewer=None if self.fails else self.review,
                synthesizer=self.combine,
                max_parallel=4,
                on_failure=[AT_ONCE, Failover()],
            ),
            children=[
                WorkerSpec(id="sync", execute=self.sync, pool=2, undo=self.undo),
                WorkerSpec(id="quick", execute=self.quick, undo=self.undo_async),
                WorkerSpec(id="fetcher", execute=self.quick, capabilities={"fetch"}, pool=2),
                WorkerSpec(id="flaky", execute=self.flaky),
                WorkerSpec(id="weak", execute=self.weak, backup="quick"),
                WorkerSpec(id="hopeless", execute=self.weak, on_failure=[]),
                WorkerSpec(id="asking", execute=self.asking, undo=self.undo),
                WorkerSpec(id="asking_sync", execute=self.asking_sync),
                WorkerSpec(id="looker", execute=self.quick, capabilities={"lookup"}),
                team,
            ],
        )

    def run(self, store: CuttingStore, meanwhile: Callable[[Tree], None] | None = None) -> dict[str, Any]:
        """One run; what of its report does not depend on the time. The tree is whole after it."""
        with started(self.tree(), store) as tree:
            handle = tree.submit(Task("the goal", id="t"))
            if meanwhile is not None:
                meanwhile(tree)
            try:
                report = handle.result(LONG_S)
            except TaskFailedError as error:
                if error.report is None:
                    raise
                report = error.report
            settle(tree)
            require_whole(tree)
            return essence(report)


@contextmanager
def started(spec: SupervisorSpec, store: Any) -> Iterator[Tree]:
    """A tree with a store of ours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.import_module("trees.host.start"), "MemoryStore", lambda _: store)
        tree = start(spec)
    with tree:
        yield tree


def require_whole(tree: Tree) -> None:
    """Everybody is up, nothing is under way, and nothing is left of what was."""
    ground = tree._system.services["tasks"]
    left = {
        "not running": [
            child.path for path in ground.ports for child in tree.which_children(path) if child.state != "running"
        ],
        "attempts": list(ground.attempts),
        "asks": list(ground.asks),
        "detached_calls": len(ground.detached_calls) or [],
        "orders": [order for desk in ground.ports.values() for order in desk.orders],
        "tasks": [id_ for desk in ground.ports.values() for id_ in desk.states],
        "seats": [key for desk in ground.ports.values() for entry in desk.workers for key in entry.attempts],
    }
    assert not any(left.values()), {what: each for what, each in left.items() if each}


def essence(report: Report) -> dict[str, Any]:
    """What of a report is the same each time."""
    return {
        "status": report.status,
        "output": report.output,
        "results": report.results,
        "failed": {_without_numbers(id_): text for id_, text in report.failed.items()},
        "skipped": report.skipped,
        "compensated": sorted(report.compensated),
        "undo_errors": report.undo_errors,
        "iterations": report.iterations,
        "best_effort": report.best_effort,
        "usage": report.usage.tokens,
        "graph": sorted((_without_numbers(one.id), one.status, one.worker, one.attempts) for one in report.graph),
        "notes": report.notes,
    }


def _without_numbers(id_: str) -> str:
    """Delegations are numbered in the order in which they happen to come."""
    return re.sub(r"(ask|ask_sync|two|team)\.\d+", r"\1.n", id_)


def twice(store: CuttingStore) -> list[Any]:
    """Acts that a journal says succeeded, or were undone, more than once; or that began again after they were done."""
    found: list[Any] = []
    for stream, journal in store.journals.items():
        done: set[Any] = set()
        undone: set[Any] = set()
        acts: dict[str, int] = {}
        for record in journal:
            if isinstance(record, task_events.SubtaskStarted):
                acts[record.subtask] = record.act
                if (record.subtask, record.act) in done:
                    found.append((stream, record))
            elif isinstance(record, task_events.SubtaskSucceeded):
                act = (record.subtask, acts[record.subtask])
                if act in done:
                    found.append((stream, record))
                done.add(act)
            elif isinstance(record, task_events.Compensated):
                act = (record.subtask, record.worker, record.act)
                if act in undone:
                    found.append((stream, record))
                undone.add(act)
    return found
