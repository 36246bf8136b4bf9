"""No call of the library holds up the event loop of a tree: each one that could block is refused there at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import actors
from actors import BlockingAskError, LoopBlocked
from actors.execution import loop_watchdog
from actors.messaging import ref
from actors.model.clock import monotonic
from actors.testing import Hang
from tests.support.hardening import LONG_S, Gate, Witness, crash, eventually, obey_async, root, tree_of, worker
from trees import Backoff, Mailbox, StaticPlan, Subtask, SupervisorSpec, Tasks, Tree, WorkerSpec, start

CALLS: dict[str, Callable[[Tree], Any]] = {
    "ask": lambda tree: tree.ref("t/b").ask("m"),
    "ask of a sync worker": lambda tree: tree.ref("t/sync").ask("m"),
    "ask of a pool": lambda tree: tree.ref("t/pool").ask("m"),
    "ask of one that restarts": lambda tree: tree.ref("t/restarting").ask("m"),
    "ask of a stopped one": lambda tree: tree.ref("t/stopped").ask("m"),
    "get": lambda tree: tree.ref("t/b").ask("m", block=False).get(),
    "get of a mapped reply": lambda tree: tree.ref("t/b").ask("m", block=False).map(str).get(),
    "get with a timeout": lambda tree: tree.ref("t/b").ask("m", block=False).get(timeout=LONG_S),
    "proxy": lambda tree: tree.ref("t/b").proxy().actor_urn.get(),
    "setting through a proxy": lambda tree: setattr(tree.ref("t/sync").proxy(), "x", 1),
    "stop of a worker": lambda tree: tree.ref("t/b").stop(),
    "stop of the tree": lambda tree: tree.stop(),
    "wait": lambda tree: tree.wait(LONG_S),
    "start_child": lambda tree: tree.start_child("t", worker("new")),
    "terminate_child": lambda tree: tree.terminate_child("t/b"),
    "restart_child": lambda tree: tree.restart_child("t/stopped"),
    "delete_child": lambda tree: tree.delete_child("t/stopped"),
    "run": lambda tree: tree.run("goal"),
    "result": lambda tree: tree.submit("goal").result(),
    "events": lambda tree: list(tree.submit("goal").events()),
    "wait_for_role": lambda tree: tree.wait_for_role("stopped", timeout=LONG_S),
    "sleep": lambda tree: actors.sleep(LONG_S),
    "stopping": lambda tree: actors.stopping(LONG_S),
    "start of another tree": lambda tree: start(root(worker("x"))),
}


def everything(hang: Hang) -> SupervisorSpec:
    return SupervisorSpec(
        id="t",
        max_restarts=100_000,
        tasks=Tasks(planner=StaticPlan([Subtask("s", worker="slow")])),
        children=[
            worker("a", obey_async),
            worker("b", obey_async),
            worker("sync"),
            worker("pool", pool=2),
            worker("restarting", obey_async, backoff=Backoff(initial_s=1000, max_s=1000)),
            worker("stopped"),
            WorkerSpec(id="slow", execute=lambda task: hang.hold()),
        ],
    )


@pytest.mark.parametrize("place", ["handler", "task that outlives it"])
@pytest.mark.parametrize("call", CALLS)
def test_each_blocking_call_is_refused_on_the_loop_at_once_and_does_nothing(
    call: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_watchdog, "BLOCK_S", LONG_S / 2)
    outcome: list[Any] = []

    async def handle() -> None:
        began = monotonic()
        try:
            outcome.append(CALLS[call](tree))
        except Exception as error:  # noqa: BLE001 - handed over
            outcome.append(error)
        outcome.append(monotonic() - began)

    async def begin() -> None:
        tasks.append(asyncio.create_task(later()))

    async def later() -> None:
        await asyncio.sleep(0)
        await handle()

    tasks: list[Any] = []
    hang = Hang()
    with start(everything(hang)) as tree:
        seen = Witness(tree)
        tree.terminate_child("t/stopped")
        tree.ref("t/restarting").tell(crash)
        eventually(lambda: tree.child("t/restarting").state == "restarting")
        tree.ref("t/a").ask(handle if place == "handler" else begin, timeout=LONG_S)
        eventually(lambda: len(outcome) == 2)
        hang.release()
        error, took_s = outcome

        # A handler that waits for the end of its own tree is told so first: it could not do that elsewhere either.
        own_end = call in {"stop of the tree", "wait"} and place == "handler"
        assert isinstance(error, actors.RecursionDetectedError if own_end else BlockingAskError), error
        assert took_s < LONG_S / 2
        assert tree.child("t/b").incarnation == tree.child("t/a").incarnation == 1
        assert tree.child("t/stopped").state == "stopped"
        assert tree.is_alive
        assert seen.of(LoopBlocked) == []


def test_it_says_what_to_write_and_is_a_failed_request_that_names_its_target() -> None:
    async def ask() -> Any:
        return tree.ref("t/b").ask("m")

    with tree_of(worker("a", obey_async), worker("b")) as tree:
        with pytest.raises(BlockingAskError, match=r"t/b: .* Write 'await ref.ask_async"):
            tree.ref("t/a").ask(ask)

        assert tree.child("t/a").incarnation == 1


def test_what_need_not_wait_is_not_refused() -> None:
    async def handle() -> Any:
        done = tree.ref("t/b").ask("m", block=False)
        await done
        return done.get(), done.get(timeout=0), tree.ref("t/b").stop(block=False) is not None, actors.stopping()

    with tree_of(worker("a", obey_async), worker("b", obey_async)) as tree:
        assert tree.ref("t/a").ask(handle, timeout=LONG_S) == ("m", "m", True, False)


def test_a_host_may_block_its_own_loop() -> None:
    async def host() -> Any:
        return tree.ref("t/a").ask("m"), tree.ref("t/a").ask("m", block=False).get(), tree.ref("t/a").stop()

    with tree_of(worker("a", obey_async)) as tree:
        assert asyncio.run(host()) == ("m", "m", True)


def test_a_thread_that_the_loop_waits_for_may_block() -> None:
    async def handle() -> Any:
        return await asyncio.to_thread(lambda: tree.ref("t/b").ask("m"))

    with tree_of(worker("a", obey_async), worker("b", obey_async)) as tree:
        assert tree.ref("t/a").ask(handle, timeout=LONG_S) == "m"


def test_a_tell_to_a_full_mailbox_does_not_wait_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ref, "FULL_WAIT_S", LONG_S)
    gate = Gate()

    async def tell() -> float:
        began = monotonic()
        tree.ref("t/full").tell("one more")
        return monotonic() - began

    full = worker("full", mailbox=Mailbox(capacity=1, overflow="block"))
    with tree_of(worker("a", obey_async), full) as tree:
        tree.ref("t/full").tell(gate)
        gate.wait_reached()
        tree.ref("t/full").tell("fills it")
        took_s = tree.ref("t/a").ask(tell, timeout=LONG_S)
        gate.open.set()

    assert took_s < LONG_S / 2
