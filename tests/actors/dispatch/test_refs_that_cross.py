"""A Ref may be sent to a worker in a process, and come back, alone or within something: it names the same path."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors import NotPicklableError, RecursionDetectedError
from tests.actors.dispatch import process_workers as there
from tests.actors.dispatch.process_trees import running, worker
from trees import Tree, WorkerSpec


@pytest.fixture(name="office")
def _office() -> Iterator[tuple[Tree, Callable[..., Any]]]:
    thread, pool = WorkerSpec(id="t", handle=there.do), worker("pool", pool=2)
    with running(worker(actor=there.Keeper), worker("c", actor=there.Counter), thread, pool) as office:
        yield office


def test_code_there_asks_by_a_ref_that_came_in_a_message(office: tuple[Tree, Callable[..., Any]]) -> None:
    tree, ask = office
    assert ask(("ask", {"whom": [tree.ref("p/t")]}, "pid")) == os.getpid()
    assert ask(("ask", {"whom": [tree.ref("p/c")]}, 3)) == 3
    assert ask(("ask", {"whom": [tree.ref("p/pool")]}, "pid")) in {tree.child(f"p/pool#{n}").pid for n in range(2)}
    assert ask(("by proxy", tree.ref("p/c").proxy())) == 3, "a proxy is a Ref and a name"


def test_what_comes_back_is_a_ref_of_the_tree(office: tuple[Tree, Callable[..., Any]]) -> None:
    tree, ask = office
    assert ask(("echo", [tree.ref("p/t")])) == [tree.ref("p/t")]
    own = ask("own ref")
    assert own == tree.ref("p/w")
    assert own.ask("pid") == tree.child("p/w").pid
    assert tree.ref("p/t").ask(("echo", own)) is own, "between threads nothing is made anew"
    assert tree.ref("p/c").ask(("echo", own)) == own


def test_ancestry_holds_for_a_ref_that_has_crossed(office: tuple[Tree, Callable[..., Any]]) -> None:
    tree, ask = office
    with pytest.raises(RecursionDetectedError, match="p/w > p/w"):
        ask(("ask", {"whom": [tree.ref("p/w")]}, "pid"))


def test_a_ref_of_another_tree_is_refused_where_it_would_lead_to_a_namesake(
    office: tuple[Tree, Callable[..., Any]],
) -> None:
    tree, ask = office
    with running(WorkerSpec(id="t", handle=there.do)) as (other, _):
        with pytest.raises(NotPicklableError, match="UnpicklingError"):
            ask(("ask", {"whom": [other.ref("p/t")]}, "pid"))
        assert other.ref("p/t") != tree.ref("p/t")
    assert tree.child("p/w").incarnation == 1
