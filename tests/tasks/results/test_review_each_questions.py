"""review="each" and people: what is asked about one result holds up nothing else, and an answer is never lost."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from actors.testing import ScriptedExecutable, settle
from tests.support.attempts import LONG_S
from tests.tasks.results.test_review_each import PIPELINE, Reviewer, each
from trees import Approve, Respond, Retry, StepEscalated, Subtask, SubtaskSucceeded, TaskStatus


class Gated(Reviewer):
    """A reviewer that takes its time over some."""

    def __init__(self, slow: str, then: Any = None, **wrong: int) -> None:
        super().__init__(**wrong)
        self.slow, self.then = slow, then
        self.begun, self.gate = threading.Event(), threading.Event()

    def review(self, task: Any, plan: Any, results: dict[str, Any]) -> Any:
        verdict = super().review(task, plan, results)
        if self.slow in results and not self.begun.is_set():
            self.begun.set()
            assert self.gate.wait(LONG_S)
            if self.then is not None:
                raise self.then
        return verdict


class SlowDocs(ScriptedExecutable):
    """A worker that does not write the docs before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Event()

    def execute(self, task: Any, context: Any) -> Any:
        if task.id == "docs":
            assert self.may.wait(LONG_S)
        return super().execute(task, context)


def answered_meanwhile(it: Any, reviewer: Gated, script: SlowDocs, answer: Any) -> None:
    """A person answers about ``code`` while the reviewer looks at ``docs``; then that review ends."""
    it.begin()
    it.until(StepEscalated)
    [question] = it.handle.escalations
    assert question.subtask == "code"
    script.may.set()
    assert reviewer.begun.wait(LONG_S)
    it.handle.respond(question.id, answer)
    it.pass_()
    reviewer.gate.set()
    settle(it.tree)


ASKS: dict[str, Any] = {"on_rejected": "escalate", "max_iterations": 1}


@pytest.mark.parametrize(("answer", "wrong", "runs"), [(Approve(), 1, 1), (Respond("in Rust"), 1, 2)])
def test_an_answer_about_one_result_holds_though_another_one_is_being_reviewed(
    answer: Any, wrong: int, runs: int
) -> None:
    reviewer, script = Gated("docs", code=wrong), SlowDocs()
    with each(reviewer, script, **ASKS) as it:
        answered_meanwhile(it, reviewer, script, answer)
        report = it.report()
        assert len(it.events(StepEscalated)) == 1
    assert report.status is TaskStatus.SUCCEEDED
    assert Counter(call.subtask for call in script.calls)["code"] == runs


def test_an_answer_holds_though_the_review_of_another_result_is_rejected_and_both_are_asked_with_their_checks() -> None:
    reviewer, script = Gated("docs", code=1, docs=1), SlowDocs()
    with each(reviewer, script, **ASKS) as it:
        answered_meanwhile(it, reviewer, script, Approve())
        first, second = it.events(StepEscalated)
        assert (first.subtask, first.error) == ("code", "not passed: code: again")
        assert (second.subtask, second.error) == ("docs", "not passed: docs: again")
        it.handle.respond(second.escalation, Approve())
        settle(it.tree)
        assert it.report().status is TaskStatus.SUCCEEDED


@pytest.mark.parametrize("tries", [1, 2])
def test_an_answer_about_one_result_holds_though_the_review_of_another_one_fails(tries: int) -> None:
    reviewer, script = Gated("docs", ValueError("no model"), code=1), SlowDocs()
    retry = Retry(max_attempts=tries, initial_s=10.0)
    with each(reviewer, script, **ASKS, step_retry=retry, on_step_failure="best_effort") as it:
        answered_meanwhile(it, reviewer, script, Approve())
        it.advance(30.0)
        report = it.report()
        assert len(it.events(StepEscalated)) == 1
    assert report.status is TaskStatus.SUCCEEDED
    assert report.best_effort is (tries == 1)
    assert sum("docs" in shown for shown in reviewer.shown) == tries


def test_an_answer_that_was_given_while_another_result_was_being_reviewed_outlives_its_orchestrator() -> None:
    reviewer, script = Gated("docs", code=1), SlowDocs()
    with each(reviewer, script, **ASKS) as it:
        it.begin()
        it.until(StepEscalated)
        [question] = it.handle.escalations
        script.may.set()
        assert reviewer.begun.wait(LONG_S)
        it.handle.respond(question.id, Approve())
        it.pass_()
        it.crash_orchestrator(settled=False)
        reviewer.gate.set()
        settle(it.tree)
        assert it.report().status is TaskStatus.SUCCEEDED
        assert len(it.events(StepEscalated)) == 1


def test_a_task_waits_for_a_person_only_when_its_reviewer_has_nothing_to_do() -> None:
    reviewer, script = Gated("docs", code=1), SlowDocs()
    with each(reviewer, script, **ASKS) as it:
        it.begin()
        it.until(StepEscalated)
        script.may.set()
        assert reviewer.begun.wait(LONG_S)
        it.pass_()
        assert it.handle.status is TaskStatus.RUNNING
        reviewer.gate.set()
        settle(it.tree)
        assert it.handle.status is TaskStatus.WAITING
        it.handle.cancel()


def test_what_has_a_result_is_reviewed_and_goes_on_though_a_person_is_asked_about_another_one() -> None:
    plan = [*PIPELINE, Subtask("site", worker="w", depends_on=["docs"])]
    reviewer, script = Gated("code", code=1), SlowDocs()
    with each(reviewer, script, plan, **ASKS) as it:
        it.begin()
        assert reviewer.begun.wait(LONG_S)
        script.may.set()
        it.until(SubtaskSucceeded, 2)  # the docs come while the reviewer looks at the code
        reviewer.gate.set()
        settle(it.tree)
        assert [question.subtask for question in it.handle.escalations] == ["code"]
        assert it.status("site") == "succeeded"
        assert it.handle.status is TaskStatus.WAITING
        it.handle.cancel()
