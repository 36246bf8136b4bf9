"""A host program with several trees side by side, and a pool that is replaced while it is in use."""

from __future__ import annotations

import asyncio
import itertools
import threading

import pykka
import pytest

from actors import ActorStoppedError, RestartLimitError, TreeDownError, Worker
from actors.testing import settle
from trees import SupervisorSpec, WorkerSpec, start, start_async

PATIENCE_S = 60.0


class Counter(Worker):
    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    async def on_receive(self, message: int) -> int:
        await asyncio.sleep(0)
        self.total += message
        if message < 0:
            raise ValueError(message)
        return self.total


def counting(name: str, max_restarts: int = 3) -> SupervisorSpec:
    return SupervisorSpec(id=name, max_restarts=max_restarts, children=[WorkerSpec(id="counter", actor=Counter)])


def test_an_async_host_runs_several_trees_side_by_side_and_one_that_dies_leaves_the_others_alone() -> None:
    async def host() -> list[int]:
        async with start_async(counting("left")) as left, start_async(counting("right")) as right:
            frail = await start_async(counting("frail", max_restarts=0))
            refs = [tree.ref(f"{tree.spec.id}/counter") for tree in (left, right)]
            for amount in (1, 2, 3):
                await asyncio.gather(*(ref.ask_async(amount) for ref in refs))

            with pytest.raises(ValueError, match="-1"):
                await frail.ref("frail/counter").ask_async(-1)
            with pytest.raises(RestartLimitError):
                await asyncio.to_thread(frail.wait, PATIENCE_S)
            with pytest.raises(TreeDownError):
                await frail.ref("frail/counter").ask_async(1)

            return [await ref.ask_async(0) for ref in refs]

    assert asyncio.run(host()) == [6, 6]


def test_the_host_loop_goes_on_while_trees_start_and_stop() -> None:
    started, go_on = threading.Event(), threading.Event()

    class Slow(Worker):
        def on_start(self) -> None:
            started.set()
            go_on.wait(PATIENCE_S)

    spec = SupervisorSpec(id="slow", children=[WorkerSpec(id="worker", actor=Slow)])

    async def host() -> bool:
        starting = asyncio.ensure_future(start_async(spec))
        await asyncio.to_thread(started.wait, PATIENCE_S)
        still_starting = not starting.done()
        go_on.set()
        async with await starting:
            pass
        return still_starting

    assert asyncio.run(host())


def test_pykkas_stop_all_stops_every_tree_in_order() -> None:
    trees = [start(counting(name)) for name in ("left", "right")]
    pykka.ActorRegistry.stop_all()

    assert [tree.wait(PATIENCE_S) for tree in trees] == [True, True]


def test_a_pool_is_replaced_member_by_member_under_load_without_losing_a_message() -> None:
    versions = itertools.count(1)
    version = next(versions)
    done: list[tuple[int, int]] = []

    def pool(id: str, number: int) -> WorkerSpec:
        return WorkerSpec(id=id, pool=3, handle=lambda message: done.append((number, message)))

    with start(SupervisorSpec(id="app", children=[pool("work", version)])) as tree:
        old = tree.ref("app/work")
        for number in range(300):
            old.tell(number)

        new = tree.start_child("app", pool("work_next", next(versions)))
        for number in range(300, 600):
            new.tell(number)
        settle(tree)
        tree.terminate_child("app/work")
        tree.delete_child("app/work")

        assert sorted(message for _, message in done) == list(range(600))
        assert {number for number, message in done if message < 300} == {1}
        assert [info.id for info in tree.which_children("app")] == [f"work_next#{n}" for n in range(3)]
        with pytest.raises(ActorStoppedError):
            old.ask("anybody?")


def test_a_ref_of_a_pool_finds_the_pool_that_took_its_place() -> None:
    with start(SupervisorSpec(id="app", children=[WorkerSpec(id="work", pool=3, handle=lambda _: "old")])) as tree:
        work = tree.ref("app/work")
        before = work.ask("who?")
        tree.terminate_child("app/work")
        tree.delete_child("app/work")
        tree.start_child("app", WorkerSpec(id="work", pool=2, handle=lambda _: "new"))

        assert (before, work.ask("who?")) == ("old", "new")
        assert tree.count_children("app").active == 2
