"""The events of one task as they are read: by ``for`` and by ``async for``.

What is read is found by ``trees.host.journal_follower``. One iterator reads once. It may be given up at any time,
also in the middle of a wait: a cancelled ``__anext__`` (a keep-alive by ``asyncio.wait_for``, a client that has left)
loses nothing, the next one goes on, and an iterator that nobody holds any more is forgotten by whoever told it of news.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Final, Self

from actors.concurrency.shared_fields import first_of
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import enter, leave
from actors.model.errors import ActorsError
from actors.tasks.model.task_events import TaskEvent
from actors.tasks.orchestration.task_runtime import OrchestratorPort
from trees.host.journal_follower import JournalFollower, Recall

_INSTEAD: Final = "async for event in handle.events()"


class TaskEvents(Iterator[TaskEvent], AsyncIterator[TaskEvent]):
    """The events of a task: what is in the journal, and then what comes.

    Each ``for`` and ``async for`` reads them from the beginning. What ``next`` or ``anext`` has begun is one reading of
    this object's own: a loop goes on with it.
    """

    def __init__(
        self, port: OrchestratorPort, id_: str, *, new: bool = False, deep: bool = True, after: int = 0
    ) -> None:
        self._port = port
        self._id = id_
        self._new = new
        self._deep = deep
        self._after = after
        self._reading: _Reading | None = None
        """Made once."""

    def __iter__(self) -> Iterator[TaskEvent]:  # noqa: PYI034 - each loop has a reading of its own
        return self._follower().read(_INSTEAD) if self._reading is None else self

    def __next__(self) -> TaskEvent:
        return next(self._begin().sync)

    def __aiter__(self) -> AsyncIterator[TaskEvent]:  # noqa: PYI034 - the same
        return AsyncTaskEvents(self._follower()) if self._reading is None else self

    async def __anext__(self) -> TaskEvent:
        return await anext(self._begin().of_loop)

    def close(self) -> None:
        """End the reading that ``next`` has begun."""
        follower = self._begin().follower
        follower.over = True
        follower.stop()

    async def aclose(self) -> None:
        """Read no more; whoever waits in ``__anext__`` hears that it is over."""
        await self._begin().of_loop.aclose()

    def _begin(self) -> _Reading:
        found: _Reading = self._reading or first_of(self, "_reading", _Reading(self._follower()))
        return found

    def _follower(self) -> JournalFollower:
        numbers = self._port.runtime.numbers
        earlier = numbers.before(numbers.whole(self._id)) if self._new else 0
        recall: Recall = "never" if self._after else "ongoing"  # who has read before has read of it before
        return JournalFollower(self._port, self._id, deep=self._deep, after=max(self._after, earlier), recall=recall)


class _Reading:
    """Parts of one reading: a follower, and the two ways to take from it."""

    def __init__(self, follower: JournalFollower) -> None:
        self.follower = follower
        self.sync = follower.read(_INSTEAD)
        self.of_loop = AsyncTaskEvents(follower)


class AsyncTaskEvents(AsyncIterator[TaskEvent]):
    """One reading of the events of a task, on one event loop. Several that read it each get others of the events."""

    def __init__(self, follower: JournalFollower) -> None:
        self._follower = follower
        self._ready: deque[TaskEvent] = deque()
        self._error: ActorsError | None = None
        self._signal: Reply | None = None
        """Completed when there is something to look at; None: look now."""
        self._news: asyncio.Future[None] | None = None
        """Done when that is, on the running loop."""
        self._turns = asyncio.Lock()
        """Held by the one that waits for the next event: the others wait for it."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TaskEvent:
        async with self._turns:
            return await self._next()

    async def _next(self) -> TaskEvent:
        while not self._ready:
            error, self._error = self._error, None
            if error is not None:
                raise error
            if self._follower.over:
                raise StopAsyncIteration
            if self._news is not None and self._signal is not None:
                await self._wait(self._news, self._signal)
            self._look()
        kept = self._follower.fetched(self._ready[0])
        if kept is not None:
            with suppress(ActorsError):  # which ``whole`` raises, or knows why
                await kept
            whole = self._follower.whole(self._ready[0], kept)
            if whole is None:
                self._ready.clear()
                raise StopAsyncIteration
            self._ready[0] = whole
        return self._ready.popleft()

    async def _wait(self, news: asyncio.Future[None], signal: Reply) -> None:
        """Wait for news; cancelled, it leaves nothing behind, and the next call waits again."""
        entered = enter(signal)
        try:
            await asyncio.wait([news])
        finally:
            leave(signal, entered)
        if signal.done:
            self._signal = self._news = None
            signal.outcome()

    def _look(self) -> None:
        try:
            for event in self._follower.news():
                self._ready.append(event)
        except ActorsError as error:
            self._error = error  # after what there was
        self._signal = self._follower.expected()
        self._news = _future_of(self._signal)

    async def aclose(self) -> None:
        """Read no more; whoever waits in ``__anext__`` hears that it is over."""
        self._follower.over = True
        self._follower.stop()
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


def _future_of(signal: Reply) -> asyncio.Future[None]:
    """Done, on the running loop, when the signal is."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    def wake_from_anywhere() -> None:
        try:
            loop.call_soon_threadsafe(wake)
        except RuntimeError:  # the loop was closed: nobody waits there any more
            return

    signal.when_done(wake_from_anywhere)
    return future
