"""``context.ask`` and ``ask_sync``: what an attempt needs from others while it runs."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from actors import Failed
from actors.testing import ManualClock, settle
from tests.support.asking import LONG_S, Stuck, asking, asking_sync, assert_nothing_left, does, run, shop, team
from tests.support.attempts import AT_ONCE
from tests.support.load import beside_others
from trees import (
    Subtask,
    SubtaskCancelled,
    SubtaskDelegated,
    SubtaskFailedError,
    TaskCancelledError,
    TaskFailedError,
    WorkerSpec,
    start,
)

BOTH = pytest.mark.parametrize("ask", [asking, asking_sync], ids=["async", "sync"])


# -- who does it ---------------------------------------------------------------------------------------------


@BOTH
def test_what_is_asked_for_is_done_by_a_sibling_found_by_its_id_or_by_what_it_can_do(ask: Any) -> None:
    other = WorkerSpec(id="b", execute=does, capabilities={"think"})

    for to in ("b", "think"):
        report = run(shop(WorkerSpec(id="a", execute=ask(to)), other))

        assert report.results == {"only": "did the next thing"}
        assert [(one.worker, one.parent) for one in report.graph] == [("a", None), ("b", "only")]


@BOTH
def test_a_member_of_a_team_asks_the_workers_above_where_its_team_has_nobody(ask: Any) -> None:
    member = WorkerSpec(id="member", execute=ask("think"))

    report = run(shop(team(member), WorkerSpec(id="b", execute=does, capabilities={"think"})))

    assert report.results == {"only": {"part": "did the next thing"}}


def test_a_member_is_served_by_its_own_team_first() -> None:
    member = WorkerSpec(id="member", execute=asking("think"))
    inside = WorkerSpec(id="inside", execute=lambda _, __: "inside", capabilities={"think"})
    above = WorkerSpec(id="above", execute=lambda _, __: "above", capabilities={"think"})

    assert run(shop(team(member, inside), above)).results == {"only": {"part": "inside"}}


def test_a_team_can_be_asked_too() -> None:
    report = run(shop(WorkerSpec(id="a", execute=asking("team")), team(WorkerSpec(id="member", execute=does))))

    assert report.results == {"only": {"part": "did a part of it"}}


def test_inputs_are_handed_on_and_the_results_of_others_are_not() -> None:
    seen: list[Any] = []

    def looks(_: Any, context: Any) -> None:
        seen.append((context.inputs, context.results, context.goal))

    plan = [Subtask("before", worker="b"), Subtask("only", worker="a", depends_on=["before"])]
    workers = [WorkerSpec(id="a", execute=asking("c", inputs={"x": 1})), WorkerSpec(id="b", execute=does)]

    run(shop(*workers, WorkerSpec(id="c", execute=looks), plan=plan))

    assert seen == [({"x": 1}, {}, "the goal")]


@BOTH
def test_whoever_waits_gives_up_its_slot(ask: Any) -> None:
    workers = [
        WorkerSpec(id="a", execute=ask("b")),
        WorkerSpec(id="b", execute=ask("c", "the last thing")),
        WorkerSpec(id="c", execute=does),
    ]

    assert run(shop(*workers, max_parallel=1)).results == {"only": "did the last thing"}


def test_no_more_run_than_there_are_slots_when_somebody_has_its_answer() -> None:
    inside: set[str] = set()
    most: list[int] = []

    def note(name: str, *, enters: bool) -> None:
        (inside.add if enters else inside.discard)(name)
        most.append(len(inside))

    async def asks(task: Any, context: Any) -> str:
        note(task.id, enters=True)
        inside.discard(task.id)  # it waits
        got: str = await context.ask("b", f"for {task.id}")
        note(task.id, enters=True)
        for _ in range(3):
            await asyncio.sleep(0)
        note(task.id, enters=False)
        return got

    async def helps(task: Any, _: Any) -> str:
        note(task.id, enters=True)
        await asyncio.sleep(0)
        note(task.id, enters=False)
        return "helped"

    plan = [Subtask(f"s{n}", worker="a") for n in range(8)]
    workers = [WorkerSpec(id="a", execute=asks, pool=8), WorkerSpec(id="b", execute=helps, pool=8)]

    report = run(shop(*workers, plan=plan, max_parallel=1))

    assert set(report.results.values()) == {"helped"}
    assert max(most) == 1


# -- when it comes to nothing --------------------------------------------------------------------------------


@BOTH
def test_what_fails_after_all_that_could_be_tried_is_an_error_of_its_own_for_who_asked(ask: Any) -> None:
    tries: list[int] = []

    def fails(_: Any, context: Any) -> None:
        tries.append(context.attempt)
        raise ValueError(context.attempt)

    workers = [WorkerSpec(id="a", execute=ask("b")), WorkerSpec(id="b", execute=fails, on_failure=[AT_ONCE])]
    with start(shop(*workers)) as tree:
        with pytest.raises(TaskFailedError) as info:
            tree.run("the goal", timeout=LONG_S)
        incarnations = {child.id: child.incarnation for child in tree.which_children("p")}

    assert tries == [1, 2, 3]
    assert info.value.report is not None
    assert "SubtaskFailedError" in info.value.report.failed["only"]
    assert "ValueError: 3" in info.value.report.failed["only"]
    assert set(incarnations.values()) == {1}, "an answer that is an error is no crash of who asked"


def test_an_object_that_does_not_handle_it_has_failed_and_not_crashed() -> None:
    class Asker:
        def execute(self, _: Any, context: Any) -> Any:
            return context.ask_sync("b", "the next thing")

    def fails(_: Any, __: Any) -> None:
        raise Failed

    with start(shop(WorkerSpec(id="a", execute=Asker()), WorkerSpec(id="b", execute=fails))) as tree:
        with pytest.raises(TaskFailedError):
            tree.run("the goal", timeout=LONG_S)

        assert {child.incarnation for child in tree.which_children("p")} == {1}


def test_whoever_handles_it_goes_on() -> None:
    async def tolerant(_: Any, context: Any) -> str:
        try:
            await context.ask("b", "the next thing")
        except SubtaskFailedError as error:
            return f"without it: {error.subtask.rpartition('/')[0]}"
        return "with it"

    def fails(_: Any, __: Any) -> None:
        raise Failed

    workers = [WorkerSpec(id="a", execute=tolerant), WorkerSpec(id="b", execute=fails)]

    assert run(shop(*workers)).results == {"only": "without it: only"}


# -- time ----------------------------------------------------------------------------------------------------


@BOTH
def test_an_ask_may_take_what_its_attempt_has_left_and_no_more(ask: Any) -> None:
    stuck, clock = Stuck(), ManualClock()
    workers = [WorkerSpec(id="a", execute=ask("b", timeout=1000)), WorkerSpec(id="b", execute=stuck)]
    plan = [Subtask("only", worker="a", timeout_s=30)]
    with start(shop(*workers, plan=plan), clock=clock) as tree:
        handle = tree.submit("the goal")
        assert stuck.begun.wait(LONG_S)

        clock.advance(31)

        with pytest.raises(TaskFailedError):
            handle.result(LONG_S)
        assert stuck.cancelled.wait(LONG_S)


# -- when whoever asked is gone ------------------------------------------------------------------------------


def test_what_was_asked_for_is_cancelled_with_the_attempt_that_asked() -> None:
    stuck = Stuck()
    with start(shop(WorkerSpec(id="a", execute=asking("b")), WorkerSpec(id="b", execute=stuck))) as tree:
        handle = tree.submit("the goal")
        assert stuck.begun.wait(LONG_S)

        handle.cancel()

        with pytest.raises(TaskCancelledError):
            handle.result(LONG_S)
        assert stuck.cancelled.wait(LONG_S)
        settle(tree)
        assert_nothing_left(tree)


def test_what_nobody_waits_for_any_longer_is_withdrawn_while_its_asker_goes_on() -> None:
    """Also before the attempt that had asked has ended: that one has its slot again, and is not held up by it."""
    stuck = Stuck()

    async def impatient(_: Any, context: Any) -> str:
        asked = asyncio.ensure_future(context.ask("b", "the next thing"))
        await asyncio.to_thread(stuck.begun.wait, LONG_S)
        asked.cancel()
        assert await asyncio.to_thread(stuck.cancelled.wait, LONG_S)
        return "never mind"

    with start(shop(WorkerSpec(id="a", execute=impatient), WorkerSpec(id="b", execute=stuck))) as tree:
        report = tree.run("the goal", timeout=LONG_S)
        settle(tree)

        assert report.results == {"only": "never mind"}
        assert_nothing_left(tree)
        records = list(tree.task(report.task_id).events())
    assert [type(each) for each in records if isinstance(each, (SubtaskDelegated, SubtaskCancelled))] == [
        SubtaskDelegated,
        SubtaskCancelled,
    ]


def test_a_worker_that_waits_in_an_ask_does_not_hold_up_the_stop_of_its_tree() -> None:
    stuck = Stuck()
    workers = [WorkerSpec(id="a", execute=asking_sync("b")), WorkerSpec(id="b", execute=stuck)]
    with start(shop(*workers)) as tree:
        tree.submit("the goal")
        assert stuck.begun.wait(LONG_S)
        begun = time.monotonic()

    assert time.monotonic() - begun < beside_others(2.0)
