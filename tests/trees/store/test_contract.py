"""What every store does, whatever it is made of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from actors.tasks.journal.store import Store
from tests.support.stores import OWNER, counted, ended, kept, queued, settled, submitted, succeeded
from trees.store import MemoryStore, open_store


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    opened: Any = open_store(request.getfixturevalue(f"{request.param}_url"), root=OWNER)
    yield opened
    opened.close()


def test_what_was_appended_is_read_in_its_order_from_any_place_on(store: Store) -> None:
    written = [submitted("t"), *(queued("t", number) for number in range(5))]

    store.create("t", OWNER, written[0])
    for record in written[1:]:
        store.append("t", record)

    assert list(store.read("t")) == written
    kept(store)
    assert list(store.read("t")) == written
    assert list(store.read("t", 4)) == written[4:]
    assert list(store.read("t", 6)) == list(store.read("t", 60)) == []
    assert store.last("t") == written[-1]


def test_a_stream_that_nobody_began_is_empty_and_cannot_be_appended_to(store: Store) -> None:
    assert list(store.read("ghost")) == []
    assert store.last("ghost") is None
    with pytest.raises(KeyError):
        store.append("ghost", queued("ghost"))
    assert not store.withdraw("ghost")
    store.finish("ghost")
    assert store.finished(OWNER) == []


def test_a_stream_is_created_once_finished_or_not(store: Store) -> None:
    assert store.create("t", OWNER, submitted("t"))
    assert not store.create("t", OWNER, submitted("t", priority=1))
    store.finish("t")
    kept(store)

    assert not store.create("t", OWNER, submitted("t", priority=2))
    assert list(store.read("t")) == [submitted("t")]


def test_streams_are_listed_by_owner_in_the_order_of_their_creation_until_they_are_finished(store: Store) -> None:
    for name in ("c", "a", "b"):
        store.create(name, OWNER, submitted(name))
    store.create("x", "p/team", submitted("x"))
    store.finish("a")

    assert store.streams(OWNER) == ["c", "b"]
    assert store.streams(OWNER, "b") == ["b"]
    assert store.streams("p/team") == ["x"]
    assert store.owners() == {"c": OWNER, "b": OWNER, "x": "p/team"}
    assert store.finished(OWNER) == ["a"]
    assert store.finished("p/team") == []


def test_what_is_finished_can_be_read_before_that_is_kept_and_after(store: Store) -> None:
    store.create("t", OWNER, submitted("t"))
    store.append("t", ended("t"))
    store.finish("t")

    for _ in range(2):
        assert list(store.read("t")) == [submitted("t"), ended("t")]
        assert list(store.read("t", 1)) == [ended("t")]
        assert store.last("t") == ended("t")
        kept(store)


def test_a_stream_that_was_finished_goes_on_when_it_is_appended_to(store: Store) -> None:
    store.create("old", OWNER, submitted("old"))
    store.create("t", OWNER, submitted("t"))
    store.finish("t")
    kept(store)

    store.append("t", queued("t"))
    store.append("t", queued("t", 1))

    assert store.streams(OWNER) == ["old", "t"]
    assert store.finished(OWNER) == []
    kept(store)
    assert list(store.read("t")) == [submitted("t"), queued("t"), queued("t", 1)]
    store.finish("t")
    kept(store)
    assert list(store.read("t", 1)) == [queued("t"), queued("t", 1)]
    assert store.finished(OWNER) == ["t"]


def test_what_is_replaced_holds_the_last_record_only_and_is_not_listed(store: Store) -> None:
    for failures in range(3):
        store.replace("@breaker:p/w", OWNER, counted(failures))
    kept(store)
    store.replace("@breaker:p/w", OWNER, counted(7))

    assert list(store.read("@breaker:p/w")) == [counted(7)]
    assert store.last("@breaker:p/w") == counted(7)
    assert store.streams(OWNER) == []
    assert store.owners() == {}


def test_who_flushes_hears_in_order_and_only_of_what_is_kept(store: Store) -> None:
    heard: list[int] = []
    for number in range(50):
        store.create(f"t{number}", OWNER, submitted(f"t{number}"))
        reply = store.flush()
        if reply is None:
            heard.append(number)
        else:
            reply.when_done(lambda number=number: heard.append(number))  # type: ignore[misc]
    settled(store)

    assert heard == list(range(50))
    assert store.flush() is None


def test_many_threads_may_write_at_once(store: Store) -> None:
    def write(thread: int) -> None:
        for number in range(20):
            name = f"t{thread}-{number}"
            assert store.create(name, OWNER, submitted(name))
            store.append(name, succeeded(name, number))
            store.finish(name)
            kept(store)
            found.append(list(store.read(name, 1)) == [succeeded(name, number)])

    found: list[bool] = []
    with ExitStack() as ending:
        for thread in range(4):
            started = threading.Thread(target=write, args=(thread,))
            started.start()
            ending.callback(started.join)

    assert found == [True] * 80
    assert store.streams(OWNER) == []
    assert len(store.finished(OWNER)) == 80


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
