"""What a message costs: tell, ask, ask_async."""

import asyncio
from collections.abc import Iterator
from time import perf_counter
from typing import Any

from actors import Worker
from tests.bench.sides import Raw, echo, raw_actor, tree_of
from tests.bench.table import Row, Size, compare, micros
from trees import Mailbox, WorkerSpec

WAIT_S = 120.0
BOUND = Mailbox(capacity=1_000)


def tell(size: Size) -> Iterator[Row]:
    """Many tells to one handler, until all of them are handled; with and without a bound."""
    kinds = {
        "": (WorkerSpec(id="echo", handle=echo), 4.5),
        ", bounded": (WorkerSpec(id="echo", handle=echo, mailbox=BOUND), 2.5),
    }
    for kind, (child, floor) in kinds.items():
        with tree_of(child) as tree, raw_actor() as raw:
            ours = tree.ref("bench/echo")
            yield compare(
                f"tell and handle, {size.tells:,} to one{kind}",
                lambda ours=ours: _tells(ours, size.tells),  # type: ignore[misc]
                lambda raw=raw: _tells(raw, size.tells),  # type: ignore[misc]
                pairs=size.pairs,
                show=micros,
                floor=floor,
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
        lambda: asks_of_raw(size.asks),
        pairs=3 * size.pairs,
        show=micros,
        floor=1.0,
    )


def _asks_of_ours(number: int) -> float:
    with tree_of(WorkerSpec(id="echo", handle=echo)) as tree:
        return _asks(tree.ref("bench/echo"), number)


def asks_of_raw(number: int) -> float:
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
            floor=1.3,
        )
        yield compare(
            "ask_async, 100 at once to a pool of 8",
            lambda: asyncio.run(_gathers(lambda: pool.ask_async("message", timeout=WAIT_S), size.asks)),
            lambda: asyncio.run(_awaits(lambda: raw.ask("message", block=False), size.asks)),
            pairs=size.pairs,
            show=micros,
            floor=4.0,
        )


def awaits_of_raw(number: int) -> float:
    with raw_actor() as raw:
        return asyncio.run(_awaits(lambda: raw.ask("message", block=False), number))


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


def between(size: Size) -> Iterator[Row]:
    """A worker asks another, one after the other: on threads of the pool, on the event loop, from one to the other."""
    kinds: dict[str, tuple[Any, Any, float]] = {
        "both on the pool": (_Asker, echo, 1.0),
        "from the pool to the loop": (_Asker, echo_async, 0.9),
        "both on the loop": (_AsyncAsker, echo_async, 2.0),
    }
    for kind, (asker, target, floor) in kinds.items():
        yield compare(
            f"worker asks worker, {kind}",
            lambda asker=asker, target=target: _between_ours(asker, target, size.asks),  # type: ignore[misc]
            lambda: _between_raw(size.asks),
            pairs=size.pairs,
            show=micros,
            floor=floor,
        )


async def echo_async(message: Any) -> Any:
    return message


class _Asker(Worker):
    """Asks as often as it is told, and answers how long one took."""

    def on_receive(self, message: Any) -> float:
        ref, number = message
        return _asks(ref, number)


class _AsyncAsker(Worker):
    async def on_receive(self, message: Any) -> float:
        ref, number = message
        return await _awaits(lambda: ref.ask_async("message", timeout=WAIT_S), number)


class _RawAsker(Raw):
    def on_receive(self, message: Any) -> Any:
        ref, number = message
        return _asks(ref, number)


def _between_ours(asker: type[Worker], target: Any, number: int) -> float:
    with tree_of(WorkerSpec(id="asker", actor=asker), WorkerSpec(id="target", handle=target)) as tree:
        took: float = tree.ref("bench/asker").ask((tree.ref("bench/target"), number), timeout=WAIT_S)
        return took


def _between_raw(number: int) -> float:
    asker = _RawAsker.start()
    try:
        with raw_actor() as raw:
            took: float = asker.ask((raw, number), timeout=WAIT_S)
            return took
    finally:
        asker.stop()
