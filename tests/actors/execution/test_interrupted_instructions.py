"""Moments of a few instructions: what another thread, a finalizer or a signal handler does just there."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from actors.concurrency import shared_fields
from actors.concurrency.disposal import Disposal
from actors.concurrency.wakeup import Turnstile
from actors.execution.daemon_executor import DaemonExecutor
from actors.messaging import wait_graph
from actors.messaging.envelope import CURRENT, CurrentMessage, MessageContext
from actors.messaging.mailbox import Mailbox
from actors.messaging.reply import Reply
from tests.support.hardening import LONG_S, Gate, eventually, tree_of, worker

# -- a request that ends while others look at what it waits for --------------------------------------------


class _Tree:
    """As much of a tree as a request looks at: nobody in it is down."""

    @staticmethod
    def dead_end(_: object, __: object) -> None:
        return None


class _Life:
    """As much of a life as a request looks at."""

    system = _Tree()

    is_over = False
    pulse = None

    def __init__(self, path: str) -> None:
        self.mailbox = Mailbox(path)


class _EndsWhenLookedAt(CurrentMessage):
    """Its handler ends, on another thread, right after somebody has found that it has not ended."""

    __slots__ = ()

    @property
    def in_request(self) -> bool:
        found = super().in_request
        if found:
            self.end()
        return found


def a_request(path: str, kind: type[CurrentMessage] = CurrentMessage, reply: Reply | None = None) -> CurrentMessage:
    incarnation: Any = _Life(path)
    return kind(incarnation, MessageContext(None, (), None, 3), reply)


def test_who_looks_for_a_circle_is_not_hurt_by_a_handler_that_ends_meanwhile() -> None:
    asker, handler = a_request("t/a"), a_request("t/b", _EndsWhenLookedAt)
    reply, further = Reply(handler.incarnation.mailbox), Reply(Mailbox("t/c"))
    reply.handled_by, handler.waits = handler, {further}

    assert wait_graph.find_circle(asker, reply) is None
    assert handler.ended


def test_what_a_handler_leaves_behind_may_ask_in_the_moment_in_which_that_ends() -> None:
    current, reply = a_request("t/a", _EndsWhenLookedAt), Reply(Mailbox("t/b"))
    token = CURRENT.set(current)
    try:
        entered = wait_graph.enter(reply)
    finally:
        CURRENT.reset(token)
    wait_graph.leave(reply, entered)

    assert current.ended
    assert not reply.waiters


def test_the_first_wait_of_a_request_may_begin_when_that_has_just_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    current, reply = a_request("t/a"), Reply(Mailbox("t/b"))

    class EndsAfter(dict[Any, Any]):
        def pop(self, *args: Any) -> Any:
            current.end()
            return super().pop(*args)

    monkeypatch.setattr(shared_fields, "_OFFERS", EndsAfter())
    token = CURRENT.set(current)
    try:
        entered = wait_graph.enter(reply)
    finally:
        CURRENT.reset(token)
    wait_graph.leave(reply, entered)

    assert entered is current
    assert not reply.waiters


# -- threads for asyncio.to_thread -------------------------------------------------------------------------


def test_a_call_does_not_wait_for_one_that_a_thread_has_taken_and_not_begun() -> None:
    """Or it waits for as long as that one takes, which may be for ever, while there are threads to be had."""
    executor = DaemonExecutor("narrow")
    gate, hangs, armed = Gate(), Gate(), threading.Event()
    calls = executor._calls

    class Slow:
        """The queue; but one who has taken a job stands still for a moment."""

        put, qsize, empty = calls.put, calls.qsize, calls.empty

        def get(self, timeout: float) -> Any:
            call = calls.get(timeout=timeout)
            if armed.is_set():
                armed.clear()
                gate()
            return call

    executor._calls = Slow()  # type: ignore[assignment]
    assert executor.submit(lambda: "one thread is there").result(LONG_S)
    eventually(lambda: executor._waiting == 1)
    armed.set()
    hanging = executor.submit(hangs)
    gate.wait_reached()
    other = executor.submit(lambda: "done")
    gate.open.set()
    try:
        assert other.result(LONG_S / 2) == "done"
        assert not hanging.done()
    finally:
        hangs.open.set()
        executor.shutdown()


# -- a turnstile -------------------------------------------------------------------------------------------


def test_who_comes_while_another_is_inside_has_not_come_in_vain() -> None:
    """The other had looked already: it goes in once more after it has left."""
    turnstile, looks = Turnstile(), []

    def act() -> bool:
        looks.append("looked")
        if len(looks) == 1:
            comes = threading.Thread(target=turnstile.enter, args=(act,))
            comes.start()
            comes.join(LONG_S)
        return False

    turnstile.enter(act)

    assert looks == ["looked", "looked"]


def test_nobody_goes_in_twice_for_nothing() -> None:
    turnstile, looks = Turnstile(), []

    def act() -> bool:
        looks.append("looked")
        return False

    for _ in range(3):
        turnstile.enter(act)

    assert looks == ["looked"] * 3


# -- a reply that two threads wait for ---------------------------------------------------------------------


def test_a_wait_that_is_interrupted_when_the_outcome_has_just_come_leaves_the_others_theirs() -> None:
    """Ctrl-C in ``tree.wait()``, while another thread waits as well: the gate had opened for the first one only."""
    reply, real = Reply(), threading.Lock()
    real.acquire()

    class Gate:
        """The gate of the reply; a signal handler raises right after it has opened."""

        release = real.release

        def acquire(self, blocking: bool, timeout: float) -> bool:
            assert reply.complete("outcome")
            assert real.acquire(blocking, timeout)
            raise KeyboardInterrupt

    reply._gate = Gate()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        reply.wait(LONG_S)

    assert real.acquire(timeout=0), "whoever waits there as well would wait for ever"


def test_an_outcome_that_comes_when_the_time_of_one_who_waits_is_up_is_seen_by_all() -> None:
    reply, real = Reply(), threading.Lock()
    real.acquire()

    class Gate:
        """Its time is up between the outcome and the opening of the gate."""

        release = real.release

        def acquire(self, blocking: bool, timeout: float) -> bool:
            reply._value = "outcome"
            return False

    reply._gate = Gate()  # type: ignore[assignment]

    assert reply.wait(0.1)
    reply.complete("outcome")  # finds the gate open
    assert reply.get() == "outcome"


# -- a loop that is about to sleep -------------------------------------------------------------------------


def before_it_sleeps(loop: asyncio.AbstractEventLoop, act: Callable[[], object]) -> None:
    """As the garbage collector, which may run a finalizer there: the loop has looked, and will sleep for long."""
    selector: Any = loop._selector  # type: ignore[attr-defined]
    select = selector.select

    def first(timeout: float | None) -> Any:
        if timeout is None or timeout > 0:
            selector.select = select
            act()
        return select(timeout)

    selector.select = first


def test_a_finalizer_on_the_thread_of_the_loop_wakes_it_when_it_is_about_to_sleep() -> None:
    handled, loops = threading.Event(), []

    async def work(message: str) -> None:
        loops.append(asyncio.get_running_loop())
        if message == "handled":
            handled.set()

    with tree_of(worker("w", work)) as tree:
        ref = tree.ref("t/w")
        ref.ask("where")
        told = threading.Event()

        def finalize() -> None:
            ref.tell("handled")
            told.set()

        loop = loops[0]
        loop.call_soon_threadsafe(before_it_sleeps, loop, finalize)

        assert told.wait(LONG_S)
        assert handled.wait(2.0)


def test_an_answer_that_comes_when_the_loop_of_the_asker_is_about_to_sleep_wakes_it() -> None:
    async def main() -> bool:
        reply, loop = Reply(), asyncio.get_running_loop()
        too_late = loop.call_later(LONG_S, lambda: reply.complete(value=False))
        before_it_sleeps(loop, lambda: reply.complete(value=True))
        await reply
        in_time = loop.time() < too_late.when()
        too_late.cancel()
        return in_time

    assert asyncio.run(main())


# -- finalizers --------------------------------------------------------------------------------------------


def test_a_finalizer_that_never_returns_holds_up_nothing_that_was_gathered_with_it() -> None:
    gate = Gate()

    class Stuck:
        def __del__(self) -> None:
            gate()

    def set_off(disposal: Disposal) -> None:
        threading.Thread(target=disposal.run, daemon=True).start()

    disposal = Disposal(set_off, gather_s=0.01)
    left = []
    for number in range(5):
        thing: Any = Stuck() if number == 2 else threading.Event()
        if number != 2:
            left.append(weakref.ref(thing))
        things = [thing]
        thing = None
        disposal.put(things)
    try:
        gate.wait_reached()
        eventually(lambda: all(each() is None for each in left), "the end of the others")
    finally:
        gate.open.set()


def test_a_loop_that_ends_by_itself_as_it_is_closed_does_not_keep_the_tree_from_ending() -> None:
    """A ``SystemExit`` of a user's task leaves the loop in that moment: then there is nothing left to stop."""

    async def work(message: str) -> str:
        return message

    with tree_of(worker("w", work)) as tree:
        tree.ref("t/w").ask("up")
        places = tree._system.loop
        places._closed = True
        loop, thread = places._loop, places._thread
        assert loop is not None
        assert thread is not None
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LONG_S)
        assert loop.is_closed()

        assert tree.stop(LONG_S)
