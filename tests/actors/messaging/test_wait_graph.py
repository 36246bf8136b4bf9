"""Who waits for whom: a circle is refused when the last of it begins to wait, and nothing else is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pykka
import pytest

from actors import DeadLetter, RecursionDetectedError, RecursionRefused, Reply
from actors.model.clock import monotonic
from actors.testing import settle
from tests.support.hardening import (
    BOTH,
    LONG_S,
    Gate,
    Ours,
    Witness,
    eventually,
    kind_with,
    obey,
    obey_async,
    tree_of,
    worker,
)
from trees import SupervisorSpec, Tree, start

REFUSED = "refused"


def refused(act: Callable[[], Any]) -> Any:
    """What the act gives, or that it was refused as recursion."""
    try:
        return act()
    except RecursionDetectedError:
        return REFUSED


# -- to oneself --------------------------------------------------------------------------------------------


@BOTH
def test_pykkas_idiom_of_work_for_later_through_a_proxy_to_oneself_works(kind: type[Any]) -> None:
    """From the docstring of ``pykka.ActorProxy``, for more rounds than there may be hops."""
    finished = threading.Event()

    def on_start(self: Any) -> None:
        self._in_future, self.rounds = self.actor_ref.proxy(), 0

    def more(self: Any, rounds: int) -> None:
        self.rounds += 1
        if rounds:
            self._in_future.more(rounds - 1)
        else:
            finished.set()

    cooperative = kind_with(kind, on_start=on_start, more=more)
    with tree_of(worker("w", cooperative)) as tree:
        tree.ref("t/w").ask(lambda self: self._in_future.more(99) and None, timeout=LONG_S)

        assert finished.wait(LONG_S)
        assert tree.ref("t/w").proxy().rounds.get() == 100


def test_work_for_later_is_done_also_when_the_request_that_left_it_is_long_over() -> None:
    """No deadline runs out on it: it waits for nobody, as a tell to oneself."""
    done, gate = [], Gate()

    def defer(self: Any) -> None:
        self.actor_ref.ask(gate, block=False)
        self.actor_ref.ask(lambda _: done.append(1), block=False, timeout=0.001)

    with tree_of(worker("w", Ours)) as tree:
        seen = Witness(tree)
        tree.ref("t/w").ask(defer, timeout=2.0)
        gate.wait_reached()
        threading.Event().wait(2.1)  # the time of the request, and of the reply
        gate.open.set()
        settle(tree)

        assert (done, seen.of(DeadLetter)) == ([1], [])


@pytest.mark.parametrize("wait", ["get", "wait", "map", "get_all", "await", "gather"])
def test_to_wait_for_ones_own_later_work_is_refused_at_once_in_every_way_to_wait(wait: str) -> None:
    async def gathered(reply: Any) -> Any:
        return await asyncio.gather(asyncio.sleep(0), reply)

    async def awaited(reply: Any) -> Any:
        return await reply

    waits: dict[str, Callable[[Any], Any]] = {
        "get": lambda reply: reply.get(),
        "wait": lambda reply: reply.wait(LONG_S),
        "map": lambda reply: reply.map(str).get(),
        "get_all": lambda reply: pykka.get_all([reply]),
        "await": awaited,
        "gather": gathered,
    }
    handler = obey_async if wait in {"await", "gather"} else obey
    with tree_of(worker("a", handler)) as tree:
        seen = Witness(tree)
        began = monotonic()
        with pytest.raises(RecursionDetectedError) as caught:
            tree.ref("t/a").ask(lambda: waits[wait](tree.ref("t/a").ask("me", block=False)), timeout=LONG_S)

        assert caught.value.chain == ("t/a", "t/a")
        assert monotonic() - began < LONG_S / 4
        assert seen.wait(RecursionRefused).chain == ("t/a", "t/a")
        assert tree.child("t/a").incarnation == 1


def test_somebody_else_may_wait_for_it() -> None:
    with tree_of(worker("a")) as tree:
        later = tree.ref("t/a").ask(lambda: [tree.ref("t/a").ask("later", block=False)])

        assert later[0].get(timeout=LONG_S) == "later"


# -- circles -----------------------------------------------------------------------------------------------


def circle(tree: Tree, first: str, hop: Callable[[str, Any], Any], length: int) -> Any:
    """A request that goes round through so many workers and comes back to the first."""

    def step(at: int) -> Any:
        if at == length:
            return hop(first, lambda: "came back")
        return hop(f"t/w{at}", lambda: step(at + 1))

    return tree.ref(first).ask(lambda: step(1), timeout=LONG_S)


@pytest.mark.parametrize("length", [1, 2, 3, 5])
@pytest.mark.parametrize("way", ["ask", "get", "proxy", "ask_async", "await"])
def test_a_circle_is_refused_whatever_it_is_made_of(way: str, length: int) -> None:
    class Proxied(Ours):
        def obey(self, act: Callable[[], Any]) -> Any:
            return act()

    hops: dict[str, Callable[[str, Any], Any]] = {
        "ask": lambda path, act: tree.ref(path).ask(act, timeout=LONG_S),
        "get": lambda path, act: tree.ref(path).ask(act, timeout=LONG_S, block=False).get(),
        "proxy": lambda path, act: tree.ref(path).proxy().obey(act).get(),
        "ask_async": lambda path, act: tree.ref(path).ask_async(act, timeout=LONG_S),
        "await": lambda path, act: tree.ref(path).ask(act, timeout=LONG_S, block=False),
    }
    kinds = {"proxy": kind_with(Proxied, on_receive=lambda self, message: message())}
    handler = kinds.get(way) or (obey_async if way in {"ask_async", "await"} else (lambda message: message()))
    with tree_of(*(worker(f"w{n}", handler) for n in range(length))) as tree:
        began = monotonic()
        with pytest.raises(RecursionDetectedError) as caught:
            circle(tree, "t/w0", hops[way], length)

        assert caught.value.chain == (*(f"t/w{n}" for n in range(length)), "t/w0")
        assert monotonic() - began < LONG_S / 2


def test_an_ask_upwards_is_answered_while_the_one_above_does_not_wait() -> None:
    """A tells B something and goes on; B asks A back, and gets its answer when A is done."""
    with tree_of(worker("a"), worker("b")) as tree:
        a, b = tree.ref("t/a"), tree.ref("t/b")
        replies = a.ask(lambda: [b.ask(lambda: a.ask("back", timeout=LONG_S), timeout=LONG_S, block=False)])

        assert replies[0].get(timeout=LONG_S) == "back"


@pytest.mark.parametrize("first", ["a waits first", "b waits first"])
@pytest.mark.parametrize("between", [0, 1, 3])
def test_of_two_that_close_a_circle_the_second_to_wait_is_refused(first: str, between: int) -> None:
    """A asks B with block=False; B asks back through so many others. Both orders of the two waits, forced."""
    a_waits, b_asks = threading.Event(), threading.Event()
    b_result: list[Any] = []

    def back(at: int) -> Any:
        if at < between:
            return tree.ref(f"t/c{at}").ask(lambda: back(at + 1), timeout=LONG_S)
        return tree.ref("t/a").ask(lambda: "back", timeout=LONG_S)

    def in_b() -> Any:
        if first == "a waits first":
            assert a_waits.wait(LONG_S)
        else:
            b_asks.set()
        result = refused(lambda: back(0))
        b_result.append(result)
        return result

    def in_a() -> Any:
        reply = tree.ref("t/b").ask(in_b, timeout=LONG_S, block=False)
        if first == "a waits first":
            eventually_in_background(lambda: reply.waiters, a_waits)
        else:
            assert b_asks.wait(LONG_S)
            eventually(lambda: tree._system.boxes["t/a"].depth, "the ask back")
        return refused(reply.get)

    with tree_of(*(worker(id_) for id_ in ("a", "b", "c0", "c1", "c2"))) as tree:
        began = monotonic()
        a_result = tree.ref("t/a").ask(in_a, timeout=LONG_S)
        settle(tree)

        assert monotonic() - began < LONG_S / 2
        assert (a_result, b_result) == ((REFUSED, [REFUSED]) if first == "a waits first" else (REFUSED, ["back"]))


def eventually_in_background(condition: Callable[[], Any], then: threading.Event) -> None:
    def watch() -> None:
        eventually(condition)
        then.set()

    threading.Thread(target=watch, daemon=True).start()


def test_of_many_pairs_that_close_circles_at_once_none_hangs() -> None:
    """The race itself, not forced: each edge is entered before anybody looks."""

    def round_of(number: int) -> Any:
        ready, b_is_done = threading.Barrier(2), threading.Event()

        def in_b() -> None:
            ready.wait(LONG_S)
            refused(lambda: tree.ref("t/a").ask(lambda: number, timeout=LONG_S))
            b_is_done.set()

        def in_a() -> Any:
            reply = tree.ref("t/b").ask(in_b, timeout=LONG_S, block=False)
            ready.wait(LONG_S)
            return refused(reply.get)

        result = tree.ref("t/a").ask(in_a, timeout=LONG_S)
        assert b_is_done.wait(LONG_S)
        return result

    with tree_of(worker("a"), worker("b")) as tree:
        began = monotonic()
        results = [round_of(number) for number in range(50)]

        assert set(results) <= {REFUSED, None}  # None: B alone was refused, and so had answered
        assert monotonic() - began < LONG_S


def test_a_wait_that_is_over_stands_in_nobodys_way() -> None:
    """A waits a moment for B and gives up; then B may ask A, which is still at the same request."""
    given_up = threading.Event()

    def in_b() -> Any:
        assert given_up.wait(LONG_S)
        return refused(lambda: tree.ref("t/a").ask("back", timeout=LONG_S))

    def in_a() -> Any:
        reply = tree.ref("t/b").ask(in_b, timeout=LONG_S, block=False)
        with pytest.raises(pykka.Timeout):
            reply.get(timeout=0.01)
        given_up.set()
        return [reply]

    with tree_of(worker("a"), worker("b")) as tree:
        assert tree.ref("t/a").ask(in_a, timeout=LONG_S)[0].get() == "back"


def test_a_reply_that_was_passed_on_is_part_of_a_circle_too() -> None:
    """The host asked B; A gets the reply in a message and waits for it; B asks A."""
    waits = threading.Event()

    def in_b() -> Any:
        assert waits.wait(LONG_S)
        return refused(lambda: tree.ref("t/a").ask("back", timeout=LONG_S))

    with tree_of(worker("a"), worker("b")) as tree:
        reply = tree.ref("t/b").ask(in_b, timeout=LONG_S, block=False)
        eventually_in_background(lambda: reply.waiters, waits)

        assert tree.ref("t/a").ask(reply.get, timeout=LONG_S) == REFUSED


# -- addresses ---------------------------------------------------------------------------------------------


def add_again(tree: Tree, id_: str, **fields: Any) -> None:
    tree.terminate_child(f"t/{id_}")
    tree.delete_child(f"t/{id_}")
    tree.start_child("t", worker(id_, **fields))


@pytest.mark.parametrize("way", ["ask", "get"])
@pytest.mark.parametrize("pool", [1, 2])
def test_a_ref_from_before_its_target_was_added_again_sees_the_circle(way: str, pool: int) -> None:
    with tree_of(worker("a"), worker("b", pool=pool)) as tree:
        old = tree.ref("t/b")
        add_again(tree, "b", pool=pool)
        back = (lambda: old.ask("x")) if way == "ask" else (lambda: old.ask("x", block=False).get())
        gate = Gate()
        if pool > 1:  # else the other member may have answered before anybody waits
            tree.ref("t/b").tell(gate)
            gate.wait_reached()
        with pytest.raises(RecursionDetectedError):
            tree.ref("t/b").ask(lambda: tree.ref("t/a").ask(back, timeout=LONG_S), timeout=LONG_S)
        gate.open.set()


def test_a_target_that_is_added_again_between_the_check_and_the_put_is_checked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B, in the middle of a request of A's, is replaced; its old mailbox is the one that was looked at."""
    with tree_of(worker("a"), worker("b")) as tree:
        old = tree.ref("t/b")
        put, once = type(old)._put, []

        def put_late(self: Any, envelope: Any) -> Any:
            if self is old and not once:
                once.append(1)
                add_again(tree, "b")
                boxes = tree._system.boxes
                boxes["t/b"], boxes["t/a"] = boxes["t/a"], boxes["t/a"]  # the path leads to the asker itself now
            return put(self, envelope)

        monkeypatch.setattr(type(old), "_put", put_late)
        with pytest.raises(RecursionDetectedError):
            tree.ref("t/a").ask(lambda: old.ask("x", timeout=LONG_S), timeout=LONG_S)
        tree._system.boxes["t/b"] = tree._system.children["t/b"].mailbox


def test_a_ref_of_a_pool_looks_at_all_of_its_present_members() -> None:
    with tree_of(worker("p", pool=3)) as tree:
        ref = tree.ref("t/p")
        tree.terminate_child("t/p#0")
        assert ref.is_alive()

        add_again(tree, "p", pool=3)
        seen = Witness(tree)
        assert ref.is_alive()
        assert ref.stop(timeout=LONG_S) is True
        settle(tree)
        assert [tree.child(f"t/p#{n}").incarnation for n in range(3)] == [2, 2, 2]
        seen.leave()

        tree.terminate_child("t/p")
        assert not ref.is_alive()
        assert ref.stop() is False


def test_a_reply_without_a_target_is_nobodys_edge() -> None:
    with tree_of(worker("a")) as tree:
        assert tree.ref("t/a").ask(lambda: Reply().wait(0.01)) is False


ENDS: dict[str, Callable[[Tree], object]] = {
    "terminate_child": lambda tree: tree.terminate_child("t/team/b"),
    "terminate_child of its supervisor": lambda tree: tree.terminate_child("t/team"),
    "Ref.stop": lambda tree: tree.ref("t/team/b").stop(),
    "Ref.stop of its supervisor": lambda tree: tree.ref("t/team").stop(),
    "terminate_child of its pool": lambda tree: tree.terminate_child("t/team/p"),
}


@pytest.mark.parametrize("end", ENDS)
def test_to_wait_for_the_end_of_one_that_waits_for_the_caller_is_refused_at_once(end: str) -> None:
    """B asks A, and A would have B ended: that waits for B's handler, which waits for A."""
    b = "t/team/p" if "pool" in end else "t/team/b"

    def in_a() -> Any:
        return refused(lambda: ENDS[end](tree))

    def in_b() -> Any:
        return tree.ref("t/a").ask(in_a, timeout=LONG_S)

    team = SupervisorSpec(id="team", children=[worker("b"), worker("p", pool=2)])
    with start(SupervisorSpec(id="t", children=[worker("a"), team])) as tree:
        assert tree.ref(b).ask(in_b, timeout=LONG_S) == REFUSED
        settle(tree)

        assert tree.child(b).incarnation == 1


def test_the_end_of_one_that_does_not_wait_for_the_caller_may_be_waited_for() -> None:
    """Who waits is called alike, and is in another tree."""
    here: list[Any] = []

    def in_a() -> Any:
        return refused(lambda: here[0].terminate_child("t/b"))

    def in_b_of_the_other() -> Any:
        return here[0].ref("t/a").ask(in_a, timeout=LONG_S)

    with tree_of(worker("a"), worker("b")) as one, tree_of(worker("b")) as other:
        here.append(one)
        assert other.ref("t/b").ask(in_b_of_the_other, timeout=LONG_S) is None
        assert (one.child("t/b").state, other.child("t/b").state) == ("stopped", "running")
