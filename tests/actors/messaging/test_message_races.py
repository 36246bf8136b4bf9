"""The races that the docstrings of mailbox, pool and reply name: both orders of each, forced."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from actors import (
    ActorStoppedError,
    DeadLetter,
    MailboxFullError,
    Reply,
)
from actors.execution import pool as pool_module
from actors.execution.pool import Pool
from actors.messaging.mailbox import Mailbox as Box
from actors.testing import settle
from tests.support.hardening import LONG_S, Gate, Witness, eventually, in_thread, life_of, stop_at, tree_of, worker
from trees import Mailbox, Tree

# -- the mailbox -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("idle_first", [True, False])
def test_a_put_finds_a_worker_that_goes_idle_or_the_worker_finds_the_message(
    asynchronous: bool, idle_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: list[object] = []

    async def handle(message: object) -> None:
        handled.append(message)

    with tree_of(worker("w", handle if asynchronous else handled.append)) as tree:
        settle(tree)
        incarnation = life_of(tree, "t/w")
        with stop_at(
            Box, "take", lambda box, taker: taker is incarnation and not box.depth, after=idle_first, patch=monkeypatch
        ) as gate:
            tree.ref("t/w").tell(1)
            gate.wait_reached()
            tree.ref("t/w").tell(2)
        eventually(lambda: len(handled) == 2)
        settle(tree)

        assert handled == [1, 2]


@pytest.mark.parametrize("put_first", [True, False])
def test_a_message_is_returned_by_the_close_or_refused_by_it(put_first: bool) -> None:
    gate = Gate()
    with tree_of(worker("w")) as tree:
        seen, ref = Witness(tree), tree.ref("t/w")
        ref.tell(gate)
        gate.wait_reached()
        stopped = in_thread(lambda: tree.terminate_child("t/w"))
        eventually(lambda: life_of(tree, "t/w").must_stop)
        if put_first:
            reply = ref.ask("m", timeout=None, block=False)
            ref.tell("m")
        gate.open.set()
        stopped()
        if not put_first:
            reply = ref.ask("m", timeout=None, block=False)
            ref.tell("m")

        with pytest.raises(ActorStoppedError):
            reply.get(timeout=LONG_S)
        assert seen.wait(DeadLetter).reason == "stopped"


def test_a_round_trip_through_a_full_mailbox_does_not_end_before_its_last_message() -> None:
    """What waits for quiet and what waits for room stand in one line."""
    gates, settled = [Gate() for _ in range(4)], []
    with tree_of(worker("w", mailbox=Mailbox(capacity=4))) as tree:
        for gate in gates:
            tree.ref("t/w").tell(gate)
        done = in_thread(lambda: settled.append(settle(tree, LONG_S)))
        box = tree._system.boxes["t/w"]
        for n, gate in enumerate(gates):
            gate.wait_reached()
            eventually(lambda: box.quiet)
            assert not settled, n
            gate.open.set()
        done()

        assert settled == [None]


def test_senders_that_wait_for_room_are_refused_when_it_closes() -> None:
    gate = Gate()
    with tree_of(worker("w", mailbox=Mailbox(capacity=1))) as tree:
        ref = tree.ref("t/w")
        ref.tell(gate)
        gate.wait_reached()
        ref.tell("fills it")
        waiting = in_thread(lambda: ref.ask("waits for room", timeout=LONG_S))
        eventually(lambda: tree._system.boxes["t/w"].waiters)
        stopped = in_thread(lambda: tree.terminate_child("t/w"))
        eventually(lambda: life_of(tree, "t/w").must_stop)
        gate.open.set()
        stopped()

        with pytest.raises((ActorStoppedError, MailboxFullError)) as caught:
            waiting()
        assert caught.type is ActorStoppedError


# -- the pool ----------------------------------------------------------------------------------------------


class Job:
    urgent = False

    def __init__(self) -> None:
        self.done = threading.Event()

    def run(self) -> bool:
        self.done.set()
        return False


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool("p", 64, near_cap=lambda *_: None, failed=lambda error: None)
    yield pool
    pool.close(LONG_S)


@pytest.mark.parametrize("parked_first", [True, False])
def test_a_submit_finds_a_thread_that_parks_or_the_thread_finds_the_job(
    pool: Pool, parked_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job()
    with stop_at(Pool, "next_job", lambda pool, thread: not pool._jobs, after=parked_first, patch=monkeypatch) as gate:
        pool.submit(Job())
        gate.wait_reached()
        pool.submit(job)
        gate.open.set()

        assert job.done.wait(LONG_S)


@pytest.mark.parametrize("retired_first", [True, False])
def test_a_submit_finds_a_thread_that_retires_or_another_is_started(
    pool: Pool, retired_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "IDLE_S", 0.01)
    job = Job()
    with stop_at(Pool, "retire", lambda *_: True, after=retired_first, patch=monkeypatch) as gate:
        pool.submit(Job())
        gate.wait_reached()
        pool.submit(job)
        gate.open.set()

        assert job.done.wait(LONG_S)


# -- the reply ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["value", "error"])
def test_whoever_completes_a_reply_first_wins(first: str) -> None:
    reply = Reply()
    won = (
        [reply.complete(1), reply.fail(KeyError())] if first == "value" else [reply.fail(KeyError()), reply.complete(1)]
    )

    assert won == [True, False]
    if first == "value":
        assert reply.get() == 1
    else:
        with pytest.raises(KeyError):
            reply.get()


@pytest.mark.parametrize("complete_first", [True, False])
def test_a_callback_is_called_once_whether_it_comes_before_or_after_the_outcome(complete_first: bool) -> None:
    reply, calls = Reply(), []
    if complete_first:
        reply.complete(1)
    reply.when_done(lambda: calls.append(1))
    reply.complete(1)

    assert calls == [1]


def test_an_ask_that_waited_for_room_has_the_rest_of_its_time_and_not_all_of_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or an ask with 5 s of time would take up to 10 s."""
    busy, queued = Gate(), Gate()
    waits: list[float] = []
    hold = Reply._hold

    def noted(self: Reply, gate: threading.Lock, timeout_s: float | None) -> bool:
        if type(self) is Reply and timeout_s is not None:
            waits.append(timeout_s)
            queued.open.set()
        return hold(self, gate, timeout_s)

    with tree_of(worker("w", mailbox=Mailbox(capacity=1))) as tree:
        ref = tree.ref("t/w")
        ref.tell(busy)
        busy.wait_reached()
        ref.tell(queued)
        with monkeypatch.context() as patch:
            patch.setattr(Reply, "_hold", noted)
            answer = in_thread(lambda: ref.ask("last", timeout=LONG_S))
            eventually(lambda: life_of(tree, "t/w").mailbox.waiters)
            threading.Event().wait(0.2)
            busy.open.set()
            assert answer() == "last"

    assert len(waits) == 1
    assert waits[0] <= LONG_S - 0.2


@pytest.mark.parametrize("way", ["tell_async", "ask_async"])
def test_a_sender_that_is_cancelled_when_room_has_just_come_leaves_it_to_the_next_one(
    way: str,
) -> None:
    """Python 3.11's own ``asyncio.wait_for`` swallows a cancel that comes together with what it waits for."""
    busy = Gate()

    async def main(tree: Tree) -> None:
        ref, box = tree.ref("t/w"), life_of(tree, "t/w").mailbox
        first = asyncio.create_task(getattr(ref, way)("first"))
        second = asyncio.create_task(ref.ask_async("second", timeout=LONG_S))
        for _ in range(3):  # both come to their waits
            await asyncio.sleep(0)
        assert len(box.waiters) == 2
        assert box.withdraw(box.queue[0])  # tells the first one of room, on this thread
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
        busy.open.set()
        assert await second == "second"

    with tree_of(worker("w", mailbox=Mailbox(capacity=1))) as tree:
        tree.ref("t/w").tell(busy)
        busy.wait_reached()
        tree.ref("t/w").tell("waits")
        try:
            asyncio.run(asyncio.wait_for(main(tree), 2 * LONG_S))
        finally:
            busy.open.set()
