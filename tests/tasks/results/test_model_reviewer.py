"""The reviewer that asks a model: by criterion and subtask; a grader that fails is no "not good enough"."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from actors.testing import FakeModel
from tests.support.attempts import AT_ONCE
from trees import (
    ModelReviewer,
    Plan,
    Report,
    Reviewed,
    StaticPlan,
    Subtask,
    SubtaskFailed,
    SubtaskRetrying,
    SupervisorSpec,
    Task,
    TaskError,
    Tasks,
    WorkerSpec,
    start,
)

CRITERIA = ["It names its source.", "It is short."]
PLAN = Plan([Subtask("a", "find it", worker="w"), Subtask("b", "write it", worker="w")])
RESULTS = {"a": "found", "b": {"text": "written"}}


def yes(feedback: str = "") -> dict[str, Any]:
    return {"feedback": feedback, "passed": True}


def no(feedback: str = "") -> dict[str, Any]:
    return {"feedback": feedback, "passed": False}


def both(a: Any, b: Any) -> dict[str, Any]:
    return {"c1": a, "c2": b}


GOOD = {"a": both(yes(), yes()), "b": both(yes(), yes())}


def judged(answer: Any, criteria: list[str] | None = CRITERIA) -> Any:
    return asyncio.run(ModelReviewer(FakeModel(answer), criteria).review(Task("go"), PLAN, RESULTS))


def test_each_criterion_of_each_subtask_is_a_check_with_its_feedback() -> None:
    verdict = judged({"a": both(yes("fine"), no("too long")), "b": both(no(), yes())})

    assert not verdict.passed
    assert [(one.subtask, one.criterion, one.passed, one.feedback) for one in verdict.checks] == [
        ("a", CRITERIA[0], True, ""),
        ("a", CRITERIA[1], False, "too long"),
        ("b", CRITERIA[0], False, ""),
        ("b", CRITERIA[1], True, ""),
    ]


def test_what_has_passed_everything_has_passed() -> None:
    assert judged(GOOD).passed


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps(GOOD),
        json.dumps(GOOD).encode(),
        f"Sure:\n```json\n{json.dumps(GOOD)}\n```\nBye.",
        f"My verdict is {json.dumps(GOOD)} as I said.",
        {"a": {CRITERIA[0]: True, CRITERIA[1]: True}, "b": both(yes(), yes())},
        {"passed": True},
        [{"subtask": "a", "passed": True, "criterion": CRITERIA[0]}, {"subtask": "b", "passed": True}],
    ],
    ids=["text", "bytes", "fence", "prose", "by the criterion's text", "a verdict", "checks"],
)
def test_a_models_answer_is_read_in_every_usual_form(answer: Any) -> None:
    assert judged(answer).passed


# -- in a tree ---------------------------------------------------------------------------------------------------

ONE = StaticPlan([Subtask("a", "find it", worker="w")])
PASSED = {"a": {"c1": yes(), "c2": yes()}}


class Work:
    """A worker, and the feedback that its attempts saw."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, task: Any, context: Any) -> str:
        self.seen.append(context.feedback)
        return f"answer {len(self.seen)}"


def report_of(handle: Any) -> Report:
    assert handle.report is not None
    found: Report = handle.report
    return found


def reviewed(*answers: Any, **tasks: Any) -> tuple[Report, Work, list[type]]:
    work, events = Work(), list[type]()
    settings = {
        "planner": ONE,
        "reviewer": ModelReviewer(FakeModel(*answers), CRITERIA),
        "step_retry": AT_ONCE,
        **tasks,
    }
    spec = SupervisorSpec(id="p", tasks=Tasks(**settings), children=[WorkerSpec(id="w", execute=work)])
    with start(spec) as tree:
        handle = tree.submit("go")
        try:
            report = handle.result(timeout=60)
        except TaskError:
            report = report_of(handle)
        kinds = {Reviewed, SubtaskRetrying, SubtaskFailed}
        events = [type(event) for event in handle.events() if type(event) in kinds]
    return report, work, events


def test_what_is_not_good_enough_runs_again_with_the_criteria_that_it_has_not_met() -> None:
    report, work, _ = reviewed({"a": {"c1": no("who says so?"), "c2": no()}}, PASSED)

    assert work.seen == ["", "It names its source.: who says so?\nIt is short."]
    assert (report.iterations, report.best_effort, report.results) == (2, False, {"a": "answer 2"})


@pytest.mark.parametrize("broken", [ConnectionError("429"), TimeoutError("no answer")])
def test_a_grader_that_raises_is_tried_again_and_nothing_else_is(broken: Exception) -> None:
    report, work, events = reviewed(broken, broken, PASSED)

    assert (work.seen, report.best_effort) == ([""], False)
    assert events == [SubtaskRetrying, SubtaskRetrying, Reviewed]


@pytest.mark.parametrize("rubbish", ["", "I like it", {"a": {"c1": yes()}}, "x" * 10_000_000, {"x": 1}])
def test_a_grader_that_answers_rubbish_is_told_and_asked_again(rubbish: Any) -> None:
    report, work, events = reviewed(rubbish, PASSED)

    assert (work.seen, report.best_effort) == ([""], False)
    assert events == [Reviewed, Reviewed]


@pytest.mark.parametrize("broken", ["rubbish", ValueError("no")])
def test_a_grader_that_stays_broken_fails_as_a_step_and_sends_nothing_back(broken: Any) -> None:
    report, work, events = reviewed(broken, on_step_failure="best_effort")

    assert (work.seen, report.results, report.best_effort) == ([""], {"a": "answer 1"}, True)
    assert SubtaskFailed in events
    assert any(note.startswith("reviewer: ") for note in report.notes)
