"""``python -m tests.faults.task_soak --minutes 10 [--store sqlite|postgres] [--seed N]``: tasks, while all breaks.

Eight submitters give tasks to one tree on a durable store, each several at a time, and cancel some. Meanwhile workers
are killed and stopped, orchestrators crash, teams are restarted, the store cannot be reached or loses its connections,
and people answer. Every task must end; of each that has, the journal must explain all that was done
(``tests.faults.task_ledger``); and memory must not grow.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import random
import secrets
import sqlite3
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from loguru import logger

from actors import ActorsError, Event, InternalError
from actors.supervision.supervisor_incarnation import ReplaceChild
from actors.tasks.engine.service import service_of
from tests.faults.fresh import KINDS, databases
from tests.faults.task_crew import EDITED, NUMBERS, ORCHESTRATORS, PLACES, Crew, job, tree_of
from tests.faults.task_ledger import Ledger
from trees import (
    Approve,
    EscalationError,
    Keep,
    Reject,
    Respond,
    StoreError,
    StorePaused,
    TaskCancelledError,
    TaskFailedError,
    TaskHandle,
    TaskStatus,
    Tree,
    start,
)

SUBMITTERS = 8
AHEAD = 4
"""Tasks that one submitter has under way."""
PATIENCE_S = 60.0
"""A task that takes longer than this after the last fault has not ended."""
KEEP = Keep(count=300)
MEMORY_FROM_S = 120.0
"""A shorter run says nothing of memory: caches fill first."""
GROWTH_BYTES = 10_000_000
FAULTS_EACH_S = 0.04


AnswerT = TypeVar("AnswerT")


class BoomError(Exception):
    """Error that an orchestrator dies of."""


class TaskSoak:
    """One run."""

    def __init__(self, url: str, seed: int, seconds: float, patience_s: float = PATIENCE_S) -> None:
        self.url = url
        self.seed = seed
        self.seconds = seconds
        self.patience_s = patience_s
        self.ledger = Ledger()
        self.faults: dict[str, int] = {}
        self.pauses = 0
        self.memory: deque[tuple[float, int]] = deque()
        self._until = 0.0

    def run(self) -> list[str]:
        """Run it; every rule that was broken."""
        before = set(threading.enumerate())
        tree = start(tree_of(Crew(self.ledger, self.seed)), store=self.url, keep=KEEP, seed=self.seed)
        tree.subscribe(self._hear)
        self._until = time.monotonic() + self.seconds
        jobs: list[Callable[[Tree, random.Random], None]] = [self._submit] * SUBMITTERS
        jobs += [self._break, self._answer, self._measure]
        threads = [
            threading.Thread(target=self._repeat, args=(work, tree, number), name=f"task-soak-{number}", daemon=True)
            for number, work in enumerate(jobs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(self.seconds + AHEAD * self.patience_s + 30.0)
        hung = [f"{thread.name} hangs" for thread in threads if thread.is_alive()]
        survived = [] if tree.is_alive else ["the root went down"]
        in_order = [] if tree.stop(timeout=30.0) else ["the tree had to be killed at the end"]
        for thread in set(threading.enumerate()) - before - set(threads):
            thread.join(5.0)
        found = [f"{count} x {what}" for what, count in self.ledger.violations.items()]
        return [*hung, *survived, *in_order, *found, *self._grown()]

    def _repeat(self, work: Callable[[Tree, random.Random], None], tree: Tree, number: int) -> None:
        dice = random.Random(f"{self.seed} {number}")  # noqa: S311 - to be repeated
        try:
            work(tree, dice)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is one for the verdict
            self.ledger.wrong(f"{work.__name__} met {type(error).__name__}", "".join(traceback.format_exception(error)))

    @property
    def _goes_on(self) -> bool:
        return time.monotonic() < self._until

    def _hear(self, event: Event) -> None:
        if isinstance(event, InternalError) and not isinstance(event.error, BoomError):
            self.ledger.wrong("internal error", repr(event.error))
        elif isinstance(event, StorePaused):
            self.pauses += 1

    # -- load ----------------------------------------------------------------------------------------------

    def _submit(self, tree: Tree, dice: random.Random) -> None:
        under_way: deque[tuple[TaskHandle, set[TaskStatus]]] = deque()
        while self._goes_on or under_way:
            if self._goes_on and len(under_way) < AHEAD:
                task, expected = job(dice, f"t{next(NUMBERS)}")
                handle = self._kept(lambda task=task: tree.submit(task))  # type: ignore[misc]
                if dice.random() < 0.1:
                    handle = self._kept(lambda task=task: tree.submit(task))  # type: ignore[misc]  # starts nothing twice
                under_way.append((handle, expected))
                if dice.random() < 0.1:
                    handle.cancel("nobody wants it any more")
                    expected.update({TaskStatus.CANCELLED, TaskStatus.SUCCEEDED, TaskStatus.FAILED})
                continue
            self._end(*under_way.popleft())

    def _kept(self, ask: Callable[[], AnswerT]) -> AnswerT:
        """Ask the store until it answers: an id starts nothing twice, and what is read may be read again."""
        until = time.monotonic() + self.patience_s
        while True:
            try:
                return ask()
            except StoreError:
                if time.monotonic() > until:
                    raise

    def _end(self, handle: TaskHandle, expected: set[TaskStatus]) -> None:
        """Wait for the end of a task, and compare what was done with its journal."""
        limit_s = max(0.0, self._until - time.monotonic()) + self.patience_s
        try:
            report = handle.result(limit_s)
        except (TaskFailedError, TaskCancelledError) as error:
            report = error.report
        except TimeoutError:
            self.ledger.wrong("a task has not ended", handle.dump())
            return
        self.ledger.audit(report, self._kept(lambda: list(handle.events())), expected)

    def _answer(self, tree: Tree, dice: random.Random) -> None:
        """People, until nobody asks any more."""
        until = self._until + self.patience_s
        while self._goes_on or (self._is_busy(tree) and time.monotonic() < until):
            for each in tree.escalations():
                answer = dice.choice([Approve(), Approve(), Approve(), Respond("yes"), EDITED, Reject("no")])
                if isinstance(answer, Reject):
                    self.ledger.rejected.add(each.task)
                with contextlib.suppress(EscalationError):  # its task has ended just now
                    tree.respond(each.id, answer)
            time.sleep(0.01)

    @staticmethod
    def _is_busy(tree: Tree) -> bool:
        return bool(service_of(tree._system).runs())

    # -- faults --------------------------------------------------------------------------------------------

    def _break(self, tree: Tree, dice: random.Random) -> None:
        faults: dict[Callable[[Tree, random.Random], None], float] = {
            self._kill_worker: 60,
            self._stop_worker: 40,
            self._crash_orchestrator: 25,
            self._restart_team: 8,
            self._cut_store: 4,
        }
        while self._goes_on:
            time.sleep(dice.uniform(0, 2 * FAULTS_EACH_S))
            new = [each for each in faults if _name_of(each) not in self.faults]  # a short soak has all kinds, too
            (fault,) = new[:1] or dice.choices(list(faults), list(faults.values()))
            with contextlib.suppress(ActorsError):  # what it was for is not there at this moment
                fault(tree, dice)
                self.faults[_name_of(fault)] = self.faults.get(_name_of(fault), 0) + 1

    def _member(self, tree: Tree, dice: random.Random) -> Any:
        """Some incarnation of a worker that lives; None: none does."""
        place = dice.choice(PLACES)
        found = [child for path, child in list(tree._system.children.items()) if path.partition("#")[0] == place]
        return dice.choice(found).incarnation if found else None

    def _kill_worker(self, tree: Tree, dice: random.Random) -> None:
        incarnation = self._member(tree, dice)
        if incarnation is not None:
            incarnation.owner.post(ReplaceChild(incarnation, 10_000))

    def _stop_worker(self, tree: Tree, dice: random.Random) -> None:
        incarnation = self._member(tree, dice)
        if incarnation is not None:
            tree.ref(incarnation.mailbox.path).stop(block=False)

    def _crash_orchestrator(self, tree: Tree, dice: random.Random) -> None:
        tree.ref(f"{dice.choice(ORCHESTRATORS)}/orchestrator").stop(block=False)

    def _restart_team(self, tree: Tree, dice: random.Random) -> None:
        tree.ref("soak/team").stop(block=False)

    def _cut_store(self, tree: Tree, dice: random.Random) -> None:
        """SQLite: another process has the file. PostgreSQL: an administrator ends all sessions."""
        if self.url.startswith("sqlite"):
            path = self.url.removeprefix("sqlite:///")
            with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=5.0)) as other:
                other.execute("BEGIN IMMEDIATE")
                time.sleep(dice.choice([0.05, 0.3, 1.5]))
                other.execute("ROLLBACK")
            return
        with psycopg.connect(self.url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    # -- memory --------------------------------------------------------------------------------------------

    def _measure(self, tree: Tree, dice: random.Random) -> None:
        while self._goes_on:
            time.sleep(min(1.0, max(0.0, self._until - time.monotonic())))
            if int(time.monotonic()) % 10 == 0:
                gc.collect()
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
            self.memory.append((time.monotonic(), pages * 4096))

    def _sizes(self) -> tuple[int, int]:
        """The most of the second quarter of the run, and the least of the last: without growth that is less."""
        sizes = [size for _, size in self.memory] or [0]
        quarter = len(sizes) // 4
        return max(sizes[quarter : 2 * quarter] or sizes), min(sizes[3 * quarter :])

    def _grown(self) -> list[str]:
        early, late = self._sizes()
        grew = self.seconds >= MEMORY_FROM_S and late > early + GROWTH_BYTES
        return [f"memory grew from {early:,} to {late:,} bytes"] if grew else []

    def __str__(self) -> str:
        early, late = (size / 1e6 for size in self._sizes())
        size = f"memory {early:.0f} MB, at the end {late:.0f} MB"
        return (
            f"seed {self.seed}, {self.seconds:g} s: tasks {dict(self.ledger.ends)}; faults {self.faults}; the store "
            f"paused {self.pauses} times; {self.ledger.repeated} acts were done again, each with a reason; {size}"
        )


def _name_of(fault: Callable[..., object]) -> str:
    return fault.__name__.strip("_")


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 where a rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.task_soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--store", choices=KINDS, help="default: both, one after the other")
    parser.add_argument("--seed", type=int, default=None)
    chosen = parser.parse_args(arguments)
    logger.disable("actors")  # thousands of crashes, on purpose
    seed = chosen.seed if chosen.seed is not None else secrets.randbelow(10**6)
    failed = False
    for kind in [chosen.store] if chosen.store else KINDS:
        with databases(kind) as fresh:
            soak = TaskSoak(fresh(), seed, 60.0 * chosen.minutes)
            problems = soak.run()
        for line in [*problems, *soak.ledger.examples]:
            print(f"  {line}")
        failed = failed or bool(problems)
        print(f"task soak on {kind} {'FAILED' if problems else 'passed'}: {soak}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
