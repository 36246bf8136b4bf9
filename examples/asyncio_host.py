"""A tree in an asyncio program: async workers, asks that never hold up the host's event loop, Ctrl-C.

    python examples/asyncio_host.py                 three rounds
    python examples/asyncio_host.py --rounds 0      until Ctrl-C

The workers run on an event loop of the tree's own, in another thread. What stops the host, Ctrl-C or an exception,
leaves the ``async with``, and that stops the tree in order: the connection below is closed in either case.
"""

import argparse
import asyncio

from loguru import logger

import actors
from actors import Worker
from trees import SupervisorSpec, WorkerSpec, start_async


class Store(Worker):
    """An async worker with state. While one of its calls awaits, other workers run; it takes one message at a time."""

    async def on_start(self) -> None:
        """Open the connection; nobody sends us anything before that is done."""
        await asyncio.sleep(0.01)
        self._rows: dict[str, int] = {}
        print("store: connected", flush=True)

    async def on_receive(self, message: tuple[str, int]) -> int:
        """Add to a row."""
        name, amount = message
        await asyncio.sleep(0.01)
        self._rows[name] = self._rows.get(name, 0) + amount
        return self._rows[name]

    async def on_stop(self) -> None:
        """Close the connection."""
        await asyncio.sleep(0.01)
        print("store: connection closed", flush=True)


async def price(order: str) -> int:
    """A worker made of a plain async function. It asks a colleague, and crashes on an order that it does not know."""
    prices = {"tea": 3, "cake": 4}
    total: int = await actors.ref("shop/store").ask_async((order, prices[order]))
    return total


async def visitors() -> None:
    """A body: its own loop, from the start of the tree to its end. It is cancelled when it must stop."""
    while True:
        await asyncio.sleep(0.1)
        await actors.ref("shop/store").tell_async(("visitors", 1))


TREE = SupervisorSpec(
    id="shop",
    max_restarts=100,  # one customer in three asks for coffee
    children=[
        WorkerSpec(id="store", actor=Store),
        WorkerSpec(id="price", handle=price, pool=2),
        WorkerSpec(id="visitors", run=visitors),
    ],
)


async def host(rounds: int) -> None:
    """Serve orders: ask all at once, wait for all."""
    async with start_async(TREE) as tree:
        price, done = tree.ref("shop/price"), 0
        while not rounds or done < rounds:
            done += 1
            orders = ["tea", "coffee", "cake"]  # the second crashes a member of the pool
            replies = await asyncio.gather(*(price.ask_async(order) for order in orders), return_exceptions=True)
            print(f"round {done}:", *(repr(reply) for reply in replies), flush=True)
            await asyncio.sleep(0.2)
        print(tree.dump())


def main() -> None:
    """Run the host; asyncio turns Ctrl-C into the cancellation of ``host``."""
    logger.disable("actors")
    parser = argparse.ArgumentParser(description="A supervised tree in an asyncio program.")
    parser.add_argument("--rounds", type=int, default=3, help="how many; 0: until Ctrl-C")
    try:
        asyncio.run(host(parser.parse_args().rounds))
    except KeyboardInterrupt:
        print("stopped by Ctrl-C")


if __name__ == "__main__":
    main()
