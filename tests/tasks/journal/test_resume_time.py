"""What waits for its time has the same time in the next process; what may run so long is not charged for being down."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.testing import ManualClock, settle
from tests.tasks.resuming import Books, NotingStore, crashed, report_of, settle_orchestrators
from trees import (
    Approve,
    Budget,
    Escalate,
    EscalationError,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskStarted,
    SupervisorSpec,
    Task,
    TaskDeadlineError,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

SLOWLY = Retry(max_attempts=3, initial_s=100.0, factor=1.0, max_s=100.0, jitter=0.0)
TASK = Task("the goal", id="t")


def fails_first(books: Books, times: int = 1) -> Any:
    def work(_: Any, context: Any) -> str:
        books.work(context)
        if context.attempt <= times:
            raise OSError("not yet")
        return f"done in attempt {context.attempt}"

    return work


def one(code: Any, **words: Any) -> SupervisorSpec:
    """A root with one worker and one subtask."""
    subtask = Subtask("w", worker="w")
    tasks = Tasks(planner=StaticPlan([subtask]), on_failure=words.pop("on_failure", [SLOWLY]))
    return SupervisorSpec(id="p", tasks=tasks, children=[WorkerSpec(id="w", execute=code, **words)])


class Down:
    """A process that ended, and the clock that goes on."""

    def __init__(self, code: Any, *begun: Any, task: Task = TASK, **words: Any) -> None:
        self.clock = ManualClock()
        old = Books()
        changes = crashed(one(code(old), **words), old, task, *begun, has_ended=code is not hangs, clock=self.clock)
        self.books = Books()
        self.books.store = NotingStore(changes)
        self.spec = one(code(self.books), **words)

    def start(self) -> Tree:
        return start(self.spec, clock=self.clock, store=self.books.store)


def test_a_retry_keeps_its_time() -> None:
    down = Down(fails_first, "work", "t@w:1", 1)
    down.clock.advance(60.0)
    with down.start() as tree:
        settle(tree)
        assert down.books.counts == {}
        down.clock.advance(39.0)
        settle(tree)
        assert down.books.counts == {}
        down.clock.advance(1.1)

        assert report_of(tree, "t").results == {"w": "done in attempt 2"}


def test_a_question_is_still_open_under_the_same_id_and_can_be_answered_as_long_as_there_was_time() -> None:
    ladder = [Retry(max_attempts=1), Escalate("well?", timeout_s=100.0)]
    down = Down(fails_first, "work", "t@w:1", 1, on_failure=ladder)
    down.clock.advance(60.0)
    with down.start() as tree:
        (question,) = tree.escalations()
        assert (question.id, question.question, question.error) == ("t:w:1", "well?", "OSError: not yet")
        assert tree.task("t").status == "waiting"
        tree.respond("t:w:1", Approve())

        assert report_of(tree, "t").results == {"w": "done in attempt 2"}


def test_a_question_that_nobody_answered_in_time_is_over_at_the_same_time() -> None:
    ladder = [Retry(max_attempts=1), Escalate("well?", timeout_s=100.0)]
    down = Down(fails_first, "work", "t@w:1", 1, on_failure=ladder)
    down.clock.advance(99.0)
    with down.start() as tree:
        settle(tree)
        assert tree.task("t").status == "waiting"
        down.clock.advance(2.0)
        settle(tree)

        assert "nobody answered in time" in report_of(tree, "t").failed["w"]
        with pytest.raises(EscalationError):
            tree.respond("t:w:1", Approve())


def hangs(books: Books) -> Any:
    async def work(_: Any, context: Any) -> None:
        books.work(context)
        await asyncio.get_running_loop().create_future()

    return work


def test_a_deadline_that_passed_while_nobody_was_there_ends_the_task_before_anything_of_it_is_begun() -> None:
    down = Down(hangs, "work", "t@w:1", 1, task=Task("the goal", id="t", deadline_s=50.0))
    down.clock.advance(51.0)
    with down.start() as tree:
        report = report_of(tree, "t")

    assert isinstance(report.error, TaskDeadlineError)
    assert report.skipped == {"w": "deadline"}
    assert down.books.counts == {}


def test_a_deadline_stays_where_it_was() -> None:
    down = Down(hangs, "work", "t@w:1", 1, task=Task("the goal", id="t", deadline_s=50.0))
    down.clock.advance(30.0)
    with down.start() as tree:
        down.books.wait_for("work", "t@w:1", 1)
        down.clock.advance(19.0)
        settle_orchestrators(tree)
        assert tree.task("t").status == "running"
        down.clock.advance(1.1)

        assert isinstance(report_of(tree, "t").error, TaskDeadlineError)


def test_what_may_run_so_long_is_not_charged_for_the_time_between_two_processes() -> None:
    down = Down(fails_first, "work", "t@w:1", 1, task=Task("the goal", id="t", budget=Budget(seconds=100.0)))
    changes = down.books.store.changes_of_all()
    started = next(n for n, each in enumerate(changes) if isinstance(each.record, SubtaskStarted))
    down.books.store = NotingStore(changes[: started + 1])
    down.clock.advance(1_000_000.0)
    with down.start() as tree:
        down.clock.advance(0.0)
        settle(tree)
        down.clock.advance(101.0)
        report = report_of(tree, "t")

    assert report.results == {"w": "done in attempt 2"}
    assert report.usage.seconds < 100.0
