"""Code of users that misbehaves where nobody expects it costs its own subtask or task, and never the orchestrator."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest

from actors import Escalated, Failed, Later
from actors.testing import AsyncScriptedExecutable, Hang
from tests.tasks.reviewing import AS_THEY_ARE
from trees import (
    CapabilityPlanner,
    Check,
    Done,
    Escalate,
    NoCapableWorkerError,
    Plan,
    Report,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskError,
    Tasks,
    TaskStatus,
    UnknownTaskError,
    Verdict,
    WorkerSpec,
    start,
)

ONE = StaticPlan([Subtask("a", worker="w")])


class NoText(Exception):  # noqa: N818 - a stand-in
    def __str__(self) -> str:
        return "".join(7)  # type: ignore[arg-type]


class ExitingText(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise SystemExit(3)


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


@pytest.mark.parametrize("error", [NoText(), ExitingText()])
def test_an_error_whose_text_cannot_be_made_is_told_by_its_type(error: Exception) -> None:
    report = report_of(raising(error))

    assert type(error).__name__ in report.failed["a"]


def test_an_error_with_a_huge_text_is_told_in_short() -> None:
    report = report_of(raising(ValueError("x" * 5_000_000)))

    assert len(report.failed["a"]) < 3000
    assert "5000000 characters" in report.failed["a"]


@pytest.mark.parametrize("after_s", ["soon", None, math.nan, math.inf, 1e12, True, object()])
def test_later_without_a_number_of_seconds_is_a_failure(after_s: Any) -> None:
    report = report_of(raising(Later(after_s)))

    assert "number of seconds" in report.failed["a"]


@pytest.mark.parametrize("usage", ["lots", None, 5, {"tokens": 5}, object()])
def test_done_with_an_odd_usage_is_a_failure_that_says_what_to_give(usage: Any) -> None:
    report = report_of(lambda task, context: Done("ok", usage=usage))

    assert "Give Usage(" in report.failed["a"]


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


@pytest.mark.parametrize("count", [raising_of_one(ValueError()), raising_of_one(SystemExit()), lambda text: None])
def test_a_token_counter_that_fails_is_done_without(count: Any) -> None:
    report = report_of(lambda task, context: "x" * 1000, {"count_tokens": count})

    assert report.status is TaskStatus.SUCCEEDED


@pytest.mark.parametrize(
    "planner",
    [
        raising(NoText()),
        raising(ExitingText()),
        raising(NoCapableWorkerError("t", (), ())),
        CapabilityPlanner(raising_of_one(ValueError())),
        CapabilityPlanner(lambda task: 7),  # type: ignore[arg-type, return-value]
        lambda *_: Plan.model_construct(subtasks=[1, 2]),
        lambda *_: Plan.model_construct(subtasks=None),
        lambda *_: Plan.model_construct(subtasks=[Subtask.model_construct(id="a", worker="w", depends_on=None)]),
        lambda *_: Plan.model_construct(subtasks=[Subtask.model_construct(id="a", worker="w", timeout_s="x")]),
        lambda *_: Plan.model_construct(subtasks=[Subtask.model_construct(id=7, worker=7, inputs=7)]),
    ],
)
def test_a_planner_that_is_odd_in_any_way_is_refused(planner: Any) -> None:
    report = report_of(tasks={"planner": planner})

    assert report.status is TaskStatus.FAILED
    assert report.graph == ()


@pytest.mark.parametrize(
    "reviewer",
    [
        raising(NoText()),
        raising(ExitingText()),
        lambda *_: Verdict.model_construct(passed="x", checks=None),
        lambda *_: Verdict.model_construct(passed=False, checks=[7]),
        lambda *_: Verdict.model_construct(
            passed=False, checks=[Check.model_construct(subtask="a", passed=False, feedback=NoText())]
        ),
    ],
)
def test_a_reviewer_that_is_odd_in_any_way_loses_nothing(reviewer: Any) -> None:
    report = report_of(tasks={"reviewer": reviewer, **AS_THEY_ARE})

    assert report.results == {"a": "ok"}
    assert report.best_effort


@pytest.mark.parametrize("synthesizer", [raising(NoText()), raising(ExitingText()), lambda *_: NoText])
def test_a_synthesizer_that_is_odd_in_any_way_loses_nothing(synthesizer: Any) -> None:
    report = report_of(tasks={"synthesizer": synthesizer, **AS_THEY_ARE})

    assert report.output == {"a": "ok"}
    assert report.best_effort


@pytest.mark.parametrize(
    ("timeout", "told"),
    [(math.inf, "helped"), (1e12, "helped"), (math.nan, "expected a timeout"), ("x", "expected a timeout")],
)
def test_asking_with_an_odd_timeout_is_answered_or_refused_and_time_goes_on(timeout: Any, told: str) -> None:
    async def asks(task: Any, context: Any) -> str:
        if context.attempt == 1:
            raise ValueError("once more, when some time has passed")
        try:
            return str(await context.ask("helper", "help", timeout=timeout))
        except ValueError as error:
            return str(error)

    children = [
        WorkerSpec(id="w", execute=asks),
        WorkerSpec(id="helper", execute=lambda task, context: "helped"),
    ]
    settings = Tasks(planner=ONE, on_failure=[Retry(2, initial_s=0.01)])
    with start(SupervisorSpec(id="p", tasks=settings, children=children)) as tree:
        reports = [tree.run("do it", timeout=60) for _ in range(2)]

    assert all(told in report.results["a"] for report in reports)


# -- odd tasks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "goal",
    ["\x00", "w " * 20_000, "(" * 10_000, "then " * 5_000, "a\nb\tc", "w, w; w. w and w then w" * 200],
    ids=["nul", "long", "brackets", "clauses", "white space", "repeated"],
)
def test_odd_goals_are_planned_or_refused(goal: str) -> None:
    spec = SupervisorSpec(id="p", tasks=Tasks(), children=[WorkerSpec(id="w", execute=lambda task, context: "ok")])
    with start(spec) as tree:
        handle = tree.submit(goal)
        with contextlib.suppress(TaskError):
            handle.result(timeout=60)
        status = handle.status
        assert tree.run("w", timeout=60).status is TaskStatus.SUCCEEDED
        assert tree.child("p/orchestrator").incarnation == 1

    assert status.is_final


def test_a_task_is_found_with_the_supervisor_that_has_it_and_its_id_is_known_to_the_whole_tree() -> None:
    hang = Hang()
    script = AsyncScriptedExecutable(hang)
    team = SupervisorSpec(id="team", tasks=Tasks(planner=ONE), children=[WorkerSpec(id="w", execute=script.execute)])
    here = WorkerSpec(id="w", execute=lambda task, context: "not here")
    with start(SupervisorSpec(id="p", tasks=Tasks(planner=ONE), children=[here, team])) as tree:
        handle = tree.submit(Task("do it", id="t1"), "p/team")
        script.wait_for_calls(1)
        found, same = tree.task("t1"), tree.submit(Task("do it", id="t1"))
        listed = [each.id for each in tree.tasks()]
        hang.release()
        reports = [each.result(timeout=60) for each in (handle, found, same)]
        with pytest.raises(UnknownTaskError):
            tree.task("@breaker:p/w")

    assert [report.path for report in reports] == ["p/team"] * 3
    assert listed == ["t1"]
    assert len(script.calls) == 1


class _Unasked(type):
    """Nobody may ask it what it is a class of."""

    def __subclasscheck__(cls, subclass: type) -> bool:
        raise SystemExit(3)

    __instancecheck__ = __subclasscheck__


class Unasked(Exception, metaclass=_Unasked):  # noqa: N818
    pass


@pytest.mark.parametrize("where", ["expected", "retry_on", "give_up_on"])
@pytest.mark.parametrize("error", [ValueError("x"), Unasked("x")], ids=["another", "itself"])
def test_a_type_that_cannot_be_asked_what_it_names_names_nothing(error: Exception, where: str) -> None:
    words: dict[str, Any] = {"expected": (Unasked,)} if where == "expected" else {}
    retry = Retry(2, initial_s=0.0, max_s=0.0, **({} if words else {where: (Unasked,)}))
    tasks = Tasks(planner=ONE, on_failure=[retry])
    spec = SupervisorSpec(id="p", tasks=tasks, children=[WorkerSpec(id="w", execute=raising(error), **words)])
    with start(spec) as tree:
        with pytest.raises(TaskError) as caught:
            tree.run("go", timeout=60)
        again = tree.submit("go")
        with pytest.raises(TaskError):
            again.result(60)

    assert "internal" not in str(caught.value)
    assert "died of it" not in str(caught.value)
