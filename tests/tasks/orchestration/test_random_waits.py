"""Random crowds whose workers ask, submit tasks and wait for them, while breakers open and orchestrators die.

The seed is in the name of the test. Whatever waits for whatever, every task ends, and nothing is left of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest

from actors import RecursionDetectedError
from actors.testing import settle
from tests.support.asking import LONG_S, assert_nothing_left
from tests.support.attempts import AT_ONCE
from tests.tasks.orchestrators import kill_orchestrator
from trees import (
    Breaker,
    Check,
    Failover,
    NoCapableWorkerError,
    Plan,
    Subtask,
    SubtaskFailedError,
    SupervisorSpec,
    Task,
    TaskCancelledError,
    TaskFailedError,
    TaskHandle,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

pytestmark = pytest.mark.usefixtures("quiet_log")
TEAMS = ("t0", "t1")
MEMBERS = ("m0", "m1")
WORKERS = ("w0", "w1")
TRIPS = {"failure_threshold": 1, "failure_rate": 0.01, "cooldown_s": 0.002}


class Crowd:
    """One tree, and all that its workers do, as the seed says."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)  # noqa: S311
        self.tree: Any = None
        self.left = 25
        """Tasks that workers may still submit."""
        self.handles: list[TaskHandle] = []

    # -- what it does --------------------------------------------------------------------------------------

    async def work(self, task: Any, context: Any) -> int:
        rng = random.Random(f"{self.seed} {task} {context.path} {context.attempt}")  # noqa: S311
        for _ in range(rng.randint(0, 2)):
            await asyncio.sleep(rng.choice([0, 0, 0.001]))
        if rng.random() < 0.12:
            raise ValueError("it fails")
        rounds = 0 if str(task).count(">") >= 3 else rng.choice([0, 1, 1, 2])
        for _ in range(rounds):
            words = [f"{task}>{rng.randint(0, 9)}.{number}" for number in range(rng.choice([1, 1, 2]))]
            await asyncio.gather(*(self._wants(rng, context, each) for each in words))
        return rounds

    async def _wants(self, rng: random.Random, context: Any, words: str) -> None:
        with contextlib.suppress(
            RecursionDetectedError, SubtaskFailedError, NoCapableWorkerError, TaskFailedError, TimeoutError
        ):
            if rng.random() < 0.5:
                wanted: Any = context.ask(
                    rng.choice([*MEMBERS, *TEAMS, *WORKERS] if "/t" in context.path else TEAMS), words
                )
            else:
                wanted = await self._submit(rng, words)
            if wanted is not None:
                await (asyncio.wait_for(wanted, 0.002) if rng.random() < 0.15 else wanted)

    async def _submit(self, rng: random.Random, words: str) -> TaskHandle | None:
        self.left -= 1
        if self.left < 0:
            return None
        to = rng.choice(["p", *(f"p/{each}" for each in TEAMS)])
        handle: TaskHandle = await self.tree.asubmit(self.task(rng, words, to), to)
        self.handles.append(handle)
        return handle

    def review(self, _task: Any, _plan: Any, results: dict[str, Any]) -> list[Check]:
        return [Check(id_, self.rng.random() < 0.7, "again") for id_ in results]

    # -- what there is -------------------------------------------------------------------------------------

    @staticmethod
    def plan(rng: random.Random, words: str, path: str) -> Plan:
        to = (*TEAMS, *WORKERS) if path == "p" else MEMBERS
        subtasks: list[Subtask] = []
        for number in range(rng.randint(1, 3)):
            needs = [subtasks[-1].id] if subtasks and rng.random() < 0.4 else []
            subtasks.append(Subtask(f"s{number}", f"{words}-{number}", worker=rng.choice(to), depends_on=needs))
        return Plan(subtasks)

    def task(self, rng: random.Random, words: str, path: str) -> Task:
        return Task(words, plan=self.plan(rng, words, path))

    def _planned(self, task: Task, *_: Any) -> Plan:
        return self.plan(random.Random(f"{self.seed} {task.goal}"), str(task.goal), "a team")  # noqa: S311

    def _worker(self, id_: str, **words: Any) -> WorkerSpec:
        breaker = Breaker(**TRIPS) if self.rng.random() < 0.5 else None
        return WorkerSpec(id=id_, execute=self.work, breaker=breaker, pool=self.rng.choice([1, 1, 2]), **words)

    def _tasks(self, **words: Any) -> Tasks:
        ladder = self.rng.choice([[], [AT_ONCE], [Failover()], [AT_ONCE, Failover()]])
        return Tasks(on_failure=ladder, max_parallel=self.rng.choice([1, 2, 8]), **words)

    def spec(self) -> SupervisorSpec:
        teams = []
        for id_ in TEAMS:
            reviewed = {"reviewer": self.review, "max_iterations": 1, "on_rejected": "fail"}
            tasks = self._tasks(planner=self._planned, **(reviewed if self.rng.random() < 0.5 else {}))
            members = [self._worker(each) for each in MEMBERS]
            teams.append(SupervisorSpec(id=id_, breaker=None, max_restarts=1000, tasks=tasks, children=members))
        workers = [self._worker("w0", backup="w1"), self._worker("w1")]
        return SupervisorSpec(id="p", max_restarts=1000, tasks=self._tasks(), children=[*teams, *workers])

    # -- the run -------------------------------------------------------------------------------------------

    def play(self, tree: Tree) -> None:
        self.tree, rng = tree, self.rng
        for number in range(rng.randint(2, 4)):
            path = rng.choice(["p", "p/t0", "p/t1"])
            self.handles.append(tree.submit(self.task(rng, f"g{number}", path), path))
        for _ in range(rng.choice([0, 1, 2])):
            kill_orchestrator(tree, rng.choice(["p", "p/t0", "p/t1"]))
            self.handles[0].set_priority(rng.randint(0, 3))
        if rng.random() < 0.3:
            self.handles[-1].cancel()
        at = 0
        while at < len(self.handles):  # those that are waited for submit more
            with contextlib.suppress(TaskFailedError, TaskCancelledError):
                self.handles[at].result(LONG_S)
            at += 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_whatever_waits_for_whatever_every_task_ends(seed: int) -> None:
    crowd = Crowd(seed)
    with start(crowd.spec()) as tree:
        crowd.play(tree)
        settle(tree)
        assert_nothing_left(tree)
