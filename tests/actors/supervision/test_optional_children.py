"""SEMANTICS.md 3, addition: a child with ``required=False`` does not keep its supervisor from starting."""

from __future__ import annotations

import pytest

from actors import ChildParked, StartError
from actors.testing import Fault, ManualClock, settle
from tests.support.crew import Record, crash, faulty, incarnations, running, shop, states
from trees import Backoff, SupervisorSpec

BOTH = pytest.mark.parametrize("dispatch", ["pool", "loop", "thread"])
STRATEGIES = pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
LATER = Backoff(initial_s=10.0, factor=1.0, max_s=10.0, jitter=0.0, reset_after_s=1e6)


@BOTH
@STRATEGIES
def test_a_child_that_is_not_required_and_fails_its_first_start_is_restarted_once_all_are_up(
    dispatch: str, strategy: str
) -> None:
    diary: list[str] = []
    spec = shop(
        faulty("a", diary=diary),
        faulty("b", on_start=Fault("raise OSError", times=2), dispatch=dispatch, required=False),
        faulty("c", diary=diary),
        strategy=strategy,
    )
    with running(spec) as tree:
        settle(tree)

        assert states(tree) == {"a": "running", "b": "running", "c": "running"}
        assert incarnations(tree) == {"a": 1, "b": 1, "c": 1}


@BOTH
@STRATEGIES
def test_one_that_can_never_start_is_parked_and_restarts_nobody(dispatch: str, strategy: str) -> None:
    spec = shop(
        faulty("a"),
        faulty("b", on_start="raise OSError", dispatch=dispatch, required=False, on_exhausted="park"),
        faulty("c"),
        strategy=strategy,
        max_restarts=2,
    )
    with running(spec) as tree:
        record = Record(tree)
        settle(tree)

        assert states(tree) == {"a": "running", "b": "parked", "c": "running"}
        assert incarnations(tree) == {"a": 1, "b": 0, "c": 1}
        assert not record.of(ChildParked, "shop/a")


def test_it_waits_for_its_backoff_and_its_siblings_do_not() -> None:
    clock = ManualClock()
    spec = shop(faulty("a", on_start=Fault("raise OSError", times=1), required=False, backoff=LATER), faulty("b"))
    with running(spec, clock=clock) as tree:
        settle(tree)
        before = states(tree)
        clock.advance(10.0)
        settle(tree)

        assert before == {"a": "restarting", "b": "running"}
        assert states(tree) == {"a": "running", "b": "running"}


def test_one_that_takes_too_long_to_start_is_no_obstacle_either() -> None:
    slow = faulty("a", on_start=Fault("hang", times=1), required=False, start_timeout_s=2.0, dispatch="loop")
    with running(shop(slow, faulty("b"))) as tree:
        settle(tree)

        assert states(tree) == {"a": "running", "b": "running"}


def test_where_it_does_not_park_its_failing_starts_count_for_its_supervisor() -> None:
    children = [faulty("a", on_start="raise OSError", required=False), faulty("b")]
    team = SupervisorSpec(id="team", children=children, max_restarts=2, on_exhausted="park")
    with running(shop(team, max_restarts=1)) as tree:
        settle(tree)

        assert states(tree) == {"team": "parked"}


@STRATEGIES
def test_once_it_was_up_it_is_a_child_like_any_other(strategy: str) -> None:
    spec = shop(faulty("a", required=False), faulty("b"), strategy=strategy)
    with running(spec) as tree:
        crash(tree, "shop/a")

        group = strategy != "one_for_one"
        assert incarnations(tree) == {"a": 2, "b": 1 + group}


def test_a_group_restart_tries_a_missing_child_and_goes_on_without_it() -> None:
    spec = shop(
        faulty("a"),
        faulty("b", on_start="raise OSError", required=False, on_exhausted="park", backoff=LATER),
        faulty("c"),
        strategy="one_for_all",
    )
    with running(spec, clock=ManualClock()) as tree:
        crash(tree, "shop/a")

        assert states(tree) == {"a": "running", "b": "restarting", "c": "running"}
        assert incarnations(tree) == {"a": 2, "b": 0, "c": 2}


def test_a_team_that_is_not_required_is_rolled_back_and_the_rest_starts() -> None:
    team = SupervisorSpec(
        id="team",
        children=[faulty("x"), faulty("y", on_start="raise OSError")],
        required=False,
        on_exhausted="park",
    )
    with running(shop(team, faulty("b"), max_restarts=1)) as tree:
        settle(tree)

        assert states(tree) == {"team": "parked", "b": "running"}


def test_a_temporary_one_is_forgotten() -> None:
    with running(shop(faulty("a", on_start="raise OSError", required=False, restart="temporary"), faulty("b"))) as tree:
        settle(tree)

        assert states(tree) == {"b": "running"}


def test_a_required_child_after_it_that_fails_still_fails_the_start() -> None:
    spec = shop(
        faulty("a", on_start="raise OSError", required=False), faulty("b", on_start="raise ValueError"), faulty("c")
    )
    with pytest.raises(StartError, match="shop/b"), running(spec):
        raise AssertionError("it started")


def test_start_child_of_it_fails_as_for_any_child() -> None:
    with running(shop(faulty("b"))) as tree:
        with pytest.raises(StartError):
            tree.start_child("shop", faulty("a", on_start="raise OSError", required=False))

        assert states(tree) == {"b": "running"}
