"""A worker that ends by itself: how long its last hook may take, and what is said of it when that was too long.

Time is by hand, and a hook that is to be slow hangs until it is released: nothing here depends on how fast it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors import ChildAbandoned, ChildExited, ChildStopAbnormal, StartError
from actors.supervision.child_control import GRACE_S, OWN_END_S
from actors.testing import Fault, Hang, ManualClock, settle
from tests.support.crew import LONG_S, Record, faulty, meanwhile, running, shop
from tests.support.hardening import eventually
from trees import Tree

DISPATCHES = pytest.mark.parametrize("dispatch", ["pool", "loop", "thread"])
NO_PATIENCE = pytest.mark.parametrize("shutdown", [0, "brutal_kill"])
OWN_ENDS = pytest.mark.parametrize(
    ("message", "hook", "reason", "error"),
    [("raise ValueError", "on_failure", "crashed", ValueError), ("stop", "on_stop", "normal", type(None))],
)
"""How it ends, and in which hook it then is."""


@contextmanager
def ending(hook: str, message: Any, **words: Any) -> Iterator[tuple[Tree, ManualClock, Record, Hang]]:
    """A worker ``a`` that is in its last hook, and hangs there."""
    clock = ManualClock()
    with Hang(deaf=True) as hang:
        spec = faulty("a", **{hook: Fault(hang, times=1)}, **words)
        with running(shop(spec, max_restarts=100), clock=clock) as tree:
            record = Record(tree)
            tree.ref("shop/a").tell(message)
            hang.wait_until_entered()
            supervisor_has_heard(tree)
            try:
                yield tree, clock, record, hang
            finally:
                hang.release()


def supervisor_has_heard(tree: Tree) -> None:
    """Its supervisor has handled all that was said to it."""
    tree._system.boxes["shop"].when_quiet().wait(60)


def let_time_run_out(tree: Tree, clock: ManualClock, seconds: float) -> None:
    """The limit, and then the grace of one that was cancelled."""
    for each in (seconds, GRACE_S + 0.1):
        supervisor_has_heard(tree)
        clock.advance(each)
    supervisor_has_heard(tree)


@NO_PATIENCE
@OWN_ENDS
@DISPATCHES
def test_a_supervisor_that_does_not_wait_for_a_stop_gives_an_own_end_some_seconds(
    dispatch: str, message: str, hook: str, reason: str, error: type[Any], shutdown: Any
) -> None:
    words = {"dispatch": dispatch, "shutdown": shutdown, "restart": "transient"}
    with ending(hook, message, **words) as (tree, clock, record, hang):
        clock.advance(OWN_END_S - 0.1)
        supervisor_has_heard(tree)
        hang.release()
        ended = record.wait_for(ChildExited, "shop/a")[0]
        settle(tree)

        assert (str(ended.reason), type(ended.error)) == (reason, error)
        assert record.of(ChildAbandoned) == []
        assert tree.child("shop/a").state == ("running" if reason == "crashed" else "stopped")


@pytest.mark.parametrize("shutdown", [0, "brutal_kill", 2.0])
@DISPATCHES
def test_a_crash_whose_on_failure_takes_too_long_is_still_that_crash(dispatch: str, shutdown: Any) -> None:
    with ending("on_failure", "raise ValueError", dispatch=dispatch, shutdown=shutdown) as (tree, clock, record, hang):
        let_time_run_out(tree, clock, (shutdown if isinstance(shutdown, float) else OWN_END_S) + 0.1)
        ended = record.wait_for(ChildExited, "shop/a")[0]
        hang.release()
        settle(tree)

        assert str(ended.reason) == "crashed"
        assert isinstance(ended.error, ValueError)
        assert len(record.of(ChildAbandoned, "shop/a")) == 1
        assert record.exits("shop/a") == ["crashed"]
        assert str(tree.child("shop/a").last_exit).startswith("crashed ValueError")


@pytest.mark.parametrize("shutdown", [0, 2.0])
@DISPATCHES
def test_a_clean_end_whose_on_stop_has_to_be_cut_off_is_killed(dispatch: str, shutdown: float) -> None:
    with ending("on_stop", "stop", dispatch=dispatch, shutdown=shutdown) as (tree, clock, record, hang):
        let_time_run_out(tree, clock, (shutdown or OWN_END_S) + 0.1)
        record.wait_for(ChildExited, "shop/a")
        hang.release()
        settle(tree)

        assert record.exits("shop/a") == ["killed"]


@DISPATCHES
def test_a_stop_that_finds_an_own_end_under_way_has_its_own_limit(dispatch: str) -> None:
    """A limit of 0 s counts from the moment when its supervisor orders a stop; a crash is then reported as that."""
    with ending("on_failure", "raise ValueError", dispatch=dispatch, shutdown=0) as (tree, clock, record, hang):
        with meanwhile(tree.terminate_child, "shop/a") as call:
            eventually(lambda: tree._system.children["shop/a"].plan is not None or call.done())  # the order has come
            let_time_run_out(tree, clock, 0.1)
            call.result(LONG_S)
        hang.release()
        settle(tree)

        assert record.exits("shop/a") == ["crashed"]
        assert [str(event.reason) for event in record.of(ChildStopAbnormal, "shop/a")] == ["crashed"]
        assert tree.child("shop/a").state == "stopped"


@DISPATCHES
def test_one_limit_covers_the_handler_and_the_on_stop_of_a_worker_that_a_ref_stops(dispatch: str) -> None:
    clock = ManualClock()
    with Hang(deaf=True) as first, Hang(deaf=True) as second:
        spec = faulty("a", dispatch=dispatch, shutdown=5.0, on_stop=Fault(second, times=1))
        with running(shop(spec), clock=clock) as tree:
            record = Record(tree)
            tree.ref("shop/a").tell(first)
            first.wait_until_entered()
            tree.ref("shop/a").stop(block=False)
            supervisor_has_heard(tree)
            clock.advance(3)
            first.release()
            second.wait_until_entered()
            supervisor_has_heard(tree)
            let_time_run_out(tree, clock, 2.1)
            record.wait_for(ChildExited, "shop/a")
            second.release()
            settle(tree)

            assert record.exits("shop/a") == ["killed"]


@pytest.mark.parametrize("added", [True, False])
def test_one_that_ignored_its_first_start_stays_listed_when_its_second_is_terminated(added: bool) -> None:
    hang = Hang()
    spec = faulty("x", on_start=Turns("raise Ignore", hang), shutdown="infinity")
    with running(shop(*([] if added else [spec]))) as tree:
        if added:
            tree.start_child("shop", spec)
        with meanwhile(tree.restart_child, "shop/x") as again:
            hang.wait_until_entered()
            tree.terminate_child("shop/x")
            assert isinstance(again.exception(10), StartError)

        assert [(child.id, child.state) for child in tree.which_children("shop")] == [("x", "stopped")]


class Turns(Fault):
    """One fault after the other, then none."""

    def __init__(self, *faults: object) -> None:
        super().__init__(None)
        self._left = list(faults)

    def take(self) -> object:
        return self._left.pop(0) if self._left else None
