"""What a message costs: tell, ask, ask_async."""

import asyncio
from collections.abc import Iterator
from time import perf_counter
from typing import Any

from tests.bench.sides import echo, raw_actor, tree_of
from tests.bench.table import Row, Size, compare, micros
from trees import WorkerSpec

WAIT_S = 120.0


def tell(size: Size) -> Iterator[Row]:
    """Many tells to one handler, until all of them are handled."""
    with tree_of(WorkerSpec(id="echo", handle=echo)) as tree, raw_actor() as raw:
        ours = tree.ref("bench/echo")
        yield compare(
            f"tell and handle, {size.tells:,} to one",
            lambda: _tells(ours, size.tells),
            lambda: _tells(raw, size.tells),
            pairs=size.pairs,
            show=micros,
            floor=3.0,
            wish=5.0,
        )


def _tells(ref: Any, number: int) -> float:
    began = perf_counter()
    for _ in range(number):
        ref.tell("message")
    ref.ask("the last", timeout=WAIT_S)
    return (perf_counter() - began) / number


def ask(size: Size) -> Iterator[Row]:
    """One ask after the other from a plain thread.

    Nearly all of it are two thread switches, and what those cost depends on whether the scheduler has put the two
    threads on one core. So each figure has threads of its own, and there are more pairs.
    """
    yield compare(
        "ask from outside",
        lambda: _asks_of_ours(size.asks),
        lambda: _asks_of_raw(size.asks),
        pairs=3 * size.pairs,
        show=micros,
        floor=1.2,
    )


def _asks_of_ours(number: int) -> float:
    with tree_of(WorkerSpec(id="echo", handle=echo)) as tree:
        return _asks(tree.ref("bench/echo"), number)


def _asks_of_raw(number: int) -> float:
    with raw_actor() as raw:
        return _asks(raw, number)


def _asks(ref: Any, number: int) -> float:
    began = perf_counter()
    for _ in range(number):
        ref.ask("message", timeout=WAIT_S)
    return (perf_counter() - began) / number


def ask_async(size: Size) -> Iterator[Row]:
    """The same from an event loop. Awaiting a raw future blocks the loop, so raw cannot wait for two at once."""
    with tree_of(WorkerSpec(id="echo", handle=echo, pool=8)) as tree, raw_actor() as raw:
        ours, pool = tree.ref("bench/echo#0"), tree.ref("bench/echo")
        yield compare(
            "ask_async, one after the other",
            lambda: asyncio.run(_awaits(lambda: ours.ask_async("message"), size.asks)),
            lambda: asyncio.run(_awaits(lambda: raw.ask("message", block=False), size.asks)),
            pairs=size.pairs,
            show=micros,
        )
        yield compare(
            "ask_async, 100 at once to a pool of 8",
            lambda: asyncio.run(_gathers(lambda: pool.ask_async("message", timeout=WAIT_S), size.asks)),
            lambda: asyncio.run(_awaits(lambda: raw.ask("message", block=False), size.asks)),
            pairs=size.pairs,
            show=micros,
        )


async def _awaits(send: Any, number: int) -> float:
    began = perf_counter()
    for _ in range(number):
        await send()
    return (perf_counter() - began) / number


async def _gathers(send: Any, number: int) -> float:
    began, left = perf_counter(), number
    while left > 0:
        await asyncio.gather(*(send() for _ in range(min(100, left))))
        left -= 100
    return (perf_counter() - began) / number
