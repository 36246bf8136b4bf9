"""What a reviewer returns is read like what a planner returns, and what makes no sense is handed back to it."""

from __future__ import annotations

from typing import Any

import pytest

from actors.testing import ScriptedExecutable
from tests.support.attempts import run
from trees import Check, Subtask, TaskStatus, Verdict, WorkerSpec

# -- handed back -------------------------------------------------------------------------------------------------

PLAN = [Subtask("a", worker="w"), Subtask("b", worker="w", depends_on=["a"])]
BLIND = Verdict(passed=False, checks=[Check("a", passed=False)])
CONTRADICTION = Verdict(passed=True, checks=[Check("a", passed=False, feedback="shorter")])
SOUND = Verdict(passed=False, checks=[Check("a", passed=False, feedback="shorter")])


class Reviewer:
    """Returns one answer after the other, and then that all is well; with what it was told."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.told: list[str] = []

    def review(self, task: Any, plan: Any, results: Any, feedback: str = "") -> Any:
        self.told.append(feedback)
        return self.answers.pop(0) if self.answers else True


def reviewed(reviewer: Any, **tasks: Any) -> tuple[Any, ScriptedExecutable]:
    script = ScriptedExecutable()
    report = run(PLAN, WorkerSpec(id="w", execute=script.execute), reviewer=reviewer, **tasks)
    return report, script


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (BLIND, "has no feedback"),
        (CONTRADICTION, "passed is true"),
        ("looks good", "no JSON"),
        (None, "returned None"),
        ([Check("ghost", passed=False, feedback="no")], "speaks of ghost"),
    ],
    ids=["no feedback", "contradiction", "words", "nothing", "stranger"],
)
def test_what_makes_no_sense_is_told_to_the_reviewer_once(answer: Any, words: str) -> None:
    reviewer = Reviewer(answer)
    report, script = reviewed(reviewer)

    assert report.status is TaskStatus.SUCCEEDED
    assert not report.best_effort
    assert len(script.calls) == 2  # nothing ran again
    first, second = reviewer.told
    assert first == ""
    assert words in second
    assert report.iterations == 1


def test_a_check_without_feedback_is_not_a_blind_second_run() -> None:
    reviewer = Reviewer(BLIND, BLIND, BLIND)
    report, script = reviewed(reviewer)

    assert len(script.calls) == 2
    assert len(reviewer.told) == 2
    assert report.status is TaskStatus.FAILED
    assert "has no feedback" in str(report.error)


def test_a_reviewer_that_takes_no_feedback_is_asked_once_more_too() -> None:
    answers = [BLIND, SOUND, True]
    report, script = reviewed(lambda task, plan, results: answers.pop(0))

    assert report.status is TaskStatus.SUCCEEDED
    assert [call.subtask for call in script.calls] == ["a", "b", "a", "b"]
    assert answers == []


def test_a_sound_verdict_is_told_nothing_the_next_time() -> None:
    reviewer = Reviewer(BLIND, SOUND)
    report, _ = reviewed(reviewer)
    assert report.iterations == 2
    assert [bool(told) for told in reviewer.told] == [False, True, False]


def test_passed_and_feedback_sends_all_that_it_has_seen_back_with_it() -> None:
    reviewer = Reviewer((False, "shorter"))
    report, script = reviewed(reviewer)
    assert report.iterations == 2
    assert [(call.subtask, call.feedback) for call in script.calls[2:]] == [
        ("a", "shorter"),
        ("b", "shorter"),
    ]
