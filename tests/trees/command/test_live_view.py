"""Tasks on the command line: the live view on a terminal, plain lines anywhere else. No payload is ever in either."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from actors.testing import Hang
from tests.support.command import file, regrow, runtime
from tests.support.crew import LONG_S, running
from trees import StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec
from trees.command.live_view import LiveView

__all__ = ["runtime"]

PROGRAM = """
from trees import *


def secret_result(task, context):
    return "private-result"


def refuses(task, context):
    raise ValueError("private-error")


PLAN = [
    Subtask("good", worker="good", instruction="private-instruction"),
    Subtask("flaky", worker="flaky", required=False),
    Subtask("ask", worker="ask", required=False),
]
TREE = SupervisorSpec(
    id="made",
    tasks=Tasks(planner=StaticPlan(PLAN)),
    children=[
        WorkerSpec(id="good", execute=secret_result),
        WorkerSpec(
            id="flaky",
            execute=refuses,
            on_failure=[Retry(max_attempts=2, initial_s=0.0)],
            breaker=Breaker(failure_threshold=1, cooldown_s=0.05),
        ),
        WorkerSpec(id="ask", execute=refuses, on_failure=[Escalate(question="private-question")], breaker=None),
    ],
)


def main(tree):
    task = tree.submit(Task(goal="private-goal", id="t1"))
    for event in task.events():
        if isinstance(event, EscalationRaised):
            task.respond(event.escalation, Reject("private-reason"))
    task.result(60)
"""


@pytest.mark.usefixtures("runtime")
def test_away_from_a_terminal_what_somebody_should_know_of_a_task_is_a_line(tmp_path: Path) -> None:
    ran = regrow("run", file(tmp_path, "made.py", PROGRAM), cwd=tmp_path)

    told = [line for line in ran.stdout.splitlines() if line.startswith(("made: task", "made/"))]
    assert ran.returncode == 0, ran.stderr
    assert sorted(told) == [
        "made/flaky: its breaker has opened, it gets no work",
        "made: task t1, subtask ask: asks a person, escalation t1:ask:1",
        "made: task t1, subtask ask: failed (denied)",
        "made: task t1, subtask flaky: attempt 1: failed, next in 0.0 s",
        "made: task t1, subtask flaky: failed (failed)",
        "made: task t1: planned, subtasks 3",
        "made: task t1: succeeded",
        "made: tasks are kept in regrow.db ('--store memory:' keeps none)",
    ]
    assert told[1] == "made: task t1: planned, subtasks 3"
    assert "made: task t1: succeeded" in told[-2:]
    assert "tasks finished 1" in ran.stdout
    assert "private" not in ran.stdout


def test_the_live_view_shows_how_far_a_running_subtask_is_without_what_it_is_about() -> None:
    async def reads(_: object, context: Any) -> None:
        context.progress(0.4, "reading")
        await hang.hold_async()

    spec = SupervisorSpec(
        id="shop",
        tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w", instruction="a private instruction")])),
        children=[WorkerSpec(id="w", execute=reads)],
    )
    console = Console(width=160, record=True, color_system=None)
    with Hang() as hang, running(spec) as tree:
        task = tree.submit("a private goal")
        hang.wait_until_entered()
        with console.capture() as shown:
            console.print(LiveView(tree, console).look())
        hang.release()
        task.result(LONG_S)

    text = shown.get()
    assert re.search(rf"│  ◦ task {task.id} +running +running 1", text)
    assert re.search(r"│    ◦ a +w +running +40 % reading   for \d+\.\d s", text)
    assert "private" not in text
