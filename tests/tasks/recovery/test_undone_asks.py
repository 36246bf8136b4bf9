"""What was asked for in vain, or undone, and a team that is undone as a whole: nothing stands that nobody counts on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from tests.support.attempts import AT_ONCE, LONG_S
from trees import (
    Approve,
    Escalate,
    Escalated,
    Failover,
    Report,
    StaticPlan,
    Subtask,
    SubtaskFailedError,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    WorkerSpec,
    start,
)


class Desk:
    """Books and cancels, and notes both."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def book(self, task: str, _: Any) -> str:
        self.notes.append(f"book {task}")
        return f"booked {task}"

    def cancel(self, task: str, _result: Any, _: Any) -> None:
        self.notes.append(f"cancel {task}")

    def worker(self, **more: Any) -> WorkerSpec:
        return WorkerSpec(id="book", execute=self.book, undo=self.cancel, **more)


def run(execute: Any, desk: Desk, **words: Any) -> Report:
    worker = WorkerSpec(id="agent", execute=execute, **words)
    tasks = Tasks(planner=StaticPlan([Subtask("agent")]))
    with start(SupervisorSpec(id="shop", tasks=tasks, children=[worker, desk.worker()])) as tree:
        handle = tree.submit("go")
        for question in handle.questions():
            handle.respond(question.id, Approve())
        return handle.result(LONG_S)


def test_what_only_a_failed_attempt_has_asked_for_is_undone() -> None:
    desk = Desk()

    async def agent(_: str, context: Any) -> str:
        booked: str = await context.ask("book", f"hotel {context.attempt}")
        if context.attempt == 1:
            raise ValueError("nonsense")
        return booked

    report = run(agent, desk, on_failure=[AT_ONCE])

    assert report.results == {"agent": "booked hotel 2"}
    assert desk.notes == ["book hotel 1", "book hotel 2", "cancel hotel 1"]
    assert report.compensated == ["agent/@1"]


def test_what_is_asked_for_again_in_the_same_words_is_not() -> None:
    desk = Desk()

    async def agent(_: str, context: Any) -> str:
        booked: str = await context.ask("book", "hotel")
        if context.attempt == 1:
            raise ValueError("nonsense")
        return booked

    run(agent, desk, on_failure=[AT_ONCE])

    assert desk.notes == ["book hotel"]


def test_what_nobody_waited_for_to_the_end_is_undone() -> None:
    desk, cancelled = Desk(), []

    async def slowly(task: str, _: Any) -> None:
        desk.notes.append(f"book {task}")
        await asyncio.Event().wait()

    async def agent(_: str, context: Any) -> str:
        with suppress(SubtaskFailedError):
            await context.ask("slow", "hotel", timeout=0.05)
        return "went without"

    slow = WorkerSpec(id="slow", execute=slowly, undo=lambda task, *_: cancelled.append(str(task)))
    tasks = Tasks(planner=StaticPlan([Subtask("agent")]))
    children = [WorkerSpec(id="agent", execute=agent), slow]
    with start(SupervisorSpec(id="shop", tasks=tasks, children=children)) as tree:
        report = tree.run("go", timeout=LONG_S)

    assert (desk.notes, cancelled) == (["book hotel"], ["hotel"])
    assert report.results == {"agent": "went without"}


def test_what_was_asked_for_before_a_question_that_begins_the_attempt_anew_is_undone() -> None:
    desk = Desk()

    async def agent(_: str, context: Any) -> str:
        booked: str = await context.ask("book", "hotel")
        if not context.answers:
            raise Escalated("pay?")
        return booked

    run(agent, desk, on_failure=[Escalate()])

    assert desk.notes == ["book hotel", "book hotel", "cancel hotel"]


class Down:
    """A worker that fails until it is up."""

    is_up = False

    def execute(self, _: str, __: Any) -> str:
        if not self.is_up:
            raise OSError("down")
        return "shipped"


def retried(plan: list[Subtask], *children: WorkerSpec | SupervisorSpec) -> Report:
    """Report of a task that fails where ``ship`` is down, and is tried again when it is up."""
    ship = Down()
    spec = SupervisorSpec(
        id="shop",
        tasks=Tasks(planner=StaticPlan(plan), on_failure=[]),
        children=[*children, WorkerSpec(id="ship", execute=ship)],
    )
    with start(spec) as tree:
        handle = tree.submit(Task("go"))
        with pytest.raises(TaskFailedError):
            handle.result(LONG_S)
        ship.is_up = True
        return handle.retry().result(LONG_S)


def test_who_has_asked_for_what_was_undone_runs_again_where_the_task_is_tried_again() -> None:
    desk = Desk()

    async def order(_: str, context: Any) -> Any:
        return await context.ask("book", "table")

    plan = [Subtask("order"), Subtask("ship", depends_on=["order"])]
    report = retried(plan, WorkerSpec(id="order", execute=order), desk.worker())

    assert report.results == {"order": "booked table", "ship": "shipped"}
    assert desk.notes == ["book table", "cancel table", "book table"]


def till(desk: Desk, *more: Subtask) -> SupervisorSpec:
    """A team that is undone as a whole, and whose members are not."""
    pay = WorkerSpec(id="pay", execute=desk.book)
    bad = WorkerSpec(id="bad", execute=Down())
    tasks = Tasks(planner=StaticPlan([Subtask("pay", "seat"), *more]), on_failure=[])
    return SupervisorSpec(id="till", tasks=tasks, undo=lambda _, *rest: desk.cancel("seat", *rest), children=[pay, bad])


def test_a_team_that_was_undone_as_a_whole_begins_as_a_whole() -> None:
    desk = Desk()

    retried([Subtask("till"), Subtask("ship", depends_on=["till"])], till(desk))

    assert desk.notes == ["book seat", "cancel seat", "book seat"]


def test_a_team_that_fails_is_undone_as_a_whole_where_a_member_has_had_an_effect() -> None:
    desk = Desk()
    team = till(desk, Subtask("bad", depends_on=["pay"]))
    spec = SupervisorSpec(id="shop", tasks=Tasks(planner=StaticPlan([Subtask("till")]), on_failure=[]), children=[team])
    with start(spec) as tree, pytest.raises(TaskFailedError) as caught:
        tree.run("go", timeout=LONG_S)

    assert desk.notes == ["book seat", "cancel seat"]
    assert caught.value.report is not None
    assert caught.value.report.compensated == ["till"]


def test_a_team_that_fails_before_a_member_has_had_an_effect_is_not_undone() -> None:
    desk = Desk()
    bad = WorkerSpec(id="bad", execute=Down())
    team = SupervisorSpec(
        id="till",
        tasks=Tasks(planner=StaticPlan([Subtask("bad")]), on_failure=[]),
        undo=lambda *_: desk.notes.append("cancel"),
        children=[bad],
    )
    spec = SupervisorSpec(id="shop", tasks=Tasks(planner=StaticPlan([Subtask("till")]), on_failure=[]), children=[team])
    with start(spec) as tree, pytest.raises(TaskFailedError):
        tree.run("go", timeout=LONG_S)

    assert desk.notes == []


def test_a_worker_that_fails_after_a_team_is_not_undone_for_what_the_team_did() -> None:
    desk, undone = Desk(), list[str]()

    def fails(*_: object) -> None:
        raise OSError("down")

    second = WorkerSpec(id="second", execute=fails, capabilities=["sell"], undo=lambda *_: undone.append("second"))
    pay = WorkerSpec(id="pay", execute=desk.book)
    team_tasks = Tasks(planner=StaticPlan([Subtask("pay", "seat"), Subtask("bad", depends_on=["pay"])]), on_failure=[])
    first = SupervisorSpec(
        id="first",
        tasks=team_tasks,
        capabilities=["sell"],
        backup="second",
        on_failure=[Failover()],
        children=[pay, WorkerSpec(id="bad", execute=fails)],
    )
    plan = StaticPlan([Subtask("sale", worker="first")])
    spec = SupervisorSpec(id="shop", tasks=Tasks(planner=plan, on_failure=[]), children=[first, second])
    with start(spec) as tree, pytest.raises(TaskFailedError):
        tree.run("go", timeout=LONG_S)

    assert desk.notes == ["book seat"]
    assert undone == []
