"""What an attempt had asked others for is not done again when it runs once more in a new process."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from actors import Event, Failed
from tests.support.crew import LONG_S
from tests.tasks.resuming import Books, NotingStore, Scenario, crashed, records, report_of, same_from_every_change
from trees import (
    Retry,
    StaticPlan,
    Subtask,
    SubtaskCancelled,
    SubtaskFailed,
    SubtaskFailedError,
    SubtaskStarted,
    SupervisorSpec,
    Task,
    TaskFinished,
    Tasks,
    WorkerSpec,
    start,
)

SOON = Retry(max_attempts=2, initial_s=0.001, factor=1.0, max_s=0.001, jitter=0.0)


class Asking(Scenario):
    """One asks for the same twice, one asks a team and has an ask fail, one in a team asks above."""

    def spec(self, books: Books) -> SupervisorSpec:
        async def asks(task: Any, context: Any) -> list[str]:
            books.work(context)
            same = [await context.ask("lookup", "look it up"), await context.ask("lookup", "look it up")]
            return [*same, await context.ask("lookup", "look that up", {"n": 2})]

        def asks_sync(task: Any, context: Any) -> list[str]:
            books.work(context)
            found = [context.ask_sync("team", "a part for the team")]
            try:
                context.ask_sync("broken", "what cannot be done")
            except SubtaskFailedError as error:
                found.append(str(error).partition(":")[2])
            return found

        async def above(task: Any, context: Any) -> str:
            books.work(context)
            both = await asyncio.gather(context.ask("lookup", "up there"), context.ask("lookup", "up there, too"))
            return f"{task}: {' and '.join(both)}"

        async def look(task: Any, context: Any) -> str:
            books.work(context)
            await asyncio.sleep(0)
            return f"found by {task} {context.inputs.get('n', '')}"

        def broken(_: Any, context: Any) -> None:
            books.work(context)
            raise Failed("never", retryable=False)

        team = SupervisorSpec(
            id="team",
            tasks=Tasks(
                planner=StaticPlan([Subtask("up", "ask above", worker="above"), Subtask("down", worker="inner")]),
                on_failure=[],
            ),
            children=[WorkerSpec(id="above", execute=above), WorkerSpec(id="inner", execute=look)],
        )
        plan = [
            Subtask("asks", worker="asks"),
            Subtask("sync", worker="asks_sync", depends_on=["asks"]),
            Subtask("team", "the part of the team", worker="team", depends_on=["sync"]),
        ]
        return SupervisorSpec(
            id="p",
            tasks=Tasks(planner=StaticPlan(plan), on_failure=[SOON]),
            children=[
                WorkerSpec(id="asks", execute=asks),
                WorkerSpec(id="asks_sync", execute=asks_sync),
                WorkerSpec(id="looker", execute=look, capabilities={"lookup"}),
                WorkerSpec(id="broken", execute=broken),
                team,
            ],
        )


def test_what_was_asked_for_is_answered_from_the_journal_or_goes_on_from_every_change() -> None:
    assert same_from_every_change(Asking()) > 60


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
    begun = ("work", "t/asks.1/1")
    changes = crashed(hosts(old, "one thing", looker(old, hangs=True)), old, Task("the goal", id="t"), *begun)
    new.store = NotingStore(changes)

    with start(hosts(new, "another thing", looker(new, hangs=False)), store=new.store) as tree:
        report = report_of(tree, "t")

    assert report.results == {"asks": "found: another thing"}
    assert new.counts == {("work", "t/asks/1", 1): 1, ("work", "t/asks.2/1", 1, "another thing"): 1}
    assert report.skipped == {"asks.1": "nobody waits for it"}


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
    begun = ("work", "t@asks.1:1.1/look/1")
    changes = crashed(hosts(old, "one thing", looking_team(old, hangs=True)), old, Task("the goal", id="t"), *begun)
    new.store = NotingStore(changes)

    with start(hosts(new, "another thing", looking_team(new, hangs=False)), store=new.store) as tree:
        report = report_of(tree, "t")
        part = report_of(tree, "t@asks.1:1.1")

    assert report.results == {"asks": {"pay": "paid", "look": "found: another thing"}}
    assert (part.status, part.compensated) == ("cancelled", ["pay"])
    assert [entry for entry in new.counts if "asks.1" in entry[1]] == [("undo", "t@asks.1:1.1/pay/1/undo", 1, "paid")]


def test_a_team_that_is_asked_once_more_goes_on_with_what_it_had() -> None:
    old, new = Books(), Books()
    begun = ("work", "t@asks.1:1.1/look/1")
    changes = crashed(hosts(old, "one thing", looking_team(old, hangs=True)), old, Task("the goal", id="t"), *begun)
    new.store = NotingStore(changes)

    with start(hosts(new, "one thing", looking_team(new, hangs=False)), store=new.store) as tree:
        report = report_of(tree, "t")

    assert report.results == {"asks": {"pay": "paid", "look": "found: one thing"}}
    assert new.counts == {("work", "t/asks/1", 1): 1, ("work", "t@asks.1:1.1/look/1", 1, "one thing"): 1}


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_a_team_that_was_asked_goes_on_with_what_it_had_also_after_a_clean_stop(
    *, is_async: bool, tmp_path: Path
) -> None:
    """Whoever asks is stopped like everybody else: that is no word that nobody waits for it any more."""
    old, new = Books(), Books()

    async def asks(_: Any, context: Any) -> Any:
        return await context.ask("lookup", "one thing")

    def asks_sync(_: Any, context: Any) -> Any:
        return context.ask_sync("lookup", "one thing")

    def spec(books: Books, *, hangs: bool) -> SupervisorSpec:
        asker = WorkerSpec(id="asks", execute=asks if is_async else asks_sync)
        tasks = Tasks(planner=StaticPlan([Subtask("asks", worker="asks")]), on_failure=[])
        return SupervisorSpec(id="p", tasks=tasks, children=[asker, looking_team(books, hangs=hangs)])

    with start(spec(old, hangs=True), store=f"sqlite:///{tmp_path}/s.db") as tree:
        tree.submit(Task("the goal", id="t"))
        old.wait_for("work", "t@asks.1:1.1/look/1")
    with start(spec(new, hangs=False), store=f"sqlite:///{tmp_path}/s.db") as tree:
        report = report_of(tree, "t")

    assert report.results == {"asks": {"pay": "paid", "look": "found: one thing"}}
    assert new.counts == {("work", "t@asks.1:1.1/look/1", 1, "one thing"): 1}


class Dropping:
    """One asks a team; the next process takes that back before the team is given it, and the one after asks again."""

    PART = "t@asks.1:1.1"

    def __init__(self, process: int, *, waits_for_end: bool = False) -> None:
        self.process, self.waits_for_end = process, waits_for_end
        self.books, self.undoing, self.busy, self.heard = Books(), Gate(), threading.Event(), threading.Event()
        if process < 3 or waits_for_end:
            self.undoing.opened.set()

    def hear(self, event: Event) -> None:
        if isinstance(event, SubtaskStarted) and event.subtask == "asks.1":
            self.undoing.opened.set()  # it has been given to the team, which is ending

    async def asks(self, _: Any, context: Any) -> Any:
        if self.process == 3 and self.waits_for_end:
            await asyncio.to_thread(self.books.store.changes_when, TaskFinished, self.PART)
        elif self.process == 3:
            await asyncio.to_thread(self.undoing.reached.wait, LONG_S)
            await asyncio.to_thread(self.heard.wait, LONG_S)
        ask = asyncio.ensure_future(context.ask("lookup", "one thing"))
        if self.process == 2:
            await asyncio.to_thread(self.busy.wait, LONG_S)  # it has the only slot
            ask.cancel()
            await asyncio.Event().wait()
        return await ask

    async def works(self, *_: Any) -> None:
        self.busy.set()
        if self.process < 3:
            await asyncio.Event().wait()

    def spec(self) -> SupervisorSpec:
        plan = StaticPlan([Subtask("asks", worker="asks"), Subtask("busy", worker="busy")])
        children = [WorkerSpec(id="asks", execute=self.asks), WorkerSpec(id="busy", execute=self.works)]
        team = looking_team(self.books, hangs=self.process == 1, undoing=self.undoing)
        tasks = Tasks(planner=plan, on_failure=[], max_parallel=1 if self.process == 2 else 9)
        return SupervisorSpec(id="p", tasks=tasks, children=[*children, team])


@pytest.mark.parametrize("waits_for_end", [False, True], ids=["while it ends", "when it has ended"])
def test_a_team_that_nobody_asked_any_more_begins_again_for_who_asks_once_more(*, waits_for_end: bool) -> None:
    """What it had begun ends, because nobody waited for it. That is no answer for the one who asks now."""
    first, second, third = Dropping(1), Dropping(2), Dropping(3, waits_for_end=waits_for_end)
    changes = crashed(first.spec(), first.books, Task("the goal", id="t"), "work", f"{first.PART}/look/1")
    second.books.store = NotingStore(changes)
    with start(second.spec(), store=second.books.store):
        dropped = second.books.store.changes_when(SubtaskCancelled, "t", "asks.1")
    third.books.store = NotingStore(dropped)

    with start(third.spec(), store=third.books.store) as tree:
        tree.subscribe(third.hear)
        third.heard.set()
        report = report_of(tree, "t")

    assert report.results["asks"] == {"pay": "paid", "look": "found: one thing"}
    assert third.books.counts["undo", f"{third.PART}/pay/1/undo", 1, "paid"] == 1
    assert not records(third.books.store, "t", SubtaskFailed)
