"""Proxies keep to the rules of Pykka's: methods, attributes, traversal, defer; over every restart."""

import copy
from collections.abc import Iterator
from typing import Any

import pykka
import pykka.messages
import pytest

from actors import ActorStoppedError, ChildStarted
from actors.testing import settle
from tests.actors.dispatch.process_workers import Knob
from tests.support.hardening import BOTH, LONG_S, Ours, Stock, Witness, tree_of, worker
from trees import Tree


class Members:
    """What a proxy shows."""

    limit = 10

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.inner = Knob()
        self.evaluated = 0

    @property
    def costly(self) -> int:
        self.evaluated += 1
        return 7

    def add(self, number: int, *, times: int = 1) -> int:
        self.count += number * times
        return self.count

    def crash(self) -> None:
        raise ValueError("boom")


@pytest.fixture(params=[Ours, Stock])
def tree(request: pytest.FixtureRequest) -> Iterator[Tree]:
    kind = type("Kind", (Members, request.param), {})
    with tree_of(worker("w", kind)) as tree:
        yield tree


def test_a_method_is_asked_and_deferred(tree: Tree) -> None:
    proxy = tree.ref("t/w").proxy()
    asked = proxy.add(2, times=3).get(timeout=LONG_S)
    proxy.add.defer(10)
    settle(tree)

    assert (asked, proxy.count.get(timeout=LONG_S)) == (6, 16)


def test_an_attribute_is_read_and_set(tree: Tree) -> None:
    proxy = tree.ref("t/w").proxy()
    proxy.count = 5

    assert (proxy.count.get(), proxy.limit.get(), proxy.costly.get()) == (5, 10, 7)


def test_a_property_is_evaluated_in_the_actor_and_only_when_it_is_read(tree: Tree) -> None:
    proxy = tree.ref("t/w").proxy()
    dir(proxy)
    first = proxy.evaluated.get()
    proxy.costly.get()

    assert (first, proxy.evaluated.get()) == (0, 1)


def test_a_traversable_attribute_is_a_proxy_too(tree: Tree) -> None:
    inner = tree.ref("t/w").proxy().inner

    assert inner.louder(4).get(timeout=LONG_S) == 7
    assert inner.volume.get(timeout=LONG_S) == 7


def test_an_error_of_a_method_is_a_crash_and_the_proxy_finds_the_next_incarnation(tree: Tree) -> None:
    seen, proxy = Witness(tree), tree.ref("t/w").proxy()
    proxy.add(1).get()
    with pytest.raises(ValueError, match="boom"):
        proxy.crash().get(timeout=LONG_S)
    seen.wait(ChildStarted)

    assert proxy.count.get(timeout=LONG_S) == 0


def test_a_proxy_of_a_stopped_worker_fails_at_once_and_works_again_when_it_is_restarted(tree: Tree) -> None:
    proxy = tree.ref("t/w").proxy()
    tree.terminate_child("t/w")
    with pytest.raises(ActorStoppedError):
        proxy.add(1).get()
    tree.restart_child("t/w")

    assert proxy.add(1).get() == 1


def test_an_async_method_is_awaited_in_the_actor() -> None:
    class Async(Ours):
        async def fetch(self, number: int) -> int:
            return number + 1

        async def on_receive(self, message: object) -> object:
            return message

    with tree_of(worker("w", Async)) as tree:
        assert tree.ref("t/w").proxy().fetch(1).get(timeout=LONG_S) == 2


@BOTH
def test_proxies_of_one_path_are_made_for_futures_of_pykka(kind: type[Any]) -> None:
    with tree_of(worker("w", kind)) as tree:
        proxy = tree.ref("t/w").proxy()

        assert pykka.get_all([proxy.total(), proxy.total()], timeout=LONG_S) == [42, 42]


# -- what Pykka's own proxies do ---------------------------------------------------------------------------


def test_a_proxy_is_pykkas_and_equal_to_every_other_one_of_the_same(tree: Tree) -> None:
    ref = tree.ref("t/w")
    proxy = ref.proxy()

    assert isinstance(proxy, pykka.ActorProxy)
    assert (proxy, proxy.inner) == (ref.proxy(), ref.proxy().inner)
    assert len({proxy, ref.proxy(), proxy.inner, ref.proxy().inner}) == 2
    assert proxy != proxy.inner
    assert proxy != pykka.ActorProxy(actor_ref=ref)
    assert proxy != ref
    assert copy.copy(proxy) == proxy


@pytest.mark.parametrize("how", ["forgotten", "stopped", "running"])
def test_stop_of_any_worker_is_a_future_of_whether_it_ran(how: str) -> None:
    class Kind(Members, Ours):
        pass

    with tree_of(worker("w", Kind, restart="temporary" if how == "forgotten" else "permanent")) as tree:
        proxy = tree.ref("t/w").proxy()
        if how != "running":
            tree.terminate_child("t/w")
        proxy.stop.defer()
        settle(tree)  # one that ran does so again

        assert proxy.stop().get(timeout=LONG_S) is (how == "running")


def test_a_proxy_of_a_pool_knows_what_any_member_has() -> None:
    class Kind(Members, Ours):
        pass

    with tree_of(worker("w", Kind, pool=2)) as tree:
        proxy = tree.ref("t/w").proxy()
        tree.terminate_child("t/w#0")

        assert proxy.count.get(timeout=LONG_S) == 0
        with pytest.raises(AttributeError):
            _ = proxy.tottal
