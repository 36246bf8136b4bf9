"""Wrong arguments of the calls of a host: refused before anything happens, with what to write instead."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from actors import ConfigError, UnknownPathError
from tests.support.ids import stable
from trees import HA, SupervisorSpec, Tasks, Tree, WorkerSpec, start, start_async


def tree_spec() -> SupervisorSpec:
    work = SupervisorSpec(id="team", tasks=Tasks(), children=[WorkerSpec(id="w", execute=lambda task, context: 1)])
    return SupervisorSpec(id="p", children=[WorkerSpec(id="echo", handle=lambda message: message, pool=2), work])


WRONG_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"max_threads": "x"}, "start(...).max_threads: expected an int, got 'x'. Write a whole number."),
    ({"max_threads": 0}, "start(...).max_threads: 0 is too small. Use at least 1."),
    ({"max_hops": -1}, "start(...).max_hops: -1 is too small. Use at least 0."),
    ({"max_hops": 1.5}, "start(...).max_hops: expected an int, got 1.5. Write a whole number."),
    ({"seed": []}, "start(...).seed: expected an int, got a list. Write a whole number."),
    ({"clock": 3}, "start(...).clock: expected a clock, got an int. Leave it out, or give a ManualClock() in a test."),
    ({"console": "yes"}, "start(...).console: expected a bool, got 'yes'. Write True or False."),
    ({"store": 3}, "start(...).store: expected a store, got an int. Write 'tasks.jsonl', 'sqlite:///tasks.db'"),
    ({"durability": "powr"}, "start(...).durability: 'powr' is not accepted. Did you mean 'power'? Use 'process'"),
    ({"keep": 3}, "start(...).keep: expected Keep(...), got 3. Write Keep(...)."),
    ({"log_errors": "none"}, "start(...).log_errors: 'none' is not accepted. Use 'text' or 'type'."),
    ({"ha": True}, "p.ha: a bool says nothing about a lease. Write ha=HA(lease_s=10)."),
    ({"ha": HA()}, "p.store: with ha= several processes share one store"),
]


@pytest.mark.parametrize(("options", "text"), WRONG_OPTIONS, ids=lambda value: str(value)[:30])
def test_a_wrong_argument_of_start_is_refused_with_what_to_write(options: dict[str, Any], text: str) -> None:
    async def on_a_loop() -> None:
        async with start_async(tree_spec(), **options):
            pass

    with pytest.raises(ConfigError, match=re.escape(text)):
        start(tree_spec(), **options)
    with pytest.raises(ConfigError, match=re.escape(text)):
        asyncio.run(on_a_loop())


def test_all_wrong_arguments_of_start_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as told:
        start(tree_spec(), max_threads=0, durability="strong", seed="x")  # type: ignore[arg-type]

    assert [problem.path for problem in told.value.problems] == [
        "start(...).seed",
        "start(...).max_threads",
        "start(...).durability",
    ]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (None, "start(...): expected a SupervisorSpec, got None. The root of a tree is one"),
        (SupervisorSpec, "start(...): expected a SupervisorSpec, got the class SupervisorSpec."),
        (WorkerSpec(id="w", handle=print), "w: expected a SupervisorSpec, got a WorkerSpec."),
    ],
    ids=repr,
)
def test_what_is_no_supervisor_is_no_root(spec: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        start(spec)


@pytest.mark.parametrize("spec", [None, "w", print, Tasks()], ids=repr)
def test_a_child_that_is_no_spec_is_refused(spec: Any) -> None:
    with start(tree_spec()) as tree:
        with pytest.raises(ConfigError, match=r"expected a spec, got .*\. Write WorkerSpec\(\.\.\.\) or"):
            tree.start_child("p", spec)
        assert [child.path for child in tree.which_children("p")] == ["p/echo#0", "p/echo#1", "p/team"]


NEEDS_A_SUPERVISOR: list[Callable[[Tree, str], object]] = [
    lambda tree, path: tree.submit("go", path),
    lambda tree, path: tree.run("go", path=path),
    lambda tree, path: tree.registry(path),
    lambda tree, path: tree.which_children(path),
    lambda tree, path: tree.count_children(path),
    lambda tree, path: tree.start_child(path, WorkerSpec(id="x", handle=print)),
]


@pytest.mark.parametrize("call", NEEDS_A_SUPERVISOR)
def test_a_worker_where_a_supervisor_is_needed_is_called_a_worker_and_not_unknown(
    call: Callable[[Tree, str], object],
) -> None:
    with start(tree_spec()) as tree:
        for path, above in (("p/team/w", "p/team"), ("p/echo", "p"), ("p/echo#1", "p")):
            text = f"{path}: is a worker, and this needs a supervisor. Name one, for example {above!r}."
            with pytest.raises(UnknownPathError, match=re.escape(text)):
                call(tree, path)
        with pytest.raises(UnknownPathError, match="p/tea: no such path in this tree"):
            call(tree, "p/tea")


@pytest.mark.parametrize(
    ("path", "known", "meant"),
    [
        ("shop/legder", ("shop/ledger", "shop/parse"), " Did you mean 'shop/ledger'?"),
        ("ledger", ("shop/ledger",), " Did you mean 'shop/ledger'?"),
        ("shop/nobody", ("shop/ledger", "shop/parse"), ""),
        ("shop/back/nobody", ("shop/back/ledger",), ""),
        ("shop/prse", ("shop/ledger", "shop/parse"), " Did you mean 'shop/parse'?"),
        ("shop/x", (), ""),
    ],
)
def test_a_path_that_is_unknown_is_taken_for_another_one_only_where_its_name_is_close(
    path: str, known: tuple[str, ...], meant: str
) -> None:
    listed = f" Listed there: {', '.join(known)}." if known else ""
    expected = f"{path}: no such path in this tree.{listed}{meant} See tree.dump() for all of them."
    assert str(UnknownPathError(path, known)) == expected


NO_TIMEOUTS = ["5", True, object(), [1]]


@pytest.mark.parametrize("timeout", NO_TIMEOUTS, ids=stable)
def test_what_is_no_timeout_is_refused_and_stops_nothing(timeout: Any) -> None:
    refused = pytest.raises(
        ValueError, match=r"expected a timeout, got .*\. Give a number of seconds, 0 or more, or None"
    )
    with start(tree_spec()) as tree:
        reply = tree.ref("p/echo").ask(1, block=False)
        for call in (tree.stop, tree.wait, lambda timeout: reply.get(timeout=timeout)):
            with refused:
                call(timeout)
        if timeout is not True:  # a number to Python, and not worth a look at each ask
            with refused:
                tree.ref("p/echo").ask(1, timeout=timeout)
        assert tree.ref("p/echo").ask(2) == 2


NEEDS_A_PATH: list[Callable[[Tree, Any], object]] = [
    *NEEDS_A_SUPERVISOR,
    lambda tree, path: tree.ref(path),
    lambda tree, path: tree.child(path),
    lambda tree, path: tree.snapshot(path),
    lambda tree, path: tree.dump(path),
    lambda tree, path: asyncio.run(tree.asubmit("go", path)),
    lambda tree, path: tree.submit_many(["go"], path),
]


class Rude:
    """What a host has mistaken for a path. It may be asked nothing."""

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __bool__ = __eq__ = __str__  # type: ignore[assignment]


@pytest.mark.parametrize("call", NEEDS_A_PATH)
def test_what_is_no_text_is_no_path_and_called_what_it_is(call: Callable[[Tree, Any], object]) -> None:
    with start(tree_spec()) as tree:
        for path, text in ((["p"], "a list"), ({}, "a dict"), (tree.ref("p/team"), "a Ref"), (Rude(), "a Rude")):
            with pytest.raises(UnknownPathError, match=f"^{text}: no such path in this tree. See"):
                call(tree, path)


NEEDS_A_WORD: list[Callable[[Tree, Any], object]] = [
    lambda tree, word: tree.dump(only=word),
    lambda tree, word: tree.dump(depth=word),
    lambda tree, word: tree.wait_for_role(word),
    lambda tree, word: tree.map([1], "p/echo", on_error=word),
]


@pytest.mark.parametrize("call", NEEDS_A_WORD)
def test_what_is_none_of_a_few_words_is_called_what_it_is(call: Callable[[Tree, Any], object]) -> None:
    with start(tree_spec()) as tree:
        for word, text in (
            ([], "a list"),
            ({}, "a dict"),
            (Rude(), "a Rude"),
            ("x" * 5000, "a str of 5000 characters"),
        ):
            with pytest.raises(ValueError, match=text):
                call(tree, word)
