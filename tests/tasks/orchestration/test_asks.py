"""What an attempt asks of others while it runs, and gets, or does not get (point 13)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors import ActorsError
from actors.testing import AsyncScriptedExecutable, Hang, ManualClock, ScriptedExecutable, settle
from tests.tasks.dispatching import LONG_S, one, shop, submitted
from trees import (
    StaticPlan,
    SubtaskFailedError,
    SupervisorSpec,
    Tasks,
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


@ASKERS
def test_what_was_asked_for_and_failed_is_an_error_that_the_asker_may_catch(asker: Any) -> None:
    caught: list[BaseException] = []

    async def careful(task: object, context: Any) -> str:
        try:
            await asks(task, context)
        except SubtaskFailedError as error:
            caught.append(error)
        return "without help"

    def careful_sync(task: object, context: Any) -> str:
        try:
            asks_sync(task, context)
        except SubtaskFailedError as error:
            caught.append(error)
        return "without help"

    code = careful if asker is asks else careful_sync
    with start(with_helper(code, ScriptedExecutable(OSError("no line"))), clock=ManualClock()) as tree:
        report = tree.run("go", timeout=LONG_S)

    assert report.results["asker"] == "without help"
    assert "no line" in str(caught[0])


@pytest.mark.parametrize("name", ["nobody", "orchestrator", "shop", ""])
def test_an_ask_for_what_nobody_can_do_says_what_is_known(name: str) -> None:
    caught: list[BaseException] = []

    async def asker(_task: object, context: Any) -> str:
        try:
            await context.ask(name, "help")
        except ActorsError as error:
            caught.append(error)
        return "alone"

    with start(with_helper(asker, ScriptedExecutable()), clock=ManualClock()) as tree:
        report = tree.run("go", timeout=LONG_S)

    assert report.results["asker"] == "alone"
    assert type(caught[0]).__name__ == "NoCapableWorkerError"
    assert "help" in str(caught[0])


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


def test_an_ask_ends_with_its_timeout_and_what_was_asked_for_is_withdrawn() -> None:
    clock = ManualClock()
    with Hang() as hang:
        helper = AsyncScriptedExecutable(hang)

        async def asker(_task: object, context: Any) -> str:
            try:
                return str(await context.ask("help", "help", timeout=5))
            except SubtaskFailedError:
                return "waited long enough"

        with start(with_helper(asker, helper), clock=clock) as tree:
            handle = submitted(tree, "go")
            hang.wait_until_entered()
            clock.advance(5)
            report = handle.result(timeout=LONG_S)
            settle(tree)

    assert report.results["asker"] == "waited long enough"
    assert helper.calls[0].ended == "CancelledError"


def test_a_member_of_a_team_may_ask_whoever_stands_beside_its_team() -> None:
    helper = ScriptedExecutable("helped")
    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan([one("member")])),
        children=[WorkerSpec(id="member", execute=asks)],
    )
    spec = shop(team, WorkerSpec(id="helper", execute=helper, capabilities={"help"}), plans={"go": [one("team")]})

    with start(spec, clock=ManualClock()) as tree:
        report = tree.run("go", timeout=LONG_S)

    assert report.results["team"] == {"member": "helped"}


def test_an_asker_whose_answer_comes_from_above_its_team_goes_on_only_in_a_slot_of_its_team() -> None:
    busy, most = 0, 0

    async def work() -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        for _ in range(20):
            await asyncio.sleep(0)
        busy -= 1

    async def asker(task: object, context: Any) -> object:
        await work()
        answer = await asks(task, context)
        await work()
        return answer

    async def other(_task: object, _context: object) -> None:
        await work()

    plan = [one("asker"), *(one(f"o{n}", "other") for n in range(6))]
    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan(plan), max_parallel=1),
        children=[WorkerSpec(id="asker", execute=asker), WorkerSpec(id="other", execute=other)],
    )
    helper = WorkerSpec(id="helper", execute=AsyncScriptedExecutable("helped"), capabilities={"help"})

    with start(shop(team, helper, plans={"go": [one("team")]}), clock=ManualClock()) as tree:
        tree.run("go", timeout=LONG_S)

    assert most == 1
