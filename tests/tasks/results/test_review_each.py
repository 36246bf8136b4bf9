"""review="each": a result is reviewed before anything that depends on it starts, so nothing is built on what is bad."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from actors.tasks.model.task_events import Reviewed, StepEscalated, SubtaskSucceeded
from actors.testing import ScriptedExecutable, settle
from tests.support.attempts import LONG_S, shop, undoable
from trees import (
    Approve,
    Check,
    Respond,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Tasks,
    TaskStatus,
    Verdict,
    WorkerSpec,
)

PIPELINE = [
    Subtask("code", worker="w"),
    Subtask("test", worker="w", depends_on=["code"]),
    Subtask("deploy", worker="w", depends_on=["test"]),
    Subtask("docs", worker="w"),
]


class Reviewer:
    """Rejects a subtask so often; what it was shown, in order."""

    def __init__(self, **wrong: int) -> None:
        self.wrong = Counter(wrong)
        self.shown: list[list[str]] = []

    def review(self, task: Any, plan: Any, results: dict[str, Any]) -> Verdict:
        self.shown.append(list(results))
        bad = [id_ for id_ in results if self.wrong[id_] > 0]
        self.wrong.subtract(bad)
        return Verdict(not bad, [Check(id_, id_ not in bad, "again" if id_ in bad else "") for id_ in results])


def each(reviewer: Any, script: Any, plan: Any = PIPELINE, **tasks: Any) -> Any:
    worker = WorkerSpec(id="w", execute=script.execute, pool=4)
    return shop(plan, worker, reviewer=reviewer, review="each", **tasks)


def test_rejected_code_is_not_deployed_three_times() -> None:
    reviewer, script = Reviewer(code=2), ScriptedExecutable()
    with each(reviewer, script) as it:
        it.submit()
        report = it.report()

    assert report.status is TaskStatus.SUCCEEDED
    assert not report.best_effort
    assert Counter(call.subtask for call in script.calls) == {"code": 3, "test": 1, "deploy": 1, "docs": 1}
    assert report.iterations == 3
    assert [call.feedback for call in script.calls if call.subtask == "code"] == [
        "",
        "Revision 2: again",
        "Revision 3: again",
    ]


def test_every_result_is_reviewed_once_and_before_its_dependants_start() -> None:
    reviewer, script = Reviewer(), ScriptedExecutable()
    started: list[tuple[str, list[str]]] = []

    def execute(task: Any, context: Any) -> Any:
        started.append((task.id, [id_ for shown in reviewer.shown for id_ in shown]))
        return script.execute(task, context)

    with shop(PIPELINE, WorkerSpec(id="w", execute=execute), reviewer=reviewer, review="each") as it:
        it.submit()
        it.report()

    assert sorted(id_ for shown in reviewer.shown for id_ in shown) == ["code", "deploy", "docs", "test"]
    reviewed = dict(started)
    assert "code" in reviewed["test"]
    assert "test" in reviewed["deploy"]


def test_what_does_not_wait_for_a_review_goes_on_meanwhile() -> None:
    entered, release = threading.Event(), threading.Event()

    def review(task: Any, plan: Any, results: dict[str, Any]) -> bool:
        if "code" in results:
            entered.set()
            assert release.wait(LONG_S)
        return True

    plan = [Subtask("code", worker="w"), Subtask("slow", worker="v"), Subtask("test", worker="w", depends_on=["code"])]
    script, other = ScriptedExecutable(), ScriptedExecutable()
    workers = [WorkerSpec(id="w", execute=script.execute), WorkerSpec(id="v", execute=other.execute)]
    with shop(plan, *workers, reviewer=review, review="each") as it:
        try:
            it.begin()
            assert entered.wait(LONG_S)
            it.until(SubtaskSucceeded, 2)
            assert it.status("slow") == "succeeded"
            assert it.status("test") == "pending"
        finally:
            release.set()
        assert it.report().status is TaskStatus.SUCCEEDED


def test_what_has_a_result_while_a_review_runs_is_reviewed_together_next() -> None:
    entered, release = threading.Event(), threading.Event()
    reviewer = Reviewer()

    def review(task: Any, plan: Any, results: dict[str, Any]) -> Any:
        entered.set()
        assert release.wait(LONG_S)
        return reviewer.review(task, plan, results)

    plan = [Subtask(f"s{n}", worker="w") for n in range(4)]
    with each(review, ScriptedExecutable(), plan, max_parallel=1) as it:
        try:
            it.begin()
            assert entered.wait(LONG_S)
            it.until(SubtaskSucceeded, 4)
        finally:
            release.set()
        it.report()
    assert reviewer.shown == [["s0"], ["s1", "s2", "s3"]]


def test_it_may_speak_only_of_the_results_that_it_is_shown() -> None:
    told: list[str] = []

    def review(task: Any, plan: Any, results: dict[str, Any], feedback: str = "") -> Any:
        told.append(feedback)
        if "test" in results and not feedback:
            return [Check("code", passed=False, feedback="the fault is here")]
        return True

    with each(review, ScriptedExecutable(), PIPELINE[:3]) as it:
        it.submit()
        assert it.report().status is TaskStatus.SUCCEEDED
    assert any("speaks of code" in text for text in told)


@pytest.mark.parametrize("policy", ["best_effort", "fail"])
def test_max_iterations_hold_for_each_subtask(policy: Any) -> None:
    reviewer, script = Reviewer(code=9, docs=1), ScriptedExecutable()
    with each(reviewer, script, max_iterations=2, on_rejected=policy) as it:
        it.submit()
        report = it.report()

    counts = Counter(call.subtask for call in script.calls)
    assert counts["code"] == counts["docs"] == 2
    assert counts["deploy"] == (policy == "best_effort")
    assert report.status is (TaskStatus.SUCCEEDED if policy == "best_effort" else TaskStatus.FAILED)
    assert report.best_effort is (policy == "best_effort")


def test_a_person_decides_about_one_result_and_the_rest_goes_on() -> None:
    reviewer, script = Reviewer(code=1), ScriptedExecutable()
    with each(reviewer, script, max_iterations=1, on_rejected="escalate") as it:
        handle = it.submit()
        [question] = handle.escalations
        assert question.subtask == "code"
        assert it.status("docs") == "succeeded"
        assert it.status("test") == "pending"
        assert handle.status is TaskStatus.WAITING
        handle.respond(question.id, Respond("add tests"))
        settle(it.tree)
        assert it.report().status is TaskStatus.SUCCEEDED
    assert [call.feedback for call in script.calls if call.subtask == "code"] == ["", "Revision 2: add tests"]


def test_two_results_that_are_rejected_one_after_the_other_are_asked_about_one_after_the_other() -> None:
    plan = [Subtask("a", worker="w"), Subtask("b", worker="w"), Subtask("c", worker="w", depends_on=["a", "b"])]
    reviewer = Reviewer(a=1, b=1)
    with each(reviewer, ScriptedExecutable(), plan, max_iterations=1, on_rejected="escalate", max_parallel=1) as it:
        handle = it.submit()
        for _ in range(2):
            for question in handle.escalations:
                handle.respond(question.id, Approve())
            settle(it.tree)
        report = it.report()
    assert report.status is TaskStatus.SUCCEEDED
    assert not report.best_effort


def test_a_revision_undoes_its_own_result_and_never_started_what_depends_on_it() -> None:
    script, spec = undoable("w")
    with shop(PIPELINE[:2], spec, reviewer=Reviewer(code=1), review="each") as it:
        it.submit()
        assert it.report().status is TaskStatus.SUCCEEDED
    assert [call.subtask for call in script.undos] == ["code"]
    assert Counter(call.subtask for call in script.calls) == {"code": 2, "test": 1}


def test_a_subtask_that_is_not_required_and_fails_holds_up_nobody() -> None:
    plan = [
        Subtask("maybe", worker="bad", required=False),
        Subtask("b", worker="w", depends_on=["maybe"]),
    ]
    script = ScriptedExecutable()
    bad = WorkerSpec(id="bad", execute=ScriptedExecutable(ValueError("no")).execute, on_failure=[])
    with shop(plan, bad, WorkerSpec(id="w", execute=script.execute), reviewer=Reviewer(), review="each") as it:
        it.submit()
        assert it.report().status is TaskStatus.SUCCEEDED
    assert len(script.calls) == 1


def test_a_reviewer_that_fails_holds_up_what_depends_on_it_until_it_is_decided() -> None:
    def review(*_: Any) -> Any:
        raise ConnectionError("no route")

    script = ScriptedExecutable()
    with each(review, script, on_step_failure="best_effort", step_retry=Retry(1)) as it:
        it.submit()
        report = it.report()
    assert report.status is TaskStatus.SUCCEEDED
    assert report.best_effort
    assert Counter(call.subtask for call in script.calls)["deploy"] == 1


def test_a_cancelled_task_ends_while_its_review_runs() -> None:
    entered, release = threading.Event(), threading.Event()

    def review(*_: Any) -> bool:
        entered.set()
        assert release.wait(LONG_S)
        return True

    with each(review, ScriptedExecutable()) as it:
        try:
            handle = it.begin()
            assert entered.wait(LONG_S)
            handle.cancel()
            assert it.report().status is TaskStatus.CANCELLED
        finally:
            release.set()


@pytest.mark.parametrize("at", ["before", "after"])
def test_a_result_that_waits_for_its_review_still_waits_after_a_crash(at: str) -> None:
    reviewer, script = Reviewer(code=1), ScriptedExecutable()
    with each(reviewer, script, max_iterations=2) as it:
        if at == "before":
            it.begin()
            it.crash_orchestrator()
        else:
            it.submit()
            it.crash_orchestrator()
        report = it.report()
        assert all(event.subtasks for event in it.events(Reviewed))
    assert report.status is TaskStatus.SUCCEEDED
    assert Counter(call.subtask for call in script.calls) == {"code": 2, "test": 1, "deploy": 1, "docs": 1}


def test_in_a_team_each_result_is_reviewed_too() -> None:
    reviewer, script = Reviewer(code=1), ScriptedExecutable()
    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan(PIPELINE), reviewer=reviewer, review="each"),
        children=[WorkerSpec(id="w", execute=script.execute)],
    )
    with shop([Subtask("a", worker="team")], team) as it:
        it.submit()
        assert it.report().status is TaskStatus.SUCCEEDED
    assert Counter(call.subtask for call in script.calls) == {"code": 2, "test": 1, "deploy": 1, "docs": 1}


def test_what_was_skipped_for_another_reason_does_not_wait_for_ever_after_a_revision() -> None:
    plan = [
        Subtask("fails", worker="bad"),
        Subtask("code", worker="w"),
        Subtask("both", worker="w", depends_on=["fails", "code"]),
        Subtask("after", worker="w", depends_on=["both"]),
    ]
    script = ScriptedExecutable()
    bad = WorkerSpec(id="bad", execute=ScriptedExecutable(ValueError("no")).execute, on_failure=[])
    worker = WorkerSpec(id="w", execute=script.execute)
    with shop(plan, bad, worker, reviewer=Reviewer(code=1), review="each") as it:
        it.submit()
        report = it.report()
    assert report.status is TaskStatus.FAILED
    assert set(report.skipped) == {"both", "after"}
    assert [call.subtask for call in script.calls] == ["code", "code"]


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
