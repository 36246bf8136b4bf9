"""Log lines say why, when and what to do, and never show what is private."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Iterator
from typing import Any

import pytest
from loguru import logger

from actors import Context, Escalated, RestartLimitError, Worker
from actors.testing import settle
from trees import (
    Retry,
    SupervisorSpec,
    Task,
    TaskError,
    Tasks,
    WorkerSpec,
    start,
)

WAIT_S = 60.0
SECRET, PRIVATE = "SEC" + "RET", "PRI" + "VATE"  # not literals: a traceback shows lines of code


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    sink = io.StringIO()
    number = logger.add(sink, level="TRACE", format="{level} {message}", backtrace=True, diagnose=True)
    yield sink
    logger.remove(number)


def fail(task: Any, context: Context) -> None:
    raise OSError(f"no route {SECRET}-fail")


# -- S20: log lines say why ------------------------------------------------------------------------------------


def line_of(sink: io.StringIO, *words: str) -> str:
    """The first line that has all of these."""
    return next(line for line in sink.getvalue().splitlines() if all(word in line for word in words))


class Boom(Worker):
    def on_receive(self, message: Any) -> None:
        raise ValueError(f"{SECRET}-boom")


def test_a_crash_says_on_its_line_whose_it_was_and_what_it_died_of(lines: io.StringIO) -> None:
    spec = SupervisorSpec(id="p", max_restarts=2, children=[WorkerSpec(id="w", actor=Boom)])
    running = start(spec)
    for _ in range(3):
        running.ref("p/w").tell("now")
        settle(running)
    with pytest.raises(RestartLimitError):
        running.wait(WAIT_S)

    why = f"error=ValueError: {SECRET}-boom"
    assert line_of(lines, "WARNING p/w: ChildExited reason=crashed incarnation=1").endswith(why)
    assert (
        line_of(lines, "ChildRestarting") == f"WARNING p/w: ChildRestarting attempt=1 delay_s=0 restarts 1 of 2 {why}"
    )
    assert line_of(lines, "SupervisorGaveUp", "CRITICAL p: ", "child=p/w").endswith(why)
    assert lines.getvalue().count("Traceback (most recent call last)") == 3  # once for each crash


def test_a_crash_of_which_only_the_type_may_be_told_says_that(lines: io.StringIO) -> None:
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="w", actor=Boom)]), log_errors="type") as running:
        running.ref("p/w").tell("now")
        settle(running)

    assert line_of(lines, "ChildRestarting").endswith("restarts 1 of 3 error=ValueError")
    assert f"{SECRET}-boom" not in lines.getvalue()


def test_an_attempt_that_failed_says_its_type_where_only_that_may_be_told(lines: io.StringIO) -> None:
    def ends(task: Any, context: Context) -> None:
        if context.attempt > 1:
            raise Escalated(f"{PRIVATE}Error: may I?")
        fail(task, context)

    worker = WorkerSpec(id="w", execute=ends, on_failure=[Retry(max_attempts=2, initial_s=0.0)])
    spec = SupervisorSpec(id="p", tasks=Tasks(), children=[worker])
    with pytest.raises(TaskError), start(spec, log_errors="type") as running:
        running.run(Task("go"), timeout=WAIT_S)

    assert " error=OSError" in line_of(lines, "WARNING", "SubtaskRetrying")
    assert " error=" not in line_of(lines, "WARNING", "SubtaskFailed")
    assert SECRET not in lines.getvalue()
    assert PRIVATE not in lines.getvalue()


def test_a_child_that_is_parked_is_an_error_once_with_why_and_what_to_type(lines: io.StringIO) -> None:
    spec = SupervisorSpec(id="p", max_restarts=1, children=[WorkerSpec(id="w", actor=Boom, on_exhausted="park")])
    with start(spec) as running:
        for _ in range(2):
            running.ref("p/w").tell("now")
            settle(running)

    parked = [line for line in lines.getvalue().splitlines() if "ChildParked" in line]
    advice = "It stays down until somebody starts it: tree.restart_child('p/w')."
    assert parked == [f"ERROR p/w: ChildParked restarts=2 error=ValueError: {SECRET}-boom {advice}"]


def test_a_task_that_fails_says_why_where_no_subtask_does(lines: io.StringIO) -> None:
    async def slow(task: Any, context: Context) -> None:
        await asyncio.sleep(WAIT_S)

    spec = SupervisorSpec(id="p", tasks=Tasks(), children=[WorkerSpec(id="slow", execute=slow)])
    with pytest.raises(TaskError), start(spec) as running:
        running.run(Task("slow", deadline_s=0.05), timeout=WAIT_S)

    assert re.search(
        r"^WARNING p: TaskEnding task=\w+ status=failed kind=deadline error=\S+", lines.getvalue(), re.MULTILINE
    )
