"""Two processes' worth of trees on one store, in this process: who leads, who waits, and what the store refuses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from time import monotonic as unstopped
from typing import Any

import pytest

from actors import ConfigError, StartError, TreeDownError
from actors.testing import Hang
from tests.support.crew import LONG_S, Record
from tests.support.databases import Cluster
from trees import (
    HA,
    NotLeaderError,
    RoleChanged,
    RoleLost,
    StaticPlan,
    StoreError,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    Tree,
    WorkerSpec,
    start,
    start_async,
)
from trees.store import MemoryStore

LEASE_S = 8.0
"""Half of it must be longer than a busy machine lets a process wait."""


class Works:
    """What the workers of all candidates have done: which subtask, and with which token."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.hang: Hang | None = None
        """The second step hangs here."""

    def first(self, task: Subtask, context: Any) -> str:
        self.done.append((task.id, context.token))
        return f"{task.id} done"

    async def second(self, task: Subtask, context: Any) -> str:
        if self.hang is not None:
            await self.hang.hold_async()
        self.done.append((task.id, context.token))
        return f"after {context.results['one']}"

    def tree(self, **words: Any) -> SupervisorSpec:
        plan = StaticPlan(
            [Subtask(id="one", instruction="a", worker="w1"), Subtask(id="two", worker="w2", depends_on=["one"])]
        )
        children = [WorkerSpec(id="w1", execute=self.first), WorkerSpec(id="w2", execute=self.second)]
        return SupervisorSpec(id="shop", tasks=Tasks(planner=plan), children=words.pop("children", children), **words)


@pytest.fixture
def works() -> Works:
    return Works()


@pytest.fixture
def begin(store_url: str, works: Works) -> Iterator[Callable[..., Tree]]:
    """Starts candidates on one store, which may be slow to answer at first; all of them are stopped at the end."""
    with ExitStack() as stack:

        def make(name: str, spec: SupervisorSpec | None = None, lease_s: float = LEASE_S) -> Tree:
            tree = start(spec or works.tree(), store=store_url, ha=HA(lease_s=lease_s, name=name))
            stack.callback(tree.stop)
            return tree

        yield make


def in_seconds(began: float) -> float:
    return unstopped() - began


Begin = Callable[..., Tree]


def test_the_first_leads_and_the_second_waits_with_nothing_started(begin: Begin, works: Works) -> None:
    a = begin("a")
    ran = threading.Event()
    b = begin("b", works.tree(children=[WorkerSpec(id="w1", run=ran.set), WorkerSpec(id="w2", run=ran.set)]))

    assert (a.role, a.holder, b.role, b.holder) == ("leader", "a", "standby", "a")
    with pytest.raises(NotLeaderError, match=r"'a' leads \(token 1\)"):
        b.submit("goal")
    assert a.run("goal").output == {"one": "one done", "two": "after one done"}
    assert works.done == [("one", 1), ("two", 1)]
    assert not ran.is_set()


def test_a_clean_stop_hands_over_at_once_and_nothing_is_done_twice(begin: Begin, works: Works) -> None:
    lease_s = 10 * LEASE_S  # a busy machine takes seconds for the stop and the start, which are no part of the wait
    a, b = begin("a", lease_s=lease_s), begin("b", lease_s=lease_s)
    record = Record(b)
    with Hang() as hang:
        works.hang = hang
        handle = a.submit(Task(goal="goal", id="t1"))
        hang.wait_until_entered()
        began = unstopped()
        a.stop()

        assert b.wait_for_role("leader", LONG_S)
        assert in_seconds(began) < lease_s / 2, "before it could have expired"
        hang.release()
        assert b.task("t1").result(LONG_S).output == {"one": "one done", "two": "after one done"}
    with pytest.raises(TreeDownError):
        handle.result(0)
    assert works.done == [("one", 1), ("two", 2)]
    assert [event.token for event in record.of(RoleChanged)] == [2]


def test_a_candidate_that_starts_where_nobody_leads_goes_on_with_what_is_unfinished(begin: Begin, works: Works) -> None:
    a = begin("a")
    with Hang() as hang:
        works.hang = hang
        a.submit(Task(goal="goal", id="t1"))
        hang.wait_until_entered()
        a.stop()
    works.hang = None

    b = begin("b")

    assert b.role == "leader"
    assert b.task("t1").result(LONG_S).results["two"] == "after one done"


@pytest.mark.parametrize("when", ["at the start", "at the takeover"])
def test_a_tree_that_does_not_start_leaves_the_lease_to_others(begin: Begin, works: Works, when: str) -> None:
    def refuse() -> None:
        raise ValueError("not here")

    shy = WorkerSpec(id="shy", actor=_shy(refuse))
    bad = works.tree(children=[*works.tree().children, shy])
    if when == "at the start":
        with pytest.raises(StartError):
            begin("b", bad)
    else:
        a = begin("a")
        b = begin("b", bad)
        record = Record(b)
        a.stop()
        with pytest.raises(StartError):
            b.wait(LONG_S)
        assert "StartError" in record.of(RoleLost)[0].reason

    began = unstopped()
    c = begin("c")
    assert c.role == "leader"
    assert in_seconds(began) < LEASE_S * 4 / 5, "a lease that was left alone has at least four fifths of its time"


def _shy(refuse: Callable[[], None]) -> type[Any]:
    from actors import Worker  # noqa: PLC0415

    class Shy(Worker):
        def on_start(self) -> None:
            refuse()

    return Shy


def test_a_standby_that_is_stopped_changes_nothing(begin: Begin) -> None:
    a, b = begin("a"), begin("b")

    assert b.stop()

    assert (a.role, b.role) == ("leader", "stopped")
    with pytest.raises(TreeDownError):
        b.submit("goal")
    assert a.run("goal").status == "succeeded"


def test_many_who_start_at_once_agree_on_one(begin: Begin, works: Works) -> None:
    trees: list[Tree] = []
    gate = threading.Barrier(5)

    def go(name: str) -> None:
        gate.wait()
        trees.append(begin(name))

    threads = [threading.Thread(target=go, args=(f"c{number}",)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)

    assert sorted(tree.role for tree in trees) == ["leader"] + ["standby"] * 4


def test_an_async_start_is_the_same(store_url: str, works: Works) -> None:
    async def main() -> None:
        async with start_async(works.tree(), store=store_url, ha=HA(lease_s=LEASE_S, name="a")) as a:
            b = await start_async(works.tree(), store=store_url, ha=HA(lease_s=LEASE_S, name="b"))
            assert (a.role, b.role) == ("leader", "standby")
            assert (await a.arun("goal")).status == "succeeded"
            async with b:
                pass
            assert b.role == "stopped"

    asyncio.run(main())


# -- a store that is gone ----------------------------------------------------------------------------------


def test_a_connection_that_is_cut_for_a_moment_ends_nothing(postgres: Cluster, postgres_url: str, works: Works) -> None:
    a = start(works.tree(), store=postgres_url, ha=HA(lease_s=LEASE_S, name="a"))
    assert postgres.end_sessions(postgres_url) >= 2

    assert a.run("goal", timeout=LONG_S).status == "succeeded"
    assert not a.wait(0.8 * LEASE_S)
    assert a.role == "leader"
    a.stop()


# -- what is written ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [None, MemoryStore()])
def test_candidates_need_a_store_that_they_share(store: Any, works: Works) -> None:
    with pytest.raises(ConfigError, match="store: with ha= several processes share one store"):
        start(works.tree(), store=store, ha=HA())


def test_a_lease_is_no_number(works: Works) -> None:
    with pytest.raises(ConfigError, match="ha: an int says nothing about a lease"):
        start(works.tree(), store="sqlite:///x.db", ha=10)  # type: ignore[arg-type]


@pytest.mark.parametrize("words", [{"lease_s": 0}, {"lease_s": 1e6}, {"lease_s": "10"}, {"name": ""}, {"lease": 3}])
def test_a_setting_that_makes_no_sense_is_refused(words: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="HA"):
        HA(**words)


def test_a_store_that_cannot_be_reached_is_told_at_the_start(works: Works) -> None:
    with pytest.raises(StoreError, match="cannot be reached"):
        start(works.tree(), store="postgresql://nobody@127.0.0.1:1/none", ha=HA(lease_s=5.0))


def test_without_a_store_the_token_is_0_and_a_tree_without_ha_leads_until_it_is_down(works: Works) -> None:
    with start(works.tree()) as tree:
        tree.run("goal")
        assert (tree.role, tree.holder, tree.wait_for_role("leader"), tree.wait_for_role("standby")) == (
            "leader",
            None,
            True,
            False,
        )
        assert "leader" not in tree.dump()
        assert tree.snapshot().token is None

    assert (tree.role, tree.wait_for_role("stopped", 1)) == ("stopped", True)
    assert works.done == [("one", 0), ("two", 0)]
