"""Crew of a soak of tasks: workers of every kind, the plans that they get, and how each of these must end."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from typing import Any

from actors import Context, Escalated, Failed
from tests.faults.task_ledger import PAYS, Ledger
from trees import (
    Edit,
    Escalate,
    Plan,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    TaskStatus,
    WorkerSpec,
)

OFTEN = [Retry(max_attempts=1_000, initial_s=0.01, max_s=0.1)]
"""A piece of work that nobody disturbs for good succeeds in the end."""
NEVER = {"max_restarts": 10**9, "period_s": 1.0}
LIMIT_S = 0.5
LARGE = "x" * 400_000
WORKERS = ("work", "agent", PAYS, "asks", "team", "careful")
PLACES = ("soak/work", "soak/agent", "soak/pay", "soak/asks", "soak/careful", "soak/team/first", "soak/team/then")
ORCHESTRATORS = ("soak", "soak/team")


class Crew:
    """Code of the workers. Each of them misbehaves now and then, always before its effect."""

    def __init__(self, ledger: Ledger, seed: int) -> None:
        self.ledger = ledger
        self._dice = random.Random(seed)  # noqa: S311 - to be repeated

    def __deepcopy__(self, _: object) -> Crew:
        return self

    def _trouble(self) -> None:
        chance = self._dice.random()
        if chance < 0.05:
            raise ConnectionError("no route")
        if chance < 0.06:
            raise SystemExit(1)

    def _said(self, task: Subtask, context: Context) -> str:
        """A result; one in twenty is large, so that stores keep it apart."""
        seen = sum(map(len, context.results.values()))
        return f"{task.id} after {seen}" + (LARGE if self._dice.random() < 0.05 else "")

    def work(self, task: Subtask, context: Context) -> str:
        """Work on a thread; hung now and then, for longer than it may."""
        with self.ledger.act(context):
            time.sleep(2 * LIMIT_S if self._dice.random() < 0.003 else 0.002)
            self._trouble()
        return self._said(task, context)

    async def later(self, task: Subtask, context: Context) -> str:
        """Work on the loop."""
        with self.ledger.act(context):
            await asyncio.sleep(2 * LIMIT_S if self._dice.random() < 0.01 else 0.002)
            self._trouble()
        return self._said(task, context)

    async def asks(self, task: Subtask, context: Context) -> str:
        """Work that has others do a part of it."""
        with self.ledger.act(context):
            said = await context.ask("work", f"a part of {task.id}")
            self._trouble()
        return str(said)

    async def careful(self, task: Subtask, context: Context) -> str:
        """Work that a person has to allow."""
        with self.ledger.act(context):
            await asyncio.sleep(0.001)
            if not context.answers:
                raise Escalated("may I?")
        return "I may"

    async def breaks(self, task: Subtask, context: Context) -> str:
        """End in failure, for good."""
        await asyncio.sleep(0.001)
        raise Failed("it comes to nothing")

    async def refund(self, task: Subtask, result: object, context: Context) -> None:
        """Undo a payment."""
        with self.ledger.act(context, "refund "):
            await asyncio.sleep(0.001)
            self._trouble()


class Agent:
    """A worker with an object for each incarnation."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    async def execute(self, task: Subtask, context: Context) -> str:
        """Work, on an object that is thrown away when it raises."""
        return await self._crew.later(task, context)


def tree_of(crew: Crew) -> SupervisorSpec:
    """One orchestrator over workers of every kind, and a team with one of its own."""
    rules: dict[str, Any] = {"on_failure": OFTEN, "breaker": None, "timeout_s": LIMIT_S}
    patient: dict[str, Any] = rules | {"timeout_s": None}
    tasks: dict[str, Any] = {"on_failure": OFTEN, "max_abandoned": 10_000, "max_losses": 10_000}
    team = SupervisorSpec(
        id="team",
        tasks=Tasks(
            planner=StaticPlan([Subtask("first"), Subtask("then", depends_on=["first"])]), max_parallel=8, **tasks
        ),
        children=[
            WorkerSpec(id="first", execute=crew.work, pool=2, **rules),
            WorkerSpec(id="then", execute=crew.later, pool=2, **rules),
        ],
        on_failure=OFTEN,
        breaker=None,
        **NEVER,
    )
    return SupervisorSpec(
        id="soak",
        tasks=Tasks(max_parallel=16, **tasks),
        children=[
            WorkerSpec(id="work", execute=crew.work, pool=4, **rules),
            WorkerSpec(id="agent", execute=Agent, args=(crew,), pool=4, **rules),
            WorkerSpec(id=PAYS, execute=crew.later, undo=crew.refund, pool=4, **rules),
            WorkerSpec(id="asks", execute=crew.asks, pool=4, **patient),
            WorkerSpec(id="careful", execute=crew.careful, pool=4, **patient | {"on_failure": [*OFTEN, Escalate()]}),
            WorkerSpec(id="breaks", execute=crew.breaks, **rules | {"on_failure": []}),
            team,
        ],
        **NEVER,
    )


def job(dice: random.Random, id_: str) -> tuple[Task, set[TaskStatus]]:
    """A task with a random plan, and how it may end where nobody cancels it."""
    plan: list[Subtask] = []
    for number in range(dice.randint(1, 5)):
        worker = dice.choice(WORKERS)
        needed = [each.id for each in plan if dice.random() < 0.4]
        plan.append(Subtask(f"{worker}{number}", worker=worker, depends_on=needed))
    fails = dice.random() < 0.25
    if fails:
        plan.append(Subtask("last", worker="breaks", depends_on=[each.id for each in plan]))
    task = Task("soak", plan=Plan(plan), id=id_, priority=dice.choice([0, 0, 0, 1, -1]))
    return task, {TaskStatus.FAILED if fails else TaskStatus.SUCCEEDED}


NUMBERS = itertools.count()
EDITED = Edit("edited")
