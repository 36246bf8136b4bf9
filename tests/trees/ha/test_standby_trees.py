"""Two processes' worth of trees on one store, in this process: who leads, who waits, and what the store refuses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from actors import ConfigError, StartError, TreeDownError
from actors.model.clock import unstopped
from actors.testing import Hang
from tests.support.crew import LONG_S, Record
from tests.support.databases import Cluster
from trees import (
    HA,
    LeaseLostError,
    NotLeaderError,
    RoleChanged,
    RoleLost,
    StaticPlan,
    StoreError,
    Subtask,
    SubtaskStarted,
    SupervisorSpec,
    Task,
    Tasks,
    Tree,
    WorkerSpec,
    start,
    start_async,
)
from trees.store import MemoryStore
from trees.store.database import Database
from trees.store.sql_lease import SqlLease

LEASE_S = 8.0
"""Half of it must be longer than a busy machine lets a process wait."""
Execute = Callable[[Any, Any], Any]


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


def freeze(tree: Tree) -> threading.Event:
    """Hold its keeper up, as if only that were frozen: everything else goes on. Set the event to thaw it."""
    standing, go_on = threading.Event(), threading.Event()
    keeper: Any = tree._leadership.keeper

    def stand(_: float) -> None:
        standing.set()
        assert go_on.wait(LONG_S)

    keeper._hear(stand)
    assert standing.wait(LONG_S)
    return go_on


def test_a_leader_whose_keeper_is_frozen_starts_nothing_more_and_is_ended_when_it_thaws(
    begin: Begin, works: Works
) -> None:
    a, b = begin("a"), begin("b")
    a_record = Record(a)
    with Hang() as hang:
        works.hang = hang
        handle = a.submit(Task(goal="goal", id="t1"))
        hang.wait_until_entered()
        thaw = freeze(a)
        began = unstopped()

        assert b.wait_for_role("leader", LONG_S)
        assert in_seconds(began) < 3 * LEASE_S
        hang.release()
        assert b.task("t1").result(LONG_S).output == {"one": "one done", "two": "after one done"}
        thaw.set()
        with pytest.raises(LeaseLostError):
            a.wait(LONG_S)
    with pytest.raises(TreeDownError):
        handle.result(0)
    tokens = [token for _, token in works.done]
    assert tokens == sorted(tokens)
    assert works.done.count(("two", 2)) == 1
    assert (a.role, b.role) == ("stopped", "leader")
    assert [event.token for event in a_record.of(RoleLost)] == [1]


def test_what_an_old_leader_writes_is_refused_and_ends_it(begin: Begin, works: Works, store_url: str) -> None:
    a = begin("a", lease_s=30.0)
    take_away(store_url, a)

    with pytest.raises((StoreError, TreeDownError)):
        a.submit("goal")
    with pytest.raises(LeaseLostError, match="thief"):
        a.wait(LONG_S)
    assert works.done == []
    assert (a.role, a.is_alive) == ("stopped", False)
    with pytest.raises(TreeDownError):
        a.submit("goal")


def take_away(url: str, tree: Tree) -> None:
    """As if its time were over for the store, and another one had taken the lease."""
    keeper: Any = tree._leadership.keeper
    own = SqlLease(url, "shop", str(tree.holder), lease_s=0.0, wait_s=5.0, hangs_s=5.0)
    with closing(own), closing(SqlLease(url, "shop", "thief", lease_s=30.0, wait_s=5.0, hangs_s=5.0)) as thief:
        while thief.acquire() != 2:  # the leader may have renewed it in between
            assert own.renew(keeper._candidate.token) == 1


def test_leaving_the_block_of_a_leader_that_was_replaced_raises_why(store_url: str, works: Works) -> None:
    tree = start(works.tree(), store=store_url, ha=HA(lease_s=30.0))
    take_away(store_url, tree)
    assert tree.wait_for_role("stopped", LONG_S)

    with pytest.raises(LeaseLostError), tree:
        assert not works.done


def test_an_effect_of_an_old_leader_finds_that_it_comes_too_late_and_is_nobodys_failure(
    begin: Begin, works: Works
) -> None:
    seen: list[object] = []
    over = threading.Event()

    def late(_: object, context: Any) -> None:
        keeper: Any = tree._leadership.keeper
        keeper.lease.end()
        try:
            seen.append(context.token)
        except LeaseLostError as error:
            seen.append(error)
            raise
        finally:
            over.set()

    tree = begin("a", works.tree(children=[WorkerSpec(id="w1", execute=late), WorkerSpec(id="w2", execute=late)]))
    tree.submit(Task(goal="goal", id="t1"))
    assert over.wait(LONG_S)
    tree.stop()

    assert [type(each) for each in seen] == [LeaseLostError]
    begun = begin("b")
    assert begun.task("t1").result(LONG_S).status == "succeeded"
    assert {event.attempt for event in handle_events(begun)} == {1}, "it was nobody's failure, and no attempt"


def handle_events(tree: Tree) -> list[SubtaskStarted]:
    return [event for event in tree.task("t1").events() if isinstance(event, SubtaskStarted)]


def test_a_leader_says_so_only_when_what_was_unfinished_has_been_taken_up(begin: Begin, works: Works) -> None:
    a = begin("a")
    with Hang() as hang:
        works.hang = hang
        a.submit(Task(goal="goal", id="t1"))
        hang.wait_until_entered()
        a.stop()
        b = begin("b")
        state = b._system.services["tasks"].ports["shop"].states["t1"]

        assert b._system.services["tasks"].ports["shop"].resumed.done
        assert str(state.nodes["two"].status) in {"queued", "running"}


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


def ends_of(tree: Tree) -> float:
    """When its lease is over, by our clock."""
    keeper: Any = tree._leadership.keeper
    ends: float = keeper._candidate.sent + keeper._ha.lease_s
    return ends


def test_a_file_that_somebody_locks_ends_the_leader_before_its_lease_is_over(tmp_path: Path, works: Works) -> None:
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    a = start(works.tree(), store=url, ha=HA(lease_s=LEASE_S, name="a"))
    b = start(works.tree(), store=url, ha=HA(lease_s=LEASE_S, name="b"))
    down: list[float] = []
    a.subscribe(lambda event: down.append(unstopped()) if type(event).__name__ == "TreeStopped" else None)
    with Hang() as hang:
        works.hang = hang
        a.submit(Task(goal="goal", id="t1"))
        hang.wait_until_entered()
        other: Any = Database(url).writing()
        other.begin()
        with pytest.raises(LeaseLostError, match="could not be renewed"):
            a.wait(LONG_S)
        assert down[0] < ends_of(a)
        assert not b.wait_for_role("leader", LEASE_S), "nobody can take it now"
        other.close()

        assert b.wait_for_role("leader", LONG_S)
    assert b.task("t1").result(LONG_S).status == "succeeded"
    a.stop()
    b.stop()


@pytest.mark.slow
def test_a_server_that_is_gone_ends_the_leader_and_when_it_is_back_somebody_leads(
    postgres: Cluster, postgres_url: str, works: Works
) -> None:
    lease_s = 3 * LEASE_S  # a server that has just come back is slow, and a leader needs its answers
    a = start(works.tree(), store=postgres_url, ha=HA(lease_s=lease_s, name="a"))
    b = start(works.tree(), store=postgres_url, ha=HA(lease_s=lease_s, name="b"))
    down: list[float] = []
    a.subscribe(lambda event: down.append(unstopped()) if type(event).__name__ == "TreeStopped" else None)
    with Hang() as hang:
        works.hang = hang
        a.submit(Task(goal="goal", id="t1"))
        hang.wait_until_entered()
        postgres.stop()
        try:
            with pytest.raises(LeaseLostError, match="could not be renewed"):
                a.wait(LONG_S)
            assert down[0] < ends_of(a)
            assert b.role == "standby"
        finally:
            postgres.start()

        assert b.wait_for_role("leader", LONG_S)
    assert b.task("t1").result(LONG_S).status == "succeeded"
    a.stop()
    b.stop()


def test_a_standby_whose_renewals_fail_while_it_reads_the_journals_leads_when_the_store_answers_again(
    begin: Begin, works: Works
) -> None:
    a, b = begin("a"), begin("b")
    keeper: Any = b._leadership.keeper
    renew, open_store = keeper._leases.renew, keeper._open_store
    refused, is_back, is_read = threading.Semaphore(0), threading.Event(), threading.Event()

    def renewed(token: int) -> Any:
        if not is_back.is_set():
            refused.release()
            raise StoreError("test", "is starting")
        return renew(token)

    def opened(token: int) -> None:
        assert is_read.wait(LONG_S)
        open_store(token)

    keeper._leases.renew, keeper._open_store = renewed, opened
    a.stop()
    began = unstopped()
    while in_seconds(began) < LEASE_S + 0.5:  # longer than any leader may go without
        assert refused.acquire(timeout=LONG_S)
    assert b.role == "standby"
    is_read.set()
    assert refused.acquire(timeout=LONG_S)
    assert b.role == "standby", "it has no lease that is fresh"
    is_back.set()

    assert b.wait_for_role("leader", LONG_S)
    assert b.run("goal").status == "succeeded"
    assert {token for _, token in works.done} == {2}


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
