"""Every kind of record, with everything that may be in one: what was written down is read as what it was."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sys
from collections.abc import Callable
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine

from actors import Event, Problem
from actors.model.event_dict import kept_fields
from actors.tasks.journal import codec
from actors.tasks.journal.codec import decode, encode, encode_apart, joined, to_json
from actors.tasks.model import shared_values, task_events
from tests.support.event_kinds import JOURNALLED_KINDS
from tests.trees.store.stores import ended, succeeded
from trees import Budget, Plan, StoreError, Subtask, SubtaskStatus, Task, TaskStatus, Usage
from trees.store import batches, large_values, record_reader
from trees.store.batches import LARGE, Batch, Change, ChangeKind
from trees.store.schema import metadata

_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def _without_pairs(text: str) -> str:
    """Two halves side by side are read as one character: written.py says so, and a test below."""
    return _PAIR.sub("", text)


anything = st.text(st.characters(exclude_categories=()), max_size=8).map(_without_pairs)
plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
words = plain.filter(bool)
numbers = st.floats() | st.integers() | st.integers().map(lambda n: n * 10**5000)


def _json(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | numbers | anything,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=8,
    )


values = _json(anything)
inputs = st.dictionaries(plain, _json(plain), max_size=3)  # pydantic takes no half character in a key
ids = st.from_regex(r"[A-Za-z0-9_.-]{1,8}", fullmatch=True)
seconds = st.floats(0, 1e6)
usages = st.builds(Usage, tokens=st.integers(0, 10**18), cost=seconds, seconds=seconds)
budgets = st.builds(Budget, tokens=st.none() | st.integers(0), cost=st.none() | seconds)
tasks = st.builds(
    Task, goal=words, inputs=inputs, priority=st.integers(), deadline_s=st.none() | st.just(2.5), budget=budgets, id=ids
)
subtasks = st.builds(Subtask, id=ids, instruction=plain, inputs=inputs, depends_on=st.lists(ids), budget=budgets)
plans = st.builds(Plan, subtasks=st.lists(subtasks, max_size=3))

BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: anything,
    int: st.integers(),
    float: st.floats(),
    bool: st.booleans(),
    Any: values,
    Task: tasks,
    Subtask: subtasks,
    Plan: plans,
    Usage: usages,
    TaskStatus: st.sampled_from(TaskStatus),
    SubtaskStatus: st.sampled_from(SubtaskStatus),
    dict[str, str]: st.dictionaries(anything, anything, max_size=3),
    tuple[str, ...]: st.lists(anything, max_size=3).map(tuple),
    tuple[float, ...]: st.lists(st.floats(), max_size=3).map(tuple),
    tuple[tuple[float, ...], ...]: st.lists(st.lists(st.floats(), max_size=3).map(tuple), max_size=3).map(tuple),
    tuple[Problem, ...]: st.lists(st.builds(Problem, anything, anything, anything), max_size=2).map(tuple),
    str | None: st.none() | anything,
    int | None: st.none() | st.integers(),
    float | None: st.none() | st.floats(),
    tuple[str, ...] | None: st.none() | st.lists(anything, max_size=3).map(tuple),
}


def built(cls: type[Any]) -> st.SearchStrategy[Any]:
    """Records of a kind, with anything in each of their fields."""
    hints = get_type_hints(cls)
    given_ = {field.name: BY_TYPE[hints[field.name]] for field in kept_fields(cls)}
    return st.builds(cls, **given_)


BY_TYPE[task_events.LadderPosition] = built(task_events.LadderPosition)
records = st.one_of([built(kind) for kind in JOURNALLED_KINDS])


def same(left: Any, right: Any) -> bool:  # noqa: PLR0911 - a table
    """Equal, and of the same type, all the way down; NaN is the same as NaN."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (Task, Subtask, Plan, Usage, Budget)):
        return left.model_fields_set == right.model_fields_set and same(vars(left), vars(right))
    if dataclasses.is_dataclass(left):
        return all(same(getattr(left, each.name), getattr(right, each.name)) for each in kept_fields(type(left)))
    return bool(left == right)


@settings(max_examples=60, deadline=None)
@given(records)
def test_any_record_is_read_as_it_was_written(record: Event) -> None:
    kind, text = encode(record)
    _, body, parts = encode_apart(record)
    large = None if parts is None else "".join(parts)

    assert text.isascii()
    assert "\0" not in text
    assert same(decode(kind, text), record)
    assert same(decode(kind, body, large), record)
    assert large is None or same(decode(kind, joined(record, body, large)), record)


keyed = st.dictionaries(anything | st.integers() | st.none() | st.booleans(), values, max_size=3)


@settings(max_examples=60, deadline=None)
@given(values | keyed | st.lists(keyed), st.integers(1, 6), st.integers(1, 12), st.integers(0, 4))
def test_what_is_made_text_in_parts_is_the_same_text(value: Any, nodes: int, chars: int, depth: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shared_values, "SMALL_NODES", nodes)
        patched.setattr(shared_values, "SMALL_CHARS", chars)
        patched.setattr(codec, "SMALL_CHARS", chars)
        patched.setattr(codec, "_DEPTH", depth)
        parts = list(codec.texts(value))

    assert "".join(parts) == to_json(value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    [
        "x" * 3_000_000,
        "\u4e2d" * 1_000_000,
        list(range(300_000)),
        {str(n): {"a": [n, "b" * 9]} for n in range(50_000)},
        [["y" * 400_000] * 3] * 3,
        Task("go", inputs={"a": "z" * 3_000_000}),
    ],
    ids=["text", "characters", "numbers", "dicts", "nested", "model"],
)
def test_no_part_of_a_large_value_is_large(value: Any) -> None:
    """What makes a text or looks at it is one call of C, which holds up every other thread of the process."""
    parts = list(codec.texts(value))

    assert "".join(parts) == to_json(value)
    assert max(map(len, parts)) < 20 * shared_values.SMALL_CHARS
    assert len(parts) < 10 * len("".join(parts)) / shared_values.SMALL_CHARS + 10


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("abc", max_size=20)), st.integers(1, 7))
def test_pieces_are_cut_at_the_same_places_however_the_text_comes(parts: list[str], size: int) -> None:
    """A value has one set of rows: a process of an older version may have written some of them."""
    whole = "".join(parts)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(large_values, "PIECE", size)
        pieces = list(large_values._cut(parts))

    assert pieces == ([whole[at : at + size] for at in range(0, len(whole), size)] or [""])


@pytest.mark.parametrize("kind", JOURNALLED_KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_can_be_made_with_anything_in_it(kind: type[Event]) -> None:
    """So the test above tries them all: a new field of a type that it does not know fails here."""
    assert built(kind).is_empty is False


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(records, min_size=1, max_size=5))
def test_any_records_are_read_from_a_database_as_they_were_written(written: list[Event]) -> None:
    engine = create_engine("sqlite://")
    batch = Batch("p")
    changes = [Change(ChangeKind.CREATED, "t", number=1, owner="p", record=written[0])]
    changes += [Change(ChangeKind.ADDED, "t", number=n, record=record) for n, record in enumerate(written[1:], 1)]
    batch.fill(changes)
    assert batch.refused == []
    with engine.begin() as connection:
        metadata.create_all(connection)
        batch.write(connection)
        batch.write(connection)  # as after a commit of which nobody heard whether it came through
        found = record_reader.read(connection, "p", "t")
    engine.dispose()

    assert same(found, written)


def test_two_halves_side_by_side_are_one_character_when_they_are_read() -> None:
    record = succeeded("t", "\ud83d" + "\ude00")

    found: Any = decode(*encode(record))

    assert found.value == "😀"


def test_what_is_like_its_default_takes_no_room() -> None:
    _, text = encode(succeeded("t", None))

    assert set(json.loads(text)) == {"path", "task", "at", "subtask", "worker", "attempt", "value"}


def test_a_number_of_any_size_is_written_whatever_limit_python_has() -> None:
    number = 3**200_000
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        found: Any = decode(*encode(succeeded("t", [number, {"deep": (-number, "a")}])))
    finally:
        sys.set_int_max_str_digits(before)

    assert found.value == [number, {"deep": [-number, "a"]}]


def test_a_value_that_a_subscriber_changes_while_it_is_written_is_tried_again() -> None:
    class Changing(dict[str, Any]):
        tries = 0

        def items(self) -> Any:
            Changing.tries += 1
            if Changing.tries == 1:
                raise RuntimeError("dictionary changed size during iteration")
            return super().items()

    change = Change(ChangeKind.ADDED, "t", number=1, record=succeeded("t", Changing(a=1)))

    batch = Batch("p")
    batch.fill([change])

    assert batch.refused == []
    assert Changing.tries > 1


def test_the_last_record_of_a_stream_that_ends_is_made_text_once() -> None:
    last, other = ended("t"), succeeded("t", 1)
    added = Change(ChangeKind.ADDED, "t", number=1, record=last)
    over = Change(ChangeKind.FINISHED, "t", record=last, at=4.5)
    elsewhere = Change(ChangeKind.FINISHED, "u", record=last, at=4.5)
    of_another = Change(ChangeKind.FINISHED, "v", record=last, at=4.5)

    Batch("p").fill([added, over, elsewhere, Change(ChangeKind.ADDED, "v", number=1, record=other), of_another])

    assert over.text is added.text
    assert elsewhere.text == of_another.text == added.text
    assert elsewhere.text is not added.text


def test_a_record_that_cannot_be_written_is_told_and_ends_the_batch_so_that_nothing_of_its_stream_follows() -> None:
    batch = Batch("p")
    values = [1, object(), 3]
    changes = [Change(ChangeKind.ADDED, "t", number=n, record=succeeded("t", value)) for n, value in enumerate(values)]

    batch.fill(changes)

    ((change, error),) = batch.refused
    assert change is changes[1]
    assert "object" in str(error)
    assert batch.size == 2


def test_a_batch_ends_where_it_is_large_enough() -> None:
    size = batches.BATCH_CHARACTERS // 3
    changes = [Change(ChangeKind.ADDED, "t", number=n, record=succeeded("t", f"{n}" * size)) for n in range(8)]
    batch = Batch("p")

    batch.fill(changes)

    assert 1 < batch.size < 8


def test_a_large_value_is_kept_once_for_all_who_have_it() -> None:
    large = "x" * LARGE
    engine = create_engine("sqlite://")
    batch = Batch("p")
    batch.fill([Change(ChangeKind.ADDED, "t", number=n, record=succeeded("t", large)) for n in range(3)])
    with engine.begin() as connection:
        metadata.create_all(connection)
        batch.write(connection)
        kept = connection.exec_driver_sql("SELECT count(*), max(length(body)) FROM regrow_large").one()
        longest = connection.exec_driver_sql("SELECT max(length(body)) FROM regrow_records").scalar()
        found: Any = record_reader.read(connection, "p", "t")
    engine.dispose()

    assert tuple(kept) == (1, LARGE + 2)
    assert longest is not None
    assert longest < 200
    assert [record.value for record in found] == [large] * 3


WRONG: list[tuple[str, Callable[[], tuple[str, str]], str]] = [
    ("a kind that is not known", lambda: ("TaskTeleported", "{}"), "'TaskTeleported'"),
    ("no JSON", lambda: ("TaskFinished", "{"), "TaskFinished"),
    ("a list", lambda: ("TaskFinished", "[]"), "TaskFinished"),
    ("a field that is missing", lambda: ("TaskFinished", '{"path":"p"}'), "TaskFinished"),
    ("a field that is not known", lambda: _changed(new=1), "TaskFinished"),
    ("a field of another type", lambda: _changed(at="soon"), "TaskFinished"),
    ("a status that is not known", lambda: _changed(status="levitating"), "TaskFinished"),
    ("a task that is none", lambda: ("TaskSubmitted", '{"path":"p","task":"t","at":1.0,"spec":{"secret":1}}'), "Task"),
]


def _changed(**fields: Any) -> tuple[str, str]:
    record = task_events.TaskFinished("p", "t", 1.0, TaskStatus.FAILED)
    kind, text = encode(record)
    return kind, json.dumps(json.loads(text) | fields)


@pytest.mark.parametrize(("name", "make", "said"), WRONG, ids=[name for name, _, _ in WRONG])
def test_what_is_no_record_is_refused_by_its_kind_and_shows_nothing_of_it(
    name: str, make: Callable[[], tuple[str, str]], said: str
) -> None:
    with pytest.raises(StoreError, match=said) as caught:
        decode(*make())

    assert not re.search("secret|levitating|soon", str(caught.value))
    assert caught.value.__cause__ is None


# -- plans that are alike --------------------------------------------------------------------------------------------


def _planned(**inputs: Any) -> task_events.Planned:
    return task_events.Planned("p", "t", 1.0, Plan([Subtask("s", worker="w", inputs=inputs)]))


def _read(record: Event) -> Any:
    return decode(*encode(record))


def test_tasks_with_one_plan_share_it_when_their_journals_are_read() -> None:
    first, second = _read(_planned(of="x")), _read(_planned(of="x"))

    assert first.plan is second.plan
    assert first is not second


@pytest.mark.parametrize("other", [True, 1.0, "1"], ids=repr)
def test_plans_that_only_compare_as_equal_are_read_as_two(other: Any) -> None:
    assert type(_read(_planned(of=1)).plan.subtasks[0].inputs["of"]) is int
    assert type(_read(_planned(of=other)).plan.subtasks[0].inputs["of"]) is type(other)


def test_a_plan_that_is_refused_is_refused_each_time() -> None:
    kind, body = encode(_planned(of="x"))
    for _ in range(2):
        with pytest.raises(StoreError, match="Planned that is none"):
            decode(kind, body.replace('"worker":"w"', '"worker":7'))


def test_a_large_plan_is_not_held_for_those_to_come() -> None:
    large = _planned(of="x" * 9_000)

    assert _read(large).plan is not _read(large).plan
    assert _read(large) == large
