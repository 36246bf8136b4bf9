"""A step whose result comes piece by piece: it is shown while it comes, and recorded as a whole when it is there.

``context.step`` calls a function. Here the function waits for whoever consumes the stream::

    recorded already       the record is there at once, and nothing is called
    else                   the consumer has the live stream; at its end its result is recorded, and then it goes on
    the consumer raises    nothing is recorded
"""

from __future__ import annotations

import asyncio
import json
from hashlib import blake2b
from typing import Any


def fingerprint_of(said: Any) -> str:
    """Return the fingerprint of what was said so far, as JSON, and of who asks."""
    return hash_of(json.dumps(said, sort_keys=True, default=lambda value: type(value).__name__))


def hash_of(text: str) -> str:
    """Return a short name of a text, the same in every process."""
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def request_name(said: str) -> str:
    """Return the name of the step of a request: by what it says, and not by its place among all requests.

    Several runs may go on at once in an attempt: runs that a worker gathers, agents that are tools. Their requests come
    in another order when the attempt runs again.
    """
    return f"model request {said[:16]}"


class StreamedStep:
    """One step, on the event loop of its attempt."""

    def __init__(self, context: Any, name: str, fingerprint: str) -> None:
        self._begun = asyncio.Event()
        self._result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._step = asyncio.ensure_future(context.step(name, self._live, fingerprint))

    async def _live(self, _: str) -> Any:
        self._begun.set()
        return await self._result

    async def is_recorded(self) -> bool:
        """True where it is recorded already: ``recorded`` has it. Else the stream is to be opened.

        Raises:
            Exception: whatever ``context.step`` raises.
        """
        begun = asyncio.ensure_future(self._begun.wait())
        try:
            await asyncio.wait({begun, self._step}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            begun.cancel()
        if self._step.done():
            self._step.result()
        return self._step.done()

    @property
    def recorded(self) -> Any:
        """Result that is recorded."""
        return self._step.result()

    async def record(self, result: Any) -> None:
        """Record the result of the stream, which has come to its end."""
        self._result.set_result(result)
        await self._step

    async def give_up(self) -> None:
        """Record nothing; harmless where it is recorded."""
        if not self._step.done():
            self._step.cancel()
            await asyncio.wait({self._step})
