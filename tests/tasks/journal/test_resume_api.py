"""What a host can do with tasks of an earlier process: see them, wait for them, answer, cancel, submit once more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import trees as task_events
from actors import Failed
from tests.tasks.resuming import Books, NotingStore, crashed, report_of
from trees import (
    Approve,
    Escalate,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    TaskSubmitted,
    UnknownTaskError,
    WorkerSpec,
    start,
)

TASK = Task("the goal", id="t")


def shop(books: Books, *, hangs: bool = False, team: bool = True) -> SupervisorSpec:
    """Two that run after another; the second one may hang. And a team that has tasks of its own."""

    def first(_: Any, context: Any) -> str:
        books.work(context)
        if context.goal == "fail":
            raise Failed("no", retryable=False)
        return "one"

    async def second(_: Any, context: Any) -> str:
        books.work(context)
        if hangs:
            await asyncio.get_running_loop().create_future()
        return "two"

    def ask(_: Any, context: Any) -> str:
        books.work(context)
        raise Failed("not by itself")

    plan = StaticPlan([Subtask("one", worker="first"), Subtask("two", worker="second", depends_on=["one"])])
    asking = SupervisorSpec(
        id="asking",
        tasks=Tasks(planner=StaticPlan([Subtask("ask", worker="ask")]), on_failure=[Escalate()]),
        children=[WorkerSpec(id="ask", execute=ask)],
    )
    children = [WorkerSpec(id="first", execute=first), WorkerSpec(id="second", execute=second)]
    return SupervisorSpec(
        id="p", tasks=Tasks(planner=plan, on_failure=[]), children=[*children, *([asking] if team else [])]
    )


def test_a_task_of_which_there_is_nothing_but_its_submission_runs() -> None:
    books = Books()
    books.store.create("t", "p", TaskSubmitted("p", "t", 1.0, TASK, None))

    with start(shop(books), store=books.store) as tree:
        assert report_of(tree, "t").results == {"one": "one", "two": "two"}


def test_tasks_that_have_ended_in_an_earlier_process_are_found_with_all_there_is_to_know() -> None:
    old, books = Books(), Books()
    with start(shop(old), store=old.store) as tree:
        first = tree.run(TASK, timeout=60)
        with pytest.raises(TaskFailedError):
            tree.run(Task("fail", id="u"), timeout=60)
        graph = tree.task("t").dump()
    books.store = NotingStore(old.store.changes_of_all())

    with start(shop(books), store=books.store) as tree:
        handle = tree.task("t")
        assert handle.status == "succeeded"
        assert handle.report == first == handle.result(1.0)
        assert handle.dump() == graph
        assert [type(event) for event in handle.events()][-1] is task_events.TaskFinished
        assert {each.id: each.status for each in tree.tasks()} == {"t": "succeeded", "u": "failed"}
        assert [each.id for each in tree.tasks("failed")] == ["u"]
        with pytest.raises(TaskFailedError) as info:
            tree.task("u").result(1.0)
        assert info.value.report is not None
        assert info.value.report.failed == {"one": "no"}
        with pytest.raises(UnknownTaskError):
            tree.task("v")
    assert books.counts == {}


def test_one_that_goes_on_is_followed_from_its_beginning_to_its_end() -> None:
    old, books = Books(), Books()
    books.store = NotingStore(crashed(shop(old, hangs=True), old, TASK, "work", "t@two:1"))

    with start(shop(books), store=books.store) as tree:
        handle = tree.task("t")
        kinds = [type(event).__name__ for event in handle.events()]
        report = handle.result(60)

        assert tree.submit(TASK).result(60) == report
    assert kinds[0] == "TaskSubmitted"
    assert kinds[-1] == "TaskFinished"
    assert kinds.count("SubtaskStarted") == 3
    assert report.results == {"one": "one", "two": "two"}
    assert books.counts == {("work", "t@two:1", 1): 1}


def test_a_question_of_another_supervisor_is_found_and_answered_by_the_tree_and_by_the_handle() -> None:
    old, books = Books(), Books()
    with start(shop(old), store=old.store) as tree:
        tree.submit(Task("ask", id="a"), path="p/asking")
        old.store.wait_for(task_events.EscalationRaised, "a")
    books.store = NotingStore(old.store.changes_of_all())

    with start(shop(books), store=books.store) as tree:
        (question,) = tree.escalations()
        assert [each.id for each in tree.task("a").escalations] == [question.id]
        tree.task("a").respond(question.id, Approve())
        books.wait_for("work", "a@ask:2")
