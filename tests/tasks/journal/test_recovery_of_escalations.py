"""As test_recovery: where people are asked, and where orchestrators die again and again."""

from __future__ import annotations

import re
import threading
from collections import Counter
from typing import Any

import pytest

from actors import Failed
from actors.tasks.model.policy import Answer
from actors.tasks.model.task_events import EscalationRaised, TaskFinished
from actors.testing import settle
from tests.faults.cut_points import LONG_S, Cut, CuttingStore, World, WritingStore, essence, started, twice
from trees import (
    Approve,
    Edit,
    Escalate,
    Reject,
    Respond,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    WorkerSpec,
)

ANSWERS: dict[str, Answer] = {
    "approved": Approve(),
    "edited": Edit({"by": "hand"}),
    "told": Respond("do it like this"),
    "denied": Reject("no"),
}


class Asked:
    """A run whose every subtask needs somebody's answer, and which is undone in the end with somebody's help."""

    def __init__(self) -> None:
        self.books: Counter[tuple[Any, ...]] = Counter()
        self._lock = threading.Lock()

    def fails_first(self, task: Any, context: Any) -> str:
        with self._lock:
            self.books[task.id, context.attempt, context.idempotency_key, context.feedback] += 1
        if context.attempt == 1:
            raise Failed("not by itself")
        return f"{task.id} {context.feedback}"

    def undo(self, task: Any, result: Any, context: Any) -> None:
        with self._lock:
            self.books["undo", task.id, result, context.idempotency_key, context.attempt] += 1
        if task.id == "told" and context.attempt < 3:
            raise Failed("not yet", retryable=True)

    def spec(self) -> SupervisorSpec:
        at_once = Retry(max_attempts=2, initial_s=0.0, max_s=0.0, jitter=0.0)
        plan = StaticPlan(
            [
                *(Subtask(id_, worker="w", required=id_ != "denied") for id_ in ANSWERS),
                Subtask("end", worker="end", depends_on=list(ANSWERS)),
            ]
        )
        rungs = [Retry(max_attempts=1), Escalate()]
        return SupervisorSpec(
            id="p",
            max_restarts=1000,
            tasks=Tasks(planner=plan, on_failure=[]),
            children=[
                WorkerSpec(id="w", execute=self.fails_first, breaker=None, pool=4, undo="u", on_failure=rungs),
                WorkerSpec(id="end", execute=self.fails_first, undo=self.undo),
                WorkerSpec(id="u", execute=self.undoes, on_failure=[at_once]),
            ],
        )

    def undoes(self, task: Any, context: Any) -> None:
        self.undo(task, context.results.get(task.id), context)

    def run(self, store: Any) -> dict[str, Any]:
        with started(self.spec(), store) as tree:
            handle = tree.submit(Task("the goal", id="t"))
            for event in handle.events():
                if isinstance(event, EscalationRaised):
                    answer = Approve() if event.undoing else ANSWERS[event.subtask]
                    handle.respond(event.escalation, answer)
            with pytest.raises(TaskFailedError) as info:
                handle.result(LONG_S)
            settle(tree)
            assert info.value.report is not None
            assert tree._system.services["tasks"].attempts == {}
            found = essence(info.value.report)
            # Questions are numbered in the order in which they are raised, and four workers raise them.
            found["failed"] = {id_: re.sub(r":\d+'", "'", text) for id_, text in found["failed"].items()}
            return found


def test_questions_and_their_answers_survive_an_orchestrator_that_crashes_at_any_record() -> None:
    wanted, store = Asked(), CuttingStore()
    report = wanted.run(store)
    assert report["compensated"] == ["approved", "told"]
    for at in range(1, store.written + 1, 3):
        asked, cutting = Asked(), CuttingStore(at, before=True, kept=WritingStore())

        found = asked.run(cutting)

        where = f"record {at} of {store.written}"
        assert found == report, where
        assert asked.books == wanted.books, where
        assert twice(cutting) == [], where


class Stormy(CuttingStore):
    """Breaks down at every record that it has not seen yet, once; what it saw is kept the second time."""

    def __init__(self) -> None:
        super().__init__(kept=WritingStore())
        self._seen: set[tuple[str, int]] = set()
        self.broken = 0

    def append(self, stream: str, record: Any) -> None:
        at = (stream, len(self.journals[stream]))
        if at not in self._seen:
            self._seen.add(at)
            self.broken += 1
            raise Cut
        super().append(stream, record)


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails and is undone"])
def test_orchestrators_that_crash_at_every_single_record_get_there_all_the_same(*, fails: bool) -> None:
    wanted, world, store = World(fails=fails), World(fails=fails), Stormy()
    report = wanted.run(CuttingStore())

    found = world.run(store)

    assert store.broken > 80
    assert found == report
    assert world.books == wanted.books
    assert twice(store) == []
    assert isinstance(store.journals["t"][-1], TaskFinished)
