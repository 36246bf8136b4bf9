"""What would not be read back as it was written is refused at its door: results, steps, inputs, states, answers."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from actors import ConfigError, Escalated
from actors.tasks.journal.codec import from_json, to_json
from actors.tasks.model.outcome import plain_text
from actors.validation.json_form import LostInJsonError, json_form, json_form_as
from tests.tasks.one_subtask import one, report_of
from trees import Edit, Escalate, EscalationError, EscalationRaised, StaticPlan, Subtask, Task, start

HALVES = "\ud83d\ude00"


class One(enum.Enum):
    ONE = 1


class Word(str):
    """A text with a word of its own for what is equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = str.__hash__


class Pages(BaseModel):
    by: dict[int | str, int] = {}
    first: int = Field(1, serialization_alias="same")
    second: int = Field(2, serialization_alias="other")


class Aliased(BaseModel):
    first: int = Field(1, serialization_alias="same")
    second: int = Field(2, serialization_alias="same")


@dataclasses.dataclass
class Kept:
    by: Any


LOST: list[tuple[str, Callable[[], Any]]] = [
    ("a number and its text", lambda: {1: 2, "1": 3}),
    ("True and its text", lambda: {True: 1, "true": 2}),
    ("None and its text", lambda: {None: 1, "None": 2}),
    ("a float and its text", lambda: {1.5: 1, "1.5": 2}),
    ("an enum and its value", lambda: {One.ONE: 1, 1: 2}),
    ("two tuples", lambda: {("1,2",): 1, ("1", "2"): 2}),
    ("bytes and their text", lambda: {b"a": 1, "a": 2}),
    ("a date and its text", lambda: {dt.date(2020, 1, 2): 1, "2020-01-02": 2}),
    ("two texts of a class of their own", lambda: {Word("a"): 1, Word("a"): 2}),
    ("deep within lists and tuples", lambda: [({"x": ({1: 2, "1": 3},)},)]),
    ("beside half a character", lambda: ("\udc80", {1: 2, "1": 3})),
    ("in a dict of another class", lambda: OrderedDict({1: 2, "1": 3})),
    ("in a dataclass", lambda: Kept({1: 2, "1": 3})),
    ("in a model", lambda: Pages(by={1: 2, "1": 3})),
    ("two fields of one name", Aliased),
    ("two halves of a character", lambda: HALVES),
    ("two halves of a character in a list", lambda: [HALVES]),
    ("two halves of a character in a dataclass", lambda: Kept(HALVES)),
]
KEPT: list[tuple[str, Callable[[], Any]]] = [
    ("numbers as keys", lambda: {1: 2, 2: 3}),
    ("None, which JSON has, and what it has not", lambda: [None, float("inf"), -0.0, 10**400]),
    ("half a character", lambda: {"x": ("\udc80", "\ud83dx\ude00")}),
    ("half a character in a dataclass", lambda: Kept("\udc80")),
    ("a count", lambda: Counter("aab")),
    ("a model", lambda: Pages(by={1: 2, "x": 3})),
    ("numbers with more digits than Python reads at once", lambda: Kept(10**400)),
    ("a generator", lambda: [(each for each in "ab"), Kept(1)]),
]


def of(rows: list[tuple[str, Callable[[], Any]]]) -> Any:
    return pytest.mark.parametrize("make", [make for _, make in rows], ids=[name for name, _ in rows])


@of(LOST)
def test_what_json_would_lose_is_refused_and_its_error_shows_nothing_of_it(make: Callable[[], Any]) -> None:
    with pytest.raises(LostInJsonError, match=r"two keys|two halves") as caught:
        json_form(make())

    assert HALVES not in str(caught.value)


@of(KEPT)
def test_what_is_kept_is_read_back_as_it_was_given_to_others(make: Callable[[], Any]) -> None:
    form = json_form(make())

    assert repr(from_json(to_json(form))) == repr(form)


def test_an_adapter_loses_no_key_either() -> None:
    adapter = TypeAdapter(dict[int | str, int])

    assert json_form_as(adapter, {1: 2}) == {"1": 2}
    with pytest.raises(LostInJsonError, match="two keys"):
        json_form_as(adapter, {1: 2, "1": 3})
    assert json_form_as(TypeAdapter(Aliased), Aliased()) == {"first": 1, "second": 2}, "it writes names"


def test_the_text_of_an_error_with_two_halves_is_the_one_character_before_it_is_written_and_after() -> None:
    said = plain_text(ValueError(f"{HALVES} and \udc80"))

    assert (said, from_json(to_json(said))) == ("\U0001f600 and \udc80",) * 2


# -- every door ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", [None, dict[int | str, int], Pages])
def test_a_result_that_would_lose_a_key_is_a_failed_attempt_that_says_so(output: Any) -> None:
    lost = Pages(by={1: 2, "1": 3}) if output is Pages else {1: 2, "1": 3}
    given = {} if output is None else {"output": output}
    report = report_of(one(lambda task, context: lost, **given))

    assert "two keys that are the same key in JSON" in report.failed["a"]


@pytest.mark.parametrize("text", [HALVES, "ä" * 200_000 + HALVES])
def test_a_text_that_would_be_read_as_another_one_is_a_failed_attempt_that_says_so(text: str) -> None:
    async def on_loop(task: Any, context: Any) -> Any:
        return text

    for execute in (lambda task, context: text, on_loop):
        assert "two halves of a character" in report_of(one(execute)).failed["a"]


def test_a_long_text_of_whole_characters_is_kept_as_it_is() -> None:
    text = "\U0001f600" * 200_000

    assert report_of(one(lambda task, context: text)).results == {"a": text}


def test_a_step_whose_result_would_lose_a_key_is_recorded_as_nothing_and_says_so() -> None:
    async def work(task: Any, context: Any) -> Any:
        return await context.step("look", lambda: {1: 2, "1": 3})

    said = report_of(one(work)).failed["a"]

    assert "the result of step 'look': a dict with two keys" in said
    assert "Use texts for keys" in said


@pytest.mark.parametrize(
    "make",
    [
        lambda lost: Task("go", inputs=lost),
        lambda lost: Task("go", metadata={"x": lost}),
        lambda lost: Subtask("a", inputs=lost),
        lambda lost: StaticPlan([Subtask("a", inputs={"x": (lost,)})]),
    ],
)
def test_inputs_and_metadata_that_would_lose_a_key_are_refused_where_they_are_given(make: Any) -> None:
    with pytest.raises(ConfigError, match=r"two keys that are the same key in JSON.*Use texts for keys"):
        make({1: 2, "1": 3})


def test_an_answer_that_would_lose_a_key_is_refused_and_the_question_stays_open() -> None:
    def work(task: Any, context: Any) -> Any:
        raise Escalated("which?", state={1: 2})

    with start(one(work, on_failure=[Escalate()])) as tree:
        handle = tree.submit("ask")
        assert any(isinstance(event, EscalationRaised) for event in handle.events())
        [question] = handle.escalations
        with pytest.raises(EscalationError, match="two keys"):
            handle.respond(question.id, Edit({1: 2, "1": 3}))

        assert [each.id for each in handle.escalations] == [question.id]
        handle.cancel()


def test_a_state_that_would_lose_a_key_is_a_failed_attempt_that_says_so() -> None:
    def work(task: Any, context: Any) -> Any:
        raise Escalated("which?", state={1: 2, "1": 3})

    assert "two keys that are the same key in JSON" in report_of(one(work)).failed["a"]
