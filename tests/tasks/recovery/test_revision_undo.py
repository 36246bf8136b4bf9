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
    SentBack,
    StaticPlan,
    Subtask,
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
        assert len(it.events(SentBack)) == 1
    assert ledger.book[4:] == [("do", "charge"), ("do", "send")]


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


# -- undos that fail ---------------------------------------------------------------------------------------------


def failing_undo(*undos: Any) -> tuple[ScriptedExecutable, WorkerSpec]:
    return undoable("pay", "paid", undos=undos, on_failure=[AT_ONCE])


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
