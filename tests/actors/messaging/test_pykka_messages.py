"""The hazards of Pykka 4.5 that concern messages, futures and proxies, repeated on supervised actors."""

import threading
from typing import Any

import pykka
import pytest

import actors
from actors import (
    ActorStoppedError,
    ChildStarted,
    DeadLetter,
    MailboxFullError,
    RecursionDetectedError,
    ReplyTimeoutError,
    RequestFailed,
)
from actors.testing import settle
from tests.support.hardening import (
    BOTH,
    LONG_S,
    Gate,
    Witness,
    eventually,
    in_thread,
    kind_with,
    life_of,
    obey_async,
    switching_fast,
    tree_of,
    worker,
)
from trees import Mailbox


@pytest.mark.slow
@BOTH
@pytest.mark.timeout(100)
def test_no_ask_hangs_that_races_with_a_stop(kind: type[Any]) -> None:
    """Row 04."""
    asked, outcomes, enough = 0, [], threading.Event()

    def ask_on() -> None:
        while not enough.is_set():
            try:
                outcomes.append(ref.ask("m", timeout=LONG_S))
            except ActorStoppedError as stopped:
                outcomes.append(type(stopped))

    with tree_of(worker("w", kind)) as tree, switching_fast():
        ref = tree.ref("t/w")
        askers = [in_thread(ask_on) for _ in range(3)]
        for _ in range(60):
            tree.terminate_child("t/w")
            tree.restart_child("t/w")
            asked += 1
        enough.set()
        for asker in askers:
            asker()

    assert asked == 60
    assert set(outcomes) <= {"m", ActorStoppedError}


@BOTH
def test_an_ask_that_was_queued_before_the_stop_is_answered_by_the_stop(kind: type[Any]) -> None:
    """Row 04."""
    gate = Gate()
    with tree_of(worker("w", kind)) as tree:
        ref = tree.ref("t/w")
        ref.tell(gate)
        gate.wait_reached()
        waiting = ref.ask("behind", timeout=None, block=False)
        stopped = in_thread(lambda: tree.terminate_child("t/w"))
        eventually(lambda: life_of(tree, "t/w").must_stop)
        gate.open.set()
        stopped()

        with pytest.raises(ActorStoppedError):
            waiting.get(timeout=LONG_S)


@BOTH
def test_an_ask_back_to_the_asker_gets_an_error_instead_of_a_deadlock(kind: type[Any]) -> None:
    """Row 17."""
    with tree_of(worker("a", kind), worker("b", kind)) as tree:
        a, b = tree.ref("t/a"), tree.ref("t/b")
        with pytest.raises(RecursionDetectedError) as caught:
            a.ask(lambda _: b.ask(lambda _: a.ask("back", timeout=None), timeout=None), timeout=None)

        assert caught.value.chain == ("t/a", "t/b", "t/a")


@BOTH
def test_the_work_of_asks_that_timed_out_is_not_done_any_more(kind: type[Any]) -> None:
    """Row 18."""
    gate, done = Gate(), []
    with tree_of(worker("w", kind)) as tree:
        seen = Witness(tree)
        ref = tree.ref("t/w")
        ref.tell(gate)
        gate.wait_reached()
        for _ in range(5):
            with pytest.raises(ReplyTimeoutError):
                ref.ask(done.append, timeout=0.01)
        gate.open.set()
        settle(tree)

        assert done == []
        assert len(seen.of(DeadLetter, reason="expired")) == 5


@BOTH
def test_a_tell_to_a_dead_actor_does_not_hurt_its_sender(kind: type[Any]) -> None:
    """Row 20."""
    with tree_of(worker("dead", kind), worker("client", kind)) as tree:
        seen = Witness(tree)
        dead = tree.ref("t/dead")
        tree.terminate_child("t/dead")
        tree.ref("t/client").ask(lambda _: dead.tell("anybody?"))
        letter = seen.wait(DeadLetter)

        assert (letter.path, letter.reason, letter.message_type, letter.sender) == (
            "t/dead",
            "stopped",
            "str",
            "t/client",
        )
        assert tree.child("t/client").incarnation == 1


@BOTH
def test_a_broadcast_reaches_all_that_live_past_one_that_is_dead(kind: type[Any]) -> None:
    """Row 21."""
    received = []
    with tree_of(*(worker(f"b{n}", kind) for n in range(4))) as tree:
        refs = [tree.ref(f"t/b{n}") for n in range(4)]
        tree.terminate_child("t/b1")
        for ref in refs:
            ref.tell(lambda self: received.append(self.actor_ref.path))
        pykka.ActorRegistry.broadcast("a tree takes it for a dead letter")
        settle(tree)

        assert sorted(received) == ["t/b0", "t/b2", "t/b3"]
        assert tree.snapshot().dead_letters == {"stopped": 1, "supervisor": 1}


@BOTH
def test_a_bounded_inbox_rejects_what_it_cannot_hold(kind: type[Any]) -> None:
    """Row 29."""
    gate = Gate()
    with tree_of(worker("w", kind, mailbox=Mailbox(capacity=2, overflow="reject"))) as tree:
        seen = Witness(tree)
        ref = tree.ref("t/w")
        ref.tell(gate)
        gate.wait_reached()
        for number in range(3):
            ref.tell(number)
        with pytest.raises(MailboxFullError) as caught:
            ref.ask("no room")
        gate.open.set()

        assert caught.value.capacity == 2
        assert seen.wait(DeadLetter).reason == "full"


def test_a_stop_overtakes_messages_that_cannot_be_compared() -> None:
    """Row 29: the system lane is no priority queue, so nothing has to be ordered."""
    gate = Gate()
    with tree_of(worker("w")) as tree:
        ref = tree.ref("t/w")
        ref.tell(gate)
        for _ in range(3):
            ref.tell(object())
        stopped = in_thread(lambda: tree.terminate_child("t/w"))
        gate.open.set()
        stopped()

        assert tree.child("t/w").state == "stopped"


@BOTH
def test_what_an_own_ask_failed_with_is_told_as_an_event_and_hurts_nobody_on_the_way(kind: type[Any]) -> None:
    """Smaller: Pykka logs a failed ask at INFO and says nothing else."""

    def crash(_: object) -> None:
        raise OSError

    with tree_of(worker("a", kind), worker("b", kind)) as tree:
        seen = Witness(tree)
        b = tree.ref("t/b")
        with pytest.raises(OSError):  # noqa: PT011
            tree.ref("t/a").ask(lambda _: b.ask(crash))
        failed = seen.wait(RequestFailed)
        seen.wait(ChildStarted, path="t/b")

        assert (failed.path, type(failed.error), failed.asked) == ("t/a", OSError, True)
        assert tree.child("t/a").incarnation == 1


@BOTH
def test_a_bounded_wait_inside_a_handler_ends_with_an_error_of_its_own(kind: type[Any]) -> None:
    """Row 16: on a loop thread a blocking ask of a loop worker is refused instead of deadlocking."""

    async def blocking_ask() -> object:
        return other.ask("deadlock?", timeout=None)

    with tree_of(worker("a", obey_async), worker("b", obey_async), worker("c", kind_with(kind))) as tree:
        other = tree.ref("t/b")
        with pytest.raises(actors.BlockingAskError):
            tree.ref("t/a").ask(blocking_ask)

        assert tree.ref("t/c").ask("fine") == "fine"
