"""The reply: completed once, waited for by threads and loops, and a Pykka future in every other respect."""

import asyncio
import queue
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic

import pykka
import pytest

from actors import Reply, ReplyTimeoutError
from tests.support.hardening import LONG_S, in_thread


def done(value: object) -> Reply:
    reply = Reply()
    reply.set(value)
    return reply


def test_set_and_set_exception_are_pykkas_names_and_a_second_one_changes_nothing() -> None:
    reply = done(1)
    reply.set(2)
    reply.set_exception((KeyError, KeyError(), None))

    assert reply.get() == 1


def test_set_exception_without_a_triple_takes_the_exception_being_handled() -> None:
    reply = Reply()
    try:
        {}["handled"]
    except KeyError:
        reply.set_exception()

    with pytest.raises(KeyError, match="handled"):
        reply.get()


def test_map_filter_join_and_reduce_work_as_on_pykkas_own() -> None:
    assert done(20).map(lambda value: value + 1).get() == 21
    assert done(range(6)).filter(lambda value: value % 2).get() == [1, 3, 5]
    assert done(1).join(done(2), done(3)).get() == [1, 2, 3]
    assert done([1, 2, 3]).reduce(lambda total, value: total + value, 10).get() == 16
    assert pykka.get_all([done(1), done(2).map(str)]) == [1, "2"]


def test_a_mapped_error_stays_an_error() -> None:
    reply = Reply()
    reply.fail(KeyError("lost"))

    with pytest.raises(KeyError, match="lost"):
        reply.map(str).get()


def test_a_get_gives_up_after_its_timeout_and_may_be_tried_again() -> None:
    reply = Reply()
    with pytest.raises(pykka.Timeout):
        reply.get(timeout=0.01)
    reply.set("late")

    assert reply.get(timeout=0) == "late"


def test_the_time_of_an_ask_runs_from_the_ask_on() -> None:
    reply = Reply(timeout_s=0.05)
    began = monotonic()
    for _ in range(3):
        with pytest.raises(ReplyTimeoutError):
            reply.get(timeout=LONG_S)

    assert monotonic() - began < LONG_S


def test_it_wakes_every_thread_that_waits() -> None:
    reply = Reply()
    waiters = [in_thread(lambda: reply.get(timeout=LONG_S)) for _ in range(5)]
    reply.set("all")

    assert [waiter() for waiter in waiters] == ["all"] * 5


def test_it_may_be_awaited_by_several_loops_at_once() -> None:
    reply, ready = Reply(), threading.Barrier(3)

    async def wait() -> object:
        await asyncio.to_thread(ready.wait, LONG_S)
        return await reply

    waiters = [in_thread(lambda: asyncio.run(wait())) for _ in range(2)]
    ready.wait(LONG_S)
    reply.set("both")

    assert [waiter() for waiter in waiters] == ["both", "both"]


def test_an_await_that_is_cancelled_leaves_the_reply_to_others() -> None:
    reply = Reply()

    async def host() -> object:
        task = asyncio.ensure_future(_await(reply))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        asyncio.get_running_loop().call_soon(reply.set, "others")
        return await reply

    assert asyncio.run(host()) == "others"


async def _await(reply: Reply) -> object:
    return await reply


def test_an_await_ends_with_the_time_of_the_ask() -> None:
    with pytest.raises(ReplyTimeoutError):
        asyncio.run(_await(Reply(timeout_s=0.02)))


def test_an_outcome_that_comes_after_the_loop_was_closed_hurts_nobody() -> None:
    reply = Reply()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reply, 0.01)

    asyncio.run(give_up())

    assert reply.complete("later") is True
    assert reply.get() == "later"


async def awaits(*_: object) -> None:
    """Nothing that anybody would await."""


def returned(call: Callable[[], object]) -> object:
    return call()


def test_a_done_callback_that_is_async_or_cannot_be_called_is_refused_where_it_is_added() -> None:
    reply = Reply()
    with pytest.raises(TypeError, match="is async, and nobody awaits it there"):
        reply.add_done_callback(awaits)
    with pytest.raises(TypeError, match="cannot be called"):
        reply.add_done_callback(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("outcome", ["a value", "an error", "an error of what derives it"])
def test_a_done_callback_of_a_reply_that_was_derived_is_called_once_there_is_its_outcome(outcome: str) -> None:
    reply, called = Reply(), threading.Event()
    derived = reply.map(lambda value: value / 0 if outcome == "an error of what derives it" else value * 2)
    derived.add_done_callback(called.set)
    assert not called.is_set()
    if outcome == "an error":
        reply.fail(ValueError(outcome))
    else:
        reply.complete(21)

    assert called.wait(LONG_S)
    assert (derived.done, derived.succeeded) == ((True, True) if outcome == "a value" else (False, False))


def test_what_a_done_callback_leaves_to_be_awaited_is_told_as_what_it_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    monkeypatch.setattr(threading, "excepthook", lambda told: raised.put(told.exc_value))
    done(1).add_done_callback(partial(returned, awaits))

    assert "nobody awaits it there" in str(raised.get(timeout=LONG_S))
