"""What an attempt had asked others for is not done again when it runs once more in a new process."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from tests.support.crew import LONG_S
from tests.tasks.resuming import Books, NotingStore, crashed, report_of
from trees import (
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    WorkerSpec,
    start,
)

# -- other words -----------------------------------------------------------------------------------------------


def hosts(books: Books, words: str, *others: WorkerSpec | SupervisorSpec) -> SupervisorSpec:
    """A root whose one subtask asks somebody for something, in these words."""

    async def asks(_: Any, context: Any) -> Any:
        books.work(context)
        return await context.ask("lookup", words)

    plan = StaticPlan([Subtask("asks", worker="asks")])
    children = [WorkerSpec(id="asks", execute=asks), *others]
    return SupervisorSpec(id="p", tasks=Tasks(planner=plan, on_failure=[]), children=children)


def looker(books: Books, *, hangs: bool) -> WorkerSpec:
    async def look(task: Any, context: Any) -> str:
        books.work(context, str(task))
        if hangs:
            await asyncio.get_running_loop().create_future()
        return f"found: {task}"

    return WorkerSpec(id="looker", execute=look, capabilities={"lookup"}, pool=2)


def test_what_is_asked_for_in_other_words_is_new_and_the_other_one_is_not_begun_again() -> None:
    old, new = Books(), Books()
    begun = ("work", "t@asks/@1:1")
    changes = crashed(hosts(old, "one thing", looker(old, hangs=True)), old, Task("the goal", id="t"), *begun)
    new.store = NotingStore(changes)

    with start(hosts(new, "another thing", looker(new, hangs=False)), store=new.store) as tree:
        report = report_of(tree, "t")

    assert report.results == {"asks": "found: another thing"}
    assert new.counts == {("work", "t@asks:1", 1): 1, ("work", "t@asks/@2:1", 1, "another thing"): 1}
    assert report.skipped == {"asks/@1": "nobody waits for it"}


class Gate:
    """A place that code comes to, and goes on from when it may."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def pass_through(self) -> None:
        self.reached.set()
        assert self.opened.wait(LONG_S)


def looking_team(books: Books, *, hangs: bool, undoing: Gate | None = None) -> SupervisorSpec:
    plan = StaticPlan([Subtask("pay", worker="pay"), Subtask("look", worker="looker", depends_on=["pay"])])

    def pay(_: Any, context: Any) -> str:
        books.work(context)
        return "paid"

    def refund(_: Any, result: Any, context: Any) -> None:
        books.undo(context, result)
        if undoing is not None:
            undoing.pass_through()

    children = [WorkerSpec(id="pay", execute=pay, undo=refund), looker(books, hangs=hangs)]
    return SupervisorSpec(
        id="team", capabilities={"lookup"}, tasks=Tasks(planner=plan, on_failure=[]), children=children
    )


def test_a_team_that_nobody_asks_any_more_ends_and_undoes_what_it_did() -> None:
    old, new = Books(), Books()
    begun = ("work", "t@asks/@1/look:1")
    changes = crashed(hosts(old, "one thing", looking_team(old, hangs=True)), old, Task("the goal", id="t"), *begun)
    new.store = NotingStore(changes)

    with start(hosts(new, "another thing", looking_team(new, hangs=False)), store=new.store) as tree:
        report = report_of(tree, "t")

    assert report.results == {"asks": {"pay": "paid", "look": "found: another thing"}}
    assert report.compensated == ["asks/@1"]
    assert [entry for entry in new.counts if "asks/@1" in entry[1]] == [("undo", "t@asks/@1/pay/@undo:1", 1, "paid")]


def test_a_team_that_is_asked_once_more_goes_on_with_what_it_had() -> None:
    old, new = Books(), Books()
    begun = ("work", "t@asks/@1/look:1")
    changes = crashed(hosts(old, "one thing", looking_team(old, hangs=True)), old, Task("the goal", id="t"), *begun)
    new.store = NotingStore(changes)

    with start(hosts(new, "one thing", looking_team(new, hangs=False)), store=new.store) as tree:
        report = report_of(tree, "t")

    assert report.results == {"asks": {"pay": "paid", "look": "found: one thing"}}
    assert new.counts == {("work", "t@asks:1", 1): 1, ("work", "t@asks/@1/look:1", 1, "one thing"): 1}
