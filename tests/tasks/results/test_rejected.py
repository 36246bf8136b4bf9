"""A review can say no: what has not passed when the iterations are used up is marked, fails, or goes to a person."""

from __future__ import annotations

from typing import Any

import pytest

from actors.testing import ScriptedExecutable, settle
from tests.support.attempts import Shop, shop, undoable
from trees import (
    Approve,
    Check,
    Edit,
    Escalate,
    EscalationRaised,
    Reject,
    Respond,
    Reviewed,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    TaskEnding,
    Tasks,
    TaskStatus,
    Verdict,
    WorkerSpec,
)

PLAN = [Subtask("a", worker="w"), Subtask("b", worker="w", depends_on=["a"]), Subtask("x", worker="w")]


def picky(*wrong: str, most: int = 99) -> Any:
    """A reviewer that does not let these pass, so often."""
    left = [most]

    def review(_: Any, __: Any, results: dict[str, Any]) -> Verdict:
        left[0] -= 1
        bad = {id_ for id_ in wrong if id_ in results and left[0] >= 0}
        return Verdict(not bad, [Check(id_, id_ not in bad, f"{id_} is bad" if id_ in bad else "") for id_ in results])

    return review


def rejecting(script: ScriptedExecutable | None = None, *wrong: str, most: int = 99, **tasks: Any) -> Any:
    work = script or ScriptedExecutable()
    settings = {"reviewer": picky(*(wrong or ("b",)), most=most), "max_iterations": 2, **tasks}
    return shop(PLAN, WorkerSpec(id="w", execute=work.execute, pool=3), **settings)


def warnings_of(it: Shop) -> list[Any]:
    return [event for event in it.events(Reviewed) if event.severity == "WARNING"]


def test_the_defaults() -> None:
    assert (Tasks().on_rejected, Tasks().review, Tasks().max_iterations) == ("best_effort", "end", 3)


def test_best_effort_is_marked_in_the_status_text_the_report_the_dump_and_a_warning_with_the_checks() -> None:
    with rejecting() as it:
        handle = it.submit()
        report = it.report()
        [warning] = warnings_of(it)
        text = handle.dump()

    assert report.status is TaskStatus.SUCCEEDED
    assert report.best_effort
    assert report.iterations == 2
    assert report.notes == ("review: not passed: b: b is bad",)
    assert warning.checks == "b: b is bad"
    assert "best effort" in text.splitlines()[0]
    assert "not passed: b: b is bad" in text


def test_on_rejected_fail_fails_the_task_with_the_checks_and_undoes_what_was_done() -> None:
    script, spec = undoable("w", "done")
    with shop(PLAN[:1], spec, reviewer=picky("a"), max_iterations=1, on_rejected="fail") as it:
        it.submit()
        report = it.report()
        [ending] = it.events(TaskEnding)

    assert report.status is TaskStatus.FAILED
    assert not report.best_effort
    assert ending.kind == "review"
    assert "rejected after review 1: not passed: a: a is bad" in str(report.error)
    assert report.results == {"a": "done"}
    assert len(script.undos) == 1


@pytest.mark.parametrize("policy", ["best_effort", "fail", "escalate"])
def test_a_verdict_that_names_nothing_is_rejected_at_once_because_nothing_can_run_again(policy: Any) -> None:
    script = ScriptedExecutable()
    with rejecting(script, reviewer=lambda *_: False, max_iterations=9, on_rejected=policy) as it:
        handle = it.submit()
        if policy == "escalate":
            [question] = handle.escalations
            assert question.subtask == ""
            handle.respond(question.id, Approve())
            settle(it.tree)
        report = it.report()
    assert len(script.calls) == 3
    assert report.status is (TaskStatus.FAILED if policy == "fail" else TaskStatus.SUCCEEDED)
    assert report.best_effort is (policy == "best_effort")


# -- a person ----------------------------------------------------------------------------------------------------


def test_on_rejected_escalate_asks_a_person_who_sees_what_did_not_pass() -> None:
    with rejecting(None, on_rejected="escalate") as it:
        handle = it.submit()
        [question] = handle.escalations
        assert handle.status is TaskStatus.WAITING
        assert question.subtask == "b"
        assert "review 2 said no" in question.question
        assert question.error == "not passed: b: b is bad"
        assert f"asks {question.id}" in handle.dump()
        assert len(it.events(EscalationRaised)) == 1
        handle.cancel()


def test_approve_takes_the_results_as_passed() -> None:
    script = ScriptedExecutable()
    with rejecting(script, on_rejected="escalate") as it:
        handle = it.submit()
        handle.respond(handle.escalations[0].id, Approve())
        settle(it.tree)
        report = it.report()
    assert report.status is TaskStatus.SUCCEEDED
    assert not report.best_effort
    assert len(script.calls) == 4


def test_respond_sends_what_did_not_pass_back_with_the_text_and_it_is_reviewed_again() -> None:
    script = ScriptedExecutable()
    with rejecting(script, "b", on_rejected="escalate", most=2) as it:
        handle = it.submit()
        handle.respond(handle.escalations[0].id, Respond("say it in French"))
        settle(it.tree)
        report = it.report()
    assert [(call.subtask, call.feedback) for call in script.calls[4:]] == [("b", "say it in French")]
    assert report.iterations == 3
    assert report.status is TaskStatus.SUCCEEDED
    assert not report.best_effort


def test_edit_takes_the_verdict_of_a_person_for_the_reviewers() -> None:
    script = ScriptedExecutable()
    with rejecting(script, "a", "b", on_rejected="escalate", most=2) as it:
        handle = it.submit()
        verdict = {"passed": False, "checks": [{"subtask": "b", "passed": False, "feedback": "only this"}]}
        handle.respond(handle.escalations[0].id, Edit(verdict))
        settle(it.tree)
        report = it.report()
    again = [(call.subtask, call.feedback) for call in script.calls if call.feedback.endswith("only this")]
    assert again == [("b", "only this")]
    assert report.status is TaskStatus.SUCCEEDED


def test_reject_fails_the_task() -> None:
    with rejecting(None, on_rejected="escalate") as it:
        handle = it.submit()
        handle.respond(handle.escalations[0].id, Reject("not good enough"))
        settle(it.tree)
        report = it.report()
    assert report.status is TaskStatus.FAILED
    assert "a person said no: not good enough" in str(report.error)
    assert "b is bad" in str(report.error)


def test_a_person_who_is_not_there_is_no_yes() -> None:
    with rejecting(None, on_rejected="escalate", on_failure=[Escalate("Is this good?", timeout_s=30.0)]) as it:
        handle = it.submit()
        assert handle.escalations[0].question == "Is this good?"
        it.advance(31.0)
        assert "nobody answered in time" in str(it.report().error)


# -- in a team ---------------------------------------------------------------------------------------------------


def team(script: ScriptedExecutable, **tasks: Any) -> SupervisorSpec:
    return SupervisorSpec(
        id="team",
        on_failure=[],
        tasks=Tasks(planner=StaticPlan([Subtask("inner", worker="m")]), reviewer=picky("inner"), **tasks),
        children=[WorkerSpec(id="m", execute=script.execute)],
    )


def test_a_person_is_asked_about_the_review_of_a_team_and_the_outer_task_waits() -> None:
    script = ScriptedExecutable()
    with shop([Subtask("a", worker="team")], team(script, max_iterations=1, on_rejected="escalate")) as it:
        handle = it.submit()
        [question] = handle.escalations
        assert handle.status is TaskStatus.WAITING
        handle.respond(question.id, Approve())
        settle(it.tree)
        assert it.report().status is TaskStatus.SUCCEEDED
