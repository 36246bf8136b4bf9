"""SEMANTICS.md 20: significant children, and supervisors that end with them."""

from __future__ import annotations

from typing import Any

import pytest

from actors import ConfigError
from actors.testing import ManualClock, settle
from tests.support.crew import LONG_S, Record, crash, doomed, faulty, hooks, running, shop, states
from trees import Backoff, SupervisorSpec, Tree, start

ANY, ALL = "any_significant", "all_significant"
BOTH = pytest.mark.parametrize("dispatch", ["pool", "loop", "thread"])


def vital(id_: str, **words: Any) -> Any:
    words.setdefault("restart", "transient")
    return faulty(id_, significant=True, **words)


def finish(tree: Tree, path: str) -> None:
    tree.ref(path).tell("stop")
    settle(tree)


@pytest.mark.parametrize(("auto_shutdown", "restart"), [("never", "transient"), (ANY, "permanent"), (ALL, "permanent")])
def test_significant_needs_an_auto_shutdown_and_a_child_that_may_end(auto_shutdown: str, restart: str) -> None:
    with pytest.raises(ConfigError) as caught:
        start(shop(vital("a", restart=restart), auto_shutdown=auto_shutdown))

    assert caught.value.problems[0].path.startswith("shop/a")


@BOTH
def test_any_significant_ends_the_supervisor_with_the_first(dispatch: str) -> None:
    diary: list[str] = []
    spec = shop(vital("a", dispatch=dispatch), vital("b", diary=diary), faulty("c", diary=diary), auto_shutdown=ANY)
    with running(spec) as tree:
        diary.clear()
        tree.ref("shop/a").tell("stop")

        assert tree.wait(LONG_S)
    assert hooks(diary) == ["on_stop c", "on_stop b"]


def test_all_significant_ends_the_supervisor_with_the_last() -> None:
    with running(shop(vital("a"), vital("b"), faulty("c"), auto_shutdown=ALL)) as tree:
        finish(tree, "shop/a")
        alive = tree.is_alive
        finish(tree, "shop/b")

        assert (alive, tree.is_alive) == (True, False)


def test_a_supervisor_that_ends_so_exits_with_shutdown_and_its_parent_treats_it_by_its_restart_type() -> None:
    def team(restart: str) -> SupervisorSpec:
        return SupervisorSpec(id=restart, children=[vital("x")], auto_shutdown=ANY, restart=restart)  # type: ignore[arg-type]

    with running(shop(team("permanent"), team("transient"), team("temporary"))) as tree:
        record = Record(tree)
        for restart in ("permanent", "transient", "temporary"):
            finish(tree, f"shop/{restart}/x")

        assert states(tree) == {"permanent": "running", "transient": "stopped"}
        assert tree.child("shop/permanent").incarnation == 2
        assert record.exits("shop/temporary") == ["shutdown"]


@pytest.mark.parametrize(
    ("restart", "how", "ends"),
    [
        ("transient", "stop", True),
        ("transient", "raise ValueError", False),
        ("temporary", "stop", True),
        ("temporary", "raise ValueError", True),
    ],
)
def test_a_transient_child_counts_when_it_ends_clean_and_a_temporary_one_always(
    restart: str, how: str, ends: bool
) -> None:
    with running(shop(vital("a", restart=restart), faulty("b"), auto_shutdown=ANY)) as tree:
        tree.ref("shop/a").tell(how)
        settle(tree)

        assert tree.is_alive is not ends


def test_an_exit_of_a_child_that_is_not_significant_ends_nothing() -> None:
    with running(shop(vital("a"), faulty("b", restart="transient"), auto_shutdown=ANY)) as tree:
        finish(tree, "shop/b")

        assert tree.is_alive


@pytest.mark.parametrize("restart", ["transient", "temporary"])
@pytest.mark.parametrize("auto_shutdown", [ANY, ALL])
def test_terminate_child_of_a_significant_child_ends_nothing(restart: str, auto_shutdown: str) -> None:
    with running(shop(vital("a", restart=restart), faulty("b"), auto_shutdown=auto_shutdown)) as tree:
        tree.terminate_child("shop/a")
        settle(tree)

        assert tree.is_alive


@pytest.mark.parametrize("restart", ["transient", "temporary"])
def test_a_group_stop_of_a_significant_child_ends_nothing(restart: str) -> None:
    spec = shop(vital("a", restart=restart), faulty("b"), strategy="one_for_all", auto_shutdown=ANY)
    with running(spec) as tree:
        crash(tree, "shop/b")

        assert tree.is_alive


def test_a_child_that_is_restarting_still_counts_as_alive() -> None:
    waiting = Backoff(initial_s=60.0, max_s=60.0, jitter=0.0)
    clock = ManualClock()
    with running(shop(vital("a", backoff=waiting), vital("b"), auto_shutdown=ALL), clock=clock) as tree:
        crash(tree, "shop/a")
        finish(tree, "shop/b")
        alive = tree.is_alive
        clock.advance(60.0)
        settle(tree)
        finish(tree, "shop/a")

        assert (alive, tree.is_alive) == (True, False)


def test_a_root_that_ends_with_its_significant_children_did_not_give_up() -> None:
    with doomed(shop(vital("a"), auto_shutdown=ALL)) as tree:
        finish(tree, "shop/a")

        assert tree.wait(LONG_S)
