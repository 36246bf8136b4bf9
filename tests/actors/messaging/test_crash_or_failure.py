"""Crash or failed request: what ends a worker, what its asker gets, which hook runs, and what is told of it."""

import asyncio
from typing import Any

import pytest
from loguru import logger

from actors import (
    ActorStoppedError,
    ChildExited,
    ChildRestarting,
    ChildStarted,
    Failed,
    Ignore,
    LoopBlocked,
    ParkedError,
    RecursionDetectedError,
    ReplyTimeoutError,
    RequestFailed,
    SubscriberDropped,
    WorkerCrashedError,
)
from actors.testing import settle
from tests.support.hardening import (
    BOTH,
    LONG_S,
    Gate,
    Ours,
    Witness,
    crash,
    eventually,
    kind_with,
    obey_async,
    tree_of,
    worker,
)

# -- the line between them ---------------------------------------------------------------------------------


def test_an_error_of_an_own_ask_that_is_not_caught_fails_the_request_only() -> None:
    gate = Gate()
    with tree_of(
        worker("a"),
        worker("raises"),
        worker("slow"),
        worker("down"),
        worker("parked", on_exhausted="park"),
        max_restarts=1,
    ) as tree:
        seen, a = Witness(tree), tree.ref("t/a")
        tree.ref("t/slow").tell(gate)
        tree.terminate_child("t/down")
        for _ in range(2):
            tree.ref("t/parked").tell(crash)
        settle_all_but_slow = lambda: tree.child("t/parked").state == "parked"  # noqa: E731
        eventually(settle_all_but_slow)
        cases = {
            ValueError: lambda: tree.ref("t/raises").ask(crash),
            ReplyTimeoutError: lambda: tree.ref("t/slow").ask("m", timeout=0.01),
            ActorStoppedError: lambda: tree.ref("t/down").ask("m"),
            ParkedError: lambda: tree.ref("t/parked").ask("m"),
            RecursionDetectedError: lambda: a.ask("m"),
        }
        for error, case in cases.items():
            with pytest.raises(error) as caught:
                a.ask(case)
            assert caught.type is error
        gate.open.set()
        settle(tree)

        assert tree.child("t/a").incarnation == 1
        assert [type(event.error) for event in seen.of(RequestFailed, path="t/a")] == list(cases)
        assert [event.reason for event in seen.of(RequestFailed, path="t/a")] == [case.__name__ for case in cases]


def test_an_error_of_an_own_await_fails_the_request_only() -> None:
    async def ask() -> object:
        return await tree.ref("t/b").ask_async(crash)

    with tree_of(worker("a", obey_async), worker("b")) as tree:
        with pytest.raises(ValueError, match="boom"):
            tree.ref("t/a").ask(ask)

        assert tree.child("t/a").incarnation == 1


def test_a_tell_whose_handler_fails_by_its_own_ask_hurts_nobody() -> None:
    with tree_of(worker("a"), worker("b")) as tree:
        seen, b = Witness(tree), tree.ref("t/b")
        tree.ref("t/a").tell(lambda: b.ask(crash))
        failed = seen.wait(RequestFailed, path="t/a")

        assert not failed.asked


def test_crash_on_ask_error_makes_it_a_crash_as_in_otp() -> None:
    with tree_of(worker("a", crash_on_ask_error=True), worker("b")) as tree:
        seen, b = Witness(tree), tree.ref("t/b")
        with pytest.raises(ValueError, match="boom"):
            tree.ref("t/a").ask(lambda: b.ask(crash))

        assert isinstance(seen.wait(ChildExited, path="t/a").error, ValueError)
        assert [event.path for event in seen.of(RequestFailed)] == ["t/b"]


@BOTH
@pytest.mark.parametrize("error", [Failed, KeyError])
def test_failed_and_expected_errors_answer_the_asker_and_keep_the_worker(
    kind: type[Any], error: type[BaseException]
) -> None:
    def fail(_: object) -> None:
        raise error("this request")

    with tree_of(worker("w", kind, expected=(LookupError,))) as tree:
        seen = Witness(tree)
        with pytest.raises(error):
            tree.ref("t/w").ask(fail)
        tree.ref("t/w").tell(fail)
        settle(tree)

        assert tree.child("t/w").incarnation == 1
        assert [event.asked for event in seen.of(RequestFailed)] == [True, False]


def test_ignore_in_on_start_leaves_a_child_stopped_and_the_tree_up() -> None:
    def ignore(_: object) -> None:
        raise Ignore

    with tree_of(worker("w", kind_with(Ours, on_start=ignore)), worker("x")) as tree:
        assert [child.state for child in tree.which_children("t")] == ["stopped", "running"]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
def test_what_is_no_exception_reaches_an_async_asker_as_an_error_with_its_cause(error: type[BaseException]) -> None:
    def end() -> None:
        raise error

    async def host() -> BaseException:
        with pytest.raises(WorkerCrashedError) as caught:
            await tree.ref("t/w").ask_async(end)
        return caught.value

    with tree_of(worker("w")) as tree:
        assert isinstance(asyncio.run(host()).__cause__, error)


# -- hooks -------------------------------------------------------------------------------------------------


@BOTH
def test_the_asker_is_answered_before_on_failure_runs(kind: type[Any]) -> None:
    gate = Gate()
    with tree_of(worker("w", kind_with(kind, on_failure=gate))) as tree:
        with pytest.raises(ValueError, match="boom"):
            tree.ref("t/w").ask(crash, timeout=LONG_S)
        gate.wait_reached()
        gate.open.set()


# -- events ------------------------------------------------------------------------------------------------


def test_the_events_of_a_crash_come_in_order() -> None:
    with tree_of(worker("w")) as tree:
        seen = Witness(tree)
        tree.ref("t/w").tell(crash)
        seen.wait(ChildStarted)

        assert [type(event) for event in seen.events] == [ChildExited, ChildRestarting, ChildStarted]


def test_a_subscriber_that_raises_is_dropped_and_hurts_nobody_else() -> None:
    def raises(_: object) -> None:
        raise KeyError

    with tree_of(worker("w")) as tree:
        tree.subscribe(raises)
        seen = Witness(tree)
        tree.ref("t/w").tell(crash)
        dropped = seen.wait(SubscriberDropped)
        tree.ref("t/w").tell(crash)
        seen.wait(ChildStarted, count=2)

        assert isinstance(dropped.error, KeyError)
        assert len(seen.of(SubscriberDropped)) == 1


def test_a_handler_that_holds_up_the_loop_is_reported_with_its_stack() -> None:
    async def hold_up() -> None:
        gate()

    with tree_of(worker("w", obey_async)) as tree:
        seen, gate = Witness(tree), Gate()
        tree.ref("t/w").tell(hold_up)
        blocked = seen.wait(LoopBlocked)
        gate.open.set()

        assert blocked.path == "t/w"
        assert "hold_up" in blocked.stack


def test_logger_disable_silences_everything() -> None:
    lines = []
    sink = logger.add(lines.append, level=0)
    try:
        with tree_of(worker("w")) as tree:
            tree.ref("t/w").tell(crash)
            settle(tree)
            loud = len(lines)
            logger.disable("actors")
            tree.ref("t/w").tell(crash)
            settle(tree)
    finally:
        logger.enable("actors")
        logger.remove(sink)

    assert loud > 0
    assert len(lines) == loud
