"""Who waits for whose capacity, on names alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.tasks.scheduling.wait_cycle import find_wait_cycle


def chain_of(ask: str, holders: dict[str, list[str] | None], waits_for: dict[str, list[str]]) -> tuple[str, ...]:
    """Asks are small letters, attempts capital ones; who is not in ``waits_for`` runs."""
    return find_wait_cycle(ask, holders.__getitem__, waits_for.get, lambda attempt: f"r/{attempt}")


def test_an_ask_that_somebody_has_room_for_is_not_hopeless() -> None:
    assert chain_of("a", {"a": None}, {}) == ()


def test_an_ask_whose_only_worker_is_busy_with_its_own_work_waits_for_that() -> None:
    assert chain_of("a", {"a": ["A"]}, {}) == ()


def test_two_that_wait_for_each_other_are_hopeless() -> None:
    holders: dict[str, list[str] | None] = {"b": ["B"], "a": ["A"]}

    assert chain_of("b", holders, {"B": ["a"], "A": ["b"]}) == ("r/B", "r/A")


def test_one_that_waits_for_itself_is_hopeless() -> None:
    assert chain_of("a", {"a": ["A"]}, {"A": ["a"]}) == ("r/A",)


def test_a_long_circle_is_found_with_everybody_in_it() -> None:
    count = 50
    holders: dict[str, list[str] | None] = {f"a{at}": [f"A{at}"] for at in range(count)}
    waits = {f"A{at}": [f"a{(at + 1) % count}"] for at in range(count)}

    assert chain_of("a0", holders, waits) == tuple(f"r/A{at}" for at in range(count))


def test_one_member_of_a_pool_that_will_be_free_is_enough() -> None:
    holders: dict[str, list[str] | None] = {"b": ["B1", "B2"], "a": ["A"]}

    assert chain_of("b", holders, {"B1": ["a"], "A": ["b"]}) == ()
    assert chain_of("b", holders, {"B1": ["a"], "B2": ["a"], "A": ["b"]}) == ("r/B1", "r/A", "r/B2")


def test_an_attempt_that_has_asked_two_and_will_hear_from_one_is_not_stuck_yet() -> None:
    holders: dict[str, list[str] | None] = {"b": ["B"], "a": ["A"], "c": None}

    assert chain_of("b", holders, {"B": ["a", "c"], "A": ["b"]}) == ()


def test_of_many_asks_of_an_attempt_the_first_that_will_be_served_ends_the_look() -> None:
    def waits(attempt: str) -> Iterator[str | None]:
        yield "b"
        yield None
        pytest.fail(f"a look at {attempt} costs more the more it has asked for")

    assert find_wait_cycle("b", {"b": ["B"]}.get, waits, str) == ()


def test_a_chain_that_ends_with_somebody_at_work_is_not_hopeless() -> None:
    holders: dict[str, list[str] | None] = {"b": ["B"], "c": ["C"], "d": ["D"]}

    assert chain_of("b", holders, {"B": ["c"], "C": ["d"]}) == ()


def test_nobody_there_is_not_a_circle() -> None:
    assert chain_of("a", {"a": []}, {}) == ()
