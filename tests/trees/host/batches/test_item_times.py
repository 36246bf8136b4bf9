"""The time of an item that is a message: from the beginning of its handler; what waits behind others waits on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from actors import ReplyTimeoutError
from tests.support.hardening import Gate, obey, tree_of, worker
from trees import Mailbox, Tree

SLOW_S = 0.5
LIMIT_S = 5.0
"""Less than all items of two batches take one after the other, and more than a busy machine takes for one."""


def slow(item: Any) -> Any:
    threading.Event().wait(SLOW_S)
    return item


def both(tree: Tree, to: str, count: int) -> list[list[tuple[Any, Any]]]:
    """What two batches at once find, each of so many items, all given at once."""
    found: list[list[tuple[Any, Any]]] = [[], []]

    def run(mine: list[tuple[Any, Any]]) -> None:
        mine += tree.map(range(count), to, timeout_s=LIMIT_S, max_in_flight=count)

    threads = [threading.Thread(target=run, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_two_batches_at_once_on_one_worker_take_no_time_from_each_other() -> None:
    """Given all at once, and alone, each item has time enough; behind those of two batches none had."""
    with tree_of(worker("w", slow)) as tree:
        for found in both(tree, "t/w", 6):
            assert sorted(found) == [(n, n) for n in range(6)]
        assert tree.child("t/w").incarnation == 1, "nobody was replaced for an item that had only waited"


def test_two_batches_at_once_on_one_pool_take_no_time_from_each_other() -> None:
    with tree_of(worker("w", slow, pool=2)) as tree:
        for found in both(tree, "t/w", 12):
            assert sorted(found) == [(n, n) for n in range(12)]


def test_an_item_behind_what_hangs_is_given_up_after_its_time_and_is_not_handled_later() -> None:
    gate, handled = Gate(), list[int]()
    with tree_of(worker("w", obey)) as tree:
        tree.ref("t/w").tell(gate)
        gate.wait_reached()
        begun = monotonic()
        found = dict(tree.map([7], "t/w", timeout_s=LIMIT_S))
        assert monotonic() - begun >= LIMIT_S
        assert isinstance(found[7], ReplyTimeoutError)
        assert f"in {LIMIT_S:g} s" in str(found[7])
        waits = tree.map([lambda: handled.append(9)], "t/w", timeout_s=LIMIT_S)
        assert isinstance(next(waits)[1], ReplyTimeoutError)
        gate.open.set()
        assert tree.ref("t/w").ask("after") == "after"
        assert handled == []
        assert tree.child("t/w").incarnation == 1


def test_an_item_that_hangs_ends_after_its_time_and_those_behind_it_have_theirs() -> None:
    gate = Gate()
    items: list[Callable[[], Any]] = [gate, lambda: 1, lambda: 2]
    with tree_of(worker("w", obey)) as tree:
        begun = monotonic()
        found = list(tree.map(items, "t/w", timeout_s=LIMIT_S, max_in_flight=3))
        assert monotonic() - begun < 2 * LIMIT_S
        gate.open.set()
    results = {items.index(item): result for item, result in found}
    assert isinstance(results.pop(0), ReplyTimeoutError)
    assert results == {1: 1, 2: 2}


def test_batches_of_coroutines_at_once_await_room_in_a_full_mailbox_and_account_for_every_item() -> None:
    async def batch(tree: Tree) -> list[tuple[Any, Any]]:
        return [pair async for pair in tree.map(range(30), "t/w")]

    async def all_at_once(tree: Tree) -> list[list[tuple[Any, Any]]]:
        return await asyncio.gather(*[batch(tree) for _ in range(3)])

    async def quick(item: Any) -> Any:
        await asyncio.sleep(0.001)
        return item

    with tree_of(worker("w", quick, mailbox=Mailbox(capacity=1))) as tree:
        for found in asyncio.run(all_at_once(tree)):
            assert sorted(found) == [(n, n) for n in range(30)]
        assert tree.ref("t/w").depth == 0
