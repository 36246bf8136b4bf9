"""An undo that fails, hangs or loses its worker, and an orchestrator that dies in the middle of one."""

from typing import Any

import pytest

from actors import Failed
from actors.testing import AsyncScriptedExecutable, Crash, Hang, settle
from tests.support.attempts import LINE, SLOWLY, Shop, bad, no, shop, undoable
from trees import (
    Approve,
    Compensated,
    Compensating,
    Edit,
    Escalate,
    Reject,
    Retry,
    Subtask,
    TaskFinished,
    WorkerSpec,
)

ENDS = pytest.mark.parametrize("end", [Shop.replace_orchestrator, Shop.crash_orchestrator], ids=["replaced", "crashed"])
ONCE = [Retry(max_attempts=1)]


# -- an undo that fails ------------------------------------------------------------------------------------------


def test_an_undo_is_tried_again_by_the_ladder_of_its_worker() -> None:
    pay, pays = undoable("pay", "paid", undos=[no, no, None], on_failure=[SLOWLY])
    with shop(LINE, pays, undoable("pack")[1], bad()) as it:
        it.submit()
        it.advance(10.0)
        second = len(pay.undos)
        it.advance(20.0)
        report = it.report()

    assert (second, len(pay.undos)) == (2, 3)
    assert (report.compensated, report.undo_errors) == (["pack", "pay"], {})


def test_an_undo_that_cannot_be_done_asks_a_person_and_is_in_the_report_when_nobody_answers() -> None:
    pay, pays = undoable("pay", "paid", undos=[no])
    _pack, packs = undoable("pack")
    with shop(LINE, pays, packs, bad()) as it:
        handle = it.submit()
        [question] = handle.escalations
        status = handle.status
        it.advance(299.0)
        before = handle.status
        it.advance(1.0)
        report = it.report()

    assert (question.subtask, question.error) == ("pay", "ValueError: no")
    assert "could not be undone" in question.question
    assert (str(status), str(before), report.status) == ("waiting", "waiting", "failed")
    assert report.compensated == ["pack"]
    assert "nobody answered in time" in report.undo_errors["pay"]
    assert "ValueError: no" in report.undo_errors["pay"]
    assert len(pay.undos) == 3


def test_the_others_are_undone_though_one_could_not_be() -> None:
    pay, pays = undoable("pay", "paid")
    _, packs = undoable("pack", undos=[Failed("torn", retryable=False)])
    with shop(LINE, pays, packs, bad()) as it:
        handle = it.submit()
        handle.respond(handle.escalations[0].id, Reject("leave it"))
        report = it.report()

    assert report.compensated == ["pay"]
    assert "leave it" in report.undo_errors["pack"]
    assert len(pay.undos) == 1


def test_a_person_may_have_an_undo_called_again_or_say_that_it_is_done() -> None:
    pay, pays = undoable("pay", "paid", undos=[no, no, no, None])
    pack, packs = undoable("pack", undos=[no])
    with shop(LINE, pays, packs, bad()) as it:
        handle = it.submit()
        handle.respond(handle.escalations[0].id, Edit("by hand"))
        settle(it.tree)
        handle.respond(handle.escalations[0].id, Approve())
        report = it.report()

    assert (len(pack.undos), len(pay.undos)) == (3, 4)
    assert (report.compensated, report.undo_errors) == (["pack", "pay"], {})


def test_an_escalate_rung_says_how_long_a_person_is_asked_about_an_undo() -> None:
    _, pays = undoable("pay", "paid", undos=[no], on_failure=[*ONCE, Escalate(timeout_s=7)])
    with shop(LINE, pays, undoable("pack")[1], bad()) as it:
        it.submit()
        it.advance(7.0)
        report = it.report()

    assert list(report.undo_errors) == ["pay"]


def test_an_undo_that_crashes_is_one_that_failed_and_takes_nothing_down() -> None:
    _, pays = undoable("pay", "paid", undos=[Crash()])
    with shop(LINE, pays, undoable("pack")[1], bad()) as it:
        handle = it.submit()
        [question] = handle.escalations
        handle.respond(question.id, Reject())
        report = it.report()
        states = {child.id: child.state for child in it.tree.which_children("shop")}

    assert "SystemExit" in question.error
    assert set(states.values()) == {"running"}
    assert report.compensated == ["pack"]


def test_an_undo_whose_worker_is_gone_asks_a_person_instead_of_trying_for_ever() -> None:
    _, refunds = undoable("refund", undo=None)
    pays = undoable("pay", "paid", undo="refund")[1]
    with shop(LINE, pays, refunds, undoable("pack", undo=None)[1], bad()) as it:
        it.tree.terminate_child("shop/refund")
        handle = it.submit()
        it.advance(1.0)
        [question] = handle.escalations
        it.tree.restart_child("shop/refund")
        settle(it.tree)
        handle.respond(question.id, Approve())
        report = it.report()

    assert "refund" in question.error
    assert (report.compensated, report.undo_errors) == (["pay"], {})


def test_an_undo_that_hangs_is_ended_after_the_time_of_a_step_and_has_failed() -> None:
    pay = AsyncScriptedExecutable("paid", undo=[held := Hang(), None])
    spec = WorkerSpec(id="pay", execute=pay.execute, undo=pay.undo)
    plan = [LINE[0], Subtask("send", worker="bad", depends_on=["pay"])]
    with shop(plan, spec, bad(), step_timeout_s=50) as it:
        it.begin()
        held.wait_until_entered()
        it.clock.advance(50.0)
        report = it.report()

    assert report.compensated == ["pay"]
    assert [call.ended for call in pay.undos] == ["CancelledError", "returned"]


def test_an_undo_that_hangs_on_a_thread_is_left_to_itself_and_called_again() -> None:
    with Hang(deaf=True) as held:
        pay, pays = undoable("pay", "paid", undos=[held, None])
        plan = [LINE[0], Subtask("send", worker="bad", depends_on=["pay"])]
        with shop(plan, pays, bad(), step_timeout_s=50) as it:
            it.begin()
            held.wait_until_entered()
            it.pass_(50.0)
            it.clock.advance(1.0)
            report = it.report()
            called = [call.attempt for call in pay.undos]
            held.release()

    assert called == [1, 2]
    assert (report.compensated, report.undo_errors) == (["pay"], {})


# -- its orchestrator dies ---------------------------------------------------------------------------------------


@ENDS
def test_an_orchestrator_that_dies_in_the_middle_of_an_undo_records_its_outcome_once(end: Any) -> None:
    held = Hang()
    refund = AsyncScriptedExecutable(held)
    pays = undoable("pay", "paid", undo="refund")[1]
    plan = [LINE[0], Subtask("send", worker="bad", depends_on=["pay"])]
    with shop(plan, pays, WorkerSpec(id="refund", execute=refund.execute), bad()) as it:
        it.begin()
        held.wait_until_entered()
        end(it, settled=False)
        held.release()
        report = it.report()
        begun, undone = it.events(Compensating), it.events(Compensated)

    assert (len(begun), len(undone), len(refund.calls)) == (1, 1, 1)
    assert report.compensated == ["pay"]


@ENDS
def test_an_undo_that_waits_for_its_next_try_goes_on_with_the_next_orchestrator(end: Any) -> None:
    pay, pays = undoable("pay", "paid", undos=[no, None], on_failure=[SLOWLY])
    with shop(LINE, pays, undoable("pack")[1], bad()) as it:
        it.submit()
        end(it)
        it.advance(10.0)
        report = it.report()
        finished = it.events(TaskFinished)

    assert [call.attempt for call in pay.undos] == [1, 2]
    assert (report.compensated, len(finished)) == (["pack", "pay"], 1)


@ENDS
def test_a_question_about_an_undo_survives_its_orchestrator(end: Any) -> None:
    pay, pays = undoable("pay", "paid", undos=[no])
    with shop(LINE, pays, undoable("pack")[1], bad()) as it:
        handle = it.submit()
        end(it)
        [question] = handle.escalations
        it.advance(300.0)
        report = it.report()

    assert question.subtask == "pay"
    assert len(pay.undos) == 3
    assert list(report.undo_errors) == ["pay"]
