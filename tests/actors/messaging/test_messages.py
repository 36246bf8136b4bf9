"""Messages: ancestry and recursion, deadlines, the hop limit, and what becomes of what nobody takes."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from actors import (
    RecursionDetectedError,
    RecursionRefused,
    carry,
)
from actors.testing import settle
from tests.support.hardening import LONG_S, Ours, Witness, eventually, in_thread, obey_async, root, tree_of, worker
from trees import SupervisorSpec, Tree, WorkerSpec, start

# -- ancestry ----------------------------------------------------------------------------------------------


def recursion(tree: Tree, path: str, function: Callable[[], Any]) -> tuple[str, ...]:
    """The chain of the refusal that the function, run in the worker at ``path``, ends in."""
    with pytest.raises(RecursionDetectedError) as caught:
        tree.ref(path).ask(function, timeout=LONG_S)
    return caught.value.chain


def test_an_ask_cycle_is_refused_before_it_is_sent_and_told_as_an_event() -> None:
    with tree_of(worker("a"), worker("b")) as tree:
        seen, a, b = Witness(tree), tree.ref("t/a"), tree.ref("t/b")

        assert recursion(tree, "t/a", lambda: b.ask(lambda: a.ask("back"))) == ("t/a", "t/b", "t/a")
        refused = seen.wait(RecursionRefused)
        assert (refused.chain, refused.max_hops) == (("t/a", "t/b", "t/a"), None)


def test_a_member_that_asks_its_own_pool_is_recursion() -> None:
    with tree_of(worker("p", pool=3)) as tree:
        assert recursion(tree, "t/p", lambda: tree.ref("t/p").ask("another member")) == ("t/p", "t/p")
        assert recursion(tree, "t/p#0", lambda: tree.ref("t/p#1").ask("by name")) == ("t/p", "t/p#1")


def test_a_cycle_through_a_pool_is_recursion() -> None:
    with tree_of(worker("a"), worker("p", pool=3)) as tree:
        a, pool = tree.ref("t/a"), tree.ref("t/p")

        assert recursion(tree, "t/a", lambda: pool.ask(lambda: a.ask("back"))) == ("t/a", "t/p", "t/a")


def test_a_cycle_through_async_handlers_and_tasks_is_recursion() -> None:
    async def ask_back() -> object:
        return await asyncio.create_task(tree.ref("t/a").ask_async("back", timeout=None))

    async def ask_b() -> object:
        return await tree.ref("t/b").ask_async(ask_back, timeout=None)

    with tree_of(worker("a", obey_async), worker("b", obey_async)) as tree:
        assert recursion(tree, "t/a", ask_b) == ("t/a", "t/b", "t/a")


def test_the_chain_goes_along_into_to_thread() -> None:
    async def handle() -> object:
        return await asyncio.to_thread(lambda: tree.ref("t/a").ask("me", timeout=LONG_S))

    with tree_of(worker("a", obey_async)) as tree:
        assert recursion(tree, "t/a", handle) == ("t/a", "t/a")


def test_the_chain_goes_along_into_a_plain_thread_that_it_is_carried_to() -> None:
    def handle() -> object:
        return in_thread(carry(lambda: tree.ref("t/a").ask("me", timeout=LONG_S)))()

    with tree_of(worker("a")) as tree:
        assert recursion(tree, "t/a", handle) == ("t/a", "t/a")


def test_a_cycle_through_proxies_is_recursion() -> None:
    class Upwards(Ours):
        def up(self) -> object:
            return tree.ref("t/a").proxy().total().get()

    with tree_of(worker("a", Ours), worker("b", Upwards)) as tree:
        assert recursion(tree, "t/a", lambda _: tree.ref("t/b").proxy().up().get()) == ("t/a", "t/b", "t/a")


def test_a_worker_may_not_wait_for_its_own_end_nor_for_that_of_its_tree() -> None:
    with tree_of(SupervisorSpec(id="s", children=[worker("a")])) as tree:
        path = "t/s/a"
        ends = [tree.stop, tree.wait, tree.ref(path).stop, tree.ref("t").stop]
        ends += [lambda p=p: tree.terminate_child(p) for p in (path, "t/s")]
        chains = [recursion(tree, path, end) for end in ends]

        assert all(chain[0] == path for chain in chains)
        assert tree.child(path).incarnation == 1


def test_an_ask_of_a_worker_that_told_is_legal() -> None:
    """While y asks x, which has told y: x waits for nobody."""
    answers = []

    def tell_b() -> None:
        tree.ref("t/b").tell(lambda: answers.append(tree.ref("t/a").ask("legal")))

    with tree_of(worker("a"), worker("b")) as tree:
        tree.ref("t/a").ask(tell_b)
        eventually(lambda: answers)

    assert answers == ["legal"]


def test_two_callers_of_one_worker_are_no_recursion() -> None:
    with tree_of(worker("a"), worker("b"), worker("c")) as tree:
        c = tree.ref("t/c")

        assert tree.ref("t/a").ask(lambda: (tree.ref("t/b").ask(lambda: c.ask(1)), c.ask(2))) == (1, 2)


# -- deadlines ---------------------------------------------------------------------------------------------


def test_ask_and_stop_take_their_limits_in_order_and_neither_a_bool_nor_nan_is_a_time() -> None:
    asked, no = [], False
    with start(SupervisorSpec(id="t", children=[WorkerSpec(id="a", handle=asked.append)])) as tree:
        a = tree.ref("t/a")
        assert a.ask(1, LONG_S) is None
        assert a.ask(2, LONG_S, no).get(timeout=LONG_S) is None
        assert asyncio.run(a.ask_async(3, LONG_S)) is None
        for wrong in (no, not no, float("nan")):
            for ask in (a.ask, lambda *given: asyncio.run(a.ask_async(*given))):
                with pytest.raises(ValueError, match="t/a: ask: expected a timeout, got"):
                    ask(4, wrong)
        assert a.stop(not no, LONG_S)
        settle(tree)

    assert asked == [1, 2, 3]


# -- hops --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["self", "detached", "async"])
def test_a_tell_to_oneself_or_a_detached_one_begins_a_new_chain(way: str) -> None:
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
    with start(root(*kinds), max_hops=5, refuse_tells=True) as tree:
        tree.ref("t/a").tell(again_async if handler else again)
        eventually(lambda: count == most)

    assert count == most
