"""A leader that can write nothing any more gives the lease up: the next one leads, and nothing stands still."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.trees.store.stores import OWNER, PATIENCE_S
from trees import HA, StaticPlan, StoreError, Subtask, SupervisorSpec, Tasks, WorkerSpec, start

LEASE_S = 60.0
"""Nobody waits for its end here: a lease that is given up can be had at once."""


def spec() -> SupervisorSpec:
    tasks = Tasks(planner=StaticPlan([Subtask("s", worker="w")]))
    return SupervisorSpec(id=OWNER, tasks=tasks, children=[WorkerSpec(id="w", execute=lambda *_: 1)])


def session_of(tree: Any) -> Any:
    return tree._system.services["tasks"].store._session


def raising(error: BaseException) -> Callable[..., Any]:
    def act(*_: object) -> None:
        raise error

    return act


class Unforeseen(BaseException):
    """What nobody catches."""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["write", "waiting"])
@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), Unforeseen()])
def test_a_leader_whose_writer_dies_gives_the_lease_up_and_the_next_one_leads(
    where: str, error: BaseException, store_url: str
) -> None:
    first = start(spec(), store=store_url, ha=HA(lease_s=LEASE_S, name="first"))
    assert first.wait_for_role("leader", PATIENCE_S)
    second = start(spec(), store=store_url, ha=HA(lease_s=LEASE_S, name="second"))
    try:
        setattr(session_of(first), where, raising(error))
        if where == "write":
            with pytest.raises(StoreError):
                first.submit("go")

        with pytest.raises(StoreError, match="its writer has died"):
            first.wait(PATIENCE_S)
        assert first.role == "stopped"
        assert second.wait_for_role("leader", PATIENCE_S)
        assert second.run("go", PATIENCE_S).results == {"s": 1}
    finally:
        second.stop()


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), Unforeseen()])
def test_a_tree_whose_writer_dies_ends_with_that_and_everybody_who_waits_hears_it(
    error: BaseException, store_url: str
) -> None:
    tree = start(spec(), store=store_url)
    session_of(tree).write = raising(error)

    with pytest.raises(StoreError):
        tree.submit("go")
    with pytest.raises(StoreError, match="its writer has died"):
        tree.wait(PATIENCE_S)
    assert not tree.is_alive
