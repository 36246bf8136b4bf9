"""Workers that wait for each other in a circle which no ask has closed: something else did, when all asks were open."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest

from actors import RecursionDetectedError
from actors.testing import settle
from tests.support.asking import LONG_S, assert_nothing_left, shop
from trees import (
    Failover,
    NoCapableWorkerError,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskFailedError,
    SupervisorSpec,
    TaskFailedError,
    Tasks,
    WorkerSpec,
    start,
)

AT_ONCE = Retry(max_attempts=2, initial_s=0.0, max_s=0.0, jitter=0.0)


# -- whatever they ask of each other -------------------------------------------------------------------------


class Crowd:
    """A random tree whose workers ask each other, and teams, for whatever comes to their minds."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)  # noqa: S311
        self.ids = [f"w{number}" for number in range(self.rng.randint(2, 4))]
        self.workers = [self._worker(id_) for id_ in self.ids]
        skills = sorted({skill for worker in self.workers for skill in worker.capabilities})
        self.names = [*self.ids, *skills, "team", "team"]

    def _worker(self, id_: str) -> WorkerSpec:
        more: dict[str, Any] = {"pool": 2} if self.rng.random() < 0.3 else {}
        skills = set(self.rng.sample(["x", "y"], self.rng.randint(0, 2)))
        return WorkerSpec(id=id_, execute=self._works, breaker=None, capabilities=skills, **more)

    async def _works(self, task: Any, context: Any) -> int:
        rng = random.Random(f"{self.seed} {task} {context.path}")  # noqa: S311
        for _ in range(rng.randint(0, 3)):
            await asyncio.sleep(rng.choice([0, 0, 0.001, 0.003]))
        if rng.random() < 0.15:
            raise ValueError("it fails")
        known = [*self.names, "m0", "m1"] if "team" in context.path else self.names
        rounds = 0 if str(task).count(">") >= 3 else rng.choice([0, 1, 1, 2])
        for _ in range(rounds):
            words = [f"{task}>{rng.randint(0, 9)}.{number}" for number in range(rng.choice([1, 1, 2, 3]))]
            await asyncio.gather(*(self._ask(context, rng.choice(known), each) for each in words))
        return rounds

    async def _ask(self, context: Any, to: str, instruction: str) -> None:
        with contextlib.suppress(RecursionDetectedError, SubtaskFailedError, NoCapableWorkerError):
            await context.ask(to, instruction)

    def spec(self) -> SupervisorSpec:
        rng = self.rng
        parts = [Subtask(f"p{n}", f"P{n}>", worker=rng.choice(["m0", "m1"])) for n in range(rng.randint(1, 3))]
        tasks = Tasks(planner=StaticPlan(parts), on_failure=self._ladder(), max_parallel=rng.choice([1, 2, 8]))
        members = [WorkerSpec(id=id_, execute=self._works, breaker=None) for id_ in ("m0", "m1")]
        group = SupervisorSpec(id="team", breaker=None, tasks=tasks, children=members)
        to = [*self.ids, "team"]
        plan = [Subtask(f"s{n}", f"S{n}", worker=rng.choice(to), required=False) for n in range(rng.randint(2, 5))]
        return shop(*self.workers, group, plan=plan, on_failure=self._ladder(), max_parallel=rng.choice([1, 2, 8, 64]))

    def _ladder(self) -> list[Any]:
        return self.rng.choice([[], [Failover()], [AT_ONCE], [AT_ONCE, Failover()]])


@pytest.mark.parametrize("seed", [*range(12), 98])
def test_whatever_workers_ask_of_each_other_every_task_ends(seed: int) -> None:
    crowd = Crowd(seed)
    with start(crowd.spec()) as tree:
        handles = [tree.submit(f"goal {number}") for number in range(crowd.rng.randint(1, 3))]
        if crowd.rng.random() < 0.4:
            id_ = crowd.rng.choice(crowd.ids)
            for child in [each for each in tree.which_children("p") if each.id.partition("#")[0] == id_]:
                tree.terminate_child(child.path)
        for handle in handles:
            with contextlib.suppress(TaskFailedError):
                handle.result(LONG_S)
        settle(tree)
        assert_nothing_left(tree)
