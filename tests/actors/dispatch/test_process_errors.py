"""Errors that cross between a process and its host are what they are on a thread: for the asker, the exit, the dump."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors import (
    WorkerCrashedError,
)
from tests.actors.dispatch import process_workers as there
from tests.actors.dispatch.process_trees import Exits, running, worker

NO_EXCEPTIONS = [SystemExit(7), KeyboardInterrupt(), asyncio.CancelledError("c"), GeneratorExit()]


@pytest.mark.parametrize("error", NO_EXCEPTIONS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("act", [there.do, there.async_do], ids=["sync", "async"])
@pytest.mark.parametrize("dispatch", ["auto", "process"])
def test_what_is_no_exception_is_the_cause_of_what_its_asker_gets_and_the_error_of_the_exit(
    dispatch: str, act: Any, error: BaseException
) -> None:
    with running(worker(handle=act, dispatch=dispatch)) as (tree, ask):
        exits = Exits(tree)
        with pytest.raises(WorkerCrashedError, match=type(error).__name__) as caught:
            ask(("raise", error))
        cause = caught.value.__cause__
        assert type(cause) is type(error)
        assert cause.args == error.args
        if dispatch == "process":
            assert "process_workers.py" in str(cause.__cause__), "and that has the traceback there"
        assert type(exits.one().error) is type(error)
        assert f"crashed {type(error).__name__}" in tree.dump()


@pytest.mark.parametrize("dispatch", ["auto", "process"])
def test_a_stop_iteration_of_a_handler_is_itself_and_may_be_expected(dispatch: str) -> None:
    """Where it is awaited, as everywhere, Python makes a RuntimeError of it."""
    with running(worker(dispatch=dispatch, expected=(StopIteration,))) as (tree, ask):
        with pytest.raises(StopIteration):
            ask(("raise", StopIteration(5)))
        assert ask(21) == 42
        assert tree.child("p/w").incarnation == 1
    with running(worker(dispatch=dispatch)) as (tree, ask):
        exits = Exits(tree)
        tree.ref("p/w").tell(("raise", StopIteration(5)))
        assert type(exits.one().error) is StopIteration
