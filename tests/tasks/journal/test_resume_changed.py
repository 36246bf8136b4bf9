"""A tree that is not the same as in the process before: what its workers had to do never vanishes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors import Failed
from tests.support.crew import until
from tests.tasks.resuming import Books, NotingStore, crashed, people, report_of
from trees import (
    Edit,
    Reject,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    WorkerSpec,
    start,
)

TASK = Task("the goal", id="t")


def worker(books: Books, id_: str, *, hangs: bool = False, **words: Any) -> WorkerSpec:
    async def work(_: Any, context: Any) -> str:
        books.work(context, id_)
        if hangs:
            await asyncio.get_running_loop().create_future()
        return f"done by {id_}"

    return WorkerSpec(id=id_, execute=work, **words)


def root(subtask: Subtask, *children: WorkerSpec, **words: Any) -> SupervisorSpec:
    """A plan of one subtask, of a function: a ``StaticPlan`` that names who is gone is refused by the check."""
    words.setdefault("on_failure", [])
    return SupervisorSpec(id="p", tasks=Tasks(planner=lambda *_: [subtask], **words), children=children)


def in_the_middle(subtask: Subtask, **words: Any) -> NotingStore:
    """The store of a process that ended while the worker ``old`` had an attempt."""
    old = Books()
    spec = root(subtask, worker(old, "old", hangs=True, **words))
    return NotingStore(crashed(spec, old, TASK, "work", "t@s:1", 1))


def test_a_subtask_whose_worker_is_gone_is_done_by_another_one_that_can_with_the_same_key() -> None:
    books = Books()
    books.store = in_the_middle(Subtask("s", capability="it"), capabilities={"it"})
    spec = root(Subtask("s", capability="it"), worker(books, "new", capabilities={"it"}))

    with start(spec, store=books.store) as tree:
        report = report_of(tree, "t")

    assert report.results == {"s": "done by new"}
    assert books.counts == {("work", "t@s:1", 1, "new"): 1}


def test_one_that_only_the_worker_who_is_gone_can_do_waits_until_it_is_there_again() -> None:
    books = Books()
    books.store = in_the_middle(Subtask("s", worker="old"))

    with start(root(Subtask("s", worker="old"), worker(books, "new")), store=books.store) as tree:
        until(lambda: "no old is declared" in tree.task("t").dump())
        assert books.counts == {}
        tree.start_child("p", worker(books, "old"))
        report = report_of(tree, "t")

    assert report.results == {"s": "done by old"}


def test_one_whose_worker_is_no_team_any_more_or_has_become_one_is_done_by_what_it_is_now() -> None:
    books = Books()
    books.store = in_the_middle(Subtask("s", worker="old"))
    inner = Tasks(planner=lambda *_: [Subtask("inner", worker="w")], on_failure=[])
    team = SupervisorSpec(id="old", tasks=inner, children=[worker(books, "w")])
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=lambda *_: [Subtask("s")]), children=[team])

    with start(spec, store=books.store) as tree:
        report = report_of(tree, "t")

    assert report.results == {"s": {"inner": "done by w"}}


def undone(books: Books, *, hangs: bool) -> SupervisorSpec:
    """``pay`` is done by the worker ``old``, who knows how to undo it; then ``bad`` fails."""

    def bad(_: Any, __: Any) -> None:
        raise Failed("no")

    def refund(_: Any, result: Any, context: Any) -> None:
        books.undo(context, result)

    plan = StaticPlan([Subtask("pay", capability="pay"), Subtask("bad", worker="bad", depends_on=["pay"])])
    payer = worker(books, "old" if hangs else "new", capabilities={"pay"}, undo=refund)
    failing = worker(books, "bad", hangs=True) if hangs else WorkerSpec(id="bad", execute=bad)
    return SupervisorSpec(id="p", tasks=Tasks(planner=plan, on_failure=[]), children=[payer, failing])


@pytest.mark.parametrize(
    ("answer", "compensated"), [(Edit(None), ["pay"]), (Reject("leave it"), [])], ids=["done by hand", "left as it is"]
)
def test_what_nobody_here_knows_how_to_undo_is_asked_of_a_person(answer: Any, compensated: list[str]) -> None:
    old, books, asked = Books(), Books(), list[str]()
    books.store = NotingStore(crashed(undone(old, hangs=True), old, TASK, "work", "t@bad:1", 1))

    def say(question: Any) -> Any:
        asked.append(f"{question.question} {question.error}")
        return answer

    with start(undone(books, hangs=False), store=books.store) as tree:
        people(tree, say)
        report = report_of(tree, "t")

    assert len(asked) == 1
    assert "pay could not be undone" in asked[0]
    assert "'old'" in asked[0]
    assert report.compensated == compensated
    assert books.counts == {}
