"""The thread that reads what all commands write: orders in which its descriptors end."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from actors.dispatch.groups.process_reader import ProcessReader
from tests.support.hardening import LONG_S, eventually


def done(reader: ProcessReader) -> None:
    """Wait until the reader has done all that it was given before."""
    event = threading.Event()
    reader.call(event.set)
    assert event.wait(LONG_S)


def test_a_descriptor_that_another_one_has_closed_in_the_same_turn_is_not_read() -> None:
    """Both are ready in one turn: whichever comes first closes the other, whose number is then somebody else's."""
    reader, called = ProcessReader(), list[str]()
    (a, to_a), (b, to_b) = os.pipe(), os.pipe()
    other = {"a": b, "b": a}
    strangers = list[int]()

    def act(name: str) -> None:
        called.append(name)
        for fd in (a, b):
            reader.forget(fd)
        os.close(other[name])
        strangers.extend(os.pipe())  # takes the number
        assert other[name] in strangers

    def begin() -> None:
        os.write(to_a, b"x")
        os.write(to_b, b"x")
        reader.watch(a, lambda: act("a"))
        reader.watch(b, lambda: act("b"))

    reader.call(begin)
    eventually(lambda: called, "a call")
    done(reader)

    assert len(called) == 1
    kept = {"a": a, "b": b}[called[0]]
    for fd in {kept, to_a, to_b, *strangers}:
        os.close(fd)


@pytest.mark.parametrize("place", ["call", "time", "descriptor"])
def test_what_one_of_them_raises_is_told_and_ends_no_other(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[Any]()
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(args.exc_value))
    reader, error, (heard, writes) = ProcessReader(), RuntimeError("a bug"), os.pipe()

    def fail() -> None:
        if place == "descriptor":
            reader.forget(heard)
        raise error

    def begin() -> None:
        if place == "time":
            reader.later(0.0, fail)
        elif place == "descriptor":
            os.write(writes, b"x")
            reader.watch(heard, fail)
        else:
            fail()

    reader.call(begin)
    eventually(lambda: told == [error], "the report")
    done(reader)
    os.close(heard)
    os.close(writes)
