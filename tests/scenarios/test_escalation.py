"""A leaf that cannot be helped takes down its supervisor, then that one's supervisor, and nobody can miss it."""

from __future__ import annotations

from typing import Any

import pytest

from actors import ChildExited, Event, RestartLimitError, SupervisorGaveUp, TreeDownError
from actors.testing import ManualClock, settle
from trees import SupervisorSpec, Tree, WorkerSpec, start


def handle(message: Any) -> Any:
    if message == "crash":
        raise ValueError(message)
    return message


TREE = SupervisorSpec(
    id="shop",
    max_restarts=2,
    period_s=60.0,
    children=[
        WorkerSpec(id="till", handle=handle),
        SupervisorSpec(
            id="billing",
            strategy="one_for_all",
            max_restarts=1,
            period_s=60.0,
            children=[
                WorkerSpec(id="ledger", handle=handle),
                WorkerSpec(id="mailer", handle=handle),
            ],
        ),
    ],
)


def crash(tree: Tree, path: str, times: int) -> None:
    for _ in range(times):
        tree.ref(path).tell("crash")
        settle(tree)


def test_a_leaf_that_uses_up_its_supervisors_limit_has_the_whole_group_started_anew() -> None:
    with start(TREE, clock=ManualClock()) as tree:
        crash(tree, "shop/billing/ledger", times=2)

        billing = tree.child("shop/billing")
        assert (billing.state, billing.incarnation, billing.restarts) == ("running", 2, 1)
        assert tree.child("shop/billing/mailer").incarnation == 3
        assert tree.child("shop/till").incarnation == 1
        assert tree.ref("shop/billing/ledger").ask("still there") == "still there"


def test_a_failure_escalates_step_by_step_until_the_root_gives_up() -> None:
    events: list[Event] = []
    tree = start(TREE, clock=ManualClock())
    tree.subscribe(events.append)
    ledger = tree.ref("shop/billing/ledger")
    crash(tree, "shop/billing/ledger", times=6)

    with pytest.raises(RestartLimitError) as gave_up:
        tree.wait(60)
    assert gave_up.value.path == "shop"
    assert not tree.is_alive
    assert [event.path for event in events if isinstance(event, SupervisorGaveUp)] == [
        "shop/billing",
        "shop/billing",
        "shop/billing",
        "shop",
    ]
    reasons = [str(event.reason) for event in events if isinstance(event, ChildExited) and event.path == ledger.path]
    assert reasons == ["crashed"] * 6

    with pytest.raises(TreeDownError) as down:
        ledger.ask("anybody?")
    assert isinstance(down.value.__cause__, RestartLimitError)
    with pytest.raises(TreeDownError):
        tree.restart_child("shop/billing")
    assert tree.stop() is True


def test_leaving_the_with_block_raises_what_the_root_gave_up_for() -> None:
    def host() -> None:
        with start(TREE, clock=ManualClock()) as tree:
            crash(tree, "shop/till", times=3)

    with pytest.raises(RestartLimitError, match="shop"):
        host()


def test_an_exception_under_way_is_not_replaced_by_the_roots_own() -> None:
    def host() -> None:
        with start(TREE, clock=ManualClock()) as tree:
            crash(tree, "shop/till", times=3)
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        host()


def test_crashes_that_are_far_enough_apart_never_escalate() -> None:
    clock = ManualClock()
    with start(TREE, clock=clock) as tree:
        for _ in range(10):
            crash(tree, "shop/billing/ledger", times=1)
            clock.advance(60.5)

        assert tree.child("shop/billing").incarnation == 1
        assert tree.child("shop/billing/ledger").incarnation == 11
