"""A random tree of teams that ask each other, and the account of what is used up and done in it.

The account is the model: it says what a report must say that was used up, and that nothing is done twice under one key.
Workers use up tokens, ask others, fail, and take a moment; undos use up a hundred each.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

from actors import Later, RecursionDetectedError
from actors.tasks.journal.effect_record import EffectRecord
from actors.tasks.journal.fold import fold
from actors.tasks.journal.reporting import used_so_far
from actors.tasks.model import task_events
from tests.support.crew import faulty
from tests.tasks.resuming import NotingStore
from trees import (
    Failover,
    NoCapableWorkerError,
    Plan,
    Retry,
    Subtask,
    SubtaskFailedError,
    SupervisorSpec,
    Tasks,
    WorkerSpec,
)

UNDOING = 100
LADDER = [Retry(max_attempts=2, initial_s=0.001, max_s=0.001), Failover()]
NEAR_S = 0.05
"""A part that has ended so shortly before its whole has perhaps not been heard of in time."""


class Account:
    """What was used up for each task, by what the workers have said."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.used: Counter[str] = Counter()
        self.perhaps: Counter[str] = Counter()
        """Of attempts that have ended while they said so."""
        self.is_calm = False
        """True once nothing fails any more, and nothing takes long."""
        self._lock = threading.Lock()

    def chance(self) -> float:
        with self._lock:
            return self.random.random()

    def use(self, context: Any, tokens: int) -> None:
        with self._lock:
            context.use(tokens=tokens)
            account = self.perhaps if context._attempt.done else self.used
            account[context.task_id.partition("@")[0]] += tokens

    def moment(self) -> float:
        return 0.0 if self.is_calm else 0.02 * self.chance()


class Hand:
    """A worker's code: one call of it."""

    def __init__(self, account: Account, asks: Sequence[str]) -> None:
        self.account, self.asks = account, asks

    async def work(self, task: Any, context: Any) -> str:
        account = self.account
        account.use(context, 1 + int(5 * account.chance()))
        await asyncio.sleep(account.moment())
        for to in self.asks:
            if account.chance() < 0.6:
                await self.ask(context, to)
        account.use(context, 1)
        what = account.chance()
        if what < 0.1 and not account.is_calm:
            raise ValueError("it does not work")
        if what > 0.95:
            raise Later(0.001)
        return str(task)

    async def ask(self, context: Any, to: str) -> None:
        limit = 0.02 if self.account.chance() < 0.15 else None
        try:
            await context.ask(to, f"help with {context._attempt.subtask.id}", timeout=limit)
        except (SubtaskFailedError, RecursionDetectedError, NoCapableWorkerError):
            if self.account.chance() < 0.5:
                raise

    async def undo(self, _: Any, __: Any, context: Any) -> None:
        self.account.use(context, UNDOING)
        await asyncio.sleep(self.account.moment())


class Grove:
    """The declaration of a random tree: the same for the same account."""

    def __init__(self, account: Account) -> None:
        self.account, self.random = account, account.random

    def worker(self, id_: str, *asks: str, has_undo: bool | None = None) -> WorkerSpec:
        hand = Hand(self.account, asks)
        undoes = self.random.random() < 0.5 if has_undo is None else has_undo
        return WorkerSpec(id=id_, execute=hand.work, undo=hand.undo if undoes else None)

    def tasks(self, *ids: str) -> Tasks:
        def plan(*_: Any) -> Plan:
            chosen = self.random.sample(ids, 1 + self.random.randrange(len(ids)))
            pairs = zip(chosen, [None, *chosen], strict=False)
            return Plan([self.subtask(id_, before) for id_, before in pairs])

        return Tasks(planner=plan, on_failure=LADDER, max_parallel=self.random.choice([1, 2, 3, 10]))

    def subtask(self, id_: str, before: str | None) -> Subtask:
        needs = [before] if before is not None and self.random.random() < 0.5 else []
        return Subtask(id_, f"do {id_}", worker=id_, depends_on=needs, required=self.random.random() < 0.8)

    def team(self, id_: str, *asks: str) -> SupervisorSpec:
        members = [self.worker(f"{id_}1", *asks), self.worker(f"{id_}2"), self.worker(f"{id_}3", f"{id_}2")]
        words: dict[str, Any] = {"backup": "w1"} if self.random.random() < 0.3 else {}
        return self.supervisor(id_, [each.id for each in members], members, **words)

    def supervisor(self, id_: str, ids: Sequence[str], children: Sequence[Any], **words: Any) -> SupervisorSpec:
        strategy: Any = self.random.choice(["one_for_one", "one_for_all", "rest_for_one"])
        limits: dict[str, Any] = {"max_restarts": 10_000, "period_s": 1.0, **words}
        return SupervisorSpec(id=id_, strategy=strategy, tasks=self.tasks(*ids), children=list(children), **limits)

    def spec(self) -> SupervisorSpec:
        a, b = self.team("a", self.random.choice(["b", "w1"])), self.team("b", "w2")
        workers = [self.worker("w1"), self.worker("w2", "b", "w1"), self.worker("w3", "a")]
        children = [faulty("culprit"), a, b, *workers]
        self.random.shuffle(children)
        return self.supervisor("root", ["a", "b", "w1", "w2", "w3"], children)


# -- what must be true of the journals -----------------------------------------------------------------------------


def parts_of(store: NotingStore) -> list[tuple[str, EffectRecord, float]]:
    """The parts of tasks that have ended, with what their wholes say of them, and how long before those they ended."""
    journals = store.journals
    return [
        (act.part, act, records[-1].at - journals[act.part][-1].at)
        for stream, records in journals.items()
        if fold(stream, records).final is not None
        for node in fold(stream, records).nodes.values()
        for act in node.acts or ()
        if act.part in journals
    ]


def wrong_accounts(store: NotingStore) -> list[str]:
    """Parts of which their whole has counted something else than they have used up."""
    return [
        f"{part}: {act.told.tokens} of {used} counted"
        for part, act, before_s in parts_of(store)
        if before_s > NEAR_S and act.told.tokens != (used := used_so_far(fold(part, store.journals[part])).tokens)
    ]


def done_twice(store: NotingStore) -> list[str]:
    """Subtasks with two results under one key that were not undone in between."""
    found: list[str] = []
    for stream, records in store.journals.items():
        numbers: dict[str, int] = {}
        done: set[tuple[str, int]] = set()
        for record in records:
            if isinstance(record, task_events.SubtaskStarted):
                numbers[record.subtask] = record.act
            elif isinstance(record, task_events.SubtaskSucceeded):
                key = record.subtask, numbers.get(record.subtask, 0)
                found += [f"{stream}: {key}"] if key in done else []
                done.add(key)
            elif isinstance(record, task_events.Compensated):
                done.discard((record.subtask, record.act))
    return found
