"""Log lines in ``logging`` of the standard library, and what loguru and it are told of a place and a traceback."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest
from loguru import logger

from actors import Failed
from actors.logging import to_stdlib
from actors.testing import settle
from trees import Retry, StaticPlan, Subtask, SupervisorSpec, TaskFailedError, Tasks, Tree, WorkerSpec, start


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def kept() -> Iterator[Kept]:
    """What the logger ``regrow`` is told."""
    handler, ours = Kept(), logging.getLogger("regrow")
    before = ours.level
    ours.addHandler(handler)
    ours.setLevel(1)
    undo = to_stdlib()
    yield handler
    undo()
    ours.setLevel(before)
    ours.removeHandler(handler)


@pytest.fixture
def sink() -> Iterator[io.StringIO]:
    """What loguru is told."""
    stream = io.StringIO()
    number = logger.add(stream, level="TRACE", format="{level}|{name}|{function}|{line}|{message}")
    yield stream
    logger.remove(number)


def handle(message: Any) -> Any:
    if message == "failed":
        raise Failed("no such order")
    if message == "expected":
        raise LookupError("not there")
    raise ValueError("broken")


RAISED_AT = handle.__code__.co_firstlineno + 5
WORKERS = SupervisorSpec(id="p", max_restarts=100, children=[WorkerSpec(id="w", handle=handle, expected=LookupError)])


def crash(tree: Tree) -> None:
    tree.ref("p/w").tell("crash")
    settle(tree)


def test_lines_go_to_the_logger_regrow_in_place_of_loguru_once_however_often_it_is_said(
    kept: Kept, sink: io.StringIO
) -> None:
    to_stdlib()
    with start(WORKERS) as tree:
        crash(tree)
    (exit_,) = [each for each in kept.records if "ChildExited reason=crashed" in each.getMessage()]
    assert (exit_.name, exit_.levelno) == ("regrow", logging.WARNING)
    assert exit_.worker == "p/w"  # type: ignore[attr-defined]
    assert not sink.getvalue()


def test_it_can_be_taken_back(sink: io.StringIO) -> None:
    to_stdlib()()
    with start(WORKERS) as tree:
        crash(tree)
    assert "ChildExited reason=crashed" in sink.getvalue()


def test_a_crash_has_the_place_and_the_traceback_of_users_code_and_the_exception(kept: Kept) -> None:
    with start(WORKERS) as tree:
        crash(tree)
    (exit_,) = [each for each in kept.records if "ChildExited reason=crashed" in each.getMessage()]
    assert (exit_.pathname, exit_.funcName, exit_.lineno) == (__file__, "handle", RAISED_AT)
    assert exit_.exc_info is not None
    kind, error, frames = exit_.exc_info
    assert (kind, str(error)) == (ValueError, "broken")
    assert frames is not None
    assert frames.tb_frame.f_code is handle.__code__


def test_loguru_is_told_the_place_and_the_traceback_of_users_code_too(sink: io.StringIO) -> None:
    with start(WORKERS) as tree:
        crash(tree)
    text = sink.getvalue()
    assert f"WARNING|{__name__}|handle|{RAISED_AT}|p/w: ChildExited" in text
    below = text.partition("Traceback (most recent call last):\n")[2].splitlines()
    assert below[0].strip().startswith(f'File "{__file__}", line {RAISED_AT}')


def test_a_line_about_a_worker_in_a_process_has_the_place_there_and_the_traceback_from_there_on(kept: Kept) -> None:
    worker = WorkerSpec(id="w", handle=handle, dispatch="process")
    with start(SupervisorSpec(id="p", children=[worker])) as tree:
        with pytest.raises(ValueError, match="broken"):
            tree.ref("p/w").ask("broken")
        crash(tree)
    failed = next(each for each in kept.records if "RequestFailed" in each.getMessage())
    exited = next(each for each in kept.records if "ChildExited reason=crashed" in each.getMessage())
    assert failed.getMessage().endswith(f" at {__file__}:{RAISED_AT}")
    for line in (failed, exited):
        assert (line.pathname, line.funcName, line.lineno) == (__file__, "handle", RAISED_AT)
    below = logging.Formatter().format(exited).partition("Traceback (most recent call last):\n")[2]
    assert below.strip().startswith(f'File "{__file__}", line {RAISED_AT}')
    assert f"{os.sep}actors{os.sep}execution" not in below


def work(_: object, __: object) -> None:
    raise ValueError("broken")


@pytest.mark.parametrize("dispatch", ["auto", "process"])
def test_the_line_of_an_attempt_that_failed_says_where(kept: Kept, dispatch: Any) -> None:
    again = [Retry(max_attempts=2, initial_s=0.001, jitter=0.0)]
    worker = WorkerSpec(id="w", execute=work, dispatch=dispatch)
    tasks = Tasks(planner=StaticPlan([Subtask("w")]), on_failure=again)
    with start(SupervisorSpec(id="p", tasks=tasks, children=[worker])) as tree, pytest.raises(TaskFailedError):
        tree.run("work")
    warned = [
        each.getMessage() for each in kept.records if each.levelname == "WARNING" and "subtask=" in each.getMessage()
    ]
    assert [each.split()[1] for each in warned] == ["SubtaskRetrying", "SubtaskFailed"], warned
    assert all(each.endswith(f" at {__file__}:{work.__code__.co_firstlineno + 1}") for each in warned), warned


@pytest.mark.parametrize(("message", "kind"), [("failed", Failed), ("expected", LookupError)])
def test_an_expected_failure_is_one_line_with_its_place_and_no_traceback(
    kept: Kept, message: str, kind: type[Exception]
) -> None:
    with start(WORKERS) as tree:
        with pytest.raises(kind):
            tree.ref("p/w").ask(message)
        settle(tree)
    (line,) = [each for each in kept.records if "RequestFailed" in each.getMessage()]
    assert (line.levelno, line.exc_info, line.funcName) == (logging.DEBUG, None, "handle")
    assert "\n" not in line.getMessage()


def test_private_texts_are_given_to_no_handler(kept: Kept) -> None:
    with start(WORKERS, log_errors="type") as tree:
        crash(tree)
    shown = "\n".join(map(logging.Formatter().format, kept.records))
    assert "ValueError" in shown
    assert "broken" not in shown.replace('raise ValueError("broken")', "")


def test_levels_below_that_of_the_logger_are_not_written(kept: Kept) -> None:
    logging.getLogger("regrow").setLevel(logging.WARNING)
    with start(WORKERS) as tree:
        crash(tree)
    assert {each.levelname for each in kept.records} == {"WARNING"}
