"""Log lines in ``logging`` of the standard library, and what loguru and it are told of a place and a traceback."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from loguru import logger

from actors import Failed
from actors.logging import to_stdlib
from actors.testing import settle
from trees import SupervisorSpec, Tree, WorkerSpec, start


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
