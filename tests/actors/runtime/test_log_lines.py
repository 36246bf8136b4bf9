"""Log lines say why, when and what to do, and never show what is private."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from loguru import logger

from actors import Context, Escalated, Failed, RestartLimitError, Worker
from actors.model.clock import local
from actors.model.events import Event, TreeStarted
from actors.runtime import event_log
from actors.runtime.event_bus import Bus
from actors.runtime.event_log import ErrorsInLog, LogLines
from actors.tasks.model.store_events import JournalDamaged
from actors.testing import settle
from actors.validation.error_text import in_brief
from trees import (
    Breaker,
    Escalate,
    Failover,
    Plan,
    Respond,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskError,
    Tasks,
    Tree,
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


class Queued:
    """A pool that runs its jobs when it is told to."""

    def __init__(self) -> None:
        self.jobs: list[Any] = []

    def submit(self, job: Any) -> None:
        self.jobs.append(job)


def test_who_begins_to_hear_a_level_in_the_middle_of_a_round_hears_what_is_published_from_then_on() -> None:
    pool, told, sink, numbers = Queued(), LogLines(), io.StringIO(), list[int]()
    bus = Bus(pool, "r", float)  # type: ignore[arg-type]

    def log(event: Event) -> None:
        told.log(event)
        if event.path == "r/before":  # nobody has heard its level
            numbers.append(logger.add(sink, level=event.level, format="{message}"))
            bus.publish(TreeStarted("r/after"))

    bus.subscribe(log, begins=told.begin)
    for path in ("r/before", "r/beside"):
        bus.publish(TreeStarted(path))
    try:
        pool.jobs.pop().run()
    finally:
        logger.remove(numbers.pop())

    assert sink.getvalue() == "r/after: TreeStarted\n"


def test_of_a_level_that_nobody_hears_one_line_of_a_round_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told, asked = LogLines(), list[str]()

    class Asked:
        def log(self, level: str, form: str, line: Callable[[], str]) -> None:
            asked.append(level)
            if level == "ERROR":
                line()

    monkeypatch.setattr(event_log, "_LAZY", Asked())
    quiet, loud = TreeStarted("r"), JournalDamaged("r", "t", ValueError())
    for _ in range(2):
        told.begin()
        for event in (quiet, loud, quiet, loud):
            told.log(event)

    assert (quiet.level, loud.level) == ("TRACE", "ERROR")
    assert asked == ["TRACE", "ERROR", "ERROR"] * 2


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
        f"WARNING p/fail: SubtaskRetrying task={retrying.task} subtask=a attempt 1 of 2 kind=failed "
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


def test_a_child_that_is_parked_is_an_error_once_with_why_and_what_to_type(lines: io.StringIO) -> None:
    spec = SupervisorSpec(id="p", max_restarts=1, children=[WorkerSpec(id="w", actor=Boom, on_exhausted="park")])
    with start(spec) as running:
        for _ in range(2):
            running.ref("p/w").tell("now")
            settle(running)

    parked = [line for line in lines.getvalue().splitlines() if "ChildParked" in line]
    advice = "It stays down until somebody starts it: tree.restart_child('p/w')."
    assert parked == [f"ERROR p/w: ChildParked restarts=2 error=ValueError: {SECRET}-boom {advice}"]


def test_each_attempt_says_which_it_was_of_how_many_also_after_a_failover(lines: io.StringIO) -> None:
    ladder = [Retry(max_attempts=3, initial_s=0.0, max_s=0.0), Failover()]
    children = [WorkerSpec(id="one", execute=fail, backup="two", breaker=None)]
    children += [WorkerSpec(id="two", execute=fail, breaker=None)]
    plan = StaticPlan([Subtask("a", worker="one")])
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=plan, on_failure=ladder), children=children)
    with pytest.raises(TaskError), start(spec) as running:
        running.run("go", timeout=WAIT_S)

    said = re.findall(r"^WARNING (\S+): Subtask(Retrying|Failed) .* attempt (\d of \d)", lines.getvalue(), re.MULTILINE)
    assert said == [
        ("p/one", "Retrying", "1 of 3"),
        ("p/one", "Retrying", "2 of 3"),
        ("p/one", "Retrying", "3 of 6"),
        ("p/two", "Retrying", "4 of 6"),
        ("p/two", "Retrying", "5 of 6"),
        ("p/two", "Failed", "6 of 6"),
    ]


@pytest.mark.parametrize(("retryable", "of"), [(True, "1 of 1"), (False, "1 of 3")])
def test_one_that_is_not_tried_again_says_how_many_it_could_have_been(
    lines: io.StringIO, of: str, *, retryable: bool
) -> None:
    def refuses(task: Any, context: Context) -> None:
        raise Failed("no", retryable=retryable)

    ladder = [Retry(max_attempts=1 if retryable else 3)]
    spec = SupervisorSpec(id="p", tasks=Tasks(on_failure=ladder), children=[WorkerSpec(id="w", execute=refuses)])
    with pytest.raises(TaskError), start(spec) as running:
        running.run("w", timeout=WAIT_S)

    assert f"attempt {of} kind=failed error=no" in line_of(lines, "WARNING p/w: SubtaskFailed")


def test_a_task_that_fails_says_why_where_no_subtask_does(lines: io.StringIO) -> None:
    async def slow(task: Any, context: Context) -> None:
        await asyncio.sleep(WAIT_S)

    spec = SupervisorSpec(id="p", tasks=Tasks(), children=[WorkerSpec(id="slow", execute=slow)])
    with pytest.raises(TaskError), start(spec) as running:
        running.run(Task("slow", deadline_s=0.05), timeout=WAIT_S)

    assert re.search(
        r"^WARNING p: TaskEnding task=\w+ status=failed kind=deadline error=\S+", lines.getvalue(), re.MULTILINE
    )


class Unsayable(Exception):  # noqa: N818 - a user's name
    def __str__(self) -> str:
        raise SystemExit


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("a\n  b"), "ValueError: a b"),
        (ValueError(), "ValueError"),
        (ValueError("x" * 500), f"ValueError: {'x' * 300} ..."),
        (Escalated("a question?"), "Escalated"),
        (Unsayable(), "Unsayable: <no text: its own code raised SystemExit>"),
    ],
)
def test_an_error_on_a_line_is_short_whatever_it_says(error: Exception, said: str) -> None:
    assert in_brief(error) == said
    assert in_brief(error, texts=False) == type(error).__name__
