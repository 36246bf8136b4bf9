"""An undo that fails, hangs or loses its worker, and an orchestrator that dies in the middle of one."""

from actors import Failed
from actors.testing import AsyncScriptedExecutable, Crash, Hang, settle
from tests.support.attempts import LINE, SLOWLY, bad, no, shop, undoable
from trees import (
    Approve,
    Edit,
    Reject,
    Subtask,
    WorkerSpec,
)

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


# -- its orchestrator dies ---------------------------------------------------------------------------------------
