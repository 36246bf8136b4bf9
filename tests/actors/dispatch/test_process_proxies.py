"""Proxies of a worker in a process do what proxies of the host do, whatever they lead to."""

from collections.abc import Iterator
from typing import Any

import pytest

from actors import NotPicklableError, RequestFailed, Worker
from actors.testing import settle
from tests.actors.dispatch import process_workers as there
from tests.actors.dispatch.process_trees import running, worker
from tests.support.hardening import LONG_S, Witness
from trees import Tree

USER, TARGET = ("p/in_host", "p/in_process"), ("p/shown", "p/shown_there")


class Local(Worker):
    """A class of this module, which a process can import as well; and one that it cannot."""

    def on_receive(self, message: object) -> object:
        return message


@pytest.fixture(scope="module")
def tree() -> Iterator[Tree]:
    class Hidden(Local):
        pass

    with running(
        worker("in_host", handle=there.by_proxy, dispatch="auto", crash_on_ask_error=False),
        worker("in_process", handle=there.by_proxy),
        worker("on_a_loop", handle=there.by_proxy_on_a_loop),
        worker("shown", actor=there.Shown, dispatch="auto"),
        worker("shown_there", actor=there.Shown),
        worker("hidden", actor=Hidden, dispatch="auto"),
    ) as (tree, _):
        yield tree


@pytest.fixture(autouse=True)
def _anew(tree: Tree) -> None:
    """Have each test find both targets as they began."""
    for path in TARGET:
        tree.terminate_child(path)
        tree.restart_child(path)


@pytest.mark.parametrize("target", TARGET)
@pytest.mark.parametrize("user", USER)
@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("call", 6),
        ("defer", (None, 10)),
        ("read and set", (5, 10)),
        ("traverse", (11, 11)),
        ("class", "Shown"),
        ("stop", True),
        ("count", 0),
    ],
)
def test_a_use_of_a_proxy_gives_the_same_in_both_processes(
    tree: Tree, user: str, target: str, use: str, expected: Any
) -> None:
    there.Shown.knob.volume = 3  # of the target in the host

    assert tree.ref(user).ask((target, use), timeout=LONG_S) == expected


@pytest.mark.parametrize("user", USER)
def test_a_name_that_is_not_there_is_an_error_of_the_caller_with_the_same_words(tree: Tree, user: str) -> None:
    seen = Witness(tree)
    with pytest.raises(AttributeError, match=r"<Proxy of p/shown> has no attribute 'tottal'"):
        tree.ref(user).ask(("p/shown", "tottal"), timeout=LONG_S)
    with pytest.raises(AttributeError, match="gives no access to the private name '_x'"):
        tree.ref(user).ask(("p/shown", "_x"), timeout=LONG_S)
    settle(tree)

    assert {event.path for event in seen.of(RequestFailed)} == {user}


def test_async_code_in_a_process_awaits_what_a_proxy_gives(tree: Tree) -> None:
    assert tree.ref("p/on_a_loop").ask(("p/shown", 4), timeout=LONG_S) == 4


def test_a_class_that_no_process_can_import_is_refused_with_what_to_do_and_its_methods_can_be_called(
    tree: Tree,
) -> None:
    with pytest.raises(NotPicklableError, match=r"Hidden.*classes that stand in a module"):
        tree.ref("p/in_process").ask(("p/hidden", "class"), timeout=LONG_S)
