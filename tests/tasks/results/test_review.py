"""Results are looked at, revised where they are weak, and made into one: points 22 and 23 of the contract."""

from __future__ import annotations

from typing import Any

import pytest

from actors.testing import ScriptedExecutable
from tests.tasks.reviewing import RESULTS, reviewed_by
from trees import (
    Check,
    Plan,
    Retry,
    StaticPlan,
    Subtask,
    Task,
    TaskFailedError,
    TaskStatus,
    Verdict,
    start,
)


class Strict:
    """Says of each subtask what is wrong, once for each text."""

    def __init__(self, *rounds: dict[str, str]) -> None:
        self.rounds = list(rounds)
        self.seen: list[dict[str, Any]] = []

    def review(self, task: Task, plan: Plan, results: dict[str, Any]) -> Verdict:
        self.seen.append(dict(results))
        wrong = self.rounds.pop(0) if self.rounds else {}
        checks = [Check(id_, id_ not in wrong, wrong.get(id_, "")) for id_ in results]
        return Verdict(not wrong, checks)


# -- revising --------------------------------------------------------------------------------------------------


def test_a_verdict_that_passes_ends_the_task() -> None:
    reviewer = Strict()
    with start(reviewed_by(reviewer)) as tree:
        report = tree.run("do all", timeout=60)

    assert report.status is TaskStatus.SUCCEEDED
    assert (report.iterations, report.best_effort, report.notes) == (1, False, ())
    assert reviewer.seen == [RESULTS]


def test_only_what_failed_runs_again_and_then_its_dependants_with_the_new_result() -> None:
    script = ScriptedExecutable(lambda task, context: f"{task} {context.feedback} {sorted(context.results.values())}")
    with start(reviewed_by(Strict({"b": "be brief"}), script)) as tree:
        report = tree.run("do all", timeout=60)

    again = script.calls[5:]
    assert [call.subtask for call in again] == ["b", "c"]
    assert [call.feedback for call in again] == ["be brief", ""]
    assert again[1].results == {"b": report.results["b"]}
    assert "be brief" in report.results["b"]
    assert "be brief" in report.results["c"]
    assert (report.iterations, report.best_effort) == (2, False)


def test_each_of_several_gets_its_own_feedback_and_none_runs_twice_in_a_revision() -> None:
    script = ScriptedExecutable()
    with start(reviewed_by(Strict({"a": "more a", "c": "more c", "y": "more y"}), script)) as tree:
        tree.run("do all", timeout=60)

    again = {call.subtask: call.feedback for call in script.calls[5:]}
    assert len(script.calls) == 5 + 4
    assert again == {"a": "more a", "b": "", "c": "more c", "y": "more y"}


def test_revisions_are_counted_and_feedback_is_of_the_last_one_only() -> None:
    script = ScriptedExecutable()
    with start(reviewed_by(Strict({"c": "first"}, {"c": "second"}), script)) as tree:
        report = tree.run("do all", timeout=60)

    assert [call.feedback for call in script.calls if call.subtask == "c"] == [
        "",
        "first",
        "second",
    ]
    assert report.iterations == 3


def test_a_revision_is_a_new_act_with_a_new_idempotency_key_and_fresh_attempts() -> None:
    script = ScriptedExecutable("v1", by="call", at={2: ValueError("no"), 3: "v2"})
    plan = StaticPlan([Subtask("a", worker="w")])
    spec = reviewed_by(Strict({"a": "again"}), script, planner=plan, on_failure=[Retry(2, initial_s=0)])
    with start(spec) as tree:
        report = tree.run("do it", timeout=60)

    first, second, third = (call.idempotency_key for call in script.calls)
    assert first != second
    assert second == third
    assert [call.attempt for call in script.calls] == [1, 1, 2]
    assert report.results == {"a": "v2"}
    assert not any(" " in key for key in (first, second))


def test_what_did_not_pass_in_time_is_returned_and_marked() -> None:
    script = ScriptedExecutable()
    with start(reviewed_by(Strict(*[{"y": "worse"}] * 9), script, max_iterations=3)) as tree:
        report = tree.run("do all", timeout=60)

    assert report.status is TaskStatus.SUCCEEDED
    assert (report.iterations, report.best_effort) == (3, True)
    assert report.results == RESULTS
    assert len([call for call in script.calls if call.subtask == "y"]) == 3


def test_a_revision_that_fails_fails_the_task_with_what_there_is() -> None:
    script = ScriptedExecutable(by="call", at={6: ValueError("worse")})
    with (
        start(reviewed_by(Strict({"y": "again"}), script, on_failure=[])) as tree,
        pytest.raises(TaskFailedError) as caught,
    ):
        tree.run("do all", timeout=60)

    report = caught.value.report
    assert report is not None
    assert report.failed == {"y": "ValueError: worse"}
    assert report.results == {id_: value for id_, value in RESULTS.items() if id_ != "y"}


def test_a_verdict_that_has_not_passed_and_names_nothing_is_best_effort() -> None:
    script = ScriptedExecutable()
    with start(reviewed_by(lambda *_: False, script)) as tree:
        report = tree.run("do all", timeout=60)

    assert (report.iterations, report.best_effort) == (1, True)
    assert len(script.calls) == 5


async def passes(task: Any, plan: Any, results: Any) -> Verdict:
    return Verdict(passed=True)


class PassesAsync:
    async def review(self, task: Any, plan: Any, results: Any) -> Any:
        return {"passed": True, "checks": [{"subtask": "a", "passed": True}]}


@pytest.mark.parametrize(
    "reviewer",
    [passes, PassesAsync(), lambda *_: True, lambda *_: '{"passed": true}', Strict().review],
    ids=["async", "object", "bool", "json", "method"],
)
def test_whatever_can_review_reviews(reviewer: Any) -> None:
    with start(reviewed_by(reviewer)) as tree:
        report = tree.run("do all", timeout=60)

    assert (report.iterations, report.best_effort, report.notes) == (1, False, ())


def test_a_reviewer_sees_the_task_the_plan_and_the_json_of_the_results() -> None:
    seen: list[Any] = []
    with start(reviewed_by(lambda *args: seen.extend(args) or True)) as tree:
        report = tree.run(Task(goal="do all", id="t1"), timeout=60)

    task, plan, results = seen
    assert (task.goal, task.id) == ("do all", "t1")
    assert [subtask.id for subtask in plan.subtasks] == ["a", "b", "c", "x", "y"]
    assert results == report.results


# -- reviewers that fail ---------------------------------------------------------------------------------------
