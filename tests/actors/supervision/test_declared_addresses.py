"""Whatever a tree declares has its address from the beginning, also below a supervisor whose turn has not come."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import actors
from actors import ActorStoppedError, Ref, Reply, StartError, TreeDownError, UnknownPathError, Worker
from actors.testing import settle
from tests.support.crew import LONG_S, faulty, incarnations, running, shop
from trees import SupervisorSpec, Tree, WorkerSpec, start


class Ledger(Worker):
    def on_receive(self, entries: list[str]) -> None:
        entries.append("received")

    def total(self) -> int:
        return 42


def billing() -> SupervisorSpec:
    workers = [WorkerSpec(id="ledger", actor=Ledger), WorkerSpec(id="mail", handle=list.clear, pool=2)]
    return SupervisorSpec(id="billing", children=workers)


PATHS = ["shop/billing", "shop/billing/ledger", "shop/billing/mail", "shop/billing/mail#1"]


@contextmanager
def first_child_that_calls(call: Any) -> Iterator[tuple[Tree, list[Any]]]:
    """A tree whose first worker has called this in its ``on_start``; and what came of it."""
    came: list[Any] = []

    class First(Worker):
        def on_start(self) -> None:
            came.append(call())

    with running(shop(WorkerSpec(id="first", actor=First), billing())) as tree:
        settle(tree)
        yield tree, came


@pytest.mark.parametrize("path", PATHS)
def test_an_older_worker_has_the_ref_of_all_that_is_declared(path: str) -> None:
    with first_child_that_calls(lambda: actors.ref(path)) as (tree, came):
        assert came == [tree.ref(path)]


@pytest.mark.parametrize("path", PATHS[1:])
def test_what_is_sent_before_its_supervisor_begins_waits_in_its_mailbox(path: str) -> None:
    entries = ["none"]
    with first_child_that_calls(lambda: actors.ref(path).tell(entries)) as (tree, _):
        assert entries == (["none", "received"] if path.endswith("ledger") else [])
        assert set(incarnations(tree, "shop/billing").values()) == {1}


def test_a_proxy_of_one_whose_supervisor_has_not_begun_knows_its_class() -> None:
    with first_child_that_calls(lambda: actors.ref("shop/billing/ledger").proxy().total()) as (_, came):
        assert came[0].get(timeout=LONG_S) == 42


def test_a_body_that_is_declared_first_does_not_crash_for_an_address_that_comes_later() -> None:
    entered = threading.Event()

    def poll() -> None:
        ledger: Ref = actors.ref("shop/billing/ledger")
        ledger.tell([])
        entered.set()
        actors.sleep(LONG_S)

    with running(shop(WorkerSpec(id="poller", run=poll), billing())) as tree:
        assert entered.wait(LONG_S)
        assert tree.child("shop/poller").incarnation == 1


def test_where_its_supervisor_never_begins_what_waits_there_is_answered_with_the_failure() -> None:
    waiting: list[Reply] = []

    class First(Worker):
        def on_start(self) -> None:
            waiting.append(actors.ref("shop/billing/ledger").ask("?", timeout=None, block=False))

        def on_stop(self) -> None:
            waiting.append(actors.ref("shop/billing/mail").ask("?", timeout=None, block=False))

    spec = shop(WorkerSpec(id="first", actor=First), faulty("bad", on_start="raise OSError"), billing())
    with pytest.raises(StartError):
        start(spec)

    for reply in waiting:
        with pytest.raises(TreeDownError):
            reply.get(timeout=LONG_S)
    assert len(waiting) == 2


def test_a_supervisor_that_is_added_and_does_not_start_leaves_no_address() -> None:
    desk = SupervisorSpec(id="desk", children=[faulty("bad", on_start="raise OSError"), *billing().children])
    with running(shop()) as tree:
        with pytest.raises(StartError):
            tree.start_child("shop", desk)

        for path in ["shop/desk", "shop/desk/bad", "shop/desk/ledger", "shop/desk/mail", "shop/desk/mail#0"]:
            with pytest.raises(UnknownPathError):
                tree.ref(path)


def test_a_supervisor_that_is_deleted_takes_the_addresses_below_it_along() -> None:
    with running(shop(billing())) as tree:
        ledger = tree.ref("shop/billing/ledger")
        tree.terminate_child("shop/billing")
        tree.delete_child("shop/billing")

        for path in PATHS:
            with pytest.raises(UnknownPathError):
                tree.ref(path)
        with pytest.raises(ActorStoppedError):
            ledger.ask("?")
