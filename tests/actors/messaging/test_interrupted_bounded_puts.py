"""A put to a bounded mailbox that is cut short, or in whose middle the tree is stopped: forced at every step.

The sender holds no lock there that a worker or a supervisor may want, and no place of the mailbox is lost.
"""

from __future__ import annotations

import asyncio
import dis
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from actors import ActorsError, MailboxFullError
from actors.messaging.inbox import Inbox, Refusal
from actors.messaging.mailbox import Mailbox as Box
from actors.messaging.places import Room
from actors.messaging.pool_address import PoolAddress
from actors.messaging.ref import Ref
from actors.model.spec import MailboxLimit, Overflow
from tests.actors.messaging.test_interrupted_puts import OURS, PUT
from tests.support.hardening import LONG_S, Gate, eventually, obey, tree_of, worker
from tests.support.steps import AlarmError, alarm, at_step, rounds
from trees import Mailbox

pytestmark = pytest.mark.own_thread

FILES = PUT | {f"{OURS}/messaging/places.py"}
STOP_S = 5.0
INBOXES: dict[str, Callable[[Overflow], Any]] = {
    "mailbox": lambda overflow: Box("t/w", MailboxLimit(2, overflow)),
    "pool": lambda overflow: PoolAddress("t/p", MailboxLimit(2, overflow)),
}
OVERFLOWS = pytest.mark.parametrize("overflow", [Overflow.BLOCK, Overflow.REJECT])


def free(box: Any) -> int:
    """How many messages it takes before it is full; they are taken out again."""
    before = len(box.queue)
    while box.places.put(box.queue, (None, None, None)):
        continue
    count = len(box.queue) - before
    for _ in range(count):
        box.places.begun(box.queue.pop())
    return count


def opened(kind: str, overflow: Overflow, waiting: int) -> Any:
    box = INBOXES[kind](overflow)
    if kind == "pool":
        box.refill([Box("t/p#0", box.bounds, box)])
    for number in range(waiting):
        assert box.put((number, None, None)) is None
    return box


@OVERFLOWS
@pytest.mark.parametrize("waiting", [0, 2])
@pytest.mark.parametrize("kind", INBOXES)
def test_a_bounded_put_holds_no_lock_at_any_step(kind: str, waiting: int, overflow: Overflow) -> None:
    box = opened(kind, overflow, waiting)
    held = []

    def put() -> None:
        verdict = box.put(("message", None, None))
        if isinstance(verdict, Room):
            verdict.leave(used=False)

    def again() -> None:
        while len(box.queue) > waiting:
            box.places.begun(box.queue.pop())

    steps = rounds(lambda: held.append(box.lock._is_owned()), FILES, again, put)

    assert steps > 20
    assert set(held) == {False}


@OVERFLOWS
@pytest.mark.parametrize("waiting", [0, 1, 2])
@pytest.mark.parametrize("kind", INBOXES)
def test_an_exception_at_any_step_of_a_bounded_put_loses_no_place(kind: str, waiting: int, overflow: Overflow) -> None:
    box = opened(kind, overflow, waiting)

    def put() -> None:
        verdict = box.put(("message", None, None))
        if isinstance(verdict, Room):
            verdict.leave(used=False)

    def again() -> None:
        while len(box.queue) > waiting:
            box.places.begun(box.queue.pop())
        assert free(box) == 2 - waiting

    assert rounds(alarm, FILES, again, put) > 20


@pytest.mark.parametrize("overflow", Overflow)
def test_a_worker_with_one_place_handles_the_next_message_after_an_exception_at_any_step_of_a_tell(
    overflow: Overflow,
) -> None:
    with tree_of(worker("w", obey, mailbox=Mailbox(capacity=1, overflow=overflow))) as tree:
        target = tree.ref("t/w")

        def answers() -> bool:
            try:
                return bool(target.ask("next", timeout=LONG_S) == "next")
            except MailboxFullError:
                return False  # the one that was cut short waits still: whoever finds it there has it handled

        assert rounds(alarm, FILES, lambda: eventually(answers), lambda: target.tell("message")) > 30


LOOKS_FOR_SIGNALS = ("CALL", "RESUME", "JUMP_BACKWARD", "SEND", "YIELD")


def test_where_a_put_takes_a_lock_no_instruction_looks_for_signals_until_it_is_released() -> None:
    """A few instructions of ``drop_oldest``; what is traced step by step cannot show that no handler runs there."""
    names = [each.opname for each in dis.get_instructions(Inbox._replace_oldest)]
    begin = next(at for at, name in enumerate(names) if "BEFORE_WITH" in name)
    end = next(at for at in range(begin, len(names)) if names[at].startswith("CALL"))  # __exit__
    inside = [name for name in names[begin:end] if name.startswith(LOOKS_FOR_SIGNALS)]

    assert inside == []
    assert "BINARY_OP" in names[begin:end]
    assert names[begin:end].count("DELETE_SUBSCR") == 1


@OVERFLOWS
@pytest.mark.parametrize("full", [False, True], ids=["with_room", "full"])
def test_a_tree_may_be_stopped_in_the_middle_of_a_tell_to_a_bounded_mailbox(overflow: Overflow, full: bool) -> None:
    """As a signal handler does it, before each step in turn: the handler waits for the end of the tree."""
    number, seen = 1, [1]
    while number <= seen[0]:
        number += 17 if full else 5  # a sample: that no lock is held at any step is tried above
        busy = Gate()
        with tree_of(worker("w", obey, mailbox=Mailbox(capacity=1, overflow=overflow), shutdown=0)) as tree:
            target, stopped = tree.ref("t/w"), []
            if full:
                target.tell(busy)
                busy.wait_reached()
                target.tell("waits")

            def stop(tree: Any = tree, stopped: list[bool] = stopped) -> None:
                stopped.append(tree.stop(STOP_S))

            with at_step(number, stop, FILES) as seen:
                try:
                    target.tell("message") if not full or overflow is Overflow.REJECT else target.ask("m", timeout=0.01)
                except ActorsError:
                    assert full or stopped
            busy.open.set()
        assert stopped in ([True], [])
    assert number > 20


SECTIONS: dict[str, Callable[[Any, Any], list[Any]]] = {
    "drain": lambda box, _: list(box.drain()),
    "pull": lambda box, wanted: [wanted] if box.pull(wanted) else [],
}


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("kind", INBOXES)
def test_a_put_at_any_step_of_a_section_of_its_own_thread_takes_nothing_out(kind: str, section: str) -> None:
    """As a finalizer does it, which the collector runs in the middle: each message comes out once, and none is lost."""
    number, seen = 1, [1]
    while number <= seen[0]:
        box, new = opened(kind, Overflow.DROP_OLDEST, 2), ("new", None, None)
        waiting, dropped = list(box.queue), list[Any]()

        def put(box: Any = box, new: Any = new, dropped: list[Any] = dropped) -> None:
            dropped.append(box.put(new))

        with box.lock, at_step(number, put, FILES) as seen:
            taken = SECTIONS[section](box, waiting[1])
        if dropped:
            out = [*taken, *box.queue, *filter(None, dropped)]
            assert sorted(map(id, out)) == sorted(map(id, [*waiting, new])), number
        number += 1
    assert number > 15


def test_a_put_in_a_section_of_its_own_thread_waits_for_no_room() -> None:
    box = opened("mailbox", Overflow.BLOCK, 2)

    with box.lock:
        assert box.put(("message", None, None)) is Refusal.FULL

    assert list(box.places.line) == []


@pytest.mark.parametrize("kind", INBOXES)
def test_a_message_that_is_begun_at_any_step_of_a_put_leaves_the_bound_as_it_was(kind: str) -> None:
    """Also where none is left that could be dropped: no more wait than there are places."""
    number, seen = 1, [1]
    while number <= seen[0]:
        box = opened(kind, Overflow.DROP_OLDEST, 2)

        def begin(box: Any = box) -> None:
            while box.queue and not box.lock._is_owned():  # else the worker waits
                first = box.queue[0]
                del box.queue[0]
                box.places.begun(first)

        with at_step(number, begin, PUT_ONLY) as seen:
            box.put(("message", None, None))
        if number <= seen[0]:
            assert len(box.queue) + free(box) == 2, number
        number += 1
    assert number > 20


PUT_ONLY = {f"{OURS}/messaging/{name}.py" for name in ("inbox", "mailbox", "pool_address")}
WAITS: dict[str, Callable[[Ref, Any, Any], object]] = {
    "tell": lambda target, envelope, room: target._put_again(envelope, room),
    "tell_async": lambda target, envelope, room: asyncio.run(target._put_again_async(envelope, room)),
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_sender_that_is_cut_short_after_it_was_told_of_room_tells_the_next_one(wait: str) -> None:
    number, seen = 0, [1]
    while seen[0] >= number:
        number += 1
        box = opened("mailbox", Overflow.BLOCK, 2)
        target = Ref(SimpleNamespace(now=monotonic, max_hops=64, tracer=None), box)
        envelope = ("message", None, None)
        room, following = box.put(envelope), box.put(("following", None, None))
        box.places.begun(box.queue.pop(0))
        assert (room.done, following.done) == (True, False)
        with at_step(number, alarm, PUT_ONLY) as seen, suppress(AlarmError):
            WAITS[wait](target, envelope, room)
        assert following.done or len(box.queue) == 2, number
    assert number > 15


SENDS: dict[str, Callable[[Ref], object]] = {
    "tell": lambda target: target.tell("message"),
    "ask": lambda target: target.ask("message", timeout=0.01),
}
EVERYWHERE = PUT_ONLY | {f"{OURS}/messaging/{name}.py" for name in ("places", "ref")}


@pytest.mark.parametrize("send", SENDS)
def test_a_sender_that_is_cut_short_at_any_step_has_gone_from_the_line(send: str) -> None:
    """Another one that waits is told of the next place, whatever became of those before it."""
    number, seen, cut = 0, [1], 0
    while seen[0] >= number:
        number += 1
        box = opened("mailbox", Overflow.BLOCK, 2)
        target = Ref(SimpleNamespace(now=monotonic, max_hops=64, tracer=None, letters=Refused(), boxes={}), box)
        with at_step(number, alarm, EVERYWHERE) as seen, suppress(AlarmError, ActorsError), short_waits():
            SENDS[send](target)
            cut -= 1
        cut += 1
        following = box.put(("following", None, None))
        assert list(box.waiters) == [following], number
        box.places.begun(box.queue.pop(0))
        assert following.done, number
    assert cut > 20


class Refused:
    """Dead letters that nobody reads."""

    def refused(self, *_: Any) -> None:
        return


@contextmanager
def short_waits() -> Iterator[None]:
    """A tell gives up at once where there is no room."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("actors.messaging.ref.FULL_WAIT_S", 0.001)
        yield
