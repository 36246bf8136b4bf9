"""The books of what an orchestrator holds, against their rule written out naively."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.tasks.results.result_budget import NEEDED, RESULT, SUMMARY, ResultBudget, summary_of
from tests.support.working import work_s


def test_far_from_the_limit_everything_is_held() -> None:
    store = ResultBudget(100)
    store.pin("goal", 10)
    store.put("a", 70, RESULT)

    assert not store.excess()
    assert store.evict() == []
    assert store.tokens == 80


def test_above_eighty_percent_the_least_important_goes_first() -> None:
    store = ResultBudget(100)
    store.put("needed", 30, NEEDED)
    store.put("result", 30, RESULT)
    store.put("summary", 30, SUMMARY)
    was_over = store.excess()

    assert was_over
    assert store.evict() == ["result"]
    assert store.tokens == 60
    assert not store.excess()


def test_among_equals_the_one_held_longest_goes_first() -> None:
    store = ResultBudget(100)
    for name in ("c", "a", "b"):
        store.put(name, 30, RESULT)

    assert store.evict() == ["c"]


def test_no_more_goes_than_is_necessary() -> None:
    store = ResultBudget(100)
    for name in "abcdefghi":
        store.put(name, 10, RESULT)

    assert store.evict() == ["a"]
    assert len(store) == 8


def test_what_is_pinned_stays_even_where_it_alone_is_too_much() -> None:
    store = ResultBudget(100)
    store.pin("goal", 500)
    store.put("needed", 10, NEEDED)

    assert store.evict() == ["needed"]
    assert store.evict() == []
    assert store.excess()
    assert "goal" in store


def test_what_a_dependant_still_needs_goes_last_but_before_what_is_pinned() -> None:
    store = ResultBudget(100)
    store.pin("goal", 50)
    store.put("needed", 40, NEEDED)
    store.put("summary", 20, SUMMARY)
    store.put("result", 20, RESULT)

    assert store.evict() == ["result", "summary", "needed"]


def test_a_result_that_nobody_needs_any_more_goes_sooner() -> None:
    store = ResultBudget(100)
    store.put("old", 40, NEEDED)
    store.put("done", 40, NEEDED)
    store.importance("done", RESULT)
    store.put("new", 40, NEEDED)

    assert store.evict() == ["done"]


def test_a_changed_importance_holds_also_once_something_had_to_go() -> None:
    store = ResultBudget(100)
    for name in "abc":
        store.put(name, 40, NEEDED)
    store.evict()
    store.importance("c", RESULT)
    store.importance("b", 0.1)
    store.importance("b", NEEDED)
    store.put("d", 40, NEEDED)

    assert store.evict() == ["c"]


def test_putting_again_replaces_and_makes_it_the_youngest() -> None:
    store = ResultBudget(100)
    store.put("a", 10, RESULT)
    store.put("b", 40, RESULT)
    store.put("a", 45, RESULT)
    held = store.tokens

    assert held == 85
    assert store.evict() == ["b"]


def test_what_was_held_before_it_was_put_again_or_pinned_is_forgotten() -> None:
    store = ResultBudget(100)
    for name in ("gone", "a", "b", "c"):
        store.put(name, 25, RESULT)
    store.evict()
    store.put("a", 25, RESULT)
    store.pin("b", 25)
    store.put("d", 25, RESULT)

    assert store.evict() == ["c"]


def test_a_new_plan_takes_the_place_of_the_old_one_and_stays_pinned() -> None:
    store = ResultBudget(100)
    store.pin("plan", 90)
    store.pin("plan", 30)
    store.put("plan", 85, RESULT)
    store.importance("plan", 0.0)

    assert store.tokens == 85
    assert store.evict() == []


def test_what_is_dropped_is_not_counted_any_more_and_need_not_be_there() -> None:
    store = ResultBudget(100)
    store.pin("goal", 10)
    store.put("a", 80, RESULT)
    store.drop("a")
    store.drop("goal")
    store.drop("never held")
    store.importance("never held", NEEDED)

    assert (store.tokens, len(store)) == (0, 0)
    assert store.evict() == []


def test_what_is_worth_nothing_does_not_go_because_that_would_help_nobody() -> None:
    store = ResultBudget(100)
    store.put("empty", 0, 0.0)
    store.put("below zero", -50, 0.0)
    store.put("large", 90, NEEDED)
    held = store.tokens
    first = store.evict()
    store.put("empty", 0, 0.1)
    store.put("larger", 91, NEEDED)

    assert held == 90
    assert first == ["large"]
    assert store.evict() == ["larger"]


NAMES = st.sampled_from("abcdef")
TOKENS = st.integers(-1, 60)
IMPORTANCE = st.sampled_from([RESULT, SUMMARY, NEEDED])
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES, TOKENS, IMPORTANCE),
    st.tuples(st.just("put"), NAMES, TOKENS, IMPORTANCE),
    st.tuples(st.just("pin"), NAMES, st.integers(0, 20)),
    st.tuples(st.just("importance"), NAMES, IMPORTANCE),
    st.tuples(st.just("drop"), NAMES),
    st.tuples(st.just("evict")),
)


class _Model:
    """Rows of name, tokens, importance, pinned; the oldest first."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, float, bool]] = []

    def _take(self, name: str) -> tuple[str, int, float, bool] | None:
        found = next((row for row in self.rows if row[0] == name), None)
        self.rows = [row for row in self.rows if row[0] != name]
        return found

    def put(self, name: str, tokens: int, importance: float) -> None:
        before = self._take(name)
        self.rows.append((name, max(0, tokens), importance, before is not None and before[3]))

    def pin(self, name: str, tokens: int) -> None:
        self._take(name)
        self.rows.append((name, tokens, 1.0, True))

    def importance(self, name: str, value: float) -> None:
        self.rows = [(n, t, value if n == name else i, p) for n, t, i, p in self.rows]

    def drop(self, name: str) -> None:
        self._take(name)

    def evict(self) -> list[str]:
        gone: list[str] = []
        while sum(row[1] for row in self.rows) > 80:
            free = [row for row in self.rows if not row[3] and row[1]]
            if not free:
                break
            gone.append(min(free, key=lambda row: row[2])[0])
            self.drop(gone[-1])
        return gone


@given(st.lists(STEPS, max_size=60))
def test_any_steps_let_go_the_least_important_first_until_it_fits_or_the_rest_is_pinned(
    steps: list[tuple[object, ...]],
) -> None:
    store, model = ResultBudget(100), _Model()
    for name, *arguments in [*steps, ("evict",)]:
        told, expected = (getattr(each, str(name))(*arguments) for each in (store, model))

        assert told == expected
        assert store.tokens == sum(row[1] for row in model.rows)
        assert all(row[0] in store for row in model.rows)
        assert len(store) == len(model.rows)
    assert store.tokens <= 80 or all(row[3] for row in model.rows if row[1])


def test_the_queue_does_not_grow_with_what_is_outdated() -> None:
    store = ResultBudget(100)
    longest = 0
    for number in range(5_000):
        store.put(f"{number % 7}", 15, RESULT)
        store.importance(f"{number % 7}", number % 10 / 10)
        store.evict()

        assert not store.excess()
        longest = max(longest, len(store._queue or ()))

    assert longest <= 2 * 7 + 64 + 1


def test_nothing_is_lost_when_a_queue_of_outdated_entries_is_given_up() -> None:
    store = ResultBudget(100)
    for name in "abc":
        store.put(name, 40, NEEDED)
    first = store.evict()
    for number in range(1_000):
        store.importance("c", 0.1 / (number + 1))
    store.put("d", 40, RESULT)
    store.put("e", 40, RESULT)

    assert first == ["a"]
    assert store.evict() == ["c", "d"]


def test_a_put_far_from_the_limit_makes_no_queue() -> None:
    store = ResultBudget(1_000_000)
    for number in range(1_000):
        store.put(str(number), 100, RESULT)
        store.evict()

    assert store._queue is None


def test_thousands_of_subtasks_at_the_limit_cost_about_the_same_each() -> None:
    def seconds(subtasks: int) -> float:
        def run() -> None:
            store = ResultBudget(subtasks * 5)
            for number in range(subtasks):
                store.put(str(number), 10, RESULT)
                store.evict()

        return work_s(run) / subtasks

    assert seconds(20_000) < 8 * seconds(500)


class Odd:
    pass


@pytest.mark.parametrize(
    ("value", "summary"),
    [
        ("short", "short"),
        ("  two \n\n lines ", "two lines"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (12, "12"),
        (0.5, "0.5"),
        ([], "[]"),
        ({"a": [1, "b", None], "c": {}}, '{"a": [1, "b", null], "c": {}}'),
        (("a", 1), '["a", 1]'),
        ({"naïve": "größer"}, '{"naïve": "größer"}'),
        ([Odd()], "[<Odd>]"),
    ],
)
def test_what_is_short_is_its_own_summary(value: object, summary: str) -> None:
    assert summary_of(value) == summary


def test_a_number_too_long_to_be_written_is_named() -> None:
    assert summary_of([10**5_000]) == "[<a number of thousands of digits>]"


def test_what_is_long_is_cut_and_says_so() -> None:
    assert summary_of("one two three four", 8) == "one two…"
    assert summary_of("one two three four", 5) == "one…"
    assert summary_of([1, 2, 3, 4, 5, 6], 9) == "[1, 2, 3…"
    assert summary_of({"text": "x" * 1_000}, 20) == '{"text": "xxxxxxxxx…'
    assert summary_of("long", 1) == "…"
    assert summary_of("long", 0) == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.slow
@given(JSON, st.integers(0, 60))
def test_a_summary_is_never_longer_than_it_may_be_and_whole_where_it_fits(value: object, limit: int) -> None:
    summary = summary_of(value, limit)
    whole = " ".join(value.split()) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    assert len(summary) <= limit
    assert summary == whole or (summary.endswith("…") and whole.startswith(summary[:-1])) or limit == 0


def test_a_summary_looks_at_no_more_than_it_shows() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    large = [{"text": "x" * 10_000_000, "more": list(range(100_000))}] * 100

    assert summary_of(deep, 50) == "[" * 49 + "…"
    assert work_s(lambda: summary_of(large)) < 0.05
