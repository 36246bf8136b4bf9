"""What becomes of a message that its target cannot take, and which target takes it."""

import asyncio

import pytest

import actors
from actors import (
    ActorStoppedError,
    DeadLetter,
    MailboxFullError,
)
from actors.testing import settle
from tests.support.hardening import (
    LONG_S,
    Gate,
    Ours,
    Witness,
    kind_with,
    obey_async,
    tree_of,
    worker,
)
from trees import Mailbox, SupervisorSpec, Tree, WorkerSpec

# -- ancestry ----------------------------------------------------------------------------------------------


# -- bounded mailboxes -------------------------------------------------------------------------------------


def bounded(overflow: str, handler: object = None) -> WorkerSpec:
    spec = {"mailbox": Mailbox(capacity=2, overflow=overflow)}
    return worker("w", handler, **spec) if handler else worker("w", **spec)


def filled(tree: Tree) -> Gate:
    """The worker stands in a gate, and its mailbox is full."""
    gate = Gate()
    tree.ref("t/w").tell(gate)
    gate.wait_reached()
    for n in range(2):
        tree.ref("t/w").tell(n)
    return gate


def test_reject_makes_a_dead_letter_of_a_tell_and_an_error_of_an_ask() -> None:
    with tree_of(bounded("reject")) as tree:
        gate = filled(tree)
        tree.ref("t/w").tell("third")
        with pytest.raises(MailboxFullError):
            tree.ref("t/w").ask("fourth")
        gate.open.set()

        assert tree.snapshot().dead_letters == {"full": 1}


@pytest.mark.parametrize("overflow", ["reject", "drop_oldest"])
@pytest.mark.parametrize("path", ["t/w", "t/w#1"])
def test_a_dead_letter_names_the_address_that_it_was_sent_to(path: str, overflow: str) -> None:
    """Of a pool: not any of its members, unless it was sent to that."""
    spec = worker("w", pool=2, mailbox=Mailbox(capacity=1, overflow=overflow))
    with tree_of(spec) as tree:
        seen = Witness(tree)
        gates = [Gate(), Gate()]
        for member, gate in enumerate(gates):
            tree.ref(f"t/w#{member}").tell(gate)
            gate.wait_reached()
        for n in range(2):
            tree.ref(path).tell(n)
        full = seen.wait(DeadLetter).path
        for gate in gates:
            gate.open.set()
        settle(tree)
        tree.terminate_child("t/w")
        tree.ref(path).tell("too late")

        assert full == path
        assert seen.wait(DeadLetter, count=2).path == path


def test_on_a_loop_thread_block_acts_as_reject_and_tell_async_waits() -> None:
    async def tell_blocking() -> None:
        tree.ref("t/w").tell("from the loop")

    async def tell_waiting() -> None:
        asyncio.get_running_loop().call_later(0.01, gate.open.set)
        await tree.ref("t/w").tell_async("from the loop")

    with tree_of(bounded("block"), worker("l", obey_async)) as tree:
        gate = filled(tree)
        tree.ref("t/l").ask(tell_blocking)
        rejected = dict(tree.snapshot().dead_letters)
        tree.ref("t/l").ask(tell_waiting, timeout=LONG_S)
        settle(tree)

        assert rejected == {"full": 1} == tree.snapshot().dead_letters


# -- targets -----------------------------------------------------------------------------------------------


def wait_to_stop() -> None:
    actors.sleep(LONG_S)


def test_bodies_and_supervisors_take_no_messages_and_say_so_at_once() -> None:
    inner = SupervisorSpec(id="s", children=[worker("w")])
    with tree_of(WorkerSpec(id="b", run=wait_to_stop), inner) as tree:
        for path in ("t/b", "t/s", "t"):
            tree.ref(path).tell("m")
            with pytest.raises(ActorStoppedError):
                tree.ref(path).ask("m", timeout=None)

        assert tree.snapshot().dead_letters == {"no_mailbox": 1, "supervisor": 2}


def test_a_pool_hands_a_message_to_a_member_that_is_free() -> None:
    gate = Gate()
    with tree_of(worker("p", pool=3)) as tree:
        for n in (0, 2):
            tree.ref(f"t/p#{n}").tell(gate)
        gate.wait_reached()
        answers = [tree.ref("t/p").ask(n, timeout=LONG_S) for n in range(20)]
        gate.open.set()

        assert answers == list(range(20))


def test_messages_from_one_sender_to_one_target_arrive_in_order() -> None:
    handled = []
    with tree_of(worker("a"), worker("b", handled.append)) as tree:
        b = tree.ref("t/b")
        tree.ref("t/a").ask(lambda: [b.tell(n) for n in range(2000)])
        settle(tree)

    assert handled == list(range(2000))


def test_actors_ref_finds_a_colleague_and_only_in_a_worker() -> None:
    with tree_of(worker("a"), worker("b")) as tree:
        assert tree.ref("t/a").ask(lambda: actors.ref("t/b").ask("colleague")) == "colleague"
        with pytest.raises(RuntimeError, match=r"tree\.ref"):
            actors.ref("t/b")


def test_stopping_and_sleep_tell_a_body_and_a_long_handler_of_the_stop() -> None:
    results, gates = [], [Gate(), Gate()]

    def body() -> None:
        before = actors.stopping()
        gates[0].reached.set()
        results.append((before, actors.sleep(LONG_S), actors.stopping()))

    def long_handler(_: object) -> None:
        before = actors.stopping()
        gates[1].reached.set()
        results.append((before, actors.stopping(LONG_S)))

    with tree_of(
        WorkerSpec(id="b", run=body), worker("w", kind_with(Ours, on_receive=lambda _, m: long_handler(m)))
    ) as tree:
        tree.ref("t/w").tell("m")
        for gate in gates:
            gate.wait_reached()

    assert sorted(results, key=len) == [(False, True), (False, True, True)]
