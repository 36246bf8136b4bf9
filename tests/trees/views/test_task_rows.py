"""A run in every phase, as text, JSON and mermaid."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from actors.testing import Hang, ManualClock
from tests.support.crew import LONG_S, Record, running
from tests.tasks.task_crew import GOAL, done, failing, holding, submitted, team
from trees import (
    Escalate,
    EscalationRaised,
    PlanError,
    Reject,
    Retry,
    Subtask,
    SubtaskRetrying,
    TaskFailedError,
    Verdict,
    WorkerSpec,
)
from trees.views.table import one_line
from trees.views.tree_text import DumpFormatError

# -- a run, phase by phase ---------------------------------------------------------------------------------


def test_a_run_is_a_line_for_each_subtask_with_what_it_waits_for_and_how_far_it_is() -> None:
    clock = ManualClock()
    subtasks = (
        Subtask("read", worker="slow"),
        Subtask("count", worker="slow"),
        Subtask("sum", capability="adds", depends_on=["read", "count"]),
    )
    with Hang() as hang:
        workers = {"slow": holding(hang), "adder": WorkerSpec(id="adder", execute=done, capabilities={"adds"})}
        with running(team(*subtasks, workers=workers), clock=clock) as tree:
            task = submitted(tree)
            hang.wait_until_entered()
            clock.advance(1.25)
            text, graph = task.dump(), task.dump("mermaid")
            hang.release()
            task.result(LONG_S)
            ended = task.dump()

    assert text == (
        "task t1                      running   find the secret of life   1.2 s\n"
        "├─ read             slow     running   40 % reading the \\x1b[31mfile   queued 0.0 s, ran 1.2 s\n"
        "├─ count            slow     queued    queued 1.2 s\n"
        "└─ sum              [adds]   pending   after read, count"
    )
    assert '["sum<br/>#91;adds#93;<br/>pending"]:::pending' in graph
    assert ended == (
        "task t1                     succeeded   find the secret of life   1.2 s\n"
        "├─ read             slow    succeeded   queued 0.0 s, ran 1.2 s\n"
        "├─ count            slow    succeeded   queued 1.2 s, ran 0.0 s\n"
        "└─ sum              adder   succeeded   after read, count   queued 0.0 s, ran 0.0 s"
    )


def test_a_subtask_that_waits_for_its_next_attempt_says_why_and_when() -> None:
    retry = Retry(max_attempts=2, initial_s=5.0, jitter=0)
    with running(
        team(Subtask("a", worker="bad"), workers={"bad": failing}, on_failure=[retry]), clock=(clock := ManualClock())
    ) as tree:
        record = Record(tree)
        task = submitted(tree)
        record.wait_for(SubtaskRetrying)
        clock.advance(1.0)
        line = task.dump().splitlines()[1]
        shown = tree.dump()
        clock.advance(4.0)
        with pytest.raises(TaskFailedError):
            task.result(LONG_S)
        ended = task.dump()

    assert re.fullmatch(
        r"└─ a +bad +retrying   ValueError: no \\x1b\[2J luck x+…   next attempt in 4\.0 s   queued 0\.0 s, ran 0\.0 s",
        line,
    )
    assert re.search(r"│    ◦ a +bad +retrying\n", shown)
    assert "bad   failed   attempts 2   ValueError" in ended
    assert len(max(ended.splitlines(), key=len)) < 250
    assert "\x1b" not in ended


def test_an_open_question_stands_below_the_run_with_its_id() -> None:
    ladder = [Escalate(question="May I?\nReally?")]
    workers = {"bad": WorkerSpec(id="bad", execute=failing, on_failure=ladder)}
    with running(team(Subtask("a", worker="bad"), workers=workers), clock=ManualClock()) as tree:
        record = Record(tree)
        task = submitted(tree)
        raised = record.wait_for(EscalationRaised)[0].escalation
        text, shown = task.dump(), tree.dump()
        data = json.loads(task.dump("json"))
        task.respond(raised, Reject("no"))
        with pytest.raises(TaskFailedError):
            task.result(LONG_S)
        ended = task.dump()

    lines = text.splitlines()
    assert lines[0] == "task t1                   waiting   find the secret of life   0.0 s"
    assert lines[2] == f"asks {raised}, about a: May I? Really?"
    assert lines[3].startswith("  because: ValueError: no ")
    assert re.search(rf"◦ a +bad +waiting +asks {raised}\n", shown)
    assert data["escalations"][0]["id"] == raised
    assert "asks" not in ended


def test_a_delegated_subtask_stands_under_the_one_that_asked_and_is_dashed_in_the_graph() -> None:
    async def asks(_: object, context: Any) -> Any:
        return await context.ask("deep", "look deeper")

    with Hang() as hang:
        workers = {"asks": asks, "deep": holding(hang), "w": done}
        subtasks = (Subtask("end", worker="asks"), Subtask("graph", worker="w", depends_on=["end"]))
        with running(team(*subtasks, workers=workers), clock=ManualClock()) as tree:
            task = submitted(tree)
            hang.wait_until_entered()
            text, graph = task.dump(), task.dump("mermaid")
            hang.release()
            task.result(LONG_S)

    assert [line.split()[:4] for line in text.splitlines()[1:]] == [
        ["├─", "end", "asks", "running"],
        ["│", "└─", "end/@1", "deep"],
        ["└─", "graph", "w", "pending"],
    ]
    assert graph.splitlines()[:6] == [
        "graph TD",
        '  n0["end<br/>asks<br/>running<br/>queued 0.0 s, ran 0.0 s"]:::running',
        '  n1["graph<br/>w<br/>pending"]:::pending',
        '  n2["end/@1<br/>deep<br/>running<br/>queued 0.0 s, ran 0.0 s"]:::running',
        "  n0 --> n1",
        "  n0 -.-> n2",
    ]


@pytest.mark.parametrize("phase", ["reviewing", "combining"])
def test_a_task_that_is_reviewed_or_combined_says_so(phase: str) -> None:
    def review(*_: object) -> Verdict:
        hang.hold()
        return Verdict(passed=True)

    def combine(*_: object) -> str:
        hang.hold()
        return "all"

    steps: dict[str, Any] = {"reviewer": review} if phase == "reviewing" else {"synthesizer": combine}
    with Hang() as hang, running(team(Subtask("a", worker="w"), workers={"w": done}, **steps)) as tree:
        task = submitted(tree)
        hang.wait_until_entered()
        first, shown = task.dump().splitlines()[0], tree.dump()
        hang.release()
        report = task.result(LONG_S)

    assert f"find the secret of life   {phase}" in first
    assert f"running   succeeded 1   {phase}\n" in shown
    assert report.status == "succeeded"


def test_a_task_that_is_undone_says_so_until_it_has_failed() -> None:
    def undo(*_: object) -> None:
        hang.hold()

    subtasks = (Subtask("pay", worker="bank"), Subtask("ship", worker="bad", depends_on=["pay"]))
    with Hang() as hang:
        workers = {"bank": WorkerSpec(id="bank", execute=done, undo=undo), "bad": failing}
        with running(team(*subtasks, workers=workers, on_failure=[Retry(max_attempts=1)])) as tree:
            task = submitted(tree)
            hang.wait_until_entered()
            during = task.dump()
            shown = tree.dump()
            hang.release()
            with pytest.raises(TaskFailedError):
                task.result(LONG_S)
            ended = task.dump()

    assert "find the secret of life   undoing" in during
    assert "running   succeeded 1, failed 1   undoing\n" in shown
    assert re.search(r"├─ pay +bank +compensated", ended)
    assert re.search(r"└─ ship +bad +failed +after pay   ValueError", ended)


def test_what_was_cut_short_and_then_undone_says_that_it_is() -> None:
    async def slow(*_: object) -> None:
        await asyncio.Event().wait()

    workers = {"bank": WorkerSpec(id="bank", execute=slow, undo=lambda *_: None)}
    with running(team(Subtask("pay", worker="bank", timeout_s=0.05), workers=workers, on_failure=[])) as tree:
        task = submitted(tree)
        with pytest.raises(TaskFailedError):
            task.result(LONG_S)
        ended = task.dump()

    assert re.search(r"└─ pay +bank +failed +undone   AttemptTimeoutError", ended)


def test_a_reviewer_that_failed_and_is_called_again_says_why_and_when() -> None:
    def review(*_: object) -> Verdict:
        raise OSError("no line")

    retry = Retry(max_attempts=2, initial_s=5.0, jitter=0)
    spec = team(Subtask("a", worker="w"), workers={"w": done}, reviewer=review, step_retry=retry)
    with running(spec, clock=ManualClock()) as tree:
        record = Record(tree)
        task = submitted(tree)
        record.wait_for(SubtaskRetrying)
        text = task.dump()

    assert "note: review failed 1 times, next in 5.0 s: OSError: no line" in text


def test_a_plan_that_was_refused_is_told_problem_by_problem() -> None:
    plan = [Subtask("a", worker="nobody"), Subtask("b", worker="noone")]
    with running(team(workers={"w": done}, planner=lambda *_: plan)) as tree:
        task = submitted(tree)
        with pytest.raises(PlanError):
            task.result(LONG_S)
        text = task.dump()

    assert text.startswith("task t1                failed   find the secret of life")
    assert "nobody" in text
    assert "noone" in text


# -- formats -----------------------------------------------------------------------------------------------

NODE = re.compile(r'  n\d+\["[^"\[\]{}()|\\`\']*"\](:::[a-z]+)?')
EDGE = re.compile(r"  n\d+ (-->|-\.->) n\d+")
CLASS = re.compile(r"  classDef [a-z]+ fill:#[0-9a-f]{6},stroke:#[0-9a-f]{3,6},color:#111")


def test_the_graph_is_well_formed_whatever_the_ids_are() -> None:
    subtasks = [Subtask("end", worker="style")]
    subtasks += [Subtask(id_, worker="style", depends_on=["end"]) for id_ in ("graph", "class", "o--o", "a" * 64)]
    with running(team(*subtasks, workers={"style": done})) as tree:
        task = submitted(tree)
        task.result(LONG_S)
        first, *lines = task.dump("mermaid").splitlines()

    assert first == "graph TD"
    assert [line for line in lines if not any(form.fullmatch(line) for form in (NODE, EDGE, CLASS))] == []
    assert sum(bool(EDGE.fullmatch(line)) for line in lines) == 4
    assert lines[-1].startswith("  classDef succeeded ")


def test_json_has_the_same_names_while_it_runs_and_when_it_has_ended() -> None:
    with Hang() as hang, running(team(Subtask("a", worker="w"), workers={"w": holding(hang)})) as tree:
        task = submitted(tree)
        hang.wait_until_entered()
        during = json.loads(task.dump("json"))
        hang.release()
        task.result(LONG_S)
        after = json.loads(task.dump("json"))

    assert during.keys() == after.keys()
    assert during["subtasks"][0].keys() == after["subtasks"][0].keys()
    assert during["subtasks"][0]["progress"] == 0.4
    assert during["status"] == "running"
    assert after["results"] == {"a": 1}
    assert after["goal"] == GOAL


def test_an_unknown_format_is_said_to_be_so_while_it_runs_and_afterwards() -> None:
    with Hang() as hang, running(team(Subtask("a", worker="w"), workers={"w": holding(hang)})) as tree:
        task = submitted(tree)
        hang.wait_until_entered()
        with pytest.raises(DumpFormatError, match=r"'xml' is not a format\. Use 'text', 'json' or 'mermaid'"):
            task.dump("xml")  # type: ignore[arg-type]
        hang.release()
        task.result(LONG_S)
        with pytest.raises(DumpFormatError):
            task.dump("xml")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("two\n\tlines ", "two lines"),
        ("a\x1b[31m", r"a\x1b[31m"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\ud800", r"\ud800"),
        ("x" * 20, "x" * 20),
        ("x" * 21, "x" * 19 + "…"),
        (" " * 200 + "x", "…"),
    ],
)
def test_any_text_becomes_one_harmless_line_of_a_given_width(text: str, line: str) -> None:
    assert one_line(text, 20) == line
