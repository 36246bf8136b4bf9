"""The traps that the trial of this library fell into, each forced again: async kills, stock actors, clocks and size."""

import asyncio
import threading
import weakref

from actors import (
    ChildExited,
    ChildStarted,
    SystemClock,
)
from tests.support.hardening import (
    LONG_S,
    Ours,
    Stock,
    Witness,
    crash,
    eventually,
    gone,
    obey_async,
    root,
    tree_of,
    worker,
)
from trees import SupervisorSpec, start

# -- 14: killing async workers -----------------------------------------------------------------------------


def test_an_async_worker_that_is_killed_has_ended_before_its_successor_starts() -> None:
    """Trap 14: cancel, wait for the task's end, and only then go on."""
    order, reached = [], threading.Event()

    async def stay() -> None:
        order.append("in")
        reached.set()
        try:
            await asyncio.sleep(LONG_S)
        finally:
            await asyncio.sleep(0.05)
            order.append("out")

    with tree_of(worker("w", obey_async, shutdown="brutal_kill")) as tree:
        tree.ref("t/w").tell(stay)
        assert reached.wait(LONG_S)
        tree.terminate_child("t/w")
        tree.restart_child("t/w")
        order.append("restarted")

    assert order == ["in", "out", "restarted"]


def test_an_async_worker_that_ignores_its_cancellation_is_abandoned_after_a_grace() -> None:
    """Trap 14."""
    reached, let_go = threading.Event(), threading.Event()

    async def ignore() -> None:
        reached.set()
        while not let_go.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    with tree_of(worker("w", obey_async, shutdown="brutal_kill")) as tree:
        seen = Witness(tree)
        tree.ref("t/w").tell(ignore)
        assert reached.wait(LONG_S)
        tree.terminate_child("t/w")
        abandoned = dict(tree.snapshot().abandoned)
        let_go.set()
        eventually(lambda: not tree.snapshot().abandoned)

        assert abandoned == {"t/w": 1}
        assert [event.reason for event in seen.of(ChildExited)] == ["killed"]


def test_a_cancelled_error_of_the_handlers_own_is_a_crash_and_not_a_kill() -> None:
    """Trap 14."""

    async def cancelled() -> None:
        raise asyncio.CancelledError

    with tree_of(worker("w", obey_async)) as tree:
        seen = Witness(tree)
        tree.ref("t/w").tell(cancelled)

        assert seen.wait(ChildExited).reason == "crashed"


# -- 15: stock actors --------------------------------------------------------------------------------------


def test_a_proxy_does_not_pin_the_first_instance() -> None:
    """Trap 15: pykka.ActorProxy does."""
    kept = []

    class Pinned(Stock):
        def __init__(self) -> None:
            super().__init__()
            kept.append(weakref.ref(self))

    with tree_of(worker("w", Pinned)) as tree:
        seen, proxy = Witness(tree), tree.ref("t/w").proxy()
        proxy.total().get(timeout=LONG_S)
        tree.ref("t/w").tell(crash)
        seen.wait(ChildStarted)
        seen.leave()
        seen.events.clear()

        assert proxy.total().get(timeout=LONG_S) == 42
        eventually(lambda: gone(kept[0]), "the end of the first instance")


# -- 16, 17 ------------------------------------------------------------------------------------------------


def test_supervisors_have_no_thread_of_their_own() -> None:
    """Trap 16: they are actors like the others."""
    before = threading.active_count()
    inner = [SupervisorSpec(id=f"s{n}", children=[worker("w")]) for n in range(300)]
    with tree_of(*inner):
        assert threading.active_count() - before < 20


def test_a_tree_keeps_to_its_own_clock() -> None:
    """Whatever peeks at another clock than the tree's is wrong by years."""
    with start(root(worker("w", Ours, start_timeout_s=LONG_S)), clock=SystemClock(offset_s=1e9)) as tree:
        seen = Witness(tree)
        tree.ref("t/w").tell(crash)
        seen.wait(ChildStarted)

        assert tree.ref("t/w").ask("m", timeout=LONG_S) == "m"
        assert tree.child("t/w").last_exit.at > 1e9
