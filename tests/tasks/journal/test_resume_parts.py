"""A team's part of a task in a new process: it waits for the task above, goes on with it, and ends with it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors import Failed
from actors.tasks.journal.codec import decode
from actors.tasks.journal.fold import fold
from actors.tasks.model import task_events
from actors.tasks.model.store_events import TaskStranded
from actors.testing import ManualClock, settle
from tests.tasks.resuming import Books, Change, NotingStore, crashed, records, report_of
from trees import (
    Approve,
    Escalate,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    TaskStatus,
    WorkerSpec,
    start,
)

TASK = Task("the goal", id="t")
PART = "t@part:1.1"


def team(books: Books, id_: str = "team", *, hangs: bool = False, **words: Any) -> SupervisorSpec:
    """A team that pays, and then sends; in sending it may hang."""

    def pay(_: Any, context: Any) -> str:
        books.work(context)
        return f"paid by {id_}"

    async def send(_: Any, context: Any) -> str:
        books.work(context)
        if hangs:
            await asyncio.get_running_loop().create_future()
        return f"sent by {id_}"

    def refund(_: Any, result: Any, context: Any) -> None:
        books.undo(context, result)

    plan = StaticPlan([Subtask("pay", worker="pay"), Subtask("send", worker="send", depends_on=["pay"])])
    children = [WorkerSpec(id="pay", execute=pay, undo=refund), WorkerSpec(id="send", execute=send)]
    words = {"capabilities": {"sell"}, "tasks": Tasks(planner=plan, on_failure=[]), **words}
    return SupervisorSpec(id=id_, children=children, **words)


def root(*children: Any, **words: Any) -> SupervisorSpec:
    words.setdefault("planner", StaticPlan([Subtask("part", "sell it", capability="sell")]))
    words.setdefault("on_failure", [])
    return SupervisorSpec(id="p", tasks=Tasks(**words), children=children)


def half_done(**options: Any) -> list[Change]:
    """The changes of a process that ended while the team was sending what was paid."""
    books = Books()
    return crashed(root(team(books, hangs=True)), books, TASK, "work", f"{PART}/send/1", **options)


def test_the_same_attempt_is_given_once_more_and_what_the_team_has_of_it_is_kept() -> None:
    books = Books()
    books.store = NotingStore(half_done())

    with start(root(team(books)), store=books.store) as tree:
        report = report_of(tree, "t")

    assert report.results == {"part": {"pay": "paid by team", "send": "sent by team"}}
    assert books.counts == {("work", f"{PART}/send/1", 1): 1}
    assert len(records(books.store, "t", task_events.SubtaskStarted)) == 1
    assert [record.subtask for record in records(books.store, PART, task_events.SubtaskStarted)] == [
        "pay",
        "send",
        "send",
    ]


def ended_above(store: NotingStore) -> None:
    """As an orchestrator would have left it that went on without a team that was down."""
    for record in (
        task_events.TaskEnding("p", "t", 1.0, TaskStatus.CANCELLED, "cancel", "somebody cancelled it"),
        task_events.SubtaskCancelled("p", "t", 1.0, "part", "cancel", unknown=False),
        task_events.TaskFinished("p", "t", 1.0, TaskStatus.CANCELLED),
    ):
        store.append("t", record)


@pytest.mark.parametrize("is_listed", [False, True], ids=["finished", "just ended"])
def test_a_part_whose_task_has_ended_meanwhile_ends_too_and_never_runs_on(*, is_listed: bool) -> None:
    books = Books()
    books.store = NotingStore(half_done())
    ended_above(books.store)
    if not is_listed:
        books.store.finish("t")

    with start(root(team(books)), store=books.store) as tree:
        changes = books.store.changes_when(task_events.TaskFinished, PART)  # with its task the store forgets it
        settle(tree)

    part = fold(PART, [decode(*each.record) for each in changes if each.stream == PART and each.record is not None])
    assert (part.final, part.compensated) == (TaskStatus.CANCELLED, ["pay"])
    assert books.counts == {("undo", f"{PART}/pay/1/undo", 1, "paid by team"): 1}
    assert books.store.owners() == {}


def test_a_part_ends_whose_task_went_on_with_another_team() -> None:
    books = Books()
    books.store = NotingStore(half_done())
    books.store.append("t", task_events.SubtaskQueued("p", "t", 1.0, "part", "team was stopped"))
    books.store.append("t", task_events.SubtaskStarted("p", "t", 1.0, "part", "other", 1, 1))

    with start(root(team(books), team(books, "other")), store=books.store) as tree:
        report, part = report_of(tree, "t"), report_of(tree, PART)

    assert report.results == {"part": {"pay": "paid by other", "send": "sent by other"}}
    assert (part.status, part.compensated) == ("cancelled", ["pay"])
    assert f"{PART}/send/1" not in {entry[1] for entry in books.counts}


def test_where_the_team_is_gone_another_one_does_all_of_it_and_nothing_is_mistaken_for_its_own() -> None:
    books, heard = Books(), list[Any]()
    books.store = NotingStore(half_done())

    with start(root(team(books, "other")), store=books.store) as tree:
        report = report_of(tree, "t")
        tree.subscribe(heard.append)
        listed = {handle.id: handle.status for handle in tree.tasks()}
        left = tree.task(PART)

        assert report.results == {"part": {"pay": "paid by other", "send": "sent by other"}}
        assert listed == {"t": "succeeded", "t@part:1.1.2": "succeeded", PART: "running"}
        assert "send" in left.dump()
        assert left.report is None


def test_that_nobody_goes_on_with_a_task_is_an_error_event_and_harms_no_other() -> None:
    books, heard = Books(), list[Any]()
    books.store = NotingStore(half_done())
    spec = SupervisorSpec(id="q", tasks=Tasks(planner=StaticPlan([Subtask("w", worker="w")])), children=[works(books)])

    with start(spec, store=books.store) as tree:
        tree.subscribe(heard.append)
        tree._system.services["tasks"].is_up()
        settle(tree)
        stranded = [event for event in heard if isinstance(event, TaskStranded)]
        assert [(event.path, event.task, event.level) for event in stranded] == [
            ("p", "t", "ERROR"),
            ("p/team", PART, "ERROR"),
        ]
        assert {handle.id: handle.status for handle in tree.tasks()} == {"t": "running", PART: "running"}
        assert tree.run("something else", timeout=60).results == {"w": "done"}
        assert tree.task("t").report is None
    assert books.store.owners() == {"t": "p", PART: "p/team"}


def works(books: Books) -> WorkerSpec:
    def work(_: Any, context: Any) -> str:
        books.work(context)
        return "done"

    return WorkerSpec(id="w", execute=work)


def test_a_part_waits_as_long_as_nobody_goes_on_with_its_task() -> None:
    books = Books()
    books.store = NotingStore(half_done())
    without = SupervisorSpec(id="p", children=[team(books)])

    with start(without, store=books.store) as tree:
        settle(tree)
        assert tree.task(PART).status == "running"
    assert books.counts == {}

    books.store = NotingStore(books.store.changes_of_all())
    with start(root(team(books)), store=books.store) as tree:
        assert report_of(tree, "t").status == "succeeded"


def test_that_a_team_was_out_of_time_is_known_also_where_only_the_team_had_recorded_it() -> None:
    clock, books = ManualClock(), Books()
    spec = root(team(books, timeout_s=10.0), on_failure=[Retry(max_attempts=2, initial_s=0.0, max_s=0.0)])
    books.store = NotingStore(half_done(clock=clock))
    books.store.append(PART, task_events.TaskEnding("p/team", PART, 1011.0, TaskStatus.CANCELLED, "cancel", "timeout"))

    with start(spec, clock=clock, store=books.store) as tree:
        report = report_of(tree, "t")

    (retried,) = records(books.store, "t", task_events.SubtaskRetrying)
    assert retried.kind == "timeout"
    assert report.results == {"part": {"pay": "paid by team", "send": "sent by team"}}
    assert [entry[1] for entry in books.counts] == [f"{PART}/pay/1/undo", f"{PART}/pay/2", f"{PART}/send/1"]


def test_the_time_that_a_team_may_take_does_not_pass_while_its_process_is_down() -> None:
    clock, old, books = ManualClock(), Books(), Books()
    begun = ("work", f"{PART}/send/1")
    spec = root(team(old, hangs=True, timeout_s=10.0))
    books.store = NotingStore(crashed(spec, old, TASK, *begun, clock=clock))
    clock.advance(100.0)

    with start(root(team(books, hangs=True, timeout_s=10.0)), clock=clock, store=books.store) as tree:
        books.wait_for(*begun)
        clock.advance(9.0)
        assert tree.task("t").status == "running"
        clock.advance(2.0)
        report = report_of(tree, "t")

    assert report.failed["part"].startswith("AttemptTimeoutError")


def test_a_team_that_gave_way_goes_on_where_it_stopped() -> None:
    books = Books()
    books.store = NotingStore(half_done())
    books.store.append(PART, task_events.TaskPaused("p/team", PART, 1.0))
    books.store.append(PART, task_events.SubtaskPreempted("p/team", PART, 1.0, "send", "send"))
    books.store.append("t", task_events.SubtaskPreempted("p", "t", 1.0, "part", "team"))

    with start(root(team(books)), store=books.store) as tree:
        report = report_of(tree, "t")

    assert report.results == {"part": {"pay": "paid by team", "send": "sent by team"}}
    assert books.counts == {("work", f"{PART}/send/1", 1): 1}
    assert len(records(books.store, PART, task_events.TaskResumed)) == 1


def test_a_team_that_comes_back_finds_that_its_part_was_given_to_another_one() -> None:
    books = Books()
    twins = [team(books, "team", hangs=True), team(books, "other")]

    with start(root(*twins), store=books.store) as tree:
        tree.submit(TASK)
        books.store.changes_when(task_events.SubtaskStarted, PART, "send")
        tree.terminate_child("p/team")
        report = report_of(tree, "t")
        tree.restart_child("p/team")
        part = report_of(tree, PART)
        settle(tree)

        assert report.results == {"part": {"pay": "paid by other", "send": "sent by other"}}
        assert (part.status, part.compensated) == ("cancelled", ["pay"])
        assert [handle.id for handle in tree.tasks("running")] == []
    assert books.counts["undo", f"{PART}/pay/1/undo", 1, "paid by team"] == 1


def test_an_answer_to_a_question_of_a_part_that_waits_is_kept_until_it_goes_on() -> None:
    def asking(books: Books) -> SupervisorSpec:
        def fails(_: Any, context: Any) -> str:
            books.work(context)
            if context.attempt == 1:
                raise Failed("not by itself")
            return "with help"

        plan = StaticPlan([Subtask("ask", worker="ask")])
        return SupervisorSpec(
            id="team",
            capabilities={"sell"},
            tasks=Tasks(planner=plan, on_failure=[Escalate()]),
            children=[WorkerSpec(id="ask", execute=fails)],
        )

    books = Books()
    with start(root(asking(books)), store=books.store) as tree:
        tree.submit(TASK)
        books.store.changes_when(task_events.EscalationRaised, PART)
    books.store = NotingStore(books.store.changes_of_all())
    with start(SupervisorSpec(id="p", children=[asking(books)]), store=books.store) as tree:
        assert tree._system.services["tasks"].resumed().wait(60)
        (question,) = tree.escalations()
        tree.respond(question.id, Approve())
        books.store.changes_when(task_events.EscalationAnswered, PART)
        settle(tree)
        assert tree.escalations() == []
    assert books.counts == {("work", f"{PART}/ask/1", 1): 1}
    books.store = NotingStore(books.store.changes_of_all())

    with start(root(asking(books)), store=books.store) as tree:
        assert report_of(tree, "t").results == {"part": {"ask": "with help"}}


def test_a_part_whose_id_would_be_too_long_is_a_failed_attempt_and_costs_no_supervisor() -> None:
    books = Books()

    with start(root(team(books)), store=books.store) as tree:
        tree.submit(Task("the goal", id="x" * 195))
        report = report_of(tree, "x" * 195)

        assert "Task.id" in report.failed["part"]
        assert tree.child("p/team").incarnation == 1
