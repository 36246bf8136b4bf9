"""A pool shares its waiting messages: members take the next one when they are free."""

import threading
from collections import Counter
from typing import Any

import pytest

from actors import ActorStoppedError, DeadLetter, MailboxFullError, ParkedError
from actors.messaging.mailbox import Mailbox as Box
from actors.testing import settle
from tests.support.hardening import LONG_S, Gate, Witness, crash, eventually, in_thread, obey, tree_of, worker
from trees import Mailbox


def pool_of(tree: Any) -> Any:
    return tree._system.boxes["t/w"]


@pytest.mark.parametrize("hung", [1, 2, 3])
def test_a_pool_shares_its_waiting_messages_and_hung_ones_hold_up_nothing_behind_them(hung: int) -> None:
    gate = Gate()
    with tree_of(worker("w", pool=4)) as tree:
        ref = tree.ref("t/w")
        for _ in range(hung):
            gate.reached.clear()
            ref.tell(gate)
            gate.wait_reached()
        answers = [ref.ask(n, timeout=LONG_S, block=False) for n in range(50)]
        assert [each.get(timeout=LONG_S) for each in answers] == list(range(50))
        gate.open.set()


def test_with_all_members_busy_messages_wait_for_the_first_that_gets_free() -> None:
    gates = [Gate() for _ in range(3)]
    with tree_of(worker("w", pool=3)) as tree:
        ref = tree.ref("t/w")
        for gate in gates:
            ref.tell(gate)
            gate.wait_reached()
        answers = [ref.ask(n, timeout=LONG_S, block=False) for n in range(10)]
        waiting = ref.depth, tree.snapshot("t/w").top.mailbox, [box.depth for box in pool_of(tree).members]
        gates[1].open.set()

        assert [each.get(timeout=LONG_S) for each in answers] == list(range(10))
        assert waiting == (10, 10, [0, 0, 0])
        for gate in gates:
            gate.open.set()


def test_messages_of_one_sender_are_begun_in_their_order() -> None:
    begun: list[int] = []
    gates = [Gate() for _ in range(3)]
    with tree_of(worker("w", pool=4)) as tree:
        for n, gate in enumerate(gates):  # all but one member are held up: what is begun is begun by one
            tree.ref(f"t/w#{n}").tell(gate)
            gate.wait_reached()
        for n in range(500):
            tree.ref("t/w").tell(lambda n=n: begun.append(n))
        eventually(lambda: len(begun) == 500)
        for gate in gates:
            gate.open.set()

    assert begun == list(range(500))


def test_a_message_to_a_member_goes_to_that_member_and_waits_for_it_alone() -> None:
    gate, seen = Gate(), []

    def note() -> str:
        seen.append(threading.current_thread())
        return "done"

    with tree_of(worker("w", pool=3)) as tree:
        member = tree.ref("t/w#1")
        member.tell(gate)
        gate.wait_reached()
        answer = member.ask(note, timeout=LONG_S, block=False)
        assert tree.ref("t/w").ask("others go on", timeout=LONG_S) == "others go on"
        assert (member.depth, tree.ref("t/w").depth, seen) == (1, 0, [])
        gate.open.set()

        assert answer.get(timeout=LONG_S) == "done"


def test_a_member_that_has_both_takes_in_turn() -> None:
    gate, order = Gate(), []
    with tree_of(worker("w", pool=2)) as tree:
        one, pool = tree.ref("t/w#0"), tree.ref("t/w")
        other = Gate()
        tree.ref("t/w#1").tell(other)
        other.wait_reached()
        one.tell(gate)
        gate.wait_reached()
        for n in range(3):
            pool.tell(lambda n=n: order.append(f"pool {n}"))
        for n in range(2):
            one.tell(lambda n=n: order.append(f"own {n}"))
        gate.open.set()
        eventually(lambda: len(order) == 5)
        other.open.set()

    assert order[0] == "pool 0"
    assert order.index("own 0") < order.index("pool 1")


@pytest.mark.parametrize("how", ["crash", "stop", "park"])
def test_a_member_that_goes_leaves_what_waits_to_the_others(how: str) -> None:
    fields: dict[str, Any] = {"on_exhausted": "park"} if how == "park" else {}
    gates = [Gate(), Gate()]
    with tree_of(worker("w", pool=2, **fields), max_restarts=0 if how == "park" else 100) as tree:
        for n, gate in enumerate(gates):
            tree.ref(f"t/w#{n}").tell(gate)
            gate.wait_reached()
        if how == "stop":
            stopped = in_thread(lambda: tree.terminate_child("t/w#0"))
            eventually(lambda: tree._system.children["t/w#0"].incarnation.must_stop)
        else:
            tree.ref("t/w#0").tell(crash)
        answers = [tree.ref("t/w").ask(n, timeout=LONG_S, block=False) for n in range(20)]
        for gate in gates:
            gate.open.set()
        if how == "stop":
            stopped()

        assert [each.get(timeout=LONG_S) for each in answers] == list(range(20))


@pytest.mark.parametrize("how", ["terminate", "stop the tree", "park"])
def test_what_waits_for_a_pool_that_is_down_for_good_is_answered(how: str) -> None:
    gates = [Gate(), Gate()]

    def through(gate: Gate) -> None:
        gate()
        if how == "park":
            crash()

    with tree_of(worker("w", pool=2, on_exhausted="park"), max_restarts=0) as tree:
        seen, ref = Witness(tree), tree.ref("t/w")
        for n, gate in enumerate(gates):
            tree.ref(f"t/w#{n}").tell(lambda gate=gate: through(gate))
            gate.wait_reached()
        if how == "park":
            ends = lambda: eventually(lambda: tree.child("t/w").state == "parked")  # noqa: E731
        else:
            ends = in_thread(tree.stop if how == "stop the tree" else lambda: tree.terminate_child("t/w"))
            eventually(lambda: all(tree._system.children[f"t/w#{n}"].incarnation.must_stop for n in range(2)))
        ask = ref.ask("waits", timeout=None, block=False)
        ref.tell("waits")
        for gate in gates:
            gate.open.set()
        ends()

        with pytest.raises(ParkedError if how == "park" else ActorStoppedError):
            ask.get(timeout=LONG_S)
        assert seen.wait(DeadLetter).reason in {"stopped", "tree_down", "parked"}
        with pytest.raises(ActorStoppedError):
            ref.ask("too late", timeout=LONG_S)


def test_a_pool_takes_messages_again_when_it_is_started_again() -> None:
    with tree_of(worker("w", pool=2)) as tree:
        ref = tree.ref("t/w")
        tree.terminate_child("t/w")
        with pytest.raises(ActorStoppedError):
            ref.ask(1)
        tree.restart_child("t/w")
        assert ref.ask(2, timeout=LONG_S) == 2
        tree.terminate_child("t/w")
        tree.delete_child("t/w")
        with pytest.raises(ActorStoppedError):
            ref.ask(3)
        tree.start_child("t", worker("w", pool=3))
        assert ref.ask(4, timeout=LONG_S) == 4


@pytest.mark.parametrize("overflow", ["reject", "drop_oldest", "block"])
def test_the_bound_of_a_pool_is_that_of_its_one_queue(overflow: str) -> None:
    gates, handled = [Gate(), Gate()], []
    with tree_of(worker("w", pool=2, mailbox=Mailbox(capacity=3, overflow=overflow))) as tree:
        ref = tree.ref("t/w")
        for gate in gates:
            ref.tell(gate)
            gate.wait_reached()
        for n in range(3):
            ref.tell(lambda n=n: handled.append(n))
        assert ref.depth == 3
        if overflow == "reject":
            with pytest.raises(MailboxFullError):
                ref.ask("one more")
        elif overflow == "drop_oldest":
            ref.tell(lambda: handled.append(3))
        else:
            waits = in_thread(lambda: ref.tell(lambda: handled.append(3)))
            eventually(lambda: pool_of(tree).waiters)
        for gate in gates:
            gate.open.set()
        if overflow == "block":
            waits()
        settle(tree)

    assert sorted(handled) == {"reject": [0, 1, 2], "drop_oldest": [1, 2, 3], "block": [0, 1, 2, 3]}[overflow]


def test_all_members_work_where_there_is_work_for_all() -> None:
    together = threading.Barrier(8)
    with tree_of(worker("w", pool=8)) as tree:
        answers = [tree.ref("t/w").ask(lambda: together.wait(LONG_S), block=False) for _ in range(8)]

        assert sorted(each.get(timeout=LONG_S) for each in answers) == list(range(8))


@pytest.mark.slow
def test_what_a_message_costs_does_not_depend_on_the_number_of_members(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: Counter[int] = Counter()
    real = Box.rouse

    def rouse(box: Box) -> None:
        looked[size] += 1
        real(box)

    monkeypatch.setattr(Box, "rouse", rouse)
    for size in (10, 10_000):
        with tree_of(worker("w", pool=size)) as tree:
            for n in range(100):
                tree.ref("t/w").tell(n)
            settle(tree)

    assert looked[10_000] < 5 * looked[10] + 100


def test_members_that_are_stopped_are_not_called() -> None:
    with tree_of(worker("w", obey, pool=3)) as tree:
        tree.terminate_child("t/w#2")
        assert {member.path for member in pool_of(tree).free} == {"t/w#0", "t/w#1"}
        assert [tree.ref("t/w").ask(n, timeout=LONG_S) for n in range(9)] == list(range(9))
