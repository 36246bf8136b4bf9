"""A revision undoes what it makes void: what was sent back and all that was built on it, before that runs again."""

from __future__ import annotations

from typing import Any

import pytest

from actors import Worker
from actors.testing import ScriptedExecutable, settle
from tests.support.attempts import AT_ONCE, no, shop, undoable
from trees import (
    Approve,
    Check,
    Compensated,
    Compensating,
    Edit,
    Failover,
    Reject,
    Reviewed,
    ReworkBegun,
    StaticPlan,
    Subtask,
    SubtaskStarted,
    SupervisorSpec,
    TaskEnding,
    Tasks,
    TaskStatus,
    Verdict,
    WorkerSpec,
)

CHAIN = [
    Subtask("draft", worker="write"),
    Subtask("charge", worker="pay", depends_on=["draft"]),
    Subtask("send", worker="mail", depends_on=["charge"]),
    Subtask("other", worker="write"),
]


def once(*wrong: str, times: int = 1) -> Any:
    """A reviewer that sends these back, so often."""
    left = [times]

    def review(_: Any, __: Any, results: dict[str, Any]) -> Verdict:
        left[0] -= 1
        bad = set(wrong) if left[0] >= 0 else set()
        return Verdict(not bad, [Check(id_, id_ not in bad, "better" if id_ in bad else "") for id_ in results])

    return review


class Ledger:
    """Workers with and without an undo, and what happened in order."""

    def __init__(self) -> None:
        self.book: list[tuple[str, str]] = []
        self.keys: list[str] = []

    def execute(self, task: Any, context: Any) -> str:
        self.book.append(("do", task.id))
        self.keys.append(context.idempotency_key)
        return f"{task.id} {len(self.book)}"

    def undo(self, task: Any, result: Any, context: Any) -> None:
        self.book.append(("undo", task.id))
        self.keys.append(context.idempotency_key)

    def workers(self, *undoable_: str) -> list[WorkerSpec]:
        return [
            WorkerSpec(id=id_, execute=self.execute, undo=self.undo if id_ in undoable_ else None)
            for id_ in ("write", "pay", "mail")
        ]


def test_a_charge_that_runs_twice_was_refunded_in_between() -> None:
    ledger = Ledger()
    with shop(CHAIN[:2], *ledger.workers("pay"), reviewer=once("draft")) as it:
        it.submit()
        report = it.report()

    assert ledger.book == [
        ("do", "draft"),
        ("do", "charge"),
        ("undo", "charge"),
        ("do", "draft"),
        ("do", "charge"),
    ]
    assert len(set(ledger.keys)) == 5
    assert report.status is TaskStatus.SUCCEEDED
    assert report.compensated == []  # it is done, in the end
    assert report.iterations == 2


def test_dependants_are_undone_first_and_all_before_anything_runs_again_and_nothing_else_is() -> None:
    ledger = Ledger()
    with shop(CHAIN, *ledger.workers("write", "pay", "mail"), reviewer=once("draft")) as it:
        it.submit()
        it.report()

    assert ledger.book[4:] == [
        ("undo", "send"),
        ("undo", "charge"),
        ("undo", "draft"),
        ("do", "draft"),
        ("do", "charge"),
        ("do", "send"),
    ]
    assert len(set(ledger.keys)) == len(ledger.keys)


def test_what_has_no_undo_runs_again_without_one() -> None:
    ledger = Ledger()
    with shop(CHAIN, *ledger.workers(), reviewer=once("charge")) as it:
        it.submit()
        it.report()
        assert it.events(Compensating) == []
        assert len(it.events(ReworkBegun)) == 1
    assert ledger.book[4:] == [("do", "charge"), ("do", "send")]


def test_an_undo_of_the_subtask_itself_counts_too() -> None:
    ledger = Ledger()
    plan = [CHAIN[0], Subtask("charge", worker="pay", depends_on=["draft"], undo="mail")]
    with shop(plan, *ledger.workers(), reviewer=once("draft")) as it:
        it.submit()
        it.report()
        assert [event.subtask for event in it.events(Compensated)] == ["charge"]


def test_every_revision_undoes_the_last_act_only() -> None:
    ledger = Ledger()
    with shop(CHAIN[:2], *ledger.workers("pay"), reviewer=once("draft", times=2)) as it:
        it.submit()
        it.report()
    assert [what for what in ledger.book if what[1] == "charge"] == [
        ("do", "charge"),
        ("undo", "charge"),
        ("do", "charge"),
        ("undo", "charge"),
        ("do", "charge"),
    ]
    assert len(set(ledger.keys)) == len(ledger.keys)


def test_what_a_voided_subtask_had_asked_for_is_undone_as_well() -> None:
    ledger = Ledger()

    async def asks(task: Any, context: Any) -> Any:
        return await context.ask("pay", "charge it")

    plan = [CHAIN[0], Subtask("order", worker="asks", depends_on=["draft"])]
    workers = [*ledger.workers("pay"), WorkerSpec(id="asks", execute=asks)]
    with shop(plan, *workers, reviewer=once("draft")) as it:
        it.submit()
        report = it.report()
    assert report.status is TaskStatus.SUCCEEDED
    paid = [what for what, id_ in ledger.book if id_.startswith("order")]
    assert paid == ["do", "undo", "do"]


class Dies(Worker):
    """Crashes with the first attempt that it gets: whether that was done nobody knows."""

    def execute(self, task: Any, context: Any) -> Any:
        raise RuntimeError("dies of it")


def test_what_may_have_been_done_is_undone_too() -> None:
    ledger = Ledger()
    pay = WorkerSpec(id="first", actor=Dies, undo=ledger.undo, backup="pay", on_failure=[Failover()])
    plan = [CHAIN[0], Subtask("charge", worker="first", depends_on=["draft"])]
    with shop(plan, *ledger.workers("pay"), pay, reviewer=once("draft")) as it:
        it.submit()
        assert it.report().status is TaskStatus.SUCCEEDED
        undone = [(event.worker, event.act) for event in it.events(Compensated)]
    assert undone == [("pay", 1), ("first", 1)]


def test_a_team_undoes_what_its_members_did() -> None:
    ledger = Ledger()
    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan([Subtask("x", worker="pay"), Subtask("y", worker="pay", depends_on=["x"])])),
        children=[WorkerSpec(id="pay", execute=ledger.execute, undo=ledger.undo)],
    )
    plan = [CHAIN[0], Subtask("bill", worker="team", depends_on=["draft"])]
    with shop(plan, *ledger.workers()[:1], team, reviewer=once("draft")) as it:
        it.submit()
        assert it.report().status is TaskStatus.SUCCEEDED
    assert ledger.book == [
        ("do", "draft"),
        ("do", "x"),
        ("do", "y"),
        ("undo", "y"),
        ("undo", "x"),
        ("do", "draft"),
        ("do", "x"),
        ("do", "y"),
    ]
    assert len(set(ledger.keys)) == len(ledger.keys)


def test_a_person_who_sends_something_back_has_it_undone_too() -> None:
    ledger = Ledger()
    settings: dict[str, Any] = {"reviewer": once("draft"), "max_iterations": 1, "on_rejected": "escalate"}
    with shop(CHAIN[:2], *ledger.workers("pay"), **settings) as it:
        handle = it.submit()
        assert ("undo", "charge") not in ledger.book
        verdict = [{"subtask": "draft", "passed": False, "feedback": "in French"}]
        handle.respond(handle.escalations[0].id, Edit(verdict))
        settle(it.tree)
        assert it.report().status is TaskStatus.SUCCEEDED
    assert ledger.book[2:] == [("undo", "charge"), ("do", "draft"), ("do", "charge")]


# -- undos that fail ---------------------------------------------------------------------------------------------


def failing_undo(*undos: Any) -> tuple[ScriptedExecutable, WorkerSpec]:
    return undoable("pay", "paid", undos=undos, on_failure=[AT_ONCE])


def test_an_undo_that_fails_is_tried_again_and_then_the_revision_goes_on() -> None:
    script, spec = failing_undo(no, no, None)
    with shop(CHAIN[:2], *Ledger().workers()[:1], spec, reviewer=once("draft")) as it:
        it.submit()
        assert it.report().status is TaskStatus.SUCCEEDED
    assert len(script.undos) == 3
    assert len(script.calls) == 2


@pytest.mark.parametrize("answer", [Approve(), Edit(None)])
def test_a_person_helps_with_an_undo_and_the_revision_goes_on(answer: Any) -> None:
    script, spec = failing_undo(no, no, no, None)
    with shop(CHAIN[:2], *Ledger().workers()[:1], spec, reviewer=once("draft")) as it:
        handle = it.submit()
        [question] = handle.escalations
        assert question.undoing
        assert len(script.calls) == 1
        handle.respond(question.id, answer)
        settle(it.tree)
        assert it.report().status is TaskStatus.SUCCEEDED
    assert len(script.calls) == 2


@pytest.mark.parametrize("how", ["no answer", "reject"])
def test_what_cannot_be_undone_does_not_run_again_and_the_task_fails_and_says_so(how: str) -> None:
    script, spec = failing_undo(*[no] * 99)
    with shop(CHAIN[:2], *Ledger().workers()[:1], spec, reviewer=once("draft")) as it:
        handle = it.submit()
        if how == "reject":
            handle.respond(handle.escalations[0].id, Reject("leave it"))
            settle(it.tree)
        else:
            it.advance(301.0)
        report = it.report()
        [ending] = it.events(TaskEnding)
    assert len(script.calls) == 1
    assert report.status is TaskStatus.FAILED
    assert ending.kind == "undo"
    assert set(report.undo_errors) == {"charge"}
    assert "could not be undone: charge" in str(report.error)


# -- over a crash, a cancel, a deadline --------------------------------------------------------------------------


def test_an_orchestrator_that_dies_while_it_undoes_goes_on_there() -> None:
    ledger = Ledger()
    with shop(CHAIN, *ledger.workers("pay", "mail"), reviewer=once("draft")) as it:
        it.begin()
        it.until(Compensating)
        it.crash_orchestrator()
        report = it.report()
        undone = [(event.subtask, event.act) for event in it.events(Compensated)]
    assert report.status is TaskStatus.SUCCEEDED
    assert sorted(undone) == [("charge", 1), ("send", 1)]
    assert ledger.book[4:] == [
        ("undo", "send"),
        ("undo", "charge"),
        ("do", "draft"),
        ("do", "charge"),
        ("do", "send"),
    ]


def test_a_task_that_is_cancelled_while_it_undoes_for_a_revision_undoes_all_and_nothing_twice() -> None:
    _, spec = failing_undo(no, no, no, None)
    with shop(CHAIN[:2], *Ledger().workers("write")[:1], spec, reviewer=once("draft")) as it:
        handle = it.submit()
        [question] = handle.escalations
        handle.cancel()
        settle(it.tree)
        handle.respond(question.id, Approve())
        settle(it.tree)
        report = it.report()
        undone = [(event.subtask, event.act, event.error) for event in it.events(Compensated)]
    assert report.status is TaskStatus.CANCELLED
    assert undone == [("charge", 1, ""), ("draft", 1, "")]
    assert report.compensated == ["charge", "draft"]


def test_nothing_that_was_sent_back_starts_before_all_is_undone() -> None:
    ledger = Ledger()
    with shop(CHAIN, *ledger.workers("write", "pay", "mail"), reviewer=once("draft", times=2)) as it:
        it.submit()
        it.report()
        kinds = [type(event) for event in it.events(Reviewed, Compensated, ReworkBegun, SubtaskStarted)]
    while Reviewed in kinds:
        del kinds[: kinds.index(Reviewed) + 1]
        if SubtaskStarted in kinds:
            assert kinds[: kinds.index(ReworkBegun)] == [Compensated] * 3
