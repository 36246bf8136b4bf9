"""Messages: ancestry and recursion, deadlines, the hop limit, and what becomes of what nobody takes."""

import asyncio
import threading

import pytest

import actors
from actors import (
    ActorStoppedError,
    DeadLetter,
    MailboxFullError,
    ParkedError,
    RecursionDetectedError,
    RecursionRefused,
    ReplyTimeoutError,
    UnknownPathError,
    carry,
)
from actors.clock import monotonic
from actors.messages import CURRENT
from actors.testing import ManualClock, settle
from tests.hardening import (
    LONG_S,
    Gate,
    Ours,
    Witness,
    eventually,
    in_thread,
    kind_with,
    life_of,
    obey_async,
    root,
    tree_of,
    worker,
)
from trees import Mailbox, SupervisorSpec, WorkerSpec, start

# -- ancestry ----------------------------------------------------------------------------------------------


def recursion(tree, path, function) -> tuple[str, ...]:
    """The chain of the refusal that the function, run in the worker at ``path``, ends in."""
    with pytest.raises(RecursionDetectedError) as caught:
        tree.ref(path).ask(function, timeout=LONG_S)
    return caught.value.chain


def test_an_ask_cycle_is_refused_before_it_is_sent_and_told_as_an_event():
    with tree_of(worker("a"), worker("b")) as tree:
        seen, a, b = Witness(tree), tree.ref("t/a"), tree.ref("t/b")

        assert recursion(tree, "t/a", lambda: b.ask(lambda: a.ask("back"))) == ("t/a", "t/b", "t/a")
        assert seen.wait(RecursionRefused).chain == ("t/a", "t/b", "t/a")


def test_a_reply_that_is_not_waited_for_at_once_is_refused_as_well():
    with tree_of(worker("a")) as tree:
        assert recursion(tree, "t/a", lambda: tree.ref("t/a").ask("me", block=False)) == ("t/a", "t/a")


def test_a_member_that_asks_its_own_pool_is_recursion():
    with tree_of(worker("p", pool=3)) as tree:
        assert recursion(tree, "t/p", lambda: tree.ref("t/p").ask("another member")) == ("t/p", "t/p")
        assert recursion(tree, "t/p#0", lambda: tree.ref("t/p#1").ask("by name")) == ("t/p", "t/p#1")


def test_a_cycle_through_a_pool_is_recursion():
    with tree_of(worker("a"), worker("p", pool=3)) as tree:
        a, pool = tree.ref("t/a"), tree.ref("t/p")

        assert recursion(tree, "t/a", lambda: pool.ask(lambda: a.ask("back"))) == ("t/a", "t/p", "t/a")


def test_a_cycle_through_async_handlers_and_tasks_is_recursion():
    async def ask_back() -> object:
        return await asyncio.create_task(tree.ref("t/a").ask_async("back", timeout=None))

    async def ask_b() -> object:
        return await tree.ref("t/b").ask_async(ask_back, timeout=None)

    with tree_of(worker("a", obey_async), worker("b", obey_async)) as tree:
        assert recursion(tree, "t/a", ask_b) == ("t/a", "t/b", "t/a")


def test_the_chain_goes_along_into_to_thread():
    async def handle() -> object:
        return await asyncio.to_thread(lambda: tree.ref("t/a").ask("me", timeout=LONG_S))

    with tree_of(worker("a", obey_async)) as tree:
        assert recursion(tree, "t/a", handle) == ("t/a", "t/a")


def test_the_chain_goes_along_into_a_plain_thread_that_it_is_carried_to():
    def handle() -> object:
        return in_thread(carry(lambda: tree.ref("t/a").ask("me", timeout=LONG_S)))()

    with tree_of(worker("a")) as tree:
        assert recursion(tree, "t/a", handle) == ("t/a", "t/a")


def test_a_carried_callable_may_run_in_many_threads_at_once():
    barrier = threading.Barrier(3)

    def where() -> str:
        barrier.wait(LONG_S)
        return CURRENT.get().life.mailbox.path

    with tree_of(worker("a")) as tree:
        carried = tree.ref("t/a").ask(lambda: carry(where))
        results = [in_thread(carried) for _ in range(3)]

        assert [result() for result in results] == ["t/a"] * 3


def test_a_cycle_through_proxies_is_recursion():
    class Upwards(Ours):
        def up(self) -> object:
            return tree.ref("t/a").proxy().total().get()

    with tree_of(worker("a"), worker("b", Upwards)) as tree:
        assert recursion(tree, "t/a", lambda: tree.ref("t/b").proxy().up().get()) == ("t/a", "t/b", "t/a")


def test_a_worker_may_not_wait_for_its_own_end_nor_for_that_of_its_tree():
    with tree_of(SupervisorSpec(id="s", children=[worker("a")])) as tree:
        path = "t/s/a"
        ends = [tree.stop, tree.wait, tree.ref(path).stop, tree.ref("t").stop]
        ends += [lambda p=p: tree.terminate_child(p) for p in (path, "t/s")]
        chains = [recursion(tree, path, end) for end in ends]

        assert all(chain[0] == path for chain in chains)
        assert tree.child(path).incarnation == 1


def test_an_ask_of_a_worker_that_told_is_legal():
    """x tells y, y asks x: x waits for nobody."""
    answers = []

    def tell_b() -> None:
        tree.ref("t/b").tell(lambda: answers.append(tree.ref("t/a").ask("legal")))

    with tree_of(worker("a"), worker("b")) as tree:
        tree.ref("t/a").ask(tell_b)
        eventually(lambda: answers)

    assert answers == ["legal"]


def test_two_callers_of_one_worker_are_no_recursion():
    with tree_of(worker("a"), worker("b"), worker("c")) as tree:
        c = tree.ref("t/c")

        assert tree.ref("t/a").ask(lambda: (tree.ref("t/b").ask(lambda: c.ask(1)), c.ask(2))) == (1, 2)


# -- deadlines ---------------------------------------------------------------------------------------------


def remaining(tree) -> float:
    """What is left to the request that is being handled."""
    return CURRENT.get().origin.deadline - tree._system.now()


def test_a_deadline_shrinks_hop_by_hop_and_none_inherits_it():
    with start(root(worker("a"), worker("b"), worker("c")), clock=ManualClock()) as tree:
        clock = tree._system.clock
        b, c = tree.ref("t/b"), tree.ref("t/c")

        def in_b() -> tuple[float, float]:
            clock.advance(2)
            return remaining(tree), c.ask(lambda: remaining(tree), timeout=100)

        left = tree.ref("t/a").ask(lambda: (remaining(tree), b.ask(in_b, timeout=None)), timeout=10)

    assert left == (10, (8, 8))


def test_a_shorter_timeout_of_ones_own_counts():
    with start(root(worker("a"), worker("b")), clock=ManualClock()) as tree:
        b = tree.ref("t/b")

        assert tree.ref("t/a").ask(lambda: b.ask(lambda: remaining(tree), timeout=3), timeout=10) == 3


def test_an_ask_whose_time_is_up_already_is_not_sent():
    handled = []
    with start(root(worker("a"), worker("b")), clock=ManualClock()) as tree:

        def too_late() -> None:
            tree._system.clock.advance(11)
            tree.ref("t/b").ask(lambda: handled.append(1))

        with pytest.raises(ReplyTimeoutError) as caught:
            tree.ref("t/a").ask(too_late, timeout=10)
        settle(tree)

        assert (caught.value.path, caught.value.asker, handled) == ("t/b", "t/a", [])


def test_a_tell_carries_no_deadline():
    with start(root(worker("a"), worker("b")), clock=ManualClock()) as tree:
        deadlines = []
        tree.ref("t/a").ask(lambda: tree.ref("t/b").tell(lambda: deadlines.append(CURRENT.get().origin.deadline)))
        settle(tree)

    assert deadlines == [None]


# -- hops --------------------------------------------------------------------------------------------------


def test_a_chain_of_tells_ends_at_the_hop_limit_as_a_dead_letter():
    handled = []

    def pass_on(to: str, back: str) -> None:
        handled.append(to)
        tree.ref(back).tell(lambda: pass_on(back, to))

    with start(root(worker("a"), worker("b")), max_hops=10) as tree:
        seen = Witness(tree)
        tree.ref("t/a").tell(lambda: pass_on("t/a", "t/b"))
        refused, letter = seen.wait(RecursionRefused), seen.wait(DeadLetter)
        settle(tree)

        assert (refused.hops, letter.reason, len(handled)) == (11, "hops", 11)


@pytest.mark.parametrize("way", ["self", "detached", "async"])
def test_a_tell_to_oneself_or_a_detached_one_begins_a_new_chain(way):
    count, most = 0, 30

    def again() -> None:
        nonlocal count
        count += 1
        if count < most:
            tree.ref("t/a" if way == "self" or count % 2 else "t/b").tell(again, detached=way == "detached")

    async def again_async() -> None:
        nonlocal count
        count += 1
        if count < most:
            await tree.ref("t/a" if count % 2 else "t/b").tell_async(again_async, detached=True)

    handler = obey_async if way == "async" else None
    kinds = [worker("a", handler), worker("b", handler)] if handler else [worker("a"), worker("b")]
    with start(root(*kinds), max_hops=5) as tree:
        tree.ref("t/a").tell(again_async if handler else again)
        eventually(lambda: count == most)

    assert count == most


# -- bounded mailboxes -------------------------------------------------------------------------------------


def bounded(overflow: str, handler: object = None) -> WorkerSpec:
    spec = {"mailbox": Mailbox(capacity=2, overflow=overflow)}
    return worker("w", handler, **spec) if handler else worker("w", **spec)


def filled(tree) -> Gate:
    """The worker stands in a gate, and its mailbox is full."""
    gate = Gate()
    tree.ref("t/w").tell(gate)
    gate.wait_reached()
    for n in range(2):
        tree.ref("t/w").tell(n)
    return gate


def test_block_waits_for_room():
    with tree_of(bounded("block")) as tree:
        gate = filled(tree)
        asked = in_thread(lambda: tree.ref("t/w").ask("third", timeout=LONG_S))
        eventually(lambda: tree._system.boxes["t/w"].waiters)
        gate.open.set()

        assert asked() == "third"
        assert not tree._system.dead_letters


def test_block_waits_at_most_the_deadline_of_the_message():
    with tree_of(bounded("block")) as tree:
        gate = filled(tree)
        began = monotonic()
        with pytest.raises((MailboxFullError, ReplyTimeoutError)):
            tree.ref("t/w").ask("third", timeout=0.05)
        took_s = monotonic() - began
        gate.open.set()

    assert took_s < 2


def test_reject_makes_a_dead_letter_of_a_tell_and_an_error_of_an_ask():
    with tree_of(bounded("reject")) as tree:
        gate = filled(tree)
        tree.ref("t/w").tell("third")
        with pytest.raises(MailboxFullError):
            tree.ref("t/w").ask("fourth")
        gate.open.set()

        assert tree._system.dead_letters == {"full": 1}


def test_drop_oldest_answers_the_oldest_and_takes_the_new_one():
    gate, order = Gate(), []
    with tree_of(bounded("drop_oldest", order.append)) as tree:
        seen, ref = Witness(tree), tree.ref("t/w")
        life = life_of(tree, "t/w")
        life.mailbox.idle = None  # nobody comes for what waits
        oldest = ref.ask("oldest", timeout=None, block=False)
        for n in range(3):
            ref.tell(n)
        with pytest.raises(MailboxFullError):
            oldest.get(timeout=LONG_S)
        life.wake()
        settle(tree)

        assert order == [1, 2]
        assert seen.wait(DeadLetter).reason == "full"
    assert not gate.reached.is_set()


def test_on_a_loop_thread_block_acts_as_reject_and_tell_async_waits():
    async def tell_blocking() -> None:
        tree.ref("t/w").tell("from the loop")

    async def tell_waiting() -> None:
        asyncio.get_running_loop().call_later(0.01, gate.open.set)
        await tree.ref("t/w").tell_async("from the loop")

    with tree_of(bounded("block"), worker("l", obey_async)) as tree:
        gate = filled(tree)
        tree.ref("t/l").ask(tell_blocking)
        rejected = dict(tree._system.dead_letters)
        tree.ref("t/l").ask(tell_waiting, timeout=LONG_S)
        settle(tree)

        assert rejected == {"full": 1} == tree._system.dead_letters


# -- targets -----------------------------------------------------------------------------------------------


def wait_to_stop() -> None:
    actors.sleep(LONG_S)


def test_bodies_and_supervisors_take_no_messages_and_say_so_at_once():
    inner = SupervisorSpec(id="s", children=[worker("w")])
    with tree_of(WorkerSpec(id="b", run=wait_to_stop), inner) as tree:
        for path in ("t/b", "t/s", "t"):
            tree.ref(path).tell("m")
            with pytest.raises(ActorStoppedError):
                tree.ref(path).ask("m", timeout=None)

        assert tree._system.dead_letters == {"no_mailbox": 1, "supervisor": 2}


def test_a_pool_hands_a_message_to_a_member_that_is_free():
    gate = Gate()
    with tree_of(worker("p", pool=3)) as tree:
        for n in (0, 2):
            tree.ref(f"t/p#{n}").tell(gate)
        gate.wait_reached()
        answers = [tree.ref("t/p").ask(n, timeout=LONG_S) for n in range(20)]
        gate.open.set()

        assert answers == list(range(20))


def test_messages_from_one_sender_to_one_target_arrive_in_order():
    handled = []
    with tree_of(worker("a"), worker("b", handled.append)) as tree:
        b = tree.ref("t/b")
        tree.ref("t/a").ask(lambda: [b.tell(n) for n in range(2000)])
        settle(tree)

    assert handled == list(range(2000))


def test_a_ref_works_again_when_its_path_was_deleted_and_added_again():
    with tree_of(worker("w")) as tree:
        ref = tree.ref("t/w")
        tree.terminate_child("t/w")
        tree.delete_child("t/w")
        with pytest.raises(ActorStoppedError):
            ref.ask("deleted")
        with pytest.raises(UnknownPathError):
            tree.ref("t/w")
        tree.start_child("t", worker("w"))

        assert ref.ask("again") == "again"


def test_a_parked_worker_answers_asks_at_once_and_tells_become_dead_letters():
    def crash() -> None:
        raise ValueError

    with tree_of(worker("w", on_exhausted="park"), max_restarts=0) as tree:
        ref = tree.ref("t/w")
        ref.tell(crash)
        settle(tree)
        ref.tell("m")
        with pytest.raises(ParkedError):
            ref.ask("m", timeout=None)

        assert tree._system.dead_letters == {"parked": 1}


def test_a_worker_without_on_receive_makes_a_dead_letter_of_a_message():
    with tree_of(WorkerSpec(id="w", actor=actors.Worker)) as tree:
        tree.ref("t/w").tell("m")
        settle(tree)

        assert tree._system.dead_letters == {"unhandled": 1}
        assert tree._system.boxes["t/w"].dead == 1


def test_actors_ref_finds_a_colleague_and_only_in_a_worker():
    with tree_of(worker("a"), worker("b")) as tree:
        assert tree.ref("t/a").ask(lambda: actors.ref("t/b").ask("colleague")) == "colleague"
        with pytest.raises(RuntimeError, match=r"tree\.ref"):
            actors.ref("t/b")


def test_stopping_and_sleep_tell_a_body_and_a_long_handler_of_the_stop():
    results = []

    def body() -> None:
        results.append((actors.stopping(), actors.sleep(LONG_S), actors.stopping()))

    def long_handler(_: object) -> None:
        gate.reached.set()
        results.append((actors.stopping(), actors.stopping(LONG_S)))

    gate = Gate()
    with tree_of(
        WorkerSpec(id="b", run=body), worker("w", kind_with(Ours, on_receive=lambda _, m: long_handler(m)))
    ) as tree:
        tree.ref("t/w").tell("m")
        gate.wait_reached()

    assert sorted(results, key=len) == [(False, True), (False, True, True)]
