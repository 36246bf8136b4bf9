"""The feed of a page's events: who looks hears everything from then on, however the subscription goes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.browser.shop import Shop
from tests.support.asking import LONG_S
from trees.observe.source import SourceError
from trees.observe.web import event_feed
from trees.observe.web.event_feed import MOST_AT_ONCE, EventFeed


class SlowShop(Shop):
    """A source to which a subscription takes as long as the test wants; those that fail come first."""

    def __init__(self, fails: int = 0) -> None:
        super().__init__()
        self.asked, self.gate, self.fails = 0, threading.Event(), fails

    def subscribe(self, callback: Callable[[dict[str, Any]], object]) -> Callable[[], None]:
        self.asked += 1
        assert self.gate.wait(LONG_S)
        if self.asked <= self.fails:
            raise SourceError(503, "The tree does not answer.")
        return super().subscribe(callback)

    @property
    def listeners(self) -> int:
        """How many hear its events."""
        return len(self._listeners)


async def turns() -> None:
    """Let the loop do whatever it can do now."""
    for _ in range(20):
        await asyncio.sleep(0)


async def begun(feed: EventFeed) -> tuple[AsyncIterator[bytes], asyncio.Task[bytes]]:
    """Somebody who begins to look."""
    pieces = feed.follow(None)
    first: asyncio.Task[bytes] = asyncio.ensure_future(anext(pieces))  # type: ignore[arg-type]
    await turns()
    return pieces, first


async def next_name(pieces: AsyncIterator[bytes]) -> str:
    """Name of the next event."""
    piece = await asyncio.wait_for(anext(pieces), LONG_S)
    data = next(line for line in piece.decode().splitlines() if line.startswith("data: "))
    name: str = json.loads(data.removeprefix("data: "))["name"]
    return name


def test_a_second_one_that_comes_while_the_first_subscribes_hears_the_next_event_too() -> None:
    async def main() -> None:
        shop = SlowShop()
        feed = EventFeed(shop)
        looks = [await begun(feed), await begun(feed)]
        assert [first.done() for _, first in looks] == [False, False]
        shop.gate.set()
        assert [await first for _, first in looks] == [b"", b""]
        shop.tell("child_started", "shop/poller")
        assert [await next_name(pieces) for pieces, _ in looks] == ["child_started", "child_started"]
        assert (shop.asked, shop.listeners, feed.watching) == (1, 1, 2)
        feed.close()
        assert shop.listeners == 0

    asyncio.run(main())


def test_a_subscription_that_fails_is_told_to_all_that_wait_for_it_and_the_next_one_tries_again() -> None:
    async def main() -> None:
        shop = SlowShop(fails=1)
        feed = EventFeed(shop)
        looks = [await begun(feed), await begun(feed)]
        shop.gate.set()
        for _, first in looks:
            with pytest.raises(SourceError):
                await first
        assert (feed.watching, shop.listeners) == (0, 0)
        pieces, first = await begun(feed)
        assert await first == b""
        shop.tell("child_started", "shop/poller")
        assert await next_name(pieces) == "child_started"
        feed.close()

    asyncio.run(main())


def test_one_who_goes_away_while_it_is_subscribed_ends_that_for_nobody() -> None:
    async def main() -> None:
        shop = SlowShop()
        feed = EventFeed(shop)
        (_, gone), (_, stays) = await begun(feed), await begun(feed)
        gone.cancel()
        await turns()
        assert feed.watching == 1
        shop.gate.set()
        assert await stays == b""
        assert shop.listeners == 1
        feed.close()

    asyncio.run(main())


def test_a_feed_that_is_closed_while_it_is_subscribed_hears_nothing_after_that() -> None:
    async def main() -> None:
        shop = SlowShop()
        feed = EventFeed(shop)
        _, first = await begun(feed)
        feed.close()
        shop.gate.set()
        await asyncio.wait_for(asyncio.gather(first, return_exceptions=True), LONG_S)
        assert shop.listeners == 0

    asyncio.run(main())


def test_between_two_pieces_of_many_events_others_have_their_turn() -> None:
    async def look() -> None:
        shop = Shop()
        feed = EventFeed(shop)
        pieces = feed.follow(None)
        await anext(pieces)
        for _ in range(2 * MOST_AT_ONCE):
            shop.tell("child_started", "shop/poller")
        assert (await anext(pieces)).count(b"event: change") == MOST_AT_ONCE
        others = list[str]()
        asyncio.get_running_loop().call_soon(others.append, "the end of a connection, say")
        assert (await anext(pieces)).count(b"event: change") == MOST_AT_ONCE
        assert others
        feed.close()

    asyncio.run(look())


def test_a_browser_that_is_slow_loses_the_oldest_and_is_told_how_many_and_others_lose_nothing() -> None:
    async def main() -> None:
        shop = SlowShop()
        shop.gate.set()
        feed = EventFeed(shop, kept=3)
        (slow, first), (quick, also) = await begun(feed), await begun(feed)
        assert (await first, await also) == (b"", b"")
        seen = []
        for number in range(5):
            shop.tell("child_started", "shop/poller", incarnation=number)
            seen.append(json.loads((await anext(quick)).split(b"data: ")[1])["incarnation"])
        lost = await anext(slow)
        rest = await anext(slow)
        assert lost.startswith(b"event: lost\n")
        assert json.loads(lost.split(b"data: ")[1]) == {"version": 1, "lost": 2}
        assert [json.loads(each.splitlines()[0])["incarnation"] for each in rest.split(b"data: ")[1:]] == [2, 3, 4]
        assert seen == [0, 1, 2, 3, 4]
        feed.close()

    asyncio.run(main())


def test_events_with_long_texts_are_as_few_as_memory_has_room_for_and_the_newest_is_among_them() -> None:
    """An exception may have a text of any length: its events are kept by their bytes, and not only by their number."""

    async def main() -> None:
        shop = SlowShop()
        shop.gate.set()
        feed = EventFeed(shop, most_bytes=25_000)
        pieces, first = await begun(feed)
        assert await first == b""
        for size in (10_000, 10_000, 10_000, 50_000, 100, 100):
            shop.tell("child_exited", "shop/poller", error=size * "x")
            assert sum(map(len, feed._ring)) == feed._bytes <= max(25_000, size + 1_000)
        lost = await anext(pieces)
        assert json.loads(lost.split(b"data: ")[1]) == {"version": 1, "lost": 4}
        rest = [json.loads(each.splitlines()[0]) for each in (await anext(pieces)).split(b"data: ")[1:]]
        assert [len(each["error"]) for each in rest] == [100, 100]
        feed.close()
        with pytest.raises(StopAsyncIteration):
            await anext(pieces)
        assert (len(feed._ring), feed._bytes) == (0, 0)

    asyncio.run(main())


@pytest.mark.parametrize("behind", [-999_999_999, -1, 4711], ids=["long before", "just before", "clock was ahead"])
def test_who_comes_back_from_an_earlier_feed_has_all_of_this_one_and_is_told_of_a_loss(behind: int) -> None:
    """[a tree that was started anew] However many events this one has counted, that number is none of its own."""

    async def main() -> None:
        shop = SlowShop()
        shop.gate.set()
        feed = EventFeed(shop, made_at=1000.0)
        here, first = await begun(feed)
        assert await first == b""
        for number in range(3):
            shop.tell("child_started", "shop/poller", incarnation=number)
        assert (await anext(here)).count(b"event: change") == 3
        back = feed.follow(1_000_000_000 + behind)
        assert await anext(back) == b""
        assert (await anext(back)).startswith(b"event: lost\n")
        assert (await anext(back)).count(b"event: change") == 3
        feed.close()

    asyncio.run(main())


def test_a_feed_of_a_server_that_came_back_numbers_on_from_the_one_before() -> None:
    async def main() -> list[int]:
        shop, numbers = SlowShop(), list[int]()
        shop.gate.set()
        for _ in range(2):
            feed = EventFeed(shop)
            pieces, first = await begun(feed)
            assert await first == b""
            for _ in range(3):
                shop.tell("child_started", "shop/poller")
            lines = (await anext(pieces)).splitlines()
            numbers += [int(line.removeprefix(b"id: ")) for line in lines if line.startswith(b"id: ")]
            feed.close()
        return numbers

    numbers = asyncio.run(main())
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 6
    assert numbers[-1] < 2**53  # JavaScript can tell them apart


def test_events_that_are_gathered_call_the_loop_of_the_server_once_however_many_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both orders: an event before the loop has heard of the one before, and after that."""

    async def main() -> None:
        monkeypatch.setattr(event_feed, "GATHER_S", LONG_S)
        loop, calls, shop = asyncio.get_running_loop(), list[str](), SlowShop()
        shop.gate.set()
        feed = EventFeed(shop)
        looks = [await begun(feed) for _ in range(3)]
        assert [await first for _, first in looks] == [b"", b"", b""]
        waiting = [asyncio.ensure_future(anext(pieces)) for pieces, _ in looks]  # type: ignore[arg-type]
        await turns()
        call = loop.call_soon_threadsafe

        def counted(*args: Any) -> asyncio.Handle:
            calls.append("called")
            return call(*args)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        for _ in range(3):
            shop.tell("child_started", "shop/poller")
            shop.tell("child_started", "shop/poller")
            await turns()
        assert calls == ["called"]
        assert not any(each.done() for each in waiting)
        feed._ring_all()  # as after GATHER_S
        assert [(await each).count(b"event: change") for each in waiting] == [6, 6, 6]
        shop.tell("child_started", "shop/poller")
        assert calls == ["called", "called"]
        feed.close()

    asyncio.run(main())


@pytest.mark.parametrize("wakes", ["before the end", "after the end"])
def test_who_looks_as_a_feed_is_closed_has_all_that_was_heard_and_has_lost_nothing(wakes: str) -> None:
    # Two orders: the loop gathers already, or has not heard of it yet, as the feed is closed.
    async def main() -> None:
        shop = SlowShop()
        shop.gate.set()
        feed = EventFeed(shop)
        pieces, first = await begun(feed)
        assert await first == b""
        rest: asyncio.Task[bytes] = asyncio.ensure_future(anext(pieces))  # type: ignore[arg-type]
        await turns()
        shop.tell("supervisor_gave_up", "shop")
        shop.tell("tree_stopped", "shop")
        if wakes == "before the end":
            await turns()
        feed.close()
        assert shop.listeners == 0
        last = await asyncio.wait_for(rest, LONG_S)
        assert [each.split(b'"')[0] for each in last.split(b'"name":"')[1:]] == [b"supervisor_gave_up", b"tree_stopped"]
        assert b"lost" not in last
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(anext(pieces), LONG_S)

    asyncio.run(main())
