"""What an attempt asks of others while it runs, and gets, or does not get (point 13)."""

from __future__ import annotations

from typing import Any

import pytest

from actors import ActorsError
from actors.testing import ManualClock, ScriptedExecutable
from tests.tasks.dispatching import LONG_S, one, shop, submitted
from trees import (
    SupervisorSpec,
    WorkerSpec,
    start,
)


async def asks(_task: object, context: Any) -> Any:
    """Have somebody help, on the loop."""
    return await context.ask("help", "help me", {"x": 1})


def asks_sync(_task: object, context: Any) -> Any:
    """The same on a thread."""
    return context.ask_sync("help", "help me", {"x": 1})


def with_helper(asker: Any, helper: Any) -> SupervisorSpec:
    """A root with somebody who asks and somebody who can help."""
    return shop(
        WorkerSpec(id="asker", execute=asker),
        WorkerSpec(id="helper", execute=helper, capabilities={"help"}),
        plans={"go": [one("asker", instruction="find out")]},
        on_failure=[],
    )


ASKERS = pytest.mark.parametrize("asker", [asks, asks_sync], ids=["async", "sync"])


@ASKERS
def test_an_ask_gives_the_result_and_the_one_asked_sees_only_what_it_was_told(asker: Any) -> None:
    helper = ScriptedExecutable({"found": (1, 2)})

    with start(with_helper(asker, helper), clock=ManualClock()) as tree:
        report = tree.run("go", timeout=LONG_S)

    [call] = helper.calls
    assert report.results["asker"] == {"found": [1, 2]}
    assert (call.goal, call.instruction, call.inputs, call.results) == ("go", "help me", {"x": 1}, {})


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("help", 5), "instruction is an int. Give a text"),
        ((5, "help me"), "to is an int. Give a text"),
        (("help", "help me", [1]), "inputs is a list. Give a dict"),
    ],
)
def test_an_ask_that_is_none_says_what_is_wrong_with_it(asked: tuple[Any, ...], said: str) -> None:
    async def asker(_: object, context: Any) -> Any:
        return await context.ask(*asked)

    helper = ScriptedExecutable("never")
    with start(with_helper(asker, helper), clock=ManualClock()) as tree:
        handle = submitted(tree, "go")
        with pytest.raises(ActorsError, match=f"context.ask: {said}"):
            handle.result(LONG_S)
    assert helper.calls == []
