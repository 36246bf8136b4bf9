"""Results become one output and one report: points 23 and 24 of the contract."""

from __future__ import annotations

from typing import Any

import pytest

from actors.testing import FakeModel, ScriptedExecutable
from tests.support.ids import stable
from tests.tasks.reviewing import RESULTS, reviewed_by
from trees import (
    Done,
    Last,
    ModelSynthesizer,
    Report,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskStatus,
    SupervisorSpec,
    TaskFailedError,
    Tasks,
    TaskStatus,
    Usage,
    Verbatim,
    WorkerSpec,
    start,
)

# -- combining -------------------------------------------------------------------------------------------------


class Joined:
    def combine(self, task: Any, results: dict[str, Any]) -> str:
        return " ".join(results.values())


class JoinedAsync:
    async def combine(self, task: Any, results: dict[str, Any]) -> str:
        return " ".join(results.values())


def joined(task: Any, results: dict[str, Any]) -> str:
    return " ".join(results.values())


async def joined_async(task: Any, results: dict[str, Any]) -> str:
    return " ".join(results.values())


@pytest.mark.parametrize(
    ("synthesizer", "output"),
    [
        (None, RESULTS),
        (Verbatim(), RESULTS),
        (Last(), "use x"),
        (Joined(), "do a use a use b do x use x"),
        (JoinedAsync(), "do a use a use b do x use x"),
        (joined, "do a use a use b do x use x"),
        (joined_async, "do a use a use b do x use x"),
        (lambda task, results: {"n": len(results), "goal": task.goal}, {"n": 5, "goal": "do all"}),
        (ModelSynthesizer(FakeModel("all is done")), "all is done"),
        (ModelSynthesizer(lambda prompt: "all is done"), "all is done"),
        (ModelSynthesizer(lambda prompt, schema: f"{schema} is done"), "None is done"),
        (ModelSynthesizer(lambda prompt, *, schema: f"{schema} is done"), "None is done"),
    ],
    ids=stable,
)
def test_results_become_one_output(synthesizer: Any, output: Any) -> None:
    with start(reviewed_by(None, synthesizer=synthesizer)) as tree:
        report = tree.run("do all", timeout=60)

    assert report.output == output
    assert report.results == RESULTS
    assert not report.best_effort


def test_a_model_that_combines_is_shown_the_goal_and_every_result_word_for_word() -> None:
    model = FakeModel("all is done")
    with start(reviewed_by(None, synthesizer=ModelSynthesizer(model))) as tree:
        tree.run("do all", timeout=60)

    assert "do all" in model.prompts[0]
    assert all(word in model.prompts[0] for word in RESULTS.values())


# -- the report ------------------------------------------------------------------------------------------------


def report_with_failures() -> Report:
    """Of a task with a subtask that failed, two that were skipped for that, an optional one, and one that is done."""
    plan = StaticPlan(
        [
            Subtask("good", worker="good"),
            Subtask("bad", worker="bad"),
            Subtask("after", worker="good", depends_on=["bad"]),
            Subtask("later", worker="good", depends_on=["after"]),
            Subtask("maybe", worker="bad", required=False),
            Subtask("without", worker="good", depends_on=["maybe"]),
        ]
    )
    bad = ScriptedExecutable(ValueError("broken"))
    children = [
        WorkerSpec(id="good", execute=lambda task, context: Done("ok", Usage(tokens=3, cost=0.5)), pool=2),
        WorkerSpec(id="bad", execute=bad.execute, breaker=None),
    ]
    settings = Tasks(planner=plan, on_failure=[Retry(2, initial_s=0)])
    with start(SupervisorSpec(id="p", tasks=settings, children=children)) as tree:
        with pytest.raises(TaskFailedError) as caught:
            tree.run("do all", timeout=60)
        assert caught.value.report is not None
        return caught.value.report


def test_a_report_says_what_was_done_what_failed_what_did_not_run_and_why() -> None:
    report = report_with_failures()

    assert report.status is TaskStatus.FAILED
    assert report.results == {"good": "ok", "without": "ok"}
    assert report.failed == {"bad": "ValueError: broken", "maybe": "ValueError: broken"}
    assert report.skipped == {"after": "needs 'bad', which has failed", "later": "needs 'after', which did not run"}
    assert report.compensated == []
    assert report.path == "p"
    assert "bad" in str(report.error)


def test_a_report_has_the_graph_with_states_workers_attempts_and_times() -> None:
    report = report_with_failures()

    lines = {line.id: line for line in report.graph}
    assert {id_: str(line.status) for id_, line in lines.items()} == {
        "good": "succeeded",
        "bad": "failed",
        "after": "skipped",
        "later": "skipped",
        "maybe": "failed",
        "without": "succeeded",
    }
    assert (lines["bad"].worker, lines["bad"].attempts) == ("bad", 2)
    assert (lines["after"].worker, lines["after"].attempts) == (None, 0)
    assert lines["later"].depends_on == ("after",)
    assert lines["good"].ended_at >= lines["good"].started_at > 0
    assert report.timings["total"] >= report.timings["planned"] >= 0
    assert report.timings["running"] == pytest.approx(sum(line.running_s for line in report.graph))


def test_a_report_sums_up_what_was_used() -> None:
    report = report_with_failures()

    assert (report.usage.tokens, report.usage.cost) == (6, 1.0)
    assert (report.graph[0].usage.tokens, report.graph[0].usage.cost) == (3, 0.5)
    assert report.usage.seconds == pytest.approx(sum(line.usage.seconds for line in report.graph))


def test_an_optional_subtask_that_failed_leaves_a_task_that_succeeded_and_the_report_says_so() -> None:
    plan = StaticPlan([Subtask("a", worker="bad", required=False), Subtask("b", worker="good", depends_on=["a"])])
    seen: list[Any] = []
    bad = ScriptedExecutable(ValueError("broken"))
    children = [
        WorkerSpec(id="bad", execute=bad.execute),
        WorkerSpec(id="good", execute=lambda task, context: seen.append(context.results) or "ok"),
    ]
    with start(SupervisorSpec(id="p", tasks=Tasks(planner=plan, on_failure=[]), children=children)) as tree:
        report = tree.run("do it", timeout=60)

    assert report.status is TaskStatus.SUCCEEDED
    assert report.results == {"b": "ok"}
    assert report.failed == {"a": "ValueError: broken"}
    assert seen == [{}]
    assert report.graph[0].status is SubtaskStatus.FAILED
