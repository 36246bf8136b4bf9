"""The suite that every store passes, whatever it is made of: ``CHECKS``, and of a durable one also ``DURABLE_CHECKS``.

A check is called with a new store, or with the medium of a durable one. It raises ``AssertionError`` where the store is
not as ``actors.tasks.journal.store`` says.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import pytest

from actors.tasks.journal.store import DurableStore, Store, StreamState
from tests.trees.store.stores import (
    OWNER,
    PATIENCE_S,
    Heard,
    ended,
    kept,
    queued,
    settled,
    submitted,
    succeeded,
)
from trees import SubtaskProgressed


@dataclass(frozen=True, slots=True)
class Medium:
    """Place in which a durable store has its records: one file, one database."""

    open: Callable[[], DurableStore]
    """Opens the store, which nobody has open."""
    leave: Callable[[str, str, dict[str, Any]], object] | None = None
    """Leaves a command as another process does: task, kind, body. None: this store takes none."""


def what_was_appended_is_read_in_its_order_from_any_place_on(store: Store) -> None:
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


def the_first_records_of_many_streams_are_found_at_once_whether_they_are_finished_or_not(store: Store) -> None:
    names = [f"t{number}" for number in range(7)]
    for number, name in enumerate(names):
        store.create(name, OWNER, submitted(name, priority=number))
        store.append(name, queued(name, 1))
    for name in names[::2]:
        store.append(name, ended(name))
        store.finish(name)
    kept(store)

    found = store.firsts([*reversed(names), "ghost"])

    assert list(found) == [*reversed(names)]
    assert found == {name: submitted(name, priority=number) for number, name in enumerate(names)}
    assert store.firsts([]) == {}


def a_stream_that_nobody_began_is_empty_and_cannot_be_appended_to(store: Store) -> None:
    assert list(store.read("ghost")) == []
    assert store.last("ghost") is None
    with pytest.raises(KeyError):
        store.append("ghost", queued("ghost"))
    assert not store.withdraw_all({"ghost"})
    store.finish("ghost")
    assert store.finished(OWNER) == []


def a_stream_is_created_once_finished_or_not(store: Store) -> None:
    assert store.create("t", OWNER, submitted("t"))
    assert not store.create("t", OWNER, submitted("t", priority=1))
    store.finish("t")
    kept(store)

    assert not store.create("t", OWNER, submitted("t", priority=2))
    assert list(store.read("t")) == [submitted("t")]


def streams_are_listed_by_owner_in_the_order_of_their_creation_until_they_are_finished(store: Store) -> None:
    for name in ("c", "a", "b"):
        store.create(name, OWNER, submitted(name))
    store.create("x", "p/team", submitted("x"))
    store.finish("a")

    assert store.streams(OWNER) == ["c", "b"]
    assert store.streams("p/team") == ["x"]
    assert store.owners() == {"c": OWNER, "b": OWNER, "x": "p/team"}
    assert store.finished(OWNER) == ["a"]
    assert store.finished("p/team") == []


def what_is_finished_can_be_read_before_that_is_kept_and_after(store: Store) -> None:
    store.create("t", OWNER, submitted("t"))
    store.append("t", ended("t"))
    store.finish("t")

    for _ in range(2):
        assert list(store.read("t")) == [submitted("t"), ended("t")]
        assert list(store.read("t", 1)) == [ended("t")]
        assert store.last("t") == ended("t")
        kept(store)


def a_stream_that_was_finished_goes_on_when_it_is_appended_to(store: Store) -> None:
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


def who_flushes_hears_in_order_and_only_of_what_is_kept(store: Store) -> None:
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


def many_threads_may_write_at_once(store: Store) -> None:
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


def a_kind_that_no_journal_can_read_back_is_refused(store: Store) -> None:
    progressed: Any = SubtaskProgressed(OWNER, "t", 1.0, "s", 0.5, "half")
    store.create("t", OWNER, submitted("t"))
    for write in (
        lambda: store.create("u", OWNER, progressed),
        lambda: store.append("t", progressed),
    ):
        with pytest.raises(TypeError, match="SubtaskProgressed is of no kind that a journal can read back"):
            write()
    kept(store)

    assert list(store.read("t")) == [submitted("t")]
    assert not store.read("u")


def it_is_told_at_once_how_a_stream_stands(store: Store) -> None:
    assert store.standing("t") is None
    store.create("t", OWNER, submitted("t"))
    assert store.standing("t") == StreamState(OWNER, "unfinished")
    store.finish("t")
    assert store.standing("t") == StreamState(OWNER, "finished")
    kept(store)
    assert store.standing("t") == StreamState(OWNER, "finished")


def what_is_withdrawn_was_never_there_and_else_it_stays(store: Store) -> None:
    store.create("t", OWNER, submitted("t"))

    gone = store.withdraw_all({"t"})

    kept(store)
    assert list(store.read("t")) == ([] if gone else [submitted("t")])
    assert store.owners() == ({} if gone else {"t": OWNER})


def what_is_removed_is_gone(store: Store) -> None:
    for name in ("t", "u"):
        store.create(name, OWNER, submitted(name))
        store.finish(name)
    kept(store)

    store.remove("t")
    kept(store)

    assert store.finished(OWNER) == ["u"]
    assert not store.read("t")
    assert store.last("t") is None
    assert store.standing("t") is None
    assert store.create("t", OWNER, submitted("t"))


# -- of a durable store --------------------------------------------------------------------------------------


def it_is_durable_by_its_type(medium: Medium) -> None:
    store = medium.open()

    assert isinstance(store, DurableStore)
    assert store.listener is None
    assert store.name


def its_records_are_there_when_it_is_opened_again(medium: Medium) -> None:
    store = medium.open()
    store.create("t", OWNER, submitted("t"))
    store.append("t", queued("t"))
    store.create("u", OWNER, submitted("u"))
    store.finish("u")
    store.close()

    again = medium.open()

    assert list(again.read("t")) == [submitted("t"), queued("t")]
    assert list(again.read("u")) == [submitted("u")]
    assert again.owners() == {"t": OWNER}
    assert again.finished(OWNER) == ["u"]


def what_is_large_comes_back_whole_from_a_stream_that_goes_on_and_from_one_that_has_ended(medium: Medium) -> None:
    written = [
        submitted("t", inputs={"small": 1, "large": ["x" * 200_000]}),
        succeeded("t", ["y" * 100_000]),
        queued("t"),
    ]
    store = medium.open()
    store.create("t", OWNER, written[0])
    for record in written[1:]:
        store.append("t", record)
    kept(store)
    assert list(store.read("t")) == written
    store.finish("t")
    kept(store)
    assert list(store.read("t")) == written
    store.close()

    again = medium.open()
    again.append("t", queued("t", 2))
    assert list(again.read("t")) == [*written, queued("t", 2)]


def its_token_grows_each_time_that_it_is_opened(medium: Medium) -> None:
    tokens = []
    for _ in range(3):
        store = medium.open()
        tokens.append(store.token)
        store.close()

    assert 0 < tokens[0] < tokens[1] < tokens[2]


def its_clock_goes_on_and_says_about_the_time(medium: Medium) -> None:
    store = medium.open()

    first, second = store.time(), store.time()

    assert first <= second < first + PATIENCE_S
    assert abs(first - time.time()) < 24 * 3600


def it_hears_of_nothing_that_nobody_has_sent(
    medium: Medium,
) -> None:
    store = medium.open()
    store.listener = heard = Heard()

    store.heard_orders().get(timeout=PATIENCE_S)

    assert heard.orders == []
    assert heard.losses == []


def a_command_of_another_process_is_heard_in_its_order_and_again_until_it_is_done(medium: Medium) -> None:
    if medium.leave is None:
        return
    store = medium.open()
    store.create("t", OWNER, submitted("t"))
    kept(store)
    store.listener = heard = Heard()
    medium.leave("t", "cancel", {"reason": "no need: é \udc80"})
    medium.leave("t", "respond", {})
    heard.wait(lambda: len(heard.orders) == 2)
    first, second = heard.orders
    assert (first.task, first.kind, first.body) == ("t", "cancel", {"reason": "no need: é \udc80"})
    assert first.id < second.id
    assert 0 <= second.at - first.at < PATIENCE_S
    store.order_done(second)
    kept(store)
    store.close()

    again = medium.open()
    again.listener = heard = Heard()
    again.heard_orders().get(timeout=PATIENCE_S)

    assert [order.id for order in heard.orders] == [first.id]
    again.order_done(first)
    kept(again)
    again.close()
    last = medium.open()
    last.listener = heard = Heard()
    last.heard_orders().get(timeout=PATIENCE_S)
    assert heard.orders == []


CHECKS: Final[tuple[Callable[[Store], None], ...]] = (
    what_was_appended_is_read_in_its_order_from_any_place_on,
    the_first_records_of_many_streams_are_found_at_once_whether_they_are_finished_or_not,
    a_stream_that_nobody_began_is_empty_and_cannot_be_appended_to,
    a_stream_is_created_once_finished_or_not,
    streams_are_listed_by_owner_in_the_order_of_their_creation_until_they_are_finished,
    what_is_finished_can_be_read_before_that_is_kept_and_after,
    a_stream_that_was_finished_goes_on_when_it_is_appended_to,
    who_flushes_hears_in_order_and_only_of_what_is_kept,
    many_threads_may_write_at_once,
    a_kind_that_no_journal_can_read_back_is_refused,
    it_is_told_at_once_how_a_stream_stands,
    what_is_withdrawn_was_never_there_and_else_it_stays,
    what_is_removed_is_gone,
)
DURABLE_CHECKS: Final[tuple[Callable[[Medium], None], ...]] = (
    a_command_of_another_process_is_heard_in_its_order_and_again_until_it_is_done,
    it_is_durable_by_its_type,
    its_records_are_there_when_it_is_opened_again,
    what_is_large_comes_back_whole_from_a_stream_that_goes_on_and_from_one_that_has_ended,
    its_token_grows_each_time_that_it_is_opened,
    its_clock_goes_on_and_says_about_the_time,
    it_hears_of_nothing_that_nobody_has_sent,
)
