"""Log lines say why, when and what to do, and never show what is private."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

import pytest
from loguru import logger

from actors import Context, Escalated, Worker
from actors.model.clock import local
from actors.runtime.event_log import ErrorsInLog
from actors.testing import settle
from trees import (
    Breaker,
    Escalate,
    Plan,
    Respond,
    Retry,
    Subtask,
    SupervisorSpec,
    Task,
    TaskError,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

WAIT_S = 20.0
SECRET, PRIVATE = "SEC" + "RET", "PRI" + "VATE"  # not literals: a traceback shows lines of code


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    sink = io.StringIO()
    number = logger.add(sink, level="TRACE", format="{level} {message}", backtrace=True, diagnose=True)
    yield sink
    logger.remove(number)


class Crash(Worker):
    def execute(self, task: Any, context: Context) -> None:
        token = context.inputs["key"]
        raise RuntimeError(f"bad token {token} {SECRET}-crash")


def fail(task: Any, context: Context) -> None:
    raise OSError(f"no route {SECRET}-fail")


def ask(task: Any, context: Context) -> str:
    if context.feedback:
        return f"{SECRET}-result"
    raise Escalated(f"{SECRET}-question?")


def undo(task: Any, result: Any, context: Context) -> None:
    raise OSError(f"{SECRET}-undo")


def planner(task: Task, catalogue: Any, feedback: Any = None) -> Plan:
    if task.goal.startswith("plan"):
        raise ValueError(f"{SECRET}-plan")
    return Plan([Subtask("a", worker=task.goal.split()[0], inputs={"key": f"{PRIVATE}-key"})])


def tree(errors: ErrorsInLog) -> Tree:
    ladder = [Retry(max_attempts=2, initial_s=0.01)]
    children = [
        WorkerSpec(id="crash", actor=Crash),
        WorkerSpec(id="fail", execute=fail, undo=undo, breaker=Breaker(failure_threshold=1, cooldown_s=0.05)),
        WorkerSpec(id="ask", execute=ask, on_failure=[Escalate()]),
        WorkerSpec(id="nobody", execute=ask),
    ]
    return start(
        SupervisorSpec(id="p", tasks=Tasks(planner=planner, on_failure=ladder), children=children), log_errors=errors
    )


def run_all(tree: Tree) -> None:
    for goal in ("plan it", "crash it", "fail it", "nobody asks"):
        with pytest.raises(TaskError):
            tree.run(Task(f"{goal} {PRIVATE}-goal", inputs={"more": f"{PRIVATE}-input"}), timeout=WAIT_S)
    handle = tree.submit(Task(f"ask it {PRIVATE}-goal", id="t-1"))
    settle(tree)
    tree.respond("t-1:a:1", Respond(f"{PRIVATE}-answer"))
    handle.result(WAIT_S)


@pytest.mark.parametrize("errors", ["text", "type"])
def test_goals_inputs_questions_answers_and_results_are_in_no_log_line(errors: ErrorsInLog, lines: io.StringIO) -> None:
    with tree(errors) as running:
        run_all(running)

    found = set(re.findall(rf"(?:{SECRET}|{PRIVATE})-\w+", lines.getvalue()))
    # A worker put the key into its own error.
    texts = {f"{SECRET}-plan", f"{SECRET}-crash", f"{SECRET}-fail", f"{PRIVATE}-key"}
    assert found == (texts if errors == "text" else set())


def test_with_types_only_a_line_still_says_which_type_and_where_it_was_raised(lines: io.StringIO) -> None:
    with tree("type") as running:
        run_all(running)

    said = lines.getvalue()
    assert "in execute" in said
    assert re.search(r"^RuntimeError$", said, re.MULTILINE)
    assert "SubtaskFailed" in said


def test_a_line_of_a_failed_attempt_says_the_error_and_the_time_of_the_next_try(lines: io.StringIO) -> None:
    heard: list[Any] = []
    with tree("text") as running:
        running.subscribe(heard.append)
        with pytest.raises(TaskError):
            running.run("fail it", timeout=WAIT_S)

    retrying = next(event for event in heard if type(event).__name__ == "SubtaskRetrying")
    wanted = (
        f"WARNING p: SubtaskRetrying task={retrying.task} subtask=a worker=fail attempt=1 kind=failed "
        f"error=OSError: no route {SECRET}-fail due={local(retrying.due)}\n"
    )
    assert wanted in lines.getvalue()
    assert "LadderPosition(" not in lines.getvalue()
    assert "1.8e+09" not in lines.getvalue()


def test_what_needs_a_person_is_an_error_once_with_how_to_answer(lines: io.StringIO) -> None:
    with tree("text") as running:
        running.submit(Task("ask", id="t-1"))
        settle(running)
        running.task("t-1").cancel()

    asked = [line for line in lines.getvalue().splitlines() if "t-1:a:1" in line and line.startswith("ERROR")]
    assert len(asked) == 1
    assert asked[0].endswith("Answer it: tree.respond('t-1:a:1', ...) or 'regrow tasks respond t-1:a:1 ...'.")
