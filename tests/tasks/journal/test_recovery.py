"""Whoever dies, and wherever in a run: the report is the same, and nothing is done twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from actors import ChildExited
from actors.messaging.reply import Reply
from actors.tasks.model.task_events import SubtaskSucceeded
from tests.faults.cut_points import AT_ONCE, CuttingStore, World, twice
from trees import StaticPlan, Subtask, SupervisorSpec, Tasks, Tree, WorkerSpec, start

pytestmark = pytest.mark.slow
FAILS = pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails and is undone"])


def reference(*, fails: bool) -> tuple[World, dict[str, Any], int]:
    """An undisturbed run: its books, its report, and how many records it has."""
    world, store = World(fails=fails), CuttingStore()
    return world, world.run(store), store.written


def same_at_every_record(
    *, fails: bool, run: Callable[[World, int], tuple[CuttingStore, dict[str, Any]]], every: int = 1, first: int = 0
) -> None:
    """Each record, or every so many. A sample is one in twelve records, from ``first`` on: other ones in each test."""
    wanted, report, records = reference(fails=fails)
    for at in range(1 + fails % every + first * every, records + 1, 12):
        world = World(fails=fails)

        store, found = run(world, at)

        where = f"record {at} of {records}"
        assert found == report, where
        assert world.books - wanted.books == {}, f"{where}: done twice"
        assert wanted.books - world.books == {}, f"{where}: not done"
        assert twice(store) == [], where


@FAILS
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_an_orchestrator_that_crashes_at_any_record_leaves_the_same_report_and_does_nothing_twice(
    *, fails: bool, before: bool
) -> None:
    """After a record there is the same journal as before the next one: so every second record, in both ways."""

    def run(world: World, at: int) -> tuple[CuttingStore, dict[str, Any]]:
        store = CuttingStore(at, before=before)
        return store, world.run(store)

    same_at_every_record(fails=fails, run=run, every=2, first=0 if before else 2)


@FAILS
def test_an_orchestrator_that_is_killed_at_any_record_leaves_the_same_report_and_does_nothing_twice(
    *, fails: bool
) -> None:
    def run(world: World, at: int) -> tuple[CuttingStore, dict[str, Any]]:
        trees: list[Tree] = []

        def kill(owner: str) -> None:
            incarnation = trees[0]._system.children[f"{owner}/orchestrator"].incarnation
            assert incarnation is not None
            incarnation.kill()

        store = CuttingStore(at, then=kill)
        ready = threading.Event()

        def hold(task: Any, catalogue: Any, feedback: str) -> Any:
            ready.wait(60)
            return plan(task, catalogue, feedback)

        plan = world.plan
        world.plan = hold  # type: ignore[method-assign]

        def begin(tree: Tree) -> None:
            trees.append(tree)
            ready.set()

        return store, world.run(store, begin)

    same_at_every_record(fails=fails, run=run, first=1)


@FAILS
def test_an_orchestrator_that_is_terminated_at_any_record_and_restarted_leaves_the_same_report(*, fails: bool) -> None:
    def run(world: World, at: int) -> tuple[CuttingStore, dict[str, Any]]:
        owners: list[str] = []
        reached = threading.Event()

        def tell(owner: str) -> None:
            owners.append(owner)
            reached.set()

        store = CuttingStore(at, then=tell)

        def terminate(tree: Tree) -> None:
            assert reached.wait(60)
            tree.terminate_child(f"{owners[0]}/orchestrator")
            tree.restart_child(f"{owners[0]}/orchestrator")

        return store, world.run(store, terminate)

    same_at_every_record(fails=fails, run=run, first=5)


# -- supervisors and groups ----------------------------------------------------------------------------------


def without_asks(report: dict[str, Any]) -> dict[str, Any]:
    """A worker that was killed while it waited for an answer asks once more."""
    graph = [line for line in report["graph"] if not line[0].endswith(".n")]
    return {**report, "graph": graph, "usage": None, "skipped": None}


class CuttingTeam(CuttingStore):
    """Does something at the ``at``-th record of the team: which one of all that is differs from run to run."""

    def _write(self, owner: str, write: Callable[[], Any]) -> Any:
        return super()._write(owner, write) if owner == "p/team" else write()


def test_a_team_that_is_replaced_at_any_of_its_records_goes_on_with_what_it_had() -> None:
    wanted, counting = World(), CuttingTeam()
    report = wanted.run(counting)
    for at in range(1, counting.written + 1, 3):
        world = World()
        reached = threading.Event()

        def tell(_: str, reached: threading.Event = reached) -> None:
            reached.set()

        def replace(tree: Tree, reached: threading.Event = reached) -> None:
            assert reached.wait(60)
            incarnation = tree._system.children["p/team"].incarnation
            assert incarnation is not None
            incarnation.kill()

        store = CuttingTeam(at, then=tell)

        found = world.run(store, replace)

        where = f"record {at} of {counting.written} of the team"
        assert without_asks(found) == without_asks(report), where
        assert wanted.books - world.books == {}, f"{where}: not done"
        assert twice(store) == [], where


class Crasher:
    """Crashes at its first attempt, once ``others`` have begun."""

    def __init__(self, *others: threading.Event) -> None:
        self._others = others

    def __call__(self, _: Any, context: Any) -> str:
        for other in self._others:
            assert other.wait(60)
        if context.attempt == 1:
            raise SystemExit
        return "crashed before"


class Innocent:
    """Async; its first call waits until it is cancelled or released, the later ones return at once."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.release = Reply()
        self.ended: list[str] = []

    async def __call__(self, _: Any, context: Any) -> str:
        self.begun.set()
        try:
            if not self.ended:
                await self.release
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        self.ended.append("returned")
        return f"attempt {context.attempt}"


def group(strategy: Any, *workers: WorkerSpec) -> SupervisorSpec:
    plan = StaticPlan([Subtask(worker.id, worker=worker.id) for worker in workers])
    return SupervisorSpec(id="p", strategy=strategy, tasks=Tasks(planner=plan, on_failure=[AT_ONCE]), children=workers)


def test_a_group_restart_cancels_the_async_attempts_of_the_innocent_at_once_and_counts_none_of_them() -> None:
    innocent = Innocent()
    workers = [
        WorkerSpec(id="innocent", execute=innocent, shutdown=600.0),
        WorkerSpec(id="crasher", execute=Crasher(innocent.begun)),
    ]

    with start(group("one_for_all", *workers)) as tree:
        report = tree.run("the goal", timeout=60)

        assert report.results == {"innocent": "attempt 1", "crasher": "crashed before"}
        assert innocent.ended == ["cancelled", "returned"]
        assert {one.id: one.attempts for one in report.graph} == {"innocent": 1, "crasher": 2}
        assert {child.incarnation for child in tree.which_children("p")} == {2}


def test_a_group_restart_waits_for_the_sync_attempts_of_the_innocent_and_takes_their_results() -> None:
    begun, calls = threading.Event(), []

    def innocent(_: Any, context: Any) -> str:
        begun.set()
        calls.append(context.attempt)
        crashed.wait(60)
        return "done meanwhile"

    crashed = threading.Event()
    workers = [WorkerSpec(id="innocent", execute=innocent), WorkerSpec(id="crasher", execute=Crasher(begun))]

    with start(group("one_for_all", *workers)) as tree:
        tree.subscribe(lambda event: crashed.set() if isinstance(event, ChildExited) else None)
        report = tree.run("the goal", timeout=60)

    assert report.results == {"innocent": "done meanwhile", "crasher": "crashed before"}
    assert calls == [1]


def test_a_restart_of_the_rest_leaves_those_before_alone() -> None:
    before, after = Innocent(), Innocent()
    workers = [
        WorkerSpec(id="before", execute=before),
        WorkerSpec(id="crasher", execute=Crasher(before.begun, after.begun)),
        WorkerSpec(id="after", execute=after),
    ]

    with start(group("rest_for_one", *workers)) as tree:
        handle = tree.submit("the goal")
        for event in handle.events():
            if isinstance(event, SubtaskSucceeded) and event.subtask == "after":
                before.release.complete()
        report = handle.result(60)

    assert report.results == {"before": "attempt 1", "crasher": "crashed before", "after": "attempt 1"}
    assert (before.ended, after.ended) == (["returned"], ["cancelled", "returned"])
    assert {one.id: one.attempts for one in report.graph} == {"before": 1, "crasher": 2, "after": 1}
