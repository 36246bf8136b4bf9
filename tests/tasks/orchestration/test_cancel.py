"""Cancelling a task wherever it stands, and the other two ends from outside: its deadline and its budget."""

import asyncio
from enum import StrEnum
from typing import Any

import pytest

from actors.testing import AsyncScriptedExecutable, Hang, settle
from tests.support.attempts import LONG_S, SLOWLY, Shop, no, shop
from tests.tasks.late_store import LateStore
from tests.tasks.scripted import CHAIN, ONE, loop, sync
from trees import (
    StaticPlan,
    Subtask,
    SubtaskCancelled,
    SubtaskRetrying,
    SupervisorSpec,
    TaskCancelledError,
    TaskFinished,
    Tasks,
    WorkerSpec,
    start,
)


class Why(StrEnum):
    """Reasons of a host."""

    SLOW = "slow"


def kind(value: object) -> str:
    """Name of a value for a test."""
    return type(value).__name__


def cancelled(it: Shop) -> None:
    """It has ended by that, its report says so, and nothing of it is left."""
    with pytest.raises(TaskCancelledError) as caught:
        it.handle.result(timeout=LONG_S)
    settle(it.tree)

    assert caught.value.report is not None
    assert caught.value.report.status == "cancelled"
    assert it.handle.status == "cancelled"
    assert len(it.events(TaskFinished)) == 1
    assert all(row.load == 0 for row in it.tree.registry())


def test_while_an_async_attempt_runs_it_is_cancelled_at_once_and_what_is_done_is_in_the_report() -> None:
    script, b = loop("b", Hang())
    with shop(CHAIN[:2], sync("a", "done")[1], b) as it:
        it.begin()
        script.wait_for_calls(1)
        it.handle.cancel()
        cancelled(it)
        report = it.report()

    assert [call.ended for call in script.calls] == ["CancelledError"]
    assert report.results == {"x": "done"}
    assert list(report.skipped) == ["y"]


def test_while_a_sync_attempt_runs_its_incarnation_is_replaced() -> None:
    with Hang(deaf=True) as held:
        _script, a = sync("a", held, "done")
        with shop(ONE, a) as it:
            it.begin()
            held.wait_until_entered()
            it.handle.cancel()
            it.pass_()
            it.clock.advance(1.0)
            with pytest.raises(TaskCancelledError):
                it.handle.result(timeout=LONG_S)
            again = it.tree.submit("sell")
            held.release()

            assert again.result(timeout=LONG_S).status == "succeeded"
            assert it.tree.which_children("shop")[1].state == "running"


def test_after_it_has_ended_nothing_happens() -> None:
    with shop(ONE, sync("a", "done")[1]) as it:
        handle = it.submit()
        handle.cancel()
        settle(it.tree)

        assert handle.status == "succeeded"
        assert handle.result(timeout=LONG_S).results == {"x": "done"}


def test_twice_is_once() -> None:
    script, a = loop("a", Hang())
    with shop(ONE, a) as it:
        it.begin()
        script.wait_for_calls(1)
        it.handle.cancel("first")
        it.handle.cancel("second")
        with pytest.raises(TaskCancelledError, match="first"):
            it.handle.result(timeout=LONG_S)


def test_what_a_team_has_is_cancelled_with_it() -> None:
    script = AsyncScriptedExecutable(Hang())
    member = WorkerSpec(id="member", execute=script.execute)
    plan = StaticPlan([Subtask("inner", worker="member"), Subtask("after", worker="member", depends_on=["inner"])])
    team = SupervisorSpec(id="team", tasks=Tasks(planner=plan), children=[member])
    with shop([Subtask("x", worker="team")], team) as it:
        it.begin()
        script.wait_for_calls(1)
        it.handle.cancel()
        cancelled(it)
        inner = {str(handle.status) for handle in it.tree.tasks()}

    assert [call.ended for call in script.calls] == ["CancelledError"]
    assert inner == {"cancelled"}


def test_while_there_is_no_orchestrator_it_happens_when_there_is_one_again() -> None:
    script, a = sync("a", no)
    with shop(ONE, a, on_failure=[SLOWLY]) as it:
        it.submit()
        it.tree.terminate_child("shop/orchestrator")
        it.handle.cancel()
        it.tree.restart_child("shop/orchestrator")
        cancelled(it)
        it.advance(100.0)

    assert len(script.calls) == 1


def test_a_cancelled_subtask_says_whether_it_may_have_had_its_effect() -> None:
    script, b = loop("b", Hang())
    with shop([Subtask("x", worker="a"), Subtask("z", worker="b")], sync("a", no)[1], b, on_failure=[SLOWLY]) as it:
        it.begin()
        script.wait_for_calls(1)
        it.until(SubtaskRetrying)
        it.handle.cancel()
        cancelled(it)
        unknown = {event.subtask: event.unknown for event in it.events(SubtaskCancelled)}

    assert unknown == {"x": False, "z": True}


# -- when it is recorded -------------------------------------------------------------------------------------


def test_a_cancel_returns_before_it_is_recorded_and_what_it_returns_is_done_when_it_is() -> None:
    held, store = Hang(), LateStore()
    worker = WorkerSpec(id="a", execute=AsyncScriptedExecutable(held).execute)
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a")])), children=[worker])
    with start(spec, store=store) as tree:
        handle = tree.submit("do it")
        held.wait_until_entered()
        store.hold()
        recorded = handle.cancel()
        assert store.flushed.acquire(timeout=LONG_S)
        was_recorded = recorded.wait(0.0)
        store.keep()

        assert not was_recorded
        assert recorded.get(timeout=LONG_S) is None
        with pytest.raises(TaskCancelledError):
            handle.result(timeout=LONG_S)
        assert handle.cancel().get(timeout=0) is None, "it has ended"


def test_a_cancel_of_a_task_that_ends_meanwhile_is_settled_with_that() -> None:
    held = Hang()
    worker = WorkerSpec(id="a", execute=AsyncScriptedExecutable(held).execute)
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a")])), children=[worker])

    async def awaited(handle: Any) -> None:
        await handle.cancel()

    with start(spec) as tree:
        handle = tree.submit("do it")
        held.wait_until_entered()
        asyncio.run(awaited(handle))
        with pytest.raises(TaskCancelledError):
            handle.result(timeout=LONG_S)


@pytest.mark.parametrize("reason", [TimeoutError("too slow"), 3, ["no"], b"no", object()], ids=kind)
def test_a_reason_that_is_no_text_is_refused_and_cancels_nothing(reason: Any) -> None:
    held = Hang()
    _, a = loop("a", held)
    with shop(ONE, a) as it:
        it.begin()
        held.wait_until_entered()
        with pytest.raises(TypeError, match=r"cancel: reason: expected a str, got .*\. Say it in words"):
            it.handle.cancel(reason)
        assert it.handle.status == "running"
        it.handle.cancel()
        cancelled(it)


def test_a_reason_may_be_a_word_of_an_enum() -> None:
    held = Hang()
    _, a = loop("a", held)
    with shop(ONE, a) as it:
        it.begin()
        held.wait_until_entered()
        it.handle.cancel(Why.SLOW)
        cancelled(it)
        assert str(it.handle.report.error).endswith("slow")  # type: ignore[union-attr]
