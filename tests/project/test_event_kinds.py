"""The registry of events: what a class says of its kind is all that log, journal and metrics need."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from loguru import logger

import actors
import trees
from actors import ChildRestarting, Event
from actors.model.events import journalled_kind, kinds, metric_of, require_journalled
from actors.tasks.journal.codec import decode, encode
from tests.support.event_kinds import OUR_KINDS
from trees import StoreError, SubtaskEvent, SubtaskProgressed, SubtaskStarted, TaskEvent, TaskJoined
from trees.store import MemoryStore, SqlStore

SPANS = {"incarnation", "task", "attempt"}


@dataclass(frozen=True, slots=True)
class ToyTold(TaskEvent):
    """A kind of a user of the library: declared, and no table changed."""

    words: int


@dataclass(frozen=True, slots=True)
class ToyUntold(Event):
    """A kind that is not for a journal."""


@pytest.mark.parametrize("kind", OUR_KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_says_what_others_need(kind: type[Event]) -> None:
    assert kind.level in logger._core.levels  # type: ignore[attr-defined]
    assert {kind.begins, kind.ends} - {""} <= SPANS
    assert (journalled_kind(kind.__name__) is kind) == kind.journalled


@pytest.mark.parametrize(
    "kind", [each for each in OUR_KINDS if issubclass(each, TaskEvent)], ids=lambda kind: kind.__name__
)
def test_every_event_of_a_task_can_be_imported_from_trees_and_from_actors(kind: type[Event]) -> None:
    for package in (trees, actors):
        assert getattr(package, kind.__name__) is kind
        assert kind.__name__ in package.__all__


def test_kinds_are_those_that_happen_and_no_two_are_counted_by_one_name() -> None:
    assert not {Event, TaskEvent, SubtaskEvent} & set(kinds())
    assert len({metric_of(kind) for kind in OUR_KINDS}) == len(OUR_KINDS) > 50
    assert metric_of(ChildRestarting) == "child_restarting"


def test_the_table_of_events_names_each_kind_once_and_nothing_else() -> None:
    page = (Path(trees.__path__[0]) / "README.md").read_text(encoding="utf-8")
    table = re.search(r"^## Events\n.*?(^\| of \| events.*?)\n\n", page, re.MULTILINE | re.DOTALL)
    assert table is not None
    assert Counter(re.findall(r"`([A-Z]\w+)`", table[1])) == Counter(kind.__name__ for kind in OUR_KINDS)


def test_a_span_that_begins_ends() -> None:
    begin, end = {each.begins for each in OUR_KINDS} - {""}, {each.ends for each in OUR_KINDS} - {""}

    assert begin == end == SPANS


def test_a_new_kind_is_written_and_read_back_without_a_table() -> None:
    record = ToyTold("root", "t", 1.0, 3)

    assert decode(*encode(record)) == record


@pytest.mark.parametrize("record", [ToyUntold("root"), SubtaskProgressed("root", "t", 1.0, "s", 0.5, "half")])
def test_a_kind_that_is_in_no_journal_is_refused_when_it_is_to_be_written(record: Any, tmp_path: Any) -> None:
    def refused(write: Any, *args: Any) -> None:
        with pytest.raises(TypeError, match=f"{type(record).__name__} is of no kind that a journal can read back"):
            write(*args)

    refused(require_journalled, record)
    refused(encode, record)
    durable = SqlStore(f"sqlite:///{tmp_path / 's.db'}", root="root")
    durable.open()
    try:
        for store in (MemoryStore(), durable):
            assert store.create("t", "root", TaskJoined("root", "t", 1.0, (), ()))
            refused(store.create, "u", "root", record)
            refused(store.append, "t", record)
            assert [type(each) for each in store.read("t")] == [TaskJoined]
            assert not store.read("u")
            assert not store.read("@breaker:w")
    finally:
        durable.close()


def test_two_journalled_kinds_of_one_name_are_refused_when_the_second_is_declared() -> None:
    with pytest.raises(TypeError, match="know a kind of the name 'SubtaskStarted' already, that of actors"):
        type("SubtaskStarted", (TaskEvent,), {"__module__": "mine", "__qualname__": "SubtaskStarted"})

    assert journalled_kind("SubtaskStarted") is SubtaskStarted


def test_a_name_that_no_journalled_kind_has_is_refused_when_it_is_read() -> None:
    class ToyInLog(Event):
        """A kind that is not for a journal either."""

        level: ClassVar[str] = "INFO"

    assert ToyInLog in kinds()
    with pytest.raises(StoreError, match="unknown kind 'ToyInLog'"):
        decode("ToyInLog", "{}")
