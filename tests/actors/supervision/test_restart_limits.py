"""SEMANTICS.md 10 to 12: how many restarts are too many, and what giving up means."""

from __future__ import annotations

from typing import Any

import pytest

from actors import (
    ActorStoppedError,
    ChildExited,
    ChildRestarting,
    RestartLimitError,
    StartError,
    SupervisorGaveUp,
    TreeDownError,
    TreeStopped,
    UnknownPathError,
)
from actors.testing import Fault, ManualClock, settle
from tests.support.crew import LONG_S, Record, crash, doomed, faulty, hooks, incarnations, running, shop, states
from trees import Backoff, SupervisorSpec, Tree

BOTH = pytest.mark.parametrize("dispatch", ["pool", "loop", "thread"])


def team(*children: Any, **words: Any) -> SupervisorSpec:
    return SupervisorSpec(id="team", children=children, **words)


# -- 10 ----------------------------------------------------------------------------------------------------


def test_max_restarts_zero_gives_up_at_the_first_crash() -> None:
    diary: list[str] = []
    with doomed(shop(faulty("a", diary=diary), max_restarts=0)) as tree:
        crash(tree, "shop/a")

        with pytest.raises(RestartLimitError):
            tree.wait(LONG_S)
    assert hooks(diary) == ["on_start a", "on_failure a"]


@BOTH
@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
def test_max_restarts_four_makes_exactly_four_failing_starts(dispatch: str, strategy: str) -> None:
    diary: list[str] = []
    a = faulty("a", diary=diary, dispatch=dispatch, on_start=Fault("raise OSError", after=1))
    with doomed(shop(a, max_restarts=4, strategy=strategy)) as tree:
        record = Record(tree)
        crash(tree, "shop/a")

        assert not tree.is_alive
    assert hooks(diary).count("on_start a") == 1 + 4
    assert record.restarts() == 4


@pytest.mark.parametrize(("later_s", "survives"), [(4.999, False), (5.0, False), (5.001, True)])
def test_a_restart_exactly_period_s_old_still_counts(later_s: float, survives: bool) -> None:
    clock = ManualClock()
    with doomed(shop(faulty("a"), max_restarts=1, period_s=5.0), clock=clock) as tree:
        crash(tree, "shop/a")
        clock.advance(later_s)
        crash(tree, "shop/a")

        assert tree.is_alive is survives


def test_the_window_moves_with_the_clock() -> None:
    clock = ManualClock()
    with running(shop(faulty("a"), max_restarts=2, period_s=5.0), clock=clock) as tree:
        for _ in range(20):
            crash(tree, "shop/a")
            clock.advance(2.6)

        assert incarnations(tree) == {"a": 21}


def test_the_window_is_shared_by_all_children_of_a_supervisor() -> None:
    with doomed(shop(faulty("a"), faulty("b"), faulty("c"), max_restarts=2)) as tree:
        crash(tree, "shop/a")
        crash(tree, "shop/b")
        alive = tree.is_alive
        crash(tree, "shop/c")

        assert (alive, tree.is_alive) == (True, False)


def test_each_supervisor_has_a_window_of_its_own() -> None:
    spec = shop(faulty("a"), team(faulty("x"), max_restarts=1), max_restarts=1)
    with running(spec) as tree:
        crash(tree, "shop/a")
        crash(tree, "shop/team/x")

        assert (tree.child("shop/a").incarnation, tree.child("shop/team/x").incarnation) == (2, 2)


def test_an_attempt_counts_before_its_backoff_so_that_giving_up_never_waits() -> None:
    slow = Backoff(initial_s=1000.0, max_s=1000.0, jitter=0.0)
    spec = shop(faulty("a", backoff=slow), faulty("b", backoff=slow), max_restarts=1)
    with doomed(spec, clock=ManualClock()) as tree:
        crash(tree, "shop/a")
        waiting = states(tree)
        crash(tree, "shop/b")

        assert waiting == {"a": "restarting", "b": "running"}
        assert not tree.is_alive


# -- 11 ----------------------------------------------------------------------------------------------------


def test_a_group_restart_counts_once() -> None:
    children = [faulty(id_) for id_ in "abcde"]
    with running(shop(*children, strategy="one_for_all", max_restarts=1)) as tree:
        record = Record(tree)
        crash(tree, "shop/c")

        assert record.restarts() == 1
        assert set(incarnations(tree).values()) == {2}


def start_and_delete(tree: Tree) -> None:
    tree.start_child("shop", faulty("x"))
    tree.terminate_child("shop/x")
    tree.restart_child("shop/x")
    tree.terminate_child("shop/x")
    tree.delete_child("shop/x")


def fail_to_start(tree: Tree) -> None:
    with pytest.raises(StartError):
        tree.start_child("shop", faulty("x", on_start="raise OSError"))


def finish_a_transient(tree: Tree) -> None:
    tree.ref("shop/transient").stop()
    settle(tree)
    tree.restart_child("shop/transient")


def crash_a_temporary(tree: Tree) -> None:
    tree.start_child("shop", faulty("x", restart="temporary"))
    crash(tree, "shop/x")


@pytest.mark.parametrize("call", [start_and_delete, fail_to_start, finish_a_transient, crash_a_temporary])
def test_what_is_no_automatic_restart_is_not_counted(call: Any) -> None:
    with running(shop(faulty("transient", restart="transient"), max_restarts=0)) as tree:
        for _ in range(5):
            call(tree)

        assert states(tree) == {"transient": "running"}


def test_automatic_attempts_count_whether_they_succeed_or_not() -> None:
    a = faulty("a", on_start=Fault("raise OSError", after=1, times=1))
    with doomed(shop(a, faulty("b"), max_restarts=2)) as tree:
        crash(tree, "shop/a")
        alive = tree.is_alive
        crash(tree, "shop/b")

        assert (alive, tree.is_alive) == (True, False)


# -- 12 ----------------------------------------------------------------------------------------------------


@BOTH
def test_giving_up_stops_the_rest_in_reverse_and_the_culprit_is_not_started_again(dispatch: str) -> None:
    diary: list[str] = []
    children = [faulty(id_, diary=diary, dispatch=dispatch) for id_ in "abcd"]
    with doomed(shop(*children, max_restarts=0)) as tree:
        record = Record(tree)
        diary.clear()
        crash(tree, "shop/b")

        assert hooks(diary) == ["on_failure b", "on_stop d", "on_stop c", "on_stop a"]
    assert [(event.path, event.child, event.root) for event in record.of(SupervisorGaveUp)] == [
        ("shop", "shop/b", True)
    ]
    assert [event.gave_up for event in record.of(TreeStopped)] == [True]


def test_a_root_that_gave_up_is_impossible_to_miss() -> None:
    with doomed(shop(faulty("a"), max_restarts=0)) as tree:
        ref = tree.ref("shop/a")
        crash(tree, "shop/a")
        with pytest.raises(TreeDownError) as asked:
            ref.ask("hello")
        with pytest.raises(TreeDownError):
            tree.start_child("shop", faulty("late"))
        with pytest.raises(RestartLimitError) as caught:
            tree.wait(LONG_S)

    assert isinstance(asked.value.__cause__, RestartLimitError)
    assert isinstance(caught.value.__cause__, ValueError)
    assert (caught.value.path, caught.value.child, caught.value.limit) == ("shop", "a", 0)


def test_leaving_the_block_of_a_root_that_gave_up_raises() -> None:
    with pytest.raises(RestartLimitError), running(shop(faulty("a"), max_restarts=0)) as tree:
        crash(tree, "shop/a")


def test_another_exception_under_way_is_not_replaced_by_the_root_that_gave_up() -> None:
    with pytest.raises(ZeroDivisionError), running(shop(faulty("a"), max_restarts=0)) as tree:  # noqa: PT012
        crash(tree, "shop/a")
        raise ZeroDivisionError


def test_a_supervisor_that_gives_up_exits_with_shutdown_and_a_permanent_one_is_restarted() -> None:
    spec = shop(team(faulty("x"), faulty("y"), max_restarts=0), faulty("z"))
    with running(spec) as tree:
        record = Record(tree)
        crash(tree, "shop/team/x")

        assert record.exits("shop/team") == ["shutdown"]
        assert incarnations(tree) == {"team": 2, "z": 1}
        assert incarnations(tree, "shop/team") == {"x": 2, "y": 2}


def test_the_restart_of_a_supervisor_counts_in_its_parents_window() -> None:
    with doomed(shop(team(faulty("x"), max_restarts=0), max_restarts=1)) as tree:
        record = Record(tree)
        crash(tree, "shop/team/x")
        alive = tree.is_alive
        crash(tree, "shop/team/x")

        assert (alive, tree.is_alive) == (True, False)
    assert [event.path for event in record.of(SupervisorGaveUp)] == ["shop/team", "shop/team", "shop"]


def test_a_transient_supervisor_that_gave_up_stays_down() -> None:
    with running(shop(team(faulty("x"), max_restarts=0, restart="transient"), faulty("z"))) as tree:
        ref = tree.ref("shop/team/x")
        crash(tree, "shop/team/x")

        assert states(tree) == {"team": "stopped", "z": "running"}
        with pytest.raises(ActorStoppedError):
            ref.ask("hello")


def test_a_temporary_supervisor_that_gave_up_is_forgotten_with_all_below_it() -> None:
    with running(shop(team(faulty("x"), max_restarts=0, restart="temporary"), faulty("z"))) as tree:
        crash(tree, "shop/team/x")

        assert states(tree) == {"z": "running"}
        with pytest.raises(UnknownPathError):
            tree.ref("shop/team/x")


def test_a_restarted_supervisor_has_its_declared_children_back_and_no_others() -> None:
    with running(shop(team(faulty("x"), faulty("gone"), max_restarts=0))) as tree:
        tree.start_child("shop/team", faulty("extra"))
        tree.terminate_child("shop/team/gone")
        tree.delete_child("shop/team/gone")
        before = states(tree, "shop/team")
        crash(tree, "shop/team/x")

        assert before == {"x": "running", "extra": "running"}
        assert states(tree, "shop/team") == {"x": "running", "gone": "running"}
        with pytest.raises(UnknownPathError):
            tree.ref("shop/team/extra")


def test_a_restarted_supervisor_has_an_empty_window() -> None:
    with running(shop(team(faulty("x"), max_restarts=1)), clock=ManualClock()) as tree:
        record = Record(tree)
        for _ in range(3):
            crash(tree, "shop/team/x")

        assert [event.path for event in record.of(ChildRestarting)] == [*["shop/team/x", "shop/team", "shop/team/x"]]
        assert [event.reason for event in record.of(ChildExited, "shop/team")] == ["shutdown"]


def test_a_supervisor_that_cannot_start_again_is_tried_again_by_its_parent() -> None:
    x = faulty("x", on_start=Fault("raise OSError", after=1, times=2))
    with running(shop(team(x, max_restarts=0))) as tree:
        record = Record(tree)
        crash(tree, "shop/team/x")

        assert record.exits("shop/team") == ["shutdown", "crashed", "crashed"]
        assert states(tree, "shop/team") == {"x": "running"}
