"""Reading the events of one task: what its journal has, and then what comes, up to its end.

One iterator reads once. It may be given up at any time, also in the middle of a wait: a cancelled ``__anext__`` (a
keep-alive by ``asyncio.wait_for``, a client that has left) loses nothing, the next one goes on, and an iterator that
nobody holds any more is forgotten by whoever told it of news.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Self, cast

from actors.errors import ActorsError
from actors.reply import Reply, require_thread
from actors.tasks.events import SubtaskProgressed, TaskEvent, TaskFinished
from actors.tasks.ground import ORCHESTRATOR, Desk


class TaskEvents:
    """The events of one task: what is in the journal, and then what comes. May be read several times."""

    def __init__(self, desk: Desk, id_: str, start: int = 0) -> None:
        self._desk = desk
        self._id = id_
        self._start = start

    def __iter__(self) -> Iterator[TaskEvent]:
        follower = JournalFollower(self._desk, self._id, self._start)
        try:
            while not follower.over:
                yield from follower.news()
                if not follower.over:
                    require_thread(self._desk.path, "async for event in handle.events()")
                    follower.signal.wait(None)
        finally:
            follower.stop()

    def __aiter__(self) -> AsyncTaskEvents:
        return AsyncTaskEvents(JournalFollower(self._desk, self._id, self._start))


class AsyncTaskEvents(AsyncIterator[TaskEvent]):
    """One reading of the events of a task, on one event loop."""

    def __init__(self, follower: JournalFollower) -> None:
        self._follower = follower
        self._ready: deque[TaskEvent] = deque()
        self._error: ActorsError | None = None
        self._news: asyncio.Future[None] | None = None
        """Done when there is something to look at; None: look now."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TaskEvent:
        while not self._ready:
            error, self._error = self._error, None
            if error is not None:
                raise error
            if self._follower.over:
                raise StopAsyncIteration
            if self._news is not None:
                await asyncio.wait([self._news])  # cancelled, it leaves nothing behind; the next call waits again
            self._look()
        return self._ready.popleft()

    def _look(self) -> None:
        try:
            for event in self._follower.news():
                self._ready.append(event)
        except ActorsError as error:
            self._error = error  # after what there was
        self._news = _future_of(self._follower.signal)

    async def aclose(self) -> None:
        """Read no more."""
        self._follower.over = True
        self._follower.stop()


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


class JournalFollower:
    """Reads a journal as it grows, as far as the bus has told of it: so what is not kept stands where it happened."""

    def __init__(self, desk: Desk, id_: str, start: int) -> None:
        self._desk = desk
        self._id = id_
        self._read = start
        self._looked = False
        self._unkept: deque[TaskEvent] = deque()
        self._until = -math.inf
        """What is in the journal already comes at once; after that, what was heard of."""
        self.orchestrator = f"{desk.path}/{ORCHESTRATOR}"
        self.over = False
        self.signal = Reply()
        self._done = desk.waiting(id_)
        self.stop = desk.ground.feed.follow(id_, self, self._done)
        """Hear nothing more."""

    def hear(self, event: TaskEvent) -> None:
        """Something happened to the task."""
        if isinstance(event, SubtaskProgressed):
            self._unkept.append(event)
        self._until = math.inf if isinstance(event, TaskFinished) else event.at
        self.signal.complete()

    def wake(self) -> None:
        """Have the reader look."""
        self.signal.complete()

    def catch_up(self) -> None:
        """Something may have happened that nobody told of."""
        self._until = math.inf
        self.wake()

    def news(self) -> Iterator[TaskEvent]:
        """What has come since the last look. Raises ``TreeDownError`` where nothing more will come."""
        self.signal = Reply()
        down = self._desk.system.is_down or (self._done.done and not self._done.succeeded)
        forgotten = self._done.succeeded and self._desk.ground.store.last(self._id) is None
        until = math.inf if down or not self._looked else self._until
        self._looked = True
        unkept = [self._unkept.popleft() for _ in range(len(self._unkept))]
        records = cast(Sequence[TaskEvent], self._desk.ground.store.read(self._id, self._read))
        kept = list(itertools.takewhile(lambda each: each.at <= until, records))
        self._read += len(kept)
        for record in heapq.merge(kept, unkept, key=lambda each: each.at):
            yield record
            if isinstance(record, TaskFinished):
                self.over = True
        if forgotten:
            self.over = True  # it has ended, and the store has let go of it: nothing more can be told
        if down and not self.over:
            self.over = True
            self._done.get()  # raises where the tree is down
