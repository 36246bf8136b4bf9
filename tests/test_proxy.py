"""Proxies keep to the rules of Pykka's: methods, attributes, traversal, defer; over every restart."""

from collections.abc import Iterator
from typing import Any

import pykka
import pytest

from actors import ActorStoppedError, ChildStarted
from actors.testing import settle
from tests.hardening import BOTH, LONG_S, Ours, Stock, Witness, tree_of, worker
from trees import Tree


class Inner:
    pykka_traversable = True

    def __init__(self) -> None:
        self.volume = 3

    def louder(self, by: int) -> int:
        self.volume += by
        return self.volume


class Members:
    """What a proxy shows."""

    limit = 10

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.inner = Inner()
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


def test_private_names_are_no_part_of_it_and_a_missing_one_is_said_by_name(tree: Tree) -> None:
    proxy = tree.ref("t/w").proxy()
    with pytest.raises(AttributeError, match="_regrow_life"):
        _ = proxy._regrow_life

    assert "add" in dir(proxy)
    assert "_regrow_life" not in dir(proxy)


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
