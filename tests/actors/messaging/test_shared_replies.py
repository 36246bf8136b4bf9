"""A reply in the hands of two threads: whatever one sets while a collection interrupts the other is kept.

CPython 3.11 collects in the middle of an allocation, and what that runs may let any other thread go on
(actors/concurrency/shared_fields.py). Here each collection in one step on a reply does another step, as another thread.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from itertools import product
from typing import Any

import pytest

from actors.messaging.envelope import CURRENT
from actors.messaging.mailbox import Mailbox
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import enter
from actors.tasks.execution.attempt import Attempt
from tests.actors.execution.test_interrupted_instructions import a_request

MANY = 60
"""More than the instances from which a class learns its names."""


def complete(reply: Reply) -> Callable[[], bool]:
    reply.complete("done")
    return lambda: reply.outcome() == "done"


def add_callback(reply: Reply) -> Callable[[], bool]:
    called: list[int] = []
    reply.when_done(lambda: called.append(1))

    def is_kept() -> bool:
        reply.complete("by the test")
        return called == [1]

    return is_kept


def begin_to_wait(reply: Reply) -> Callable[[], bool]:
    asker = a_request("t/a")
    token = CURRENT.set(asker)
    try:
        enter(reply)
    finally:
        CURRENT.reset(token)
    return lambda: asker in reply.waiters


def begin_to_handle(reply: Reply) -> Callable[[], bool]:
    request = a_request("t/b")
    reply.handled_by = request
    return lambda: reply.handled_by is request


def mark(reply: Reply) -> Callable[[], bool]:
    reply.is_of_batch = True
    return lambda: reply.is_of_batch


HANDLES = "begins to handle it"
"""The later of two who do that has it."""
STEPS: dict[str, Callable[[Reply], Callable[[], bool]]] = {
    "completes": complete,
    "adds a callback": add_callback,
    "begins to wait": begin_to_wait,
    HANDLES: begin_to_handle,
    "marks it": mark,
}


@contextmanager
def collecting(number: int, act: Callable[[], None]) -> Iterator[list[int]]:
    """Have ``act`` done in the ``number``-th collection of the block, where an allocation may be one; how many."""
    seen, before = [0], gc.get_threshold()
    held = [{0: 0} for _ in range(200)]  # no dict is left over to be used again: a new one is allocated

    def collects(phase: str, _: Any) -> None:
        if phase == "stop":
            seen[0] += 1
            if seen[0] == number:
                act()

    gc.collect()
    gc.callbacks.append(collects)
    gc.set_threshold(1, 1_000_000, 1_000_000)
    try:
        yield seen
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(collects)
        held.clear()


@pytest.mark.parametrize(("own", "other"), [pair for pair in product(STEPS, STEPS) if pair != (HANDLES, HANDLES)])
def test_what_another_thread_does_to_a_reply_in_a_collection_is_kept(own: str, other: str) -> None:
    early = [Reply(Mailbox("t/b")) for _ in range(MANY)]
    number, seen = 0, [1]
    while seen[0] > number:
        number += 1
        reply, kept = Reply(Mailbox("t/b")), []
        with collecting(number, lambda: kept.append(Context().run(STEPS[other], reply))) as seen:  # noqa: B023 - called in the block
            kept.append(STEPS[own](reply))

        assert [is_kept() for is_kept in kept] == [True] * len(kept), number
        assert len(kept) == 2 or seen[0] < number
    assert number > 1 or sys.version_info >= (3, 12), "nothing was collected"  # later ones need not, in so few steps
    assert len(early) == MANY


@pytest.mark.parametrize("own", STEPS)
def test_a_reply_is_never_given_a_dict_of_its_own(own: str) -> None:
    for _ in range(MANY):
        reply = Reply(Mailbox("t/b"))
        STEPS[own](reply)

        assert [thing for thing in gc.get_referents(reply) if type(thing) is dict] == []


def test_an_attempt_has_all_its_fields_in_slots() -> None:
    assert {"ended_by", "stream", "used", "_timer"} <= set(Attempt.__slots__)
    assert "_value" in Reply.__slots__
