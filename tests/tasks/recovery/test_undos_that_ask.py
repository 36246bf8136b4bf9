"""Undos that a person is asked about: each question is asked once, and the answers reach the undo, not the work."""

from __future__ import annotations

from typing import Any

from actors import Escalated
from tests.support.crew import until
from tests.tasks.dispatching import failure, one, shop
from trees import (
    Approve,
    Reject,
    Respond,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Tasks,
    WorkerSpec,
    start,
)
from trees.store import MemoryStore

PATIENT = [Retry(max_attempts=3, initial_s=0.0, max_s=0.0, jitter=0.0)]


def fails(_task: object, _context: object) -> None:
    raise ValueError("no")


def does(_task: object, _context: object) -> str:
    return "done"


class Undo:
    """An undo that asks until it was answered as often as it wants."""

    def __init__(self, wants: int) -> None:
        self.wants = wants
        self.seen: list[tuple[str, list[Any]]] = []

    def __call__(self, _task: object, _result: object, context: Any) -> None:
        self.seen.append((context.feedback, list(context.answers)))
        if len(context.answers) < self.wants:
            raise Escalated(f"which account? ({len(context.answers)})")


def order(undo: Undo) -> SupervisorSpec:
    pay = WorkerSpec(id="pay", execute=does, undo=undo, on_failure=PATIENT)
    ship = WorkerSpec(id="ship", execute=fails, on_failure=[])
    return shop(pay, ship, plans={"go": [one("pay"), one("ship", depends_on=["pay"])]})


def answered(handle: Any, number: int, answer: Any) -> None:
    """Answer the question of this number about the undo of ``pay``, once it is there."""
    id_ = f"{handle.id}:pay:{number}"
    until(lambda: any(each.id == id_ for each in handle.escalations))
    handle.respond(id_, answer)


def test_an_undo_that_asks_is_not_tried_again_before_a_person_has_answered_and_sees_the_answer() -> None:
    undo = Undo(wants=1)
    with start(order(undo)) as tree:
        handle = tree.submit("go")
        until(lambda: handle.escalations)
        before = list(undo.seen)
        answered(handle, 1, Respond("account 5"))
        report = failure(handle)

    assert before == [("", [])]
    assert undo.seen[1:] == [("account 5", [Respond("account 5")])]
    assert report.compensated == ["pay"]


def test_an_undo_sees_all_answers_in_order_also_after_its_tree_was_started_anew() -> None:
    undo, store = Undo(wants=3), MemoryStore()
    with start(order(undo), store=store) as tree:
        handle = tree.submit("go")
        answered(handle, 1, Respond("account 5"))
        answered(handle, 2, Approve())
        until(lambda: handle.escalations)
        id_ = handle.id
    with start(order(undo), store=store) as tree:
        handle = tree.task(id_)
        answered(handle, 3, Respond("account 6"))
        report = failure(handle)

    assert undo.seen[-1] == ("account 6", [Respond("account 5"), Approve(), Respond("account 6")])
    assert report.compensated == ["pay"]


def test_an_undo_that_nobody_wants_stays_undone() -> None:
    undo = Undo(wants=1)
    with start(order(undo)) as tree:
        handle = tree.submit("go")
        answered(handle, 1, Reject("leave it"))
        report = failure(handle)

    assert len(undo.seen) == 1
    assert report.compensated == []


def test_an_undo_that_asks_for_work_is_told_at_once_that_nothing_new_begins() -> None:
    async def undo(_task: object, _result: object, context: Any) -> None:
        await context.ask("pay", "refund it")

    children = [
        WorkerSpec(id="pay", execute=does),
        WorkerSpec(id="book", execute=does, undo=undo),
        WorkerSpec(id="ship", execute=fails, on_failure=[]),
    ]
    plan = StaticPlan([Subtask("book"), Subtask("ship", depends_on=["book"])])
    with start(SupervisorSpec(id="shop", tasks=Tasks(planner=plan), children=children)) as tree:
        handle = tree.submit("order")
        until(lambda: handle.escalations)
        [question] = handle.escalations
        assert "an undo cannot ask for work: nothing new begins of what is undone" in question.error
        assert "undo='its id'" in question.error
        handle.respond(question.id, Reject())
        failure(handle)
