"""Questions to people: what they are told, what each answer does, and that a question outlives whoever asked it."""

from typing import Any

import pytest

from actors import Escalated
from actors.testing import ScriptedExecutable, settle
from tests.support.attempts import AT_ONCE, LONG_S, Shop, no, shop
from trees import (
    Approve,
    Edit,
    Escalate,
    EscalationAnswered,
    EscalationError,
    EscalationExpired,
    EscalationRaised,
    Failover,
    Reject,
    Respond,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Tasks,
    WorkerSpec,
)

ONE = (Subtask("x", worker="a"),)
ASK = Escalate(question="What now?")
OPEN = [Retry(max_attempts=1), ASK]
ENDS = pytest.mark.parametrize("end", [Shop.replace_orchestrator, Shop.crash_orchestrator], ids=["replaced", "crashed"])


def worker(*steps: object, id: str = "a", **words: Any) -> tuple[ScriptedExecutable, WorkerSpec]:
    script = ScriptedExecutable(*steps, by="call")
    return script, WorkerSpec(id=id, execute=script.execute, **words)


def test_a_question_tells_what_it_is_about_and_how_it_may_be_answered() -> None:
    _, a = worker(no)
    with shop(ONE, a, on_failure=OPEN) as it:
        handle = it.submit()
        [question] = handle.escalations
        everywhere = it.tree.escalations()

    assert (question.task, question.subtask, question.question) == (handle.id, "x", "What now?")
    assert question.error == "ValueError: no"
    assert question.answers == ("approve", "edit", "respond", "reject")
    assert [each.id for each in everywhere] == [question.id]


def test_a_worker_that_asks_for_a_person_is_not_tried_again_first() -> None:
    script, a = worker(Escalated("may I?"))
    with shop(ONE, a, on_failure=[AT_ONCE, Failover(), ASK]) as it:
        it.submit()

        assert it.status("x") == "waiting"
    assert len(script.calls) == 1


def test_while_somebody_is_asked_the_task_waits_and_holds_neither_slot_nor_worker() -> None:
    _script, a = worker(no, then := "done", then)
    with shop(ONE, a, on_failure=OPEN, max_parallel=1) as it:
        waiting = it.submit()
        another = it.tree.submit("sell").result(timeout=LONG_S)

        assert waiting.status == "waiting"
    assert another.results == {"x": "done"}


@pytest.mark.parametrize("through", ["tree", "handle"])
def test_approve_runs_it_again_as_it_is_and_that_is_a_new_act(through: str) -> None:
    script, a = worker(no, "done")
    with shop(ONE, a, on_failure=OPEN) as it:
        handle = it.submit()
        [question] = handle.escalations
        (it.tree if through == "tree" else handle).respond(question.id, Approve())
        report = it.report()

    assert report.results == {"x": "done"}
    assert [call.attempt for call in script.calls] == [1, 2]
    assert script.calls[0].idempotency_key != script.calls[1].idempotency_key
    assert script.calls[1].feedback == ""


def test_edit_is_its_result_and_nothing_runs() -> None:
    plan = [*ONE, Subtask("y", worker="b", depends_on=["x"])]
    script, a = worker(no)
    after, b = worker(id="b")
    with shop(plan, a, b, on_failure=OPEN) as it:
        handle = it.submit()
        handle.respond(handle.escalations[0].id, Edit({"price": 3}))
        report = it.report()

    assert report.results["x"] == {"price": 3}
    assert after.calls[0].results == {"x": {"price": 3}}
    assert len(script.calls) == 1


def test_an_edit_that_cannot_be_kept_is_refused_and_the_question_stays_open() -> None:
    _, a = worker(no)
    with shop(ONE, a, on_failure=OPEN) as it:
        handle = it.submit()
        [question] = handle.escalations
        with pytest.raises(EscalationError, match="cannot be stored"):
            handle.respond(question.id, Edit(object()))

        assert [each.id for each in handle.escalations] == [question.id]


def test_respond_runs_it_again_with_the_text_as_feedback() -> None:
    script, a = worker(no, "done")
    with shop(ONE, a, on_failure=OPEN) as it:
        handle = it.submit()
        handle.respond(handle.escalations[0].id, Respond("cheaper"))
        report = it.report()

    assert report.results == {"x": "done"}
    assert script.calls[1].feedback == "cheaper"


def test_reject_is_a_failure_with_its_reason_and_no_further_rung() -> None:
    script, a = worker(no)
    with shop(ONE, a, on_failure=[*OPEN, AT_ONCE]) as it:
        handle = it.submit()
        handle.respond(handle.escalations[0].id, Reject("too dear"))
        report = it.report()

    assert report.status == "failed"
    assert "a person said no: too dear" in report.failed["x"]
    assert len(script.calls) == 1


def test_after_an_approved_attempt_fails_it_is_the_next_rungs_turn() -> None:
    script, a = worker(no)
    other, b = worker("done", id="b")
    with shop(ONE, a.model_copy(update={"backup": "b"}), b, on_failure=[AT_ONCE, ASK, Failover()]) as it:
        handle = it.submit()
        handle.respond(handle.escalations[0].id, Approve())
        report = it.report()

    assert report.results == {"x": "done"}
    assert [call.attempt for call in script.calls] == [1, 2, 3, 4]
    assert [call.attempt for call in other.calls] == [5]


# -- no answer ---------------------------------------------------------------------------------------------------


def test_no_answer_in_time_is_told_apart_from_a_denial() -> None:
    _, a = worker(no)
    with shop(ONE, a, on_failure=[Escalate(timeout_s=60)]) as it:
        handle = it.submit()
        it.advance(59.9)
        before = handle.status
        it.advance(0.1)
        report = it.report()
        kinds = [type(event) for event in it.events(EscalationExpired, EscalationAnswered)]

    assert (before, report.status) == ("waiting", "failed")
    assert kinds == [EscalationExpired]
    assert "nobody answered in time" in report.failed["x"]
    assert "ValueError: no" in report.failed["x"]


def test_no_answer_in_time_is_the_next_rungs_turn_and_no_attempt() -> None:
    _, a = worker(no, backup="b")
    other, b = worker("done", id="b")
    with shop(ONE, a, b, on_failure=[Escalate(timeout_s=60), Failover()]) as it:
        it.submit()
        it.advance(60.0)
        report = it.report()

    assert report.results == {"x": "done"}
    assert [call.attempt for call in other.calls] == [2]


def test_an_answer_that_comes_too_late_is_refused() -> None:
    _, a = worker(no)
    with shop(ONE, a, on_failure=[Escalate(timeout_s=60)]) as it:
        handle = it.submit()
        [question] = handle.escalations
        it.advance(60.0)

        with pytest.raises(EscalationError, match="no such open question"):
            handle.respond(question.id, Approve())
        assert handle.escalations == []


# -- answers that are none ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("through", ["tree", "handle"])
def test_an_answer_to_what_was_never_asked_is_refused(through: str) -> None:
    _, a = worker(no)
    with shop(ONE, a, on_failure=OPEN) as it:
        handle = it.submit()

        with pytest.raises(EscalationError, match="'nothing'"):
            (it.tree if through == "tree" else handle).respond("nothing", Approve())


def test_a_second_answer_is_refused_also_before_the_first_one_was_heard() -> None:
    _script, a = worker(no, "done")
    with shop(ONE, a, on_failure=OPEN) as it:
        handle = it.submit()
        [question] = handle.escalations
        handle.respond(question.id, Approve())
        with pytest.raises(EscalationError):
            handle.respond(question.id, Reject())
        report = it.report()
        answers = it.events(EscalationAnswered)

    assert report.results == {"x": "done"}
    assert [event.answer for event in answers] == ["approve"]


def test_what_is_no_answer_is_refused_and_names_those_there_are() -> None:
    _, a = worker(no)
    with shop(ONE, a, on_failure=OPEN) as it:
        handle = it.submit()
        [question] = handle.escalations

        with pytest.raises(EscalationError, match=r"a str is not an answer. Use Approve\(\)"):
            handle.respond(question.id, "approve")  # type: ignore[arg-type]
        assert len(handle.escalations) == 1


def test_a_question_is_answered_by_its_id_and_nothing_else() -> None:
    _, a = worker(no)
    with shop(ONE, a, on_failure=OPEN) as it:
        handle = it.submit()
        [question] = handle.escalations

        for respond in (it.tree.respond, handle.respond):
            for given, text in ((None, "None"), ([], "a list")):
                with pytest.raises(EscalationError, match=f"{text}': this is not the id of a question"):
                    respond(given, Approve())  # type: ignore[arg-type]
            with pytest.raises(EscalationError, match="the class Approve is not an answer"):
                respond(question.id, Approve)  # type: ignore[arg-type]
        assert len(handle.escalations) == 1


def team_of(member: WorkerSpec, plan: Subtask) -> SupervisorSpec:
    return SupervisorSpec(id="team", tasks=Tasks(planner=StaticPlan([plan]), on_failure=OPEN), children=[member])


def test_a_question_of_a_team_is_one_of_the_whole_task_and_answered_there() -> None:
    _, a = worker(no)
    with shop([Subtask("x", worker="team")], team_of(a, Subtask("inner", worker="a"))) as it:
        other = it.submit()
        other.cancel()
        settle(it.tree)
        handle = it.submit()
        [question] = handle.escalations
        others = other.escalations
        handle.respond(question.id, Edit("by hand"))
        report = it.report()

    assert (question.subtask, others) == ("x/inner", [])
    assert report.results == {"x": {"inner": "by hand"}}


# -- it outlives its orchestrator --------------------------------------------------------------------------------


@ENDS
def test_a_question_survives_its_orchestrator_and_is_answered_to_the_next_one(end: Any) -> None:
    script, a = worker(no, "done")
    with shop(ONE, a, on_failure=OPEN) as it:
        handle = it.submit()
        before = [(each.id, each.question, each.error) for each in handle.escalations]
        end(it)
        after = [(each.id, each.question, each.error) for each in handle.escalations]
        handle.respond(after[0][0], Approve())
        report = it.report()
        raised = it.events(EscalationRaised)

    assert before == after
    assert (report.results, len(raised), len(script.calls)) == ({"x": "done"}, 1, 2)


def test_an_answer_while_there_is_no_orchestrator_is_kept_for_the_next_one() -> None:
    script, a = worker(no, "done")
    with shop(ONE, a, on_failure=OPEN) as it:
        handle = it.submit()
        [question] = handle.escalations
        it.tree.terminate_child("shop/orchestrator")
        handle.respond(question.id, Approve())
        open_now = handle.escalations
        it.tree.restart_child("shop/orchestrator")
        report = it.report()

    assert open_now == []
    assert (report.results, len(script.calls)) == ({"x": "done"}, 2)
