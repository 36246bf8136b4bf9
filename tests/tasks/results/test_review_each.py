"""review="each": a result is reviewed before anything that depends on it starts, so nothing is built on what is bad."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from actors.testing import ScriptedExecutable, settle
from tests.support.attempts import LONG_S, shop, undoable
from trees import (
    Check,
    Respond,
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


@pytest.mark.parametrize("policy", ["best_effort", "fail"])
def test_max_iterations_hold_for_each_subtask(policy: Any) -> None:
    reviewer, script = Reviewer(code=9, docs=1), ScriptedExecutable()
    with each(reviewer, script, max_iterations=2, on_rejected=policy) as it:
        it.submit()
        report = it.report()

    counts = Counter(call.subtask for call in script.calls)
    assert counts["code"] == 2
    assert policy == "fail" or counts["docs"] == 2
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
