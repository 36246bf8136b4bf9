"""SEMANTICS.md 13 and 14: what goes beyond OTP, parking and backoff."""

from __future__ import annotations

from typing import Any

import pytest

from actors import ActorStoppedError, ChildParked, ChildRestarting, DeadLetter, ParkedError
from actors.testing import Fault, ManualClock, settle
from tests.support.crew import Record, crash, faulty, incarnations, running, shop, states
from trees import Backoff, SupervisorSpec

BOTH = pytest.mark.parametrize("dispatch", ["pool", "loop", "thread"])
STEADY = Backoff(initial_s=10.0, factor=1.0, max_s=10.0, jitter=0.0, reset_after_s=1e6)


def parking(id_: str, **words: Any) -> Any:
    return faulty(id_, on_exhausted="park", **words)


# -- 13 ----------------------------------------------------------------------------------------------------


@BOTH
def test_a_parked_child_stays_down_answers_at_once_and_is_told_of(dispatch: str) -> None:
    with running(shop(parking("a", dispatch=dispatch), max_restarts=2)) as tree:
        record = Record(tree)
        ref = tree.ref("shop/a")
        for _ in range(3):
            crash(tree, "shop/a")
        ref.tell("hello")
        with pytest.raises(ParkedError):
            ref.ask("hello")
        settle(tree)

        assert states(tree) == {"a": "parked"}
        assert incarnations(tree) == {"a": 3}
        assert [event.path for event in record.of(ChildParked)] == ["shop/a"]
        assert [event.reason for event in record.of(DeadLetter, "shop/a")] == ["parked"]


def test_parking_answers_what_was_waiting() -> None:
    with running(shop(parking("a"), max_restarts=0), clock=ManualClock()) as tree:
        ref = tree.ref("shop/a")
        ref.tell("raise ValueError")
        waiting = [ref.ask("hello", block=False) for _ in range(3)]

        for reply in waiting:
            with pytest.raises(ParkedError):
                reply.get()


def test_the_restarts_of_a_child_that_parks_are_not_in_the_shared_window() -> None:
    spec = shop(parking("a"), faulty("b"), max_restarts=1, period_s=1e6)
    with running(spec) as tree:
        crash(tree, "shop/a")
        crash(tree, "shop/b")
        crash(tree, "shop/a")

        assert states(tree) == {"a": "parked", "b": "running"}


def test_a_child_that_parks_has_its_supervisors_figures_for_itself() -> None:
    clock = ManualClock()
    with running(shop(parking("a"), max_restarts=1, period_s=5.0), clock=clock) as tree:
        crash(tree, "shop/a")
        clock.advance(5.001)
        crash(tree, "shop/a")
        before = states(tree)
        clock.advance(5.0)
        crash(tree, "shop/a")

        assert before == {"a": "running"}
        assert states(tree) == {"a": "parked"}


def test_a_start_that_fails_again_and_again_parks() -> None:
    with running(shop(parking("a", on_start=Fault("raise OSError", after=1)), max_restarts=2)) as tree:
        record = Record(tree)
        crash(tree, "shop/a")

        assert states(tree) == {"a": "parked"}
        assert len(record.exits("shop/a")) == 3


def test_restart_child_revives_a_parked_child_with_a_new_window() -> None:
    with running(shop(parking("a"), max_restarts=1)) as tree:
        for _ in range(2):
            crash(tree, "shop/a")
        ref = tree.restart_child("shop/a")
        reply = ref.ask("hello")
        crash(tree, "shop/a")

        assert reply == "hello"
        assert states(tree) == {"a": "running"}


def test_a_parked_child_can_be_deleted_and_terminated() -> None:
    with running(shop(parking("a"), parking("b"), max_restarts=0)) as tree:
        crash(tree, "shop/a")
        crash(tree, "shop/b")
        tree.terminate_child("shop/a")
        tree.delete_child("shop/b")

        assert list(states(tree)) == ["a"]
        assert not tree.ref("shop/a").is_alive()


def test_a_pool_member_parks_alone() -> None:
    with running(shop(parking("crew", pool=3), max_restarts=0)) as tree:
        crash(tree, "shop/crew#1")
        replies = [tree.ref("shop/crew").ask(number) for number in range(10)]

        assert states(tree) == {"crew#0": "running", "crew#1": "parked", "crew#2": "running"}
        assert replies == list(range(10))


def test_a_supervisor_parks_instead_of_taking_its_parent_down() -> None:
    team = SupervisorSpec(id="team", children=[faulty("x")], max_restarts=0, on_exhausted="park")
    with running(shop(team, faulty("b"), max_restarts=1)) as tree:
        ref = tree.ref("shop/team/x")
        crash(tree, "shop/team/x")
        crash(tree, "shop/team/x")
        with pytest.raises(ParkedError) as caught:
            ref.ask("hello")
        parked = states(tree)
        tree.restart_child("shop/team")
        revived = ref.ask("hello")
        tree.terminate_child("shop/team")
        with pytest.raises(ActorStoppedError) as stopped:
            ref.ask("hello")

        assert parked == {"team": "parked", "b": "running"}
        said = "shop/team/x: its supervisor 'shop/team' is {}. restart_child('shop/team') starts both."
        assert (str(caught.value), str(stopped.value)) == (said.format("parked"), said.format("stopped"))
        assert (revived, type(stopped.value)) == ("hello", ActorStoppedError)


# -- 14 ----------------------------------------------------------------------------------------------------


def delays(record: Record, path: str = "shop/a") -> list[float]:
    return [event.delay_s for event in record.of(ChildRestarting, path)]


@BOTH
def test_consecutive_restarts_wait_longer_and_longer_up_to_the_most(dispatch: str) -> None:
    clock = ManualClock()
    backoff = Backoff(initial_s=1.0, factor=2.0, max_s=5.0, jitter=0.0, reset_after_s=60.0)
    with running(shop(faulty("a", backoff=backoff, dispatch=dispatch), max_restarts=100), clock=clock) as tree:
        record = Record(tree)
        for _ in range(5):
            crash(tree, "shop/a")
            clock.advance(5.0)
            settle(tree)

        assert delays(record) == [1.0, 2.0, 4.0, 5.0, 5.0]
        assert incarnations(tree) == {"a": 6}


@pytest.mark.parametrize(("up_s", "expected"), [(59.9, [1.0, 2.0]), (60.0, [1.0, 1.0])])
def test_a_child_that_stays_up_long_enough_starts_again_at_the_first_step(up_s: float, expected: list[float]) -> None:
    clock = ManualClock()
    backoff = Backoff(initial_s=1.0, factor=2.0, max_s=5.0, jitter=0.0, reset_after_s=60.0)
    with running(shop(faulty("a", backoff=backoff)), clock=clock) as tree:
        record = Record(tree)
        crash(tree, "shop/a")
        clock.advance(1.0)
        settle(tree)
        clock.advance(up_s)
        crash(tree, "shop/a")

        assert delays(record) == expected


@BOTH
def test_backoff_is_a_state_and_the_child_comes_back_when_it_is_due(dispatch: str) -> None:
    clock = ManualClock()
    with running(shop(faulty("a", backoff=STEADY, dispatch=dispatch), faulty("b")), clock=clock) as tree:
        ref = tree.ref("shop/a")
        crash(tree, "shop/a")
        waiting = ref.ask("hello", timeout=None, block=False)
        clock.advance(9.9)
        settle(tree)
        early = states(tree)
        answered_early = waiting.done
        others = tree.ref("shop/b").ask("still there?")
        clock.advance(0.1)
        reply = waiting.get(timeout=60)

        assert (early, answered_early) == ({"a": "restarting", "b": "running"}, False)
        assert others == "still there?"
        assert reply == "hello"


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
def test_a_group_with_a_child_in_backoff_waits_as_a_group(strategy: str) -> None:
    clock = ManualClock()
    with running(shop(faulty("a", backoff=STEADY), faulty("b"), strategy=strategy), clock=clock) as tree:
        crash(tree, "shop/a")
        clock.advance(9.9)
        settle(tree)
        during = states(tree)
        clock.advance(0.1)
        settle(tree)

        assert during == {"a": "restarting", "b": "restarting"}
        assert incarnations(tree) == {"a": 2, "b": 2}


def test_a_stop_of_the_tree_does_not_wait_for_a_backoff() -> None:
    with running(shop(faulty("a", backoff=STEADY)), clock=ManualClock()) as tree:
        crash(tree, "shop/a")

    assert not tree.is_alive
