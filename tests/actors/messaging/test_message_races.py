"""The races that the docstrings of mailbox, pool and reply name: both orders of each, forced."""

import asyncio

import pytest

from actors import (
    ActorStoppedError,
    DeadLetter,
    Reply,
)
from tests.support.hardening import LONG_S, Gate, Witness, eventually, in_thread, life_of, tree_of, worker
from trees import Mailbox, Tree

# -- the mailbox -------------------------------------------------------------------------------------------


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


# -- the pool ----------------------------------------------------------------------------------------------


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
