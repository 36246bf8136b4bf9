"""review="each": a result is reviewed before anything that depends on it starts, so nothing is built on what is bad."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from actors.testing import ScriptedExecutable, settle
from tests.support.attempts import LONG_S, shop, undoable
from trees import (
    Approve,
    Check,
    Respond,
    Retry,
    Reviewed,
    StaticPlan,
    Subtask,
    SubtaskSucceeded,
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
        "again",
        "again",
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


@pytest.mark.parametrize("mode", ["each", "end"])
def test_that_a_subtask_of_the_plan_has_passed_may_be_said_whether_its_result_is_shown_or_not(mode: Any) -> None:
    def review(task: Any, plan: Any, results: dict[str, Any]) -> Verdict:
        is_bad = "code" in results and len([call for call in script.calls if call.subtask == "code"]) == 1
        code = Check("code", not is_bad, "again" if is_bad else "")
        return Verdict(not is_bad, [code, *(Check(one.id, passed=True) for one in plan.subtasks if one.id != "code")])

    script = ScriptedExecutable()
    plan = [*PIPELINE[:3], Subtask("gone", worker="nobody", required=False)]
    nobody = WorkerSpec(id="nobody", execute=ScriptedExecutable(ValueError("no")), on_failure=[])
    worker = WorkerSpec(id="w", execute=script.execute, pool=4)
    with shop(plan, worker, nobody, reviewer=review, review=mode) as it:
        it.submit()
        report = it.report()

    assert (report.status, report.best_effort, str(report.error)) == (TaskStatus.SUCCEEDED, False, "None")
    counts = Counter(call.subtask for call in script.calls)
    assert counts == ({"code": 2, "test": 1, "deploy": 1} if mode == "each" else {"code": 2, "test": 2, "deploy": 2})


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
    assert [call.feedback for call in script.calls if call.subtask == "code"] == ["", "add tests"]


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
