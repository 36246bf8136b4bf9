"""Answers that arrive at tasks: one call of the loop for many, one wake-up for each task, one timer for all."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Generator
from typing import Any

import pytest

from actors.concurrency.arrival import SWEEP, Arrival
from actors.messaging.message_errors import ReplyTimeoutError
from actors.messaging.reply import Reply
from actors.model.clock import monotonic

WAIT_S = 60.0


class Counted(asyncio.SelectorEventLoop):
    """A loop that counts how often it is called, and how."""

    def __init__(self) -> None:
        super().__init__()
        self.from_outside = 0
        self.timers = 0
        self.refuses = False

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        if self.refuses:
            raise KeyboardInterrupt
        self.from_outside += 1
        return super().call_soon_threadsafe(callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        self.timers += 1
        return super().call_at(when, callback, *args, context=context)


def run(main: Callable[[Counted], Any]) -> Any:
    """Run ``main(loop)`` on a loop that counts."""
    loop = Counted()
    try:
        return loop.run_until_complete(asyncio.wait_for(main(loop), WAIT_S))
    finally:
        loop.close()


def elsewhere(act: Callable[[], object]) -> None:
    """Do it on another thread, now: the loop stands still meanwhile."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join(WAIT_S)
    assert not thread.is_alive()


async def value_of(reply: Reply) -> Any:
    return await reply


async def waiting(replies: list[Reply]) -> list[asyncio.Task[Any]]:
    """A task for each, that waits."""
    tasks = [asyncio.ensure_future(value_of(reply)) for reply in replies]
    await asyncio.sleep(0)
    return tasks


def test_many_answers_from_another_thread_call_the_loop_once() -> None:
    async def main(loop: Counted) -> None:
        replies = [Reply() for _ in range(100)]
        tasks = await waiting(replies)
        before = loop.from_outside
        elsewhere(lambda: [reply.complete(at) for at, reply in enumerate(replies)])
        assert loop.from_outside - before == 1
        assert await asyncio.gather(*tasks) == list(range(100))

    run(main)


def test_a_task_goes_on_in_the_turn_in_which_the_loop_hears_of_its_answer() -> None:
    async def main(loop: Counted) -> None:
        reply = Reply()
        (task,) = await waiting([reply])
        elsewhere(reply.complete)
        loop.call_soon(lambda: seen.append(task.done()))  # in this turn, after the answer
        seen: list[bool] = []
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert seen == [True]

    run(main)


@pytest.mark.parametrize("here", [True, False])
def test_each_later_answer_is_heard_whichever_turn_it_comes_in(here: bool) -> None:
    async def main(loop: Counted) -> None:
        for number in range(50):
            reply = Reply()
            (task,) = await waiting([reply])
            bring = lambda reply=reply, number=number: reply.complete(number)  # type: ignore[misc]  # noqa: E731
            bring() if here else elsewhere(bring)
            assert await task == number
        assert here == (loop.from_outside == 0)

    run(main)


def test_an_answer_that_comes_before_its_task_waits_is_not_lost() -> None:
    async def main(_: Counted) -> None:
        early = Arrival()
        elsewhere(early)
        assert await _until(early, None) is None
        inside = Arrival()
        inside()
        assert await _until(inside, None) is None

    run(main)


async def _until(arrival: Arrival, when: float | None) -> None:
    class Wait:
        def __await__(self) -> Generator[Any, None, None]:
            return arrival.until(when)

    await Wait()


def test_a_call_of_the_loop_that_was_cut_short_is_made_by_the_next_answer() -> None:
    async def main(loop: Counted) -> None:
        first, second = Arrival(), Arrival()
        tasks = [asyncio.ensure_future(_until(each, None)) for each in (first, second)]
        await asyncio.sleep(0)
        loop.refuses = True
        raised: list[BaseException] = []

        def cut_short() -> None:
            try:
                first()
            except KeyboardInterrupt as error:
                raised.append(error)

        elsewhere(cut_short)
        loop.refuses = False
        assert raised
        elsewhere(second)
        await asyncio.gather(*tasks)

    run(main)


@pytest.mark.parametrize("answered_first", [True, False])
def test_a_wait_that_is_cancelled_as_its_answer_comes_ends_once(answered_first: bool) -> None:
    async def main(_: Counted) -> None:
        reply, later = Reply(), Reply()
        ends: list[str] = []

        async def waits() -> Any:
            try:
                await reply
                ends.append("answer")
            except asyncio.CancelledError:
                ends.append("cancelled")
            return await later  # a second wake-up would end this wait

        task = asyncio.ensure_future(waits())
        await asyncio.sleep(0)
        if answered_first:
            reply.complete()
            task.cancel()
        else:
            task.cancel()
            reply.complete()
        for _turn in range(5):
            await asyncio.sleep(0)
        assert ends == ["cancelled"]
        assert not task.done()
        later.complete("later")
        assert await task == "later"

    run(main)


def test_a_cancel_after_the_task_has_gone_on_hits_its_next_wait() -> None:
    async def main(_: Counted) -> None:
        reply, later = Reply(), Reply()

        async def waits() -> None:
            await reply
            await later

        task = asyncio.ensure_future(waits())
        await asyncio.sleep(0)
        elsewhere(reply.complete)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert task.cancel("why")
        with pytest.raises(asyncio.CancelledError, match="why"):
            await task

    run(main)


def test_times_end_in_their_order_and_one_timer_is_enough_for_many() -> None:
    async def main(loop: Counted) -> None:
        ends: list[Reply] = []

        async def late(reply: Reply) -> None:
            with pytest.raises(ReplyTimeoutError):
                await reply
            ends.append(reply)

        late_ones = [Reply(timeout_s=timeout_s) for timeout_s in (0.06, 0.02, 0.04)]
        await asyncio.gather(*map(late, late_ones))
        assert ends == sorted(late_ones, key=lambda reply: reply._expires)
        before = loop.timers
        replies = [Reply(timeout_s=WAIT_S + number) for number in range(100)]
        tasks = await waiting(replies)
        assert loop.timers - before == 1
        for reply in replies:
            reply.complete()
        await asyncio.gather(*tasks)

    run(main)


def test_a_time_that_is_up_while_the_answer_is_on_its_way_wakes_once() -> None:
    async def main(_: Counted) -> None:
        reply, later = Reply(timeout_s=0.01), Reply()

        async def waits() -> Any:
            return await reply, await later

        task = asyncio.ensure_future(waits())
        await asyncio.sleep(0)
        elsewhere(lambda: threading.Event().wait(0.05))  # the loop stands still: its time is up
        reply.complete("answer")
        for _turn in range(5):
            await asyncio.sleep(0)
        assert not task.done()
        later.complete("later")
        assert await task == ("answer", "later")

    run(main)


def test_waits_that_are_over_do_not_stay_among_the_times() -> None:
    async def main(_: Counted) -> None:
        keeps = Arrival()
        times = keeps._landing
        keeps.cancel()
        for _number in range(SWEEP * 5):
            reply = Reply(timeout_s=WAIT_S)
            (task,) = await waiting([reply])
            reply.complete()
            await task
        assert len(times._times) + len(times._new) <= SWEEP * 2

    run(main)


def test_what_an_answered_wait_held_is_let_go_of() -> None:
    class Value:
        pass

    async def main(_: Counted) -> None:
        value = Value()
        gone = weakref.ref(value)
        reply = Reply(timeout_s=WAIT_S)
        (task,) = await waiting([reply])
        reply.complete(value)
        await task
        del value, reply, task
        await asyncio.sleep(0)  # the loop itself holds a task that has just ended
        gc.collect()
        assert gone() is None

    run(main)


def test_a_task_that_ends_the_loop_leaves_the_others_their_answers() -> None:
    replies = [Reply() for _ in range(3)]
    loop = Counted()

    async def leaves() -> None:
        await replies[0]
        raise SystemExit

    async def begin() -> list[asyncio.Task[Any]]:
        first = asyncio.ensure_future(leaves())
        return [first, *await waiting(replies[1:])]

    try:
        tasks = loop.run_until_complete(begin())
        elsewhere(lambda: [reply.complete("answer") for reply in replies])
        with pytest.raises(SystemExit):
            loop.run_until_complete(asyncio.gather(*tasks[1:]))
        assert loop.run_until_complete(asyncio.gather(*tasks[1:])) == ["answer", "answer"]
        with pytest.raises(SystemExit):
            tasks[0].result()
    finally:
        loop.close()


def test_an_answer_for_a_loop_that_is_closed_hurts_nobody() -> None:
    reply = Reply()
    loop = Counted()
    tasks = loop.run_until_complete(waiting([reply]))
    loop.close()
    elsewhere(lambda: reply.complete("answer"))
    assert reply.get() == "answer"
    assert not tasks[0].done()
    tasks[0]._log_destroy_pending = False  # type: ignore[attr-defined]


@pytest.mark.parametrize("number", [SWEEP - 1, SWEEP, 3 * SWEEP])
def test_each_wait_ends_at_its_time_whether_it_was_sorted_in_or_only_noted(number: int) -> None:
    async def main(_: Counted) -> None:
        soon, order = monotonic() + 0.02, list[int]()

        async def waits(at: int, when: float) -> None:
            await _until(Arrival(), when)
            order.append(at)

        times = [soon + 0.002 * (at % 7) for at in range(number)]  # many come earlier than one before them
        tasks = [asyncio.ensure_future(waits(at, when)) for at, when in enumerate(times)]
        await asyncio.gather(*tasks)
        assert [times[at] for at in order] == sorted(times)
        assert monotonic() >= max(times)

    run(main)


def test_a_wait_that_lasts_is_found_among_many_short_ones_that_came_after_it() -> None:
    async def main(_: Counted) -> None:
        reply = Reply(timeout_s=0.05)
        (lasts,) = await waiting([reply])
        for _number in range(SWEEP * 3):
            short = Reply(timeout_s=WAIT_S)
            (task,) = await waiting([short])
            short.complete()
            await task
        with pytest.raises(ReplyTimeoutError):
            await lasts

    run(main)
