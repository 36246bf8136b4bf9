"""The first store in an empty field: others come in between any two instructions, and all go on with one value."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from actors.concurrency import shared_fields
from actors.concurrency.shared_fields import first_of
from tests.support.hardening import in_thread
from tests.support.steps import alarm, at_step, rounds

pytestmark = [
    pytest.mark.own_thread,
    pytest.mark.skipif(
        sys.version_info[:2] == (3, 12),
        reason="CPython 3.12 traces no instruction of the first call, and dies where two threads trace at a time",
    ),
]

HERE = {shared_fields.__file__}


class Field:
    """An object with an empty field."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: object = None


class Filling:
    """Threads that fill one field, and what each of them found in it."""

    def __init__(self) -> None:
        self.field = Field()
        self.found: dict[str, object] = {}

    def by(self, name: str) -> Callable[[], None]:
        """One of them."""

        def fill() -> None:
            self.found[name] = first_of(self.field, "value", name)

        return fill

    def check(self, *names: str) -> None:
        """All of them have the value that is kept, and nothing is left over."""
        assert self.found == dict.fromkeys(names, self.field.value)
        assert not shared_fields._OFFERS


def test_whoever_comes_between_two_instructions_all_have_the_one_value_that_is_kept() -> None:
    number, steps = 0, [1]
    while steps[0] > number:
        number += 1
        filling = Filling()
        with at_step(number, filling.by("other"), HERE) as steps:
            filling.by("own")()
        filling.check("own", *(["other"] if steps[0] >= number else []))

    assert number > 20


def test_also_where_the_one_who_comes_in_between_is_interrupted_itself() -> None:
    """The other one on a thread of its own: what runs in a trace function is not traced on that thread."""
    pairs, number, steps = 0, 0, [1]
    while steps[0] > number:
        number += 1
        second, inner = 0, [1]
        while inner[0] > second:
            second += 1
            filling = Filling()

            def other(filling: Filling = filling, second: int = second) -> list[int]:
                with at_step(second, filling.by("third"), HERE) as steps:
                    filling.by("other")()
                return steps

            reached: list[list[int]] = []
            with at_step(number, lambda: reached.append(in_thread(other)()), HERE) as steps:  # noqa: B023 - called in the block
                filling.by("own")()
            inner = reached[0] if reached else [0]
            filling.check("own", *(["other"] if reached else []), *(["third"] if inner[0] >= second else []))
            pairs += inner[0] >= second

    assert pairs > 20 * 20


def test_an_offer_that_an_exception_of_a_signal_handler_has_left_is_of_its_object_still() -> None:
    fields: list[Field] = [Field()]
    left = 0

    def again() -> None:
        nonlocal left
        left += bool(shared_fields._OFFERS)
        assert first_of(Field(), "value", "of another") == "of another"
        assert first_of(fields[-1], "value", "second") == fields[-1].value
        assert not shared_fields._OFFERS
        fields.append(Field())

    assert rounds(alarm, HERE, again, lambda: first_of(fields[-1], "value", "first")) > 20
    assert left > 0
