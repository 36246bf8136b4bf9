"""Code of users that misbehaves where nobody expects it costs its own subtask or task, and never the orchestrator."""

from __future__ import annotations

import math
from typing import Any

import pytest

from actors import Escalated, Failed, Later
from tests.tasks.reviewing import AS_THEY_ARE
from trees import (
    Done,
    Escalate,
    Report,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    TaskError,
    Tasks,
    WorkerSpec,
    start,
)

ONE = StaticPlan([Subtask("a", worker="w")])


class NoText(Exception):  # noqa: N818 - a stand-in
    def __str__(self) -> str:
        return "".join(7)  # type: ignore[arg-type]


def raising(error: BaseException) -> Any:
    def code(*args: Any) -> Any:
        raise error

    return code


def raising_of_one(error: BaseException) -> Any:
    def code(subtask: Any) -> Any:
        raise error

    return code


def report_of(execute: Any = lambda task, context: "ok", tasks: dict[str, Any] | None = None, **fields: Any) -> Report:
    """What becomes of a task; the orchestrator is the one that it was before, and a second task has the same end."""
    settings = Tasks(**{"planner": ONE, "on_failure": [], **(tasks or {})})
    worker = WorkerSpec(id="w", execute=execute, breaker=None, **fields)
    reports, texts = [], []
    with start(SupervisorSpec(id="p", tasks=settings, children=[worker])) as tree:
        for _ in range(2):
            handle = tree.submit("do it")
            try:
                reports.append(handle.result(timeout=60))
            except TaskError as error:
                texts.append(str(error))
                reports.append(handle.report)
            assert handle.dump()
            assert list(handle.events())
        assert tree.dump(verbose=True)
        assert tree.child("p/orchestrator").incarnation == 1
    first, second = reports
    assert first is not None
    assert second is not None
    assert first.status is second.status
    assert all(texts)
    return first


# -- what a worker says ----------------------------------------------------------------------------------------


def test_an_error_with_a_huge_text_is_told_in_short() -> None:
    report = report_of(raising(ValueError("x" * 5_000_000)))

    assert len(report.failed["a"]) < 3000
    assert "5000000 characters" in report.failed["a"]


@pytest.mark.parametrize("after_s", ["soon", None, math.nan, math.inf, 1e12, object()])
def test_later_without_a_number_of_seconds_is_a_failure(after_s: Any) -> None:
    report = report_of(raising(Later(after_s)))

    assert "number of seconds" in report.failed["a"]


@pytest.mark.parametrize("usage", ["lots", None, 5, {"tokens": 5}, object()])
def test_done_with_an_odd_usage_is_a_failure_that_says_what_to_give(usage: Any) -> None:
    report = report_of(lambda task, context: Done("ok", usage=usage))

    assert "usage=Usage(" in report.failed["a"]


@pytest.mark.parametrize("signal", [Failed(object()), Failed(), Failed(None), Escalated(object())])  # type: ignore[arg-type]
def test_signals_with_odd_texts_are_failures(signal: Any) -> None:
    report = report_of(raising(signal))

    assert report.failed["a"]


def test_a_question_that_is_no_text_is_asked_all_the_same() -> None:
    report = report_of(raising(Escalated(object())), {"on_failure": [Escalate(timeout_s=0.01)]})  # type: ignore[arg-type]

    assert "nobody answered" in report.failed["a"]


@pytest.mark.parametrize(("fraction", "text"), [(math.nan, ""), (7, ""), (-1, ""), (0.5, object()), (0.5, None)])
def test_odd_progress_harms_nothing(fraction: Any, text: Any) -> None:
    def execute(task: Any, context: Any) -> str:
        context.progress(fraction, text)
        return "ok"

    assert report_of(execute).results == {"a": "ok"}


# -- what is called in odd places ------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("broken"), NoText(), SystemExit(3), KeyboardInterrupt()])
def test_an_estimate_that_raises_anything_is_a_problem_of_the_plan(error: BaseException) -> None:
    report = report_of(estimate=raising_of_one(error))

    assert "estimate" in str(report.error)


@pytest.mark.parametrize("reviewer", [raising(NoText())])
def test_a_reviewer_that_is_odd_in_any_way_loses_nothing(reviewer: Any) -> None:
    report = report_of(tasks={"reviewer": reviewer, **AS_THEY_ARE})

    assert report.results == {"a": "ok"}
    assert report.best_effort


@pytest.mark.parametrize("synthesizer", [raising(NoText()), lambda *_: NoText])
def test_a_synthesizer_that_is_odd_in_any_way_loses_nothing(synthesizer: Any) -> None:
    report = report_of(tasks={"synthesizer": synthesizer, **AS_THEY_ARE})

    assert report.output == {"a": "ok"}
    assert report.best_effort


# -- odd tasks -------------------------------------------------------------------------------------------------
