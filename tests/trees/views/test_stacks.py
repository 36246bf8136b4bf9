"""Where the code of a worker stands."""

from __future__ import annotations

from actors.testing import AsyncFaultyWorker, Hang
from tests.support.crew import faulty, running, shop
from tests.support.hardening import eventually
from trees import Tree, WorkerSpec
from trees.views.snapshot import WorkerSnapshot


def seen(tree: Tree, path: str, *, stacks: bool = False) -> WorkerSnapshot:
    top = tree.snapshot(path, stacks=stacks).top
    assert isinstance(top, WorkerSnapshot)
    return top


def test_a_stack_is_taken_only_of_what_is_busy_and_only_when_asked_for() -> None:
    hang = Hang()
    with running(shop(faulty("busy"), faulty("idle"))) as tree:
        tree.ref("shop/busy").tell(hang)
        hang.wait_until_entered()
        asked, unasked = seen(tree, "shop/busy", stacks=True), seen(tree, "shop/busy")
        idle = seen(tree, "shop/idle", stacks=True)
        hang.release()

    assert asked.stack is not None
    assert "in hold" in asked.stack
    assert unasked.stack is None
    assert (idle.stack, idle.abandoned_stacks) == (None, ())


def test_the_stack_of_an_async_worker_leads_to_what_it_awaits_and_not_to_the_loop() -> None:
    hang = Hang()
    with running(shop(WorkerSpec(id="agent", actor=AsyncFaultyWorker))) as tree:
        tree.ref("shop/agent").tell(hang)
        hang.wait_until_entered()
        # Until it has left the loop's thread its stack is that of the thread.
        eventually(lambda: "run_forever" not in (seen(tree, "shop/agent", stacks=True).stack or ""))
        agent = seen(tree, "shop/agent", stacks=True)
        hang.release()

    assert agent.stack is not None
    assert "in on_receive" in agent.stack
    assert "in hold_async" in agent.stack
    assert "run_forever" not in agent.stack
