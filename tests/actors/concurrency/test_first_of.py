"""The first store in an empty field: others come in between any two instructions, and all go on with one value."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from actors.concurrency import shared_fields
from actors.concurrency.shared_fields import first_of


class Field:
    """An object with an empty field."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: object = None


def interrupted(at: int, by: Callable[[], object], run: Callable[[], object]) -> tuple[object, int]:
    """Run it, and ``by`` before its ``at``-th instruction, as a finalizer or another thread; how many it has."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if frame.f_code is not first_of.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == at:
                before = sys.gettrace()
                sys.settrace(None)
                by()
                sys.settrace(before)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return run(), count
    finally:
        sys.settrace(before)


def fills(field: Field, found: list[object], value: object) -> Callable[[], object]:
    def fill() -> object:
        found.append(first_of(field, "value", value))
        return found[-1]

    return fill


def test_whoever_comes_between_two_instructions_all_have_the_one_value_that_is_kept() -> None:
    at, last = 0, 1
    while at < last:
        at += 1
        field, found = Field(), list[object]()
        _, last = interrupted(at, fills(field, found, "other"), fills(field, found, "own"))

        assert found == [field.value, field.value], at
        assert not shared_fields._OFFERS
    assert last > 20


@pytest.mark.parametrize("second", range(1, 60, 2))
def test_also_where_the_one_who_comes_in_between_is_interrupted_itself(second: int) -> None:
    at, last = 0, 1
    while at < last:
        at += 1
        field, found = Field(), list[object]()

        def other(field: Field = field, found: list[object] = found) -> None:
            interrupted(second, fills(field, found, "third"), fills(field, found, "other"))

        _, last = interrupted(at, other, fills(field, found, "own"))

        assert set(found) == {field.value}, (at, second)
        assert not shared_fields._OFFERS


def test_an_offer_that_an_exception_of_a_signal_handler_has_left_is_of_its_object_still() -> None:
    def interrupts() -> None:
        raise KeyboardInterrupt

    at, last = 0, 1
    while at < last:
        at += 1
        field, found = Field(), list[object]()
        try:
            _, last = interrupted(at, interrupts, fills(field, found, "first"))
        except KeyboardInterrupt:
            last = at + 1
        finally:
            sys.settrace(None)

        assert first_of(field, "value", "second") == field.value
        assert first_of(Field(), "value", "of another") == "of another"
        assert not shared_fields._OFFERS
