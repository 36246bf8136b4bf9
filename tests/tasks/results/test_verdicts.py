"""What a reviewer returns is read like what a planner returns, and what makes no sense is handed back to it."""

from __future__ import annotations

from typing import Any

import pytest

from actors.tasks.results.review import InvalidVerdictError, as_verdict, findings, problems_of
from actors.testing import ScriptedExecutable
from tests.support.attempts import run
from trees import Check, Subtask, TaskStatus, Verdict, WorkerSpec

NO = Verdict(passed=False, checks=[Check("a", passed=False, feedback="shorter")])
YES = Verdict(passed=True, checks=[Check("a", passed=True)])
JSON_NO = '{"passed": false, "checks": [{"subtask": "a", "passed": false, "feedback": "shorter"}]}'

READ: dict[str, tuple[Any, Verdict]] = {
    "a verdict": (NO, NO),
    "true": (True, Verdict(passed=True)),
    "false": (False, Verdict(passed=False)),
    "the word true": ("true", Verdict(passed=True)),
    "json": (JSON_NO, NO),
    "bytes": (JSON_NO.encode(), NO),
    "a fence": (f"Here you are:\n```json\n{JSON_NO}\n```\nRegards", NO),
    "a fence without a language": (f"```\n{JSON_NO}\n```", NO),
    "prose around it": (f"I have looked at [1] and {{it}}. My verdict: {JSON_NO} I hope that this helps.", NO),
    "a dict": ({"passed": False, "checks": [{"subtask": "a", "passed": False, "feedback": "shorter"}]}, NO),
    "a dict with checks of ours": ({"passed": False, "checks": [NO.checks[0]]}, NO),
    "a dict with more": ({"passed": False, "reason": "long", "checks": NO.checks}, NO),
    "a dict without passed": ({"checks": NO.checks}, NO),
    "a list of checks": (NO.checks, NO),
    "a list of dicts": ([{"subtask": "a", "passed": True}], YES),
    "a tuple of checks": (tuple(NO.checks), NO),
    "an empty list": ([], Verdict(passed=True)),
    "json of a list": ('[{"subtask": "a", "passed": true}]', YES),
    "passed and feedback": ((False, "shorter"), NO),
    "passed and no feedback": ((False, ""), Verdict(passed=False)),
    "passed and None": ((True, None), Verdict(passed=True)),
    "a list of the two": ([False, "shorter"], NO),
    "json of the two": ('[false, "shorter"]', NO),
    "a dict with feedback": ({"passed": False, "feedback": "shorter"}, NO),
    "by subtask": ({"a": False}, Verdict(passed=False, checks=[Check("a", passed=False)])),
    "by subtask, with feedback": ({"a": (False, "shorter")}, NO),
    "by subtask, as dicts": ({"a": {"passed": False, "feedback": "shorter"}}, NO),
    "checks by subtask": ({"passed": False, "checks": {"a": [False, "shorter"]}}, NO),
    "a feedback that is null": ({"checks": [{"subtask": "a", "passed": True, "feedback": None}]}, YES),
}


@pytest.mark.parametrize("name", READ)
def test_a_reviewers_answer_is_parsed_like_a_planners(name: str) -> None:
    value, wanted = READ[name]
    assert as_verdict(value, ["a"]) == wanted


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "returned None"),
        (1, "an int"),
        ("looks good to me", "no JSON"),
        ("", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ({"good": True}, "neither 'passed' nor 'checks'"),
        ({"passed": "yes"}, "expected true or false"),
        ({"passed": None, "checks": []}, "has no 'passed'"),
        ({"passed": False, "checks": 7}, "expected a list"),
        ({"passed": False, "checks": [7]}, "checks[0]"),
        ({"passed": False, "checks": [{"subtask": "a"}]}, "passed"),
        ((False, 7), "expected a text"),
        (['{"passed": true}'], "is not a check"),
    ],
    ids=str,
)
def test_an_answer_that_is_no_verdict_says_what_is_wrong_with_it(value: Any, words: str) -> None:
    with pytest.raises(InvalidVerdictError) as caught:
        as_verdict(value, ["a"])
    assert words in str(caught.value)


def problems(verdict: Verdict, known: tuple[str, ...] = ("a", "b"), again: tuple[str, ...] = ("a", "b")) -> str:
    return "\n".join(map(str, problems_of(verdict, known, again)))


def test_a_verdict_that_passes_with_a_check_that_has_not_is_a_contradiction() -> None:
    assert "passed is true, and a did not pass" in problems(
        Verdict(passed=True, checks=[Check("a", passed=False, feedback="x"), Check("b", passed=True)])
    )


def test_a_verdict_that_has_not_passed_though_all_its_checks_have_is_a_contradiction() -> None:
    assert "all checks have passed" in problems(Verdict(passed=False, checks=[Check("a", passed=True)]))


def test_a_check_without_feedback_is_a_problem_where_its_subtask_would_run_again() -> None:
    verdict = Verdict(passed=False, checks=[Check("a", passed=False, feedback=" "), Check("b", passed=True)])
    assert "checks of a" in problems(verdict)
    assert problems(verdict, again=()) == ""


def test_two_checks_of_one_subtask_are_both_told() -> None:
    checks = [Check("a", passed=False, feedback="one"), Check("a", passed=False, feedback="two")]
    assert findings(Verdict(passed=False, checks=checks)).failed == {"a": "one\ntwo"}


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
        ([Check("ghost", passed=True)], "speaks of ghost"),
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
        ("a", "Revision 2: shorter"),
        ("b", "Revision 2: shorter"),
    ]
