"""The estimate of tokens, against counts made once with a real cl100k tokenizer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from timeit import repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.tasks.results import tokens
from actors.tasks.results.tokens import SHORT, estimate_tokens, tokens_of, tokens_of_short

DICKENS = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, "
    "it was the epoch of belief, it was the epoch of incredulity, it was the season of Light, it was the season of "
    "Darkness, it was the spring of hope, it was the winter of despair."
)
JEFFERSON = (
    "We hold these truths to be self-evident, that all men are created equal, that they are endowed by their Creator "
    "with certain unalienable Rights, that among these are Life, Liberty and the pursuit of Happiness."
)
SCRIPT = (
    "function getUserName(userId) {\n  const user = users.find((u) => u.id === userId);\n  if (!user) {\n"
    "    throw new Error(`No user ${userId}`);\n  }\n  return user.firstName + ' ' + user.lastName;\n}\n"
)
QUERY = (
    "SELECT u.id, u.name, COUNT(o.id) AS order_count\nFROM users u\nLEFT JOIN orders o ON o.user_id = u.id\n"
    "WHERE u.created_at > '2023-01-01'\nGROUP BY u.id, u.name\nHAVING COUNT(o.id) > 5\n"
    "ORDER BY order_count DESC\nLIMIT 10;\n"
)
CHINESE = (
    "当一个工作者失败时，监督者会重新启动它。任务被分解成若干子任务，每个子任务由最合适的工作者执行。"  # noqa: RUF001
    "如果结果不够好，评审者会把它退回去重新修改。"  # noqa: RUF001
)
GERMAN = (
    "Wenn ein Arbeiter ausfällt, startet ihn der Aufseher neu. Die Aufgabe wird in Teilaufgaben zerlegt, und jede wird "
    "von dem am besten geeigneten Arbeiter ausgeführt. Größere Übungen überfordern natürlich."
)
RECORDS = [
    {"id": i, "name": f"user_{i}", "email": f"u{i}@example.com", "score": i * 1.37, "tags": ["alpha", "beta"]}
    for i in range(40)
]
COUNTED = {
    "a greeting": ("Hello, world!", 4),
    "a sentence": ("The quick brown fox jumps over the lazy dog.", 10),
    "one word a hundred times": (" ".join(["hello"] * 100), 100),
    "a novel": (DICKENS, 73),
    "a declaration": (JEFFERSON, 45),
    "a function": ("def add(a, b):\n    return a + b\n", 12),
    "a loop": ("for i in range(10):\n    print(i)\n", 11),
    "a script": (SCRIPT, 51),
    "a query": (QUERY, 72),
    "records": (json.dumps(RECORDS), 1702),
    "numbers": (" ".join(str(i * 7919) for i in range(300)), 1071),
    "Chinese": (CHINESE, 66),
    "German": (GERMAN, 56),
}


@pytest.mark.parametrize("name", COUNTED)
def test_it_is_within_a_quarter_of_what_a_tokenizer_counts(name: str) -> None:
    text, counted = COUNTED[name]

    assert 0.75 * counted <= estimate_tokens(text) <= 1.25 * counted


def test_no_text_is_no_token_and_any_other_at_least_one() -> None:
    assert estimate_tokens("") == 0
    assert [estimate_tokens(text) for text in ("a", " ", "\n", ".", "7", "é", "你", "\0", "\ud800")] == [1] * 9


def test_chinese_counts_one_token_a_character() -> None:
    assert estimate_tokens("你好世界" * 5) == 20


def test_a_long_text_counts_about_as_much_as_its_parts() -> None:
    for text in (DICKENS + " ", SCRIPT, CHINESE, json.dumps(RECORDS)):
        times = 1_000_000 // len(text)

        assert estimate_tokens(text * times) == pytest.approx(estimate_tokens(text) * times, rel=0.1)


def test_a_long_text_whose_halves_differ_is_sampled_in_both() -> None:
    words, characters = "word " * 100_000, "你" * 500_000

    assert estimate_tokens(words + characters) == pytest.approx(600_000, rel=0.1)
    assert estimate_tokens(characters + words) == pytest.approx(600_000, rel=0.1)


@given(
    text=st.text(st.sampled_from("aB z.,_-({\n\r\t7é你д🎉\0"), min_size=1, max_size=30),
    times=st.integers(1, 2_000),
)
def test_repeating_a_text_once_more_never_counts_less(text: str, times: int) -> None:
    assert estimate_tokens(text * times) <= estimate_tokens(text * (times + 1))


@given(text=st.text(st.sampled_from("aB z.,_-({\n\r\t7é你д🎉\0"), max_size=60), more=st.text(max_size=8))
def test_the_beginning_of_a_text_never_counts_more_than_all_of_it(text: str, more: str) -> None:
    assert estimate_tokens(text) <= estimate_tokens(text + more)


def test_fifty_megabytes_are_estimated_without_reading_more_than_a_small_part() -> None:
    text = "The quick brown fox jumps over the lazy dog.\n" * 1_111_111
    small = text[:4096]
    whole, part = (
        min(repeat(lambda text=text: estimate_tokens(text), number=1, repeat=5, timer=time.thread_time))
        for text in (text, small)
    )

    assert estimate_tokens(text) == pytest.approx(11_111_110, rel=0.15)
    assert whole < 60 * part


@pytest.mark.parametrize("text", ["a", " ", "\n", "-", " \n", "{}", "é", "你", "\0", "aA", "🎉"])
def test_no_text_takes_more_than_linear_time(text: str) -> None:
    long = text * (100_000_000 // len(text) // 100)

    assert min(repeat(lambda: estimate_tokens(long), number=1, repeat=3)) < 0.5


def test_a_text_is_counted_as_it_is_and_any_other_value_as_json() -> None:
    assert tokens_of("x" * 10, len) == 10
    assert tokens_of({"a": [1, None, True]}, len) == len('{"a":[1,null,true]}')
    assert tokens_of("Hello, world!") == 4
    assert tokens_of(None) == 1
    assert tokens_of(RECORDS) == pytest.approx(1702, rel=0.25)


def test_what_json_does_not_know_counts_too() -> None:
    endless: list[object] = []
    endless.append(endless)

    assert tokens_of({"odd": object()}) > 0
    assert tokens_of(["\ud800"]) > 0
    assert tokens_of(endless) > 0


@pytest.mark.parametrize("wrapped", [lambda text: {"a": text}, lambda text: [text], lambda text: {"a": [{"b": text}]}])
def test_a_large_text_within_a_value_is_sampled_as_one_that_stands_alone(
    wrapped: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To make JSON of all of it is one step of C, which holds up every thread and the loop."""
    seen: list[int] = []
    make = tokens.to_json

    def noted(value: Any, **more: Any) -> bytes:
        made = make(value, **more)
        seen.append(len(made))
        return made

    monkeypatch.setattr(tokens, "to_json", noted)
    text = "some words, again and again. " * 100_000

    assert tokens_of(wrapped(text)) == pytest.approx(tokens_of(text), rel=0.01)
    assert max(seen, default=0) < 1_000


@pytest.mark.parametrize(
    ("texts", "tokens"),
    [
        ({"abcd": "", "n": "x" * 8}, 2 + 3),
        ({"a": "x" * SHORT}, 1 + SHORT // 4),
        ({"a": "x" * (SHORT + 1)}, None),
        ({"a": "x", "b": 1}, None),
        ({"a": "x", "b": None}, None),
        ({}, None),
    ],
    ids=["one for each four and for each text", "as long as may be", "one is long", "a number", "None", "nothing"],
)
def test_short_texts_are_measured_roughly_and_nothing_else_is(texts: dict[str, Any], tokens: int | None) -> None:
    assert tokens_of_short(texts) == tokens


def test_no_text_is_worth_nothing() -> None:
    assert estimate_tokens("") == 0
