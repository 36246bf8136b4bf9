"""What was done is undone when a task cannot succeed: which acts, in which order, how often, and what if that fails."""

from collections.abc import Iterator
from typing import Any

import pytest

from actors.testing import AsyncScriptedExecutable, Crash, Hang
from tests.support.attempts import LINE, SLOWLY, bad, no, run, shop, undoable
from trees import (
    Compensated,
    Failover,
    Retry,
    Subtask,
    SubtaskFailed,
    SubtaskRetrying,
    TaskEnding,
    WorkerSpec,
)

UNDONE: list[tuple[str, Any]] = []
"""What the undos that are found by name have undone."""
ONCE = [Retry(max_attempts=1)]


def by_name(task: Subtask, result: Any, context: Any) -> None:
    """Found as ``"tests.tasks.recovery.test_compensation:by_name"``."""
    UNDONE.append((task.id, result))


@pytest.fixture(autouse=True)
def _nothing_undone() -> Iterator[None]:
    UNDONE.clear()
    yield
    UNDONE.clear()


# -- what is undone ----------------------------------------------------------------------------------------------


def test_what_was_done_is_undone_once_the_newest_first() -> None:
    pay, pays = undoable("pay", {"paid": 20})
    pack, packs = undoable("pack", "parcel")
    with shop(LINE, pays, packs, bad()) as it:
        it.submit()
        report = it.report()
        order = [event.subtask for event in it.events(Compensated)]

    assert (order, report.compensated) == (["pack", "pay"], ["pack", "pay"])
    assert [call.result for call in pay.undos] == [{"paid": 20}]
    assert [call.result for call in pack.undos] == ["parcel"]
    assert (report.status, report.undo_errors) == ("failed", {})
    assert report.failed == {"send": "ValueError: no"}


def test_nothing_is_undone_where_all_went_well() -> None:
    pay, pays = undoable("pay", "paid")
    report = run(LINE[:1], pays)

    assert (pay.undos, report.compensated) == ([], [])


def test_nothing_is_undone_while_the_ladder_goes_on_or_an_independent_branch_still_runs() -> None:
    held = Hang()
    slow = AsyncScriptedExecutable(held)
    pay, pays = undoable("pay", "paid")
    plan = [*LINE, Subtask("slow", worker="slow")]
    _pack, packs = undoable("pack", "parcel")
    with shop(plan, pays, packs, bad(), WorkerSpec(id="slow", execute=slow.execute), on_failure=[SLOWLY]) as it:
        it.begin()
        held.wait_until_entered()
        for number in (1, 2):
            it.until(SubtaskRetrying, number)
            it.clock.advance(20.0)
        it.until(SubtaskFailed)
        failed, early = it.status("send"), len(pay.undos)
        held.release()
        report = it.report()

    assert (failed, early) == ("failed", 0)
    assert report.compensated == ["pack", "pay"]
    assert report.results["slow"] == "sell"


def test_after_a_clean_failure_there_is_nothing_to_undo() -> None:
    script, a = undoable("bad", no)
    report = run([Subtask("x", worker="bad")], a)

    assert (script.undos, report.compensated) == ([], [])


@pytest.mark.parametrize("step", [Crash(), object()], ids=["crash", "no json"])
def test_what_may_have_been_done_is_undone_without_a_result(step: object) -> None:
    script, a = undoable("bad", step)
    with shop([Subtask("x", worker="bad")], a, on_failure=ONCE) as it:
        it.submit()
        it.advance(1.0)
        report = it.report()

    assert [call.result for call in script.undos] == [None]
    assert report.compensated == ["x"]
    assert list(report.failed) == ["x"]


def test_after_failing_over_each_worker_undoes_its_own_act() -> None:
    first, a = undoable("a", Crash(), backup="b")
    second, b = undoable("b", "paid")
    plan = [Subtask("pay", worker="a"), Subtask("send", worker="bad", depends_on=["pay"])]
    with shop(plan, a, b, bad(), on_failure=[*ONCE, Failover()]) as it:
        it.submit()
        it.advance(1.0)
        report = it.report()

    assert [call.result for call in second.undos] == ["paid"]
    assert [call.result for call in first.undos] == [None]
    assert report.compensated == ["pay"]


# -- why it ends -------------------------------------------------------------------------------------------------


def test_a_cancelled_task_undoes_what_was_done_and_what_was_cut_in_half() -> None:
    pay, pays = undoable("pay", "paid")
    half = AsyncScriptedExecutable(Hang())
    spec = WorkerSpec(id="pack", execute=half.execute, undo=half.undo)
    with shop(LINE, pays, spec, bad()) as it:
        it.begin()
        half.wait_for_calls(1)
        it.handle.cancel()
        report = it.report()

    assert report.status == "cancelled"
    assert [call.result for call in half.undos] == [None]
    assert [call.result for call in pay.undos] == ["paid"]
    assert report.compensated == ["pack", "pay"]
    assert set(report.skipped) == {"pack", "send"}


def test_a_task_whose_time_is_up_undoes_too() -> None:
    pay, pays = undoable("pay", "paid")
    half = AsyncScriptedExecutable(Hang())
    with shop(LINE, pays, WorkerSpec(id="pack", execute=half.execute), bad()) as it:
        it.begin(deadline_s=30)
        half.wait_for_calls(1)
        it.clock.advance(30.0)
        report = it.report()
        [ending] = it.events(TaskEnding)

    assert (report.status, ending.kind, report.compensated) == ("failed", "deadline", ["pay"])
    assert [call.result for call in pay.undos] == ["paid"]


def test_nothing_cancels_an_undo_and_the_task_stays_failed() -> None:
    held = Hang()
    pay = AsyncScriptedExecutable("paid", undo=[held])
    spec = WorkerSpec(id="pay", execute=pay.execute, undo=pay.undo)
    plan = [LINE[0], Subtask("send", worker="bad", depends_on=["pay"])]
    with shop(plan, spec, bad()) as it:
        it.begin(deadline_s=60)
        held.wait_until_entered()
        it.handle.cancel()
        it.pass_(100.0)
        running = it.handle.status
        held.release()
        report = it.report()

    assert (str(running), report.status) == ("running", "failed")
    assert [call.ended for call in pay.undos] == ["returned"]
    assert report.compensated == ["pay"]


def test_what_was_asked_for_on_the_way_is_undone_too() -> None:
    helper, helps = undoable("helper", "helped")

    def execute(task: Subtask, context: Any) -> Any:
        return context.ask_sync("helper", "help me")

    plan = [Subtask("x", worker="a"), Subtask("send", worker="bad", depends_on=["x"])]
    report = run(plan, WorkerSpec(id="a", execute=execute), helps, bad())

    assert [call.result for call in helper.undos] == ["helped"]
    assert report.compensated == ["x/@1"]


def test_an_undo_whose_worker_is_restarted_meanwhile_is_called_again_and_recorded_once() -> None:
    held = Hang()
    refund = AsyncScriptedExecutable(held, "refunded", by="call")
    pays = undoable("pay", "paid", undo="refund")[1]
    plan = [LINE[0], Subtask("send", worker="bad", depends_on=["pay"])]
    with shop(plan, pays, WorkerSpec(id="refund", execute=refund.execute), bad()) as it:
        it.begin()
        held.wait_until_entered()
        it.tree.terminate_child("shop/refund")
        it.tree.restart_child("shop/refund")
        it.pass_()
        it.advance(1.0)
        report = it.report()
        undone = it.events(Compensated)

    assert (len(refund.calls), len(undone)) == (2, 1)
    assert len({call.idempotency_key for call in refund.calls}) == 1
    assert report.compensated == ["pay"]


# -- who undoes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["subtask", "worker"])
def test_an_undo_may_be_another_worker(where: str) -> None:
    refund, refunds = undoable("refund", undo=None)
    plan = [LINE[0].model_copy(update={"undo": "refund"}) if where == "subtask" else LINE[0], *LINE[1:]]
    pays = undoable("pay", "paid", undo="refund" if where == "worker" else None)[1]
    report = run(plan, pays, refunds, undoable("pack", undo=None)[1], bad())

    assert [call.results for call in refund.calls] == [{"pay": "paid"}]
    assert report.compensated == ["pay"]


def test_the_undo_of_a_subtask_goes_before_that_of_its_worker() -> None:
    pay, pays = undoable("pay", "paid")
    plan = [LINE[0].model_copy(update={"undo": "tests.tasks.recovery.test_compensation:by_name"}), *LINE[1:]]
    run(plan, pays, undoable("pack")[1], bad())

    assert (UNDONE, pay.undos) == ([("pay", "paid")], [])


def test_an_undo_has_a_key_that_stays_the_same_however_often_it_is_tried() -> None:
    pay, pays = undoable("pay", "paid", undos=[no, None])
    run(LINE, pays, undoable("pack")[1], bad())
    keys = {call.idempotency_key for call in pay.undos}

    assert [call.attempt for call in pay.undos] == [1, 2]
    assert len(keys) == 1
    assert keys.isdisjoint({call.idempotency_key for call in pay.calls})
