"""A value has at most 16 MB of JSON; large ones reach everybody who needs them, wherever they are kept."""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from actors import ConfigError, Context, Done, Escalated, Work
from trees import (
    Check,
    Report,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Verdict,
    WorkerSpec,
    start,
)

MOST = 16 * 1024 * 1024
LINE = {"a": "x" * 1_000}
TOO_LARGE = [
    pytest.param("x" * (MOST - 1), id="text"),
    pytest.param("é" * (MOST // 2), id="bytes count"),
    pytest.param({"lines": [LINE] * 17_000}, id="rows"),
    pytest.param(["\x01" * 1_000] * 3_000, id="escapes count"),
]
LARGE = [{"n": n, "text": f"line {n}"} for n in range(5_000)]


def outcome(code: Any, **worker: Any) -> Report:
    spec = SupervisorSpec(
        id="t",
        tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])),
        children=[WorkerSpec(id="w", execute=code, on_failure=[Retry(3, 0.0)], **worker)],
    )
    with start(spec) as tree:
        handle = tree.submit("go")
        with suppress(TaskFailedError):
            handle.result(60)
        assert handle.report is not None
        return handle.report


@pytest.mark.parametrize("value", TOO_LARGE)
def test_an_input_that_is_too_large_is_refused(value: Any) -> None:
    for make in (lambda inputs: Task("go", inputs=inputs), lambda inputs: Subtask("a", inputs=inputs)):
        with pytest.raises(ConfigError, match=r"inputs.*'big'.* MB of JSON, and a value has at most 16 MB"):
            make({"small": 1, "big": value})


@pytest.mark.parametrize("value", TOO_LARGE)
@pytest.mark.parametrize("declared", [{}, {"output": Any}])
def test_a_result_that_is_too_large_is_a_failed_attempt_that_is_not_tried_again(
    value: Any, declared: dict[str, Any]
) -> None:
    report = outcome(lambda _task, _context: value, **declared)

    assert [row.attempts for row in report.graph] == [1]
    assert "the result cannot be kept: it is" in report.failed["a"]


def test_a_step_or_a_state_that_is_too_large_fails_the_same() -> None:
    def makes_a_step(_task: Work, context: Context) -> Any:
        return context.step_sync("big", lambda: "x" * MOST)

    def asks(_task: Work, _context: Context) -> None:
        raise Escalated("what now?", state="x" * MOST)

    for code, said in ((makes_a_step, "the result of step 'big' cannot be kept"), (asks, "state=...) cannot be kept")):
        report = outcome(code)
        assert [row.attempts for row in report.graph] == [1]
        assert said in report.failed["a"]


def test_what_is_just_small_enough_is_kept() -> None:
    value = "x" * (MOST - 2)
    assert outcome(lambda _task, _context: value).results == {"a": value}
    assert Task("go", inputs={"a": value}).inputs == {"a": value}


@pytest.mark.parametrize("store", ["", "sqlite:///{}/tasks.db"])
def test_a_large_result_reaches_dependants_reviewer_revision_synthesizer_undo_and_report(
    store: str, tmp_path: Path
) -> None:
    seen: dict[str, Any] = {}

    def work(task: Work, context: Context) -> Any:
        if task.id == "rows":
            seen[f"previous {context.revision}"] = context.previous
            return Done([*LARGE, context.revision])
        seen[task.id] = context["rows"]
        if task.id == "fails":
            raise ValueError("no")
        return len(context["rows"])

    def undo(_task: Work, result: Any, _context: Context) -> None:
        seen["undo"] = result

    def review(_task: Task, _plan: Any, results: dict[str, Any]) -> Verdict:
        seen.setdefault("review", results["rows"])
        is_first = results["rows"][-1] == 0
        return Verdict(passed=not is_first, checks=[Check("rows", passed=False, feedback="more")] if is_first else [])

    def combine(_task: Task, results: dict[str, Any]) -> Any:
        seen["combine"] = results["rows"]
        return results

    plan = [Subtask("rows", worker="w"), Subtask("count", worker="w", depends_on=["rows"])]
    fails = [Subtask("rows", worker="w"), Subtask("fails", worker="w", depends_on=["rows"])]
    plans = {"go": plan, "fail": fails}
    spec = SupervisorSpec(
        id="t",
        tasks=Tasks(planner=lambda task, *_: plans[task.goal], reviewer=review, synthesizer=combine, on_failure=[]),
        children=[WorkerSpec(id="w", execute=work, undo=undo)],
    )
    with start(spec, store=store.format(tmp_path) or None) as tree:
        report = tree.run("go", timeout=60)
        with pytest.raises(TaskFailedError):
            tree.run("fail", timeout=60)

    assert report.results == {"rows": [*LARGE, 1], "count": len(LARGE) + 1}
    assert report.output == report.results
    assert seen["previous 1"] == seen["review"] == seen["undo"] == seen["fails"] == [*LARGE, 0]
    assert seen["combine"] == seen["count"] == [*LARGE, 1]


def test_a_long_list_has_the_same_form_and_the_same_errors_as_a_short_one() -> None:
    day, rows = date(2026, 1, 2), 2_500
    value = {1: [(n, day) for n in range(rows)], "set": [{"n": n} for n in range(rows)]}
    wanted = {"1": [[n, "2026-01-02"] for n in range(rows)], "set": [{"n": n} for n in range(rows)]}
    assert outcome(lambda _task, _context: value).results == {"a": wanted}
    assert Task("go", inputs={"a": value}).inputs == {"a": wanted}

    for wrong, place in (([*range(rows), object()], "[2500]"), ({"b": [*range(rows), {"c": object()}]}, "['b'][2500]")):
        assert place in outcome(lambda _task, _context, wrong=wrong: wrong).failed["a"]
    twice = {1: [0] * rows, "1": [0] * rows}
    assert "two keys that are the same key" in outcome(lambda _task, _context: twice).failed["a"]
