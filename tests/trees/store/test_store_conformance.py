"""What every store does, whatever it is made of: the suite of ``store_conformance``, on each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from actors.tasks.journal.store import DurableStore, Store
from tests.trees.store.store_conformance import CHECKS, DURABLE_CHECKS, Medium
from tests.trees.store.stores import OWNER, kept, submitted, succeeded
from trees.store import MemoryStore, SqlStore, open_store


def _named(check: Callable[..., None]) -> str:
    return check.__name__


@pytest.fixture(params=["memory", "a file of lines", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    url = str(tmp_path / "t.jsonl")
    if request.param != "a file of lines":
        url = request.getfixturevalue(f"{request.param}_url")
    opened: Any = open_store(url, root=OWNER)
    yield opened
    opened.close()


@pytest.fixture
def medium(store_url: str) -> Iterator[Medium]:
    with ExitStack() as opened:

        def leave(task: str, kind: str, body: dict[str, Any]) -> None:
            with closing(SqlStore.look(store_url)) as outside:
                outside.post_command(OWNER, task, kind, body)

        def again() -> DurableStore:
            store: Any = open_store(store_url, root=OWNER)
            opened.callback(store.close)
            return store

        yield Medium(again, leave)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=_named)
def test_a_store_conforms(store: Store, check: Callable[[Store], None]) -> None:
    check(store)


@pytest.mark.slow
@pytest.mark.parametrize("check", DURABLE_CHECKS, ids=_named)
def test_a_durable_store_conforms(medium: Medium, check: Callable[[Medium], None]) -> None:
    check(medium)


@pytest.mark.parametrize("check", DURABLE_CHECKS, ids=_named)
def test_so_does_a_file_of_lines(tmp_path: Path, check: Callable[[Medium], None]) -> None:
    with ExitStack() as opened:

        def again() -> DurableStore:
            store: Any = open_store(str(tmp_path / "t.jsonl"), root=OWNER)
            opened.callback(store.close)
            return store

        check(Medium(again))


ODD: list[tuple[str, Callable[[], Any]]] = [
    ("NUL", lambda: "a\0b"),
    ("half a character", lambda: ["\udc80", {"\ud800": "\udfff"}]),
    ("the infinities", lambda: [float("inf"), float("-inf")]),
    ("a number of 10,000 digits", lambda: [10**9_999, -(10**9_999) + 1, {"n": 7**12_000}]),
    ("a surrogate pair", lambda: "😀"),
    ("quotes, backslashes and lines", lambda: "\"'\\\n\r\u2028"),
    ("a text of a megabyte", lambda: "é" * 1_000_000),
    ("many levels", lambda: [[[[[[[[{"a": [[[[]]]]}]]]]]]]]),
]


@pytest.mark.parametrize(("name", "make"), ODD, ids=[name for name, _ in ODD])
def test_a_value_comes_back_as_it_was(store: Store, name: str, make: Callable[[], Any]) -> None:
    value = make()
    store.create("t", OWNER, submitted("t"))
    store.append("t", succeeded("t", value))
    store.finish("t")
    kept(store)

    (record,) = store.read("t", 1)

    assert record == succeeded("t", value)
