"""SEMANTICS.md 6 to 8: who is restarted with a child, and what happens where a restart fails."""

from __future__ import annotations

import pytest

from actors import ChildExited, ChildRestarting, ChildStarted, UnknownPathError
from actors.testing import Fault, Hang, ManualClock, settle
from tests.support.crew import (
    LONG_S,
    Record,
    crash,
    faulty,
    hooks,
    incarnations,
    meanwhile,
    running,
    shop,
    states,
)
from trees import Backoff, SupervisorSpec, WorkerSpec

DISPATCHES = ("pool", "loop", "thread")
BOTH = pytest.mark.parametrize("dispatch", DISPATCHES)
GROUPS = pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])


def crew(ids: str, diary: list[str], dispatch: str = "pool") -> list[WorkerSpec]:
    return [faulty(id, diary=diary, dispatch=dispatch) for id in ids]


# -- 6 -----------------------------------------------------------------------------------------------------


@BOTH
def test_one_for_one_starts_only_the_exited_child_again(dispatch: str) -> None:
    diary: list[str] = []
    with running(shop(*crew("abc", diary, dispatch))) as tree:
        diary.clear()
        crash(tree, "shop/b")

        assert hooks(diary) == ["on_failure b", "on_start b"]
        assert incarnations(tree) == {"a": 1, "b": 2, "c": 1}


@BOTH
def test_one_for_all_stops_the_others_in_reverse_and_starts_all_in_order(dispatch: str) -> None:
    diary: list[str] = []
    with running(shop(*crew("abc", diary, dispatch), strategy="one_for_all")) as tree:
        diary.clear()
        crash(tree, "shop/b")

        assert hooks(diary) == ["on_failure b", "on_stop c", "on_stop a", "on_start a", "on_start b", "on_start c"]


@BOTH
def test_rest_for_one_does_the_same_for_those_after_the_exited_child(dispatch: str) -> None:
    diary: list[str] = []
    with running(shop(*crew("abcd", diary, dispatch), strategy="rest_for_one")) as tree:
        diary.clear()
        crash(tree, "shop/b")

        assert hooks(diary) == ["on_failure b", "on_stop d", "on_stop c", "on_start b", "on_start c", "on_start d"]
        assert incarnations(tree) == {"a": 1, "b": 2, "c": 2, "d": 2}


@GROUPS
def test_a_group_restart_starts_finished_transients_and_terminated_children_too(strategy: str) -> None:
    spec = shop(faulty("a"), faulty("done", restart="transient"), faulty("ended"), strategy=strategy)
    with running(spec) as tree:
        tree.ref("shop/done").ask("stop")
        tree.terminate_child("shop/ended")
        settle(tree)
        before = states(tree)
        crash(tree, "shop/a")

        assert before == {"a": "running", "done": "stopped", "ended": "stopped"}
        assert states(tree) == {"a": "running", "done": "running", "ended": "running"}


@GROUPS
def test_a_group_restart_forgets_temporary_siblings(strategy: str) -> None:
    diary: list[str] = []
    spec = shop(faulty("a"), faulty("b", diary=diary, restart="temporary"), faulty("c", diary=diary), strategy=strategy)
    with running(spec) as tree:
        ref = tree.ref("shop/b")
        diary.clear()
        crash(tree, "shop/a")

        assert states(tree) == {"a": "running", "c": "running"}
        assert hooks(diary) == ["on_stop c", "on_stop b", "on_start c"]
        with pytest.raises(UnknownPathError):
            tree.ref("shop/b")
        assert not ref.is_alive()


@GROUPS
def test_the_exit_of_a_temporary_child_restarts_nobody(strategy: str) -> None:
    with running(shop(faulty("a", restart="temporary"), faulty("b"), strategy=strategy)) as tree:
        crash(tree, "shop/a")

        assert incarnations(tree) == {"b": 1}


@GROUPS
def test_a_parked_child_is_left_parked_and_parking_restarts_no_group(strategy: str) -> None:
    spec = shop(
        faulty("a"), faulty("b", on_exhausted="park"), faulty("c"), strategy=strategy, max_restarts=1, period_s=1e6
    )
    with running(spec) as tree:
        crash(tree, "shop/b")
        before = incarnations(tree)
        crash(tree, "shop/b")
        parked, unchanged = states(tree), incarnations(tree) == before
        crash(tree, "shop/a")

        assert parked == {"a": "running", "b": "parked", "c": "running"}
        assert unchanged
        assert states(tree) == parked
        assert incarnations(tree)["c"] == before["c"] + 1


@BOTH
def test_the_members_of_a_pool_stand_at_one_position_for_rest_for_one(dispatch: str) -> None:
    spec = shop(faulty("a"), faulty("crew", pool=3, dispatch=dispatch), faulty("z"), strategy="rest_for_one")
    with running(spec) as tree:
        crash(tree, "shop/crew#1")

        assert incarnations(tree) == {"a": 1, "crew#0": 1, "crew#1": 2, "crew#2": 1, "z": 2}


@GROUPS
def test_a_group_restart_takes_the_subtree_of_a_supervisor_with_it(strategy: str) -> None:
    diary: list[str] = []
    team = SupervisorSpec(id="team", children=crew("xy", diary))
    with running(shop(faulty("a"), team, strategy=strategy)) as tree:
        diary.clear()
        crash(tree, "shop/a")

        assert hooks(diary) == ["on_stop team/y", "on_stop team/x", "on_start team/x", "on_start team/y"]
        assert incarnations(tree, "shop/team") == {"x": 2, "y": 2}


# -- 7 -----------------------------------------------------------------------------------------------------


def crash_when_stopped(hang: Hang) -> WorkerSpec:
    def handle(message: object) -> None:
        hang.hold()
        raise ValueError

    return WorkerSpec(id="c", handle=handle)


def test_siblings_that_crash_while_a_group_restart_stops_them_are_part_of_it() -> None:
    hang = Hang()
    spec = shop(faulty("a"), faulty("b"), crash_when_stopped(hang), strategy="one_for_all", max_restarts=1)
    with running(spec) as tree:
        record = Record(tree)
        tree.ref("shop/c").tell("hang until asked to stop, then crash")
        hang.wait_until_entered()
        crash(tree, "shop/a")

        assert record.exits("shop/c") == ["crashed"]
        assert record.restarts() == 1
        assert incarnations(tree) == {"a": 2, "b": 2, "c": 2}


def test_under_one_for_one_simultaneous_crashes_count_one_each() -> None:
    with running(shop(faulty("a"), faulty("b"), faulty("c"), max_restarts=3)) as tree:
        record = Record(tree)
        for id_ in "abc":
            tree.ref(f"shop/{id_}").tell("raise ValueError")
        settle(tree)

        assert record.restarts() == 3
        assert incarnations(tree) == {"a": 2, "b": 2, "c": 2}


def test_a_crash_outside_of_the_group_under_way_enlarges_it_and_counts_again() -> None:
    hang = Hang()
    spec = shop(faulty("a"), faulty("b"), faulty("c", on_start=Fault(hang, after=1, times=1)), strategy="rest_for_one")
    with running(spec) as tree:
        record = Record(tree)
        tree.ref("shop/b").tell("raise ValueError")
        hang.wait_until_entered()
        tree.ref("shop/a").tell("raise ValueError")
        record.wait_for(ChildRestarting, "shop/a")
        hang.release()
        settle(tree)

        assert states(tree) == {"a": "running", "b": "running", "c": "running"}
        assert incarnations(tree)["a"] == 2
        assert record.restarts() == 2


# -- 8 -----------------------------------------------------------------------------------------------------


@BOTH
def test_a_start_that_fails_during_a_restart_is_tried_again_and_each_try_counts(dispatch: str) -> None:
    diary: list[str] = []
    a = faulty("a", diary=diary, dispatch=dispatch, on_start=Fault("raise OSError", after=1, times=2))
    with running(shop(a)) as tree:
        record = Record(tree)
        crash(tree, "shop/a")

        assert states(tree) == {"a": "running"}
        assert record.exits("shop/a") == ["crashed"] * 3
        assert [event.started for event in record.of(ChildExited)] == [True, False, False]
        assert record.restarts() == 3
        assert hooks(diary).count("on_start a") == 4


@BOTH
def test_a_supervisor_serves_others_while_a_restart_hangs_in_its_start(dispatch: str) -> None:
    hang = Hang()
    a = faulty("a", dispatch=dispatch, on_start=Fault(hang, after=1))
    with running(shop(a, faulty("b"), faulty("c"))) as tree:
        record = Record(tree)
        tree.ref("shop/a").tell("raise ValueError")
        hang.wait_until_entered()
        tree.terminate_child("shop/c")
        tree.start_child("shop", faulty("d"))
        tree.ref("shop/b").tell("raise ValueError")
        record.wait_for(ChildStarted, "shop/b")
        during = states(tree)
        hang.release()
        settle(tree)

        assert during == {"a": "restarting", "b": "running", "c": "stopped", "d": "running"}
        assert states(tree)["a"] == "running"


def test_a_start_that_takes_too_long_during_a_restart_is_tried_again() -> None:
    hang = Hang()
    a = faulty("a", on_start=Fault(hang, after=1, times=1), start_timeout_s=2.0)
    with running(shop(a)) as tree:
        record = Record(tree)
        crash(tree, "shop/a")

        assert record.exits("shop/a") == ["crashed", "killed"]
        assert incarnations(tree) == {"a": 2}


@BOTH
def test_one_for_all_stops_what_the_pass_had_started_before_the_next_try(dispatch: str) -> None:
    diary: list[str] = []
    c = faulty("c", diary=diary, dispatch=dispatch, on_start=Fault("raise OSError", after=1, times=1))
    with running(shop(*crew("ab", diary, dispatch), c, *crew("d", diary), strategy="one_for_all")) as tree:
        diary.clear()
        crash(tree, "shop/b")

        assert hooks(diary) == [
            *["on_failure b", "on_stop d", "on_stop c", "on_stop a"],
            *["on_start a", "on_start b", "on_start c", "on_failure c", "on_stop b", "on_stop a"],
            *["on_start a", "on_start b", "on_start c", "on_start d"],
        ]


@BOTH
@GROUPS
def test_terminating_the_child_that_holds_up_a_group_lets_the_rest_go_on_at_once(dispatch: str, strategy: str) -> None:
    hang = Hang()
    b = faulty("b", dispatch=dispatch, on_start=Fault(hang, after=1), shutdown=0.1)
    with running(shop(faulty("a"), b, faulty("c"), strategy=strategy)) as tree:
        tree.ref("shop/a").tell("raise ValueError")
        hang.wait_until_entered()
        during = states(tree)
        tree.terminate_child("shop/b")
        settle(tree)

        assert during == {"a": "running", "b": "restarting", "c": "restarting"}
        assert states(tree) == {"a": "running", "b": "stopped", "c": "running"}


@GROUPS
def test_start_child_during_a_group_restart_is_independent_of_it(strategy: str) -> None:
    diary: list[str] = []
    hang = Hang()
    b = faulty("b", on_start=Fault(hang, after=1, times=1))
    with running(shop(faulty("a"), b, strategy=strategy)) as tree:
        tree.ref("shop/a").tell("raise ValueError")
        hang.wait_until_entered()
        reply = tree.start_child("shop", faulty("new", diary=diary)).ask("hello")
        during = states(tree)
        hang.release()
        settle(tree)

        assert reply == "hello"
        assert during == {"a": "running", "b": "restarting", "new": "running"}
        assert states(tree) == {"a": "running", "b": "running", "new": "running"}
        assert hooks(diary) == ["on_start new"]


@BOTH
def test_a_stop_of_the_tree_during_a_restart_that_hangs_ends_it(dispatch: str) -> None:
    hang = Hang()
    a = faulty("a", dispatch=dispatch, on_start=Fault(hang, after=1), shutdown=0.1)
    with running(shop(a, faulty("b"))) as tree:
        record = Record(tree)
        tree.ref("shop/a").tell("raise ValueError")
        hang.wait_until_entered()
        with meanwhile(tree.stop) as stopping:
            stopping.result(LONG_S)

    assert not tree.is_alive
    assert len(record.exits("shop/a")) == 2
    assert record.restarts() == 1


@GROUPS
def test_what_is_sent_to_a_child_that_was_stopped_and_waits_to_be_started_with_its_group_is_not_lost(
    strategy: str,
) -> None:
    clock, diary = ManualClock(), []
    culprit = faulty("culprit", diary=diary, backoff=Backoff(initial_s=1.0, jitter=0.0))
    stopped = faulty("stopped", diary=diary, restart="transient")
    with running(shop(culprit, stopped, strategy=strategy), clock=clock) as tree:
        tree.ref("shop/stopped").stop()
        crash(tree, "shop/culprit")
        assert states(tree) == {"culprit": "restarting", "stopped": "restarting"}
        answer = tree.ref("shop/stopped").ask("are you there?", timeout=None, block=False)
        clock.advance(1.0)

        assert answer.get(timeout=LONG_S) is not None
        assert incarnations(tree) == {"culprit": 2, "stopped": 2}
