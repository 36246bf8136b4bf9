"""SEMANTICS.md 9 and 19, and "Children at run time": the four calls and the counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors import (
    ActorStoppedError,
    ChildError,
    ConfigError,
    DepthError,
    Ignore,
    StartError,
    TreeDownError,
    UnknownPathError,
)
from actors.testing import Fault, Hang, ManualClock, settle
from tests.support.crew import (
    Record,
    crash,
    faulty,
    hooks,
    incarnations,
    running,
    shop,
    states,
)
from trees import Backoff, SupervisorSpec, Tree, WorkerSpec, start

BOTH = pytest.mark.parametrize("dispatch", ["pool", "loop", "thread"])
WAITING = Backoff(initial_s=60.0, factor=1.0, max_s=60.0, jitter=0.0)


def code_of(call: Callable[..., object], *args: Any) -> str:
    with pytest.raises(ChildError) as caught:
        call(*args)
    return caught.value.code


@contextmanager
def standing_at(state: str) -> Iterator[Tree]:
    """A tree whose child ``a`` stands so."""
    a = faulty("a", backoff=WAITING if state == "restarting" else None)
    if state == "parked":
        a = a.model_copy(update={"on_exhausted": "park"})
    with running(shop(a, faulty("b"), max_restarts=0 if state == "parked" else 3), clock=ManualClock()) as tree:
        if state == "stopped":
            tree.terminate_child("shop/a")
        elif state != "running":
            crash(tree, "shop/a")
        assert states(tree)["a"] == state
        yield tree


# -- the table ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [None, 3, ("shop", "a"), ""])
@pytest.mark.parametrize("call", ["terminate_child", "restart_child", "delete_child"])
def test_a_child_call_with_what_is_no_path_is_refused_as_not_found(call: str, path: Any) -> None:
    with start(SupervisorSpec(id="shop", children=[WorkerSpec(id="a", handle=int)])) as tree:
        with pytest.raises(ChildError) as refused:
            getattr(tree, call)(path)
        assert refused.value.code == "not_found"
        assert tree.child("shop/a").incarnation == 1


@BOTH
def test_start_child_appends_the_child_and_returns_its_ref(dispatch: str) -> None:
    with running(shop(faulty("a"))) as tree:
        ref = tree.start_child("shop", faulty("b", dispatch=dispatch))

        assert ref.ask("hello") == "hello"
        assert states(tree) == {"a": "running", "b": "running"}


def test_start_child_of_a_supervisor_brings_up_its_subtree() -> None:
    with running(shop(faulty("a"))) as tree:
        tree.start_child("shop", SupervisorSpec(id="team", children=[faulty("x")]))

        assert tree.ref("shop/team/x").ask("hello") == "hello"


def test_start_child_of_a_pool_starts_all_members() -> None:
    with running(shop()) as tree:
        pool = tree.start_child("shop", faulty("crew", pool=3))

        assert pool.ask("hello") == "hello"
        assert list(states(tree)) == ["crew#0", "crew#1", "crew#2"]


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("running", "already_started"),
        ("stopped", "already_present"),
        ("restarting", "already_present"),
        ("parked", "already_present"),
    ],
)
def test_start_child_of_an_id_that_is_listed_is_refused(state: str, code: str) -> None:
    with standing_at(state) as tree:
        assert code_of(tree.start_child, "shop", faulty("a")) == code
        assert states(tree)["a"] == state


def test_start_child_is_checked_in_the_caller_first() -> None:
    with running(shop(faulty("a"), SupervisorSpec(id="team"))) as tree:
        with pytest.raises(DepthError):
            tree.start_child("shop/team", SupervisorSpec(id="deep", children=[faulty("x")]))
        with pytest.raises(ConfigError):
            tree.start_child("shop", WorkerSpec(id="lost", run="no_such_module:body"))

        assert list(states(tree)) == ["a", "team"]


def test_max_children_counts_those_restarting_too() -> None:
    spec = shop(faulty("a", backoff=WAITING), max_children=2)
    with running(spec, clock=ManualClock()) as tree:
        tree.start_child("shop", faulty("b"))
        crash(tree, "shop/a")

        assert code_of(tree.start_child, "shop", faulty("c")) == "max_children"


@BOTH
def test_a_start_child_that_fails_raises_and_keeps_nothing(dispatch: str) -> None:
    diary: list[str] = []
    bad = faulty("bad", diary=diary, dispatch=dispatch, on_start="raise OSError")
    with running(shop(faulty("a"))) as tree:
        with pytest.raises(StartError) as caught:
            tree.start_child("shop", bad)
        settle(tree)

        assert isinstance(caught.value.__cause__, OSError)
        assert states(tree) == {"a": "running"}
        assert hooks(diary) == ["on_start bad", "on_failure bad"]
        with pytest.raises(UnknownPathError):
            tree.ref("shop/bad")


def test_a_start_child_that_takes_too_long_raises_and_keeps_nothing() -> None:
    with running(shop(faulty("a"))) as tree:
        with pytest.raises(StartError, match=r"within 0\.1 s"):
            tree.start_child("shop", faulty("slow", on_start=Hang(), start_timeout_s=0.1))

        assert states(tree) == {"a": "running"}


def test_start_child_of_one_that_ignores_its_start_is_kept_as_stopped() -> None:
    with running(shop(faulty("a"))) as tree:
        ref = tree.start_child("shop", faulty("b", on_start=Ignore))

        assert states(tree) == {"a": "running", "b": "stopped"}
        with pytest.raises(ActorStoppedError):
            ref.ask("hello")


@pytest.mark.parametrize("state", ["running", "stopped", "restarting", "parked"])
def test_terminate_child_succeeds_wherever_the_child_stands(state: str) -> None:
    with standing_at(state) as tree:
        tree.terminate_child("shop/a")

        assert states(tree) == {"a": "stopped" if state != "parked" else tree.child("shop/a").state, "b": "running"}
        assert not tree.ref("shop/a").is_alive()


def test_terminate_child_of_a_temporary_child_forgets_it() -> None:
    with running(shop(faulty("a", restart="temporary"))) as tree:
        tree.terminate_child("shop/a")

        assert states(tree) == {}


def test_terminate_child_of_a_pool_ends_all_members_and_restart_child_revives_them() -> None:
    with running(shop(faulty("crew", pool=3))) as tree:
        tree.terminate_child("shop/crew")
        down = states(tree)
        tree.restart_child("shop/crew")

        assert set(down.values()) == {"stopped"}
        assert set(states(tree).values()) == {"running"}


@pytest.mark.parametrize("state", ["stopped", "parked"])
def test_restart_child_starts_what_is_down(state: str) -> None:
    with standing_at(state) as tree:
        ref = tree.restart_child("shop/a")

        assert ref.ask("hello") == "hello"
        assert incarnations(tree)["a"] == 2


@pytest.mark.parametrize("call", ["restart_child", "delete_child"])
@pytest.mark.parametrize("state", ["running", "restarting"])
def test_restart_child_and_delete_child_refuse_what_is_not_down(call: str, state: str) -> None:
    with standing_at(state) as tree:
        assert code_of(getattr(tree, call), "shop/a") == state
        assert states(tree)["a"] == state


@BOTH
def test_a_restart_child_that_fails_raises_and_the_child_stays_stopped(dispatch: str) -> None:
    diary: list[str] = []
    a = faulty("a", diary=diary, dispatch=dispatch, on_start=Fault("raise OSError", after=1))
    with running(shop(a)) as tree:
        record = Record(tree)
        tree.terminate_child("shop/a")
        with pytest.raises(StartError):
            tree.restart_child("shop/a")
        settle(tree)

        assert states(tree) == {"a": "stopped"}
        assert record.restarts() == 0
        assert hooks(diary).count("on_start a") == 2


@pytest.mark.parametrize("state", ["stopped", "parked"])
def test_delete_child_takes_what_is_down_off_the_list(state: str) -> None:
    with standing_at(state) as tree:
        ref = tree.ref("shop/a")
        tree.delete_child("shop/a")

        assert states(tree) == {"b": "running"}
        with pytest.raises(UnknownPathError):
            tree.ref("shop/a")
        with pytest.raises(ActorStoppedError):
            ref.ask("hello")


def test_a_deleted_child_makes_room_for_a_new_one_that_old_refs_reach() -> None:
    with running(shop(faulty("a"))) as tree:
        old = tree.ref("shop/a")
        tree.terminate_child("shop/a")
        tree.delete_child("shop/a")
        tree.start_child("shop", WorkerSpec(id="a", handle=str.upper))

        assert old.ask("hello") == "HELLO"


@pytest.mark.parametrize("call", ["terminate_child", "restart_child", "delete_child"])
@pytest.mark.parametrize("path", ["shop/nobody", "shop/a/deeper", "nowhere/a", "shop"])
def test_calls_for_a_child_that_is_not_listed_are_refused(call: str, path: str) -> None:
    with running(shop(faulty("a"))) as tree:
        assert code_of(getattr(tree, call), path) == "not_found"


def test_start_child_under_a_path_that_is_no_supervisor_is_refused() -> None:
    with running(shop(faulty("a"))) as tree:
        for path in ("shop/a", "shop/nobody", ""):
            with pytest.raises(UnknownPathError):
                tree.start_child(path, faulty("x"))


def test_calls_of_a_tree_that_is_down_say_so() -> None:
    with running(shop(faulty("a"))) as tree:
        pass

    for call in (tree.terminate_child, tree.restart_child, tree.delete_child):
        with pytest.raises(TreeDownError):
            call("shop/a")


def test_calls_to_a_supervisor_that_is_down_are_answered_at_once() -> None:
    with running(shop(SupervisorSpec(id="team", children=[faulty("x")]))) as tree:
        tree.terminate_child("shop/team")

        with pytest.raises(ActorStoppedError):
            tree.start_child("shop/team", faulty("y"))
        with pytest.raises(ActorStoppedError):
            tree.terminate_child("shop/team/x")


# -- 9 -----------------------------------------------------------------------------------------------------


def test_a_try_that_was_cancelled_by_terminate_child_revives_nothing_later() -> None:
    diary: list[str] = []
    clock = ManualClock()
    with running(shop(faulty("a", diary=diary, backoff=WAITING)), clock=clock) as tree:
        crash(tree, "shop/a")
        tree.terminate_child("shop/a")
        clock.advance(1000.0)
        settle(tree)

        assert states(tree) == {"a": "stopped"}
        assert hooks(diary) == ["on_start a", "on_failure a"]


@BOTH
def test_terminate_child_ends_a_try_that_is_under_way(dispatch: str) -> None:
    hang = Hang()
    a = faulty("a", dispatch=dispatch, on_start=Fault(hang, after=1), shutdown=0.1)
    with running(shop(a)) as tree:
        tree.ref("shop/a").tell("raise ValueError")
        hang.wait_until_entered()
        tree.terminate_child("shop/a")
        settle(tree)

        assert states(tree) == {"a": "stopped"}
        assert incarnations(tree) == {"a": 1}


def test_terminating_a_child_that_is_restarting_answers_what_waits_for_it() -> None:
    with running(shop(faulty("a", backoff=WAITING)), clock=ManualClock()) as tree:
        ref = tree.ref("shop/a")
        crash(tree, "shop/a")
        waiting = ref.ask("hello", timeout=None, block=False)
        tree.terminate_child("shop/a")

        with pytest.raises(ActorStoppedError):
            waiting.get()


# -- 19 ----------------------------------------------------------------------------------------------------


def test_counts_tell_what_is_listed_what_runs_and_of_which_kind() -> None:
    team = SupervisorSpec(id="team", children=[faulty("x")])
    spec = shop(faulty("a"), faulty("b"), team, SupervisorSpec(id="idle"), faulty("crew", pool=3))
    with running(spec) as tree:
        tree.terminate_child("shop/b")
        tree.terminate_child("shop/idle")
        counts = tree.count_children("shop")

        assert (counts.specs, counts.active, counts.supervisors, counts.workers) == (7, 5, 2, 5)


def test_a_child_that_is_restarting_is_listed_and_not_active() -> None:
    with running(shop(faulty("a", backoff=WAITING), faulty("b")), clock=ManualClock()) as tree:
        crash(tree, "shop/a")
        counts = tree.count_children("shop")

        assert (counts.specs, counts.active) == (2, 1)


def test_which_children_tells_kind_state_restarts_and_last_exit() -> None:
    with running(shop(faulty("a"), SupervisorSpec(id="team"))) as tree:
        crash(tree, "shop/a")
        a, team = tree.which_children("shop")

        assert (a.kind, a.state, a.incarnation, a.restarts, a.restart) == ("worker", "running", 2, 1, "permanent")
        assert a.last_exit is not None
        assert (a.last_exit.reason, a.last_exit.detail) == ("crashed", "ValueError")
        assert (team.kind, team.state, team.last_exit) == ("supervisor", "running", None)
