"""A pool shares its waiting messages: members take the next one when they are free."""

import threading

import pytest

from actors import ActorStoppedError
from tests.support.hardening import LONG_S, Gate, eventually, tree_of, worker


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


def test_all_members_work_where_there_is_work_for_all() -> None:
    together = threading.Barrier(8)
    with tree_of(worker("w", pool=8)) as tree:
        answers = [tree.ref("t/w").ask(lambda: together.wait(LONG_S), block=False) for _ in range(8)]

        assert sorted(each.get(timeout=LONG_S) for each in answers) == list(range(8))
