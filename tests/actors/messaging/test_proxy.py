"""Proxies keep to the rules of Pykka's: methods, attributes, traversal, defer; over every restart."""

import copy
import gc
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pykka
import pykka.messages
import pytest

from actors import ActorStoppedError, ChildStarted, RequestFailed
from actors.testing import settle
from tests.actors.dispatch.process_workers import Knob
from tests.support.hardening import BOTH, LONG_S, Ours, Stock, Witness, root, tree_of, worker
from tests.support.operations import counted_here
from trees import Tree, start


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


def test_a_name_that_nobody_can_look_up_now_fails_its_request_and_no_worker(tree: Tree) -> None:
    """While no object lives only the class is known, so the worker has to look."""
    seen, proxy, before = Witness(tree), tree.ref("t/w").proxy(), tree.child("t/w").incarnation
    messages = pykka.messages
    for message in (
        messages.ProxyGetAttr(attr_path=("tottal",)),
        messages.ProxyCall(attr_path=("nosuch",), args=(1,), kwargs={}),
        messages.ProxySetAttr(attr_path=("nosuch", "x"), value=1),
    ):
        with pytest.raises(AttributeError, match=r"tottal|nosuch"):
            tree.ref("t/w").ask(message, timeout=LONG_S)
        tree.ref("t/w").tell(message)
    settle(tree)

    assert tree.child("t/w").incarnation == before
    assert len(seen.of(RequestFailed, path="t/w")) == 6
    assert proxy.add(1).get() == 1


def test_the_first_look_at_traversable_objects_that_all_know_each_other_is_short() -> None:
    class Friends(Members, Ours):
        def __init__(self) -> None:
            super().__init__()
            friends = [Knob() for _ in range(10)]
            for friend in friends:
                vars(friend).update((f"friend{at}", other) for at, other in enumerate(friends) if other is not friend)
            self.first = friends[0]
            vars(self)[7] = "an entry that is no name"  # type: ignore[index]

    with start(root(worker("w", Friends))) as tree:
        settle(tree)
        with counted_here() as operations:
            louder = tree.ref("t/w").proxy().first.friend5.louder

        assert louder(4).get(timeout=LONG_S) == 7
        assert operations.count < 5_000_000  # there are 10! ways


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


def test_a_mocked_method_or_attribute_is_what_the_mock_is(tree: Tree) -> None:
    (actor,) = tree.ref("t/w").living_actors()
    actor.add, actor.limit = mock.Mock(return_value="mocked"), mock.NonCallableMock()
    proxy = tree.ref("t/w").proxy()

    assert proxy.add(1, times=2).get(timeout=LONG_S) == "mocked"
    actor.add.assert_called_once_with(1, times=2)
    assert proxy.limit.get(timeout=LONG_S) is actor.limit


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


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later versions collect nothing while a dict is made")
def test_the_dict_that_a_proxy_looks_at_is_made_before_others_know_the_actor(tree: Tree) -> None:
    """Or two threads make one each, over the same fields: actors/concurrency/shared_fields.py."""
    (actor,) = tree.ref("t/w").living_actors()

    assert any(type(each) is dict and "_regrow_incarnation" in each for each in gc.get_referents(actor))


def test_a_proxy_of_a_pool_knows_what_any_member_has() -> None:
    class Kind(Members, Ours):
        pass

    with tree_of(worker("w", Kind, pool=2)) as tree:
        proxy = tree.ref("t/w").proxy()
        tree.terminate_child("t/w#0")

        assert proxy.count.get(timeout=LONG_S) == 0
        with pytest.raises(AttributeError):
            _ = proxy.tottal
