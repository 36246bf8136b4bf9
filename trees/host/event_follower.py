"""The events of one task as they are read: by ``for`` and by ``async for``.

``trees.host.journal_follower`` finds them, and ``trees.host.event_reading`` keeps them until they are handed out. An
iterator may be given up at any time, also in the middle of a wait: a cancelled ``__anext__`` (a keep-alive by
``asyncio.wait_for``, a client that has left) and a Ctrl-C lose nothing, the next one goes on, and an iterator that
nobody holds any more is forgotten by whoever told it of news.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Final, Self, TypeVar

from actors.concurrency.shared_fields import first_of
from actors.concurrency.weak_registry import WeakRegistry
from actors.messaging.blocking import require_thread
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import enter, leave
from actors.model.errors import ActorsError
from actors.tasks.model.task_events import TaskEvent
from actors.tasks.orchestration.task_runtime import OrchestratorPort
from trees.host.event_reading import EventReading, Turn
from trees.host.journal_follower import JournalFollower, Recall

ReadT = TypeVar("ReadT")
_INSTEAD: Final = "async for event in handle.events()"


class TaskEvents(Iterator[TaskEvent], AsyncIterator[TaskEvent]):
    """The events of a task: what is in the journal, and then what comes.

    Each ``for`` and ``async for`` reads them from the beginning. What ``next`` or ``anext`` has begun is one reading of
    this object's own: a loop of either kind goes on with it.
    """

    def __init__(
        self, port: OrchestratorPort, id_: str, *, new: bool = False, deep: bool = True, after: int = 0
    ) -> None:
        self._port = port
        self._id = id_
        self._new = new
        self._deep = deep
        self._after = after
        self._own: _Own | None = None
        """Made once."""
        self._readings: WeakRegistry[EventReading] = WeakRegistry()
        """All that are held by somebody."""
        self._is_closed = False

    def __iter__(self) -> Iterator[TaskEvent]:  # noqa: PYI034 - each loop has a reading of its own
        return BlockingTaskEvents(self._reading(), self._port.path, _INSTEAD) if self._own is None else self

    def __next__(self) -> TaskEvent:
        return next(self._begin().of_thread)

    def __aiter__(self) -> AsyncIterator[TaskEvent]:  # noqa: PYI034 - the same
        return AsyncTaskEvents(self._reading()) if self._own is None else self

    async def __anext__(self) -> TaskEvent:
        return await anext(self._begin().of_loop)

    def close(self) -> None:
        """Read no more, in all loops over it; whoever waits for the next event hears that it is over."""
        self._is_closed = True
        for reading in self._readings.snapshot():
            reading.close()

    async def aclose(self) -> None:
        """Do as ``close``."""
        self.close()

    def _begin(self) -> _Own:
        found: _Own = self._own or first_of(self, "_own", _Own(self._reading(), self._port.path))
        return found

    def _reading(self) -> EventReading:
        numbers = self._port.runtime.numbers
        earlier = numbers.before(numbers.whole(self._id)) if self._new else 0
        recall: Recall = "never" if self._after else "ongoing"  # who has read before has read of it before
        after = max(self._after, earlier)
        reading = EventReading(JournalFollower(self._port, self._id, deep=self._deep, after=after, recall=recall))
        self._readings.add(reading)
        if self._is_closed:  # looked at after it was added: either this finds it, or ``close`` finds the reading
            reading.close()
        return reading


class _Own:
    """The two ways to take from one reading."""

    def __init__(self, reading: EventReading, path: str) -> None:
        self.of_thread = BlockingTaskEvents(reading, path, _INSTEAD)
        self.of_loop = AsyncTaskEvents(reading)


class BlockingTaskEvents(Iterator[TaskEvent]):
    """One reading of the events of a task, on a thread.

    Args:
        reading: what it takes from.
        path: of the orchestrator that is waited for.
        instead: what to write on an event loop.
    """

    def __init__(self, reading: EventReading, path: str, instead: str) -> None:
        self._reading = reading
        self._path = path
        self._instead = instead

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> TaskEvent:
        reading, turn = self._reading, Turn()
        try:
            reading.begin(turn)
            while not reading.has_some():
                require_thread(self._path, self._instead)
                reading.signal().wait(None)
            event = reading.first(reading.fetching())
            if event is not None:
                del reading.ready[0]  # last: see there
                return event
        finally:
            del turn
        raise StopIteration

    def close(self) -> None:
        """Read no more; whoever waits for the next event hears that it is over."""
        self._reading.close()


class AsyncTaskEvents(AsyncIterator[TaskEvent]):
    """One reading of the events of a task, on one event loop after another.

    Several tasks of a loop that read it each get others of the events.
    """

    def __init__(self, reading: EventReading) -> None:
        self._reading = reading
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop of what follows, which is made anew on another one."""
        self._line = asyncio.Lock()
        """Held by the task that waits for the next event: the others wait for it."""
        self._wakeup: _Wakeup | None = None
        """Wake-up of the last wait, which may have been cancelled."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TaskEvent:
        async with self._line_of(asyncio.get_running_loop()):
            event = await self._next()
        if event is None:
            raise StopAsyncIteration
        return event

    def _line_of(self, loop: asyncio.AbstractEventLoop) -> asyncio.Lock:
        """Return the line of this loop. Nobody waits in that of another one, or it is refused."""
        if self._loop is not loop:
            turn = Turn(loop)
            try:
                self._reading.begin(turn)
                self._loop, self._line = loop, asyncio.Lock()
            finally:
                del turn
        return self._line

    async def _next(self) -> TaskEvent | None:
        reading, turn = self._reading, Turn(asyncio.get_running_loop())
        try:
            reading.begin(turn)
            while not reading.has_some():
                await self._wait(reading.signal())
            fetched = reading.fetching()
            if fetched is not None:
                with suppress(ActorsError):  # which ``first`` raises, or knows why
                    await fetched
            event = reading.first(fetched)
            if event is not None:
                del reading.ready[0]  # last: see there
            return event
        finally:
            del turn

    async def _wait(self, signal: Reply) -> None:
        """Wait for news; cancelled, it leaves nothing behind, and the next call waits again."""
        wakeup = self._wakeup
        if wakeup is None or wakeup.signal is not signal:
            wakeup = self._wakeup = _Wakeup(signal)
        entered = enter(signal)
        try:
            await asyncio.wait([wakeup.future()])
        finally:
            leave(signal, entered)

    async def aclose(self) -> None:
        """Read no more; whoever waits in ``__anext__`` hears that it is over."""
        self._reading.close()


class Reading(Iterator[ReadT], AsyncIterator[ReadT]):
    """One reading of something that the events of a task tell of; ``for`` and ``async for``. Begins when it is made.

    A subclass has ``_read``, which takes it from an event, or None where an event tells of none.
    """

    def __init__(self, follower: JournalFollower, path: str, instead: str) -> None:
        self._reading = EventReading(follower)
        self._of_thread = BlockingTaskEvents(self._reading, path, instead)
        self._of_loop = AsyncTaskEvents(self._reading)

    @abstractmethod
    def _read(self, event: TaskEvent) -> ReadT | None: ...

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReadT:
        while True:
            if (found := self._read(next(self._of_thread))) is not None:
                return found

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReadT:
        while True:
            if (found := self._read(await anext(self._of_loop))) is not None:
                return found

    def close(self) -> None:
        """Read no more; whoever waits for what is next hears that it is over."""
        self._reading.close()

    async def aclose(self) -> None:
        """Do as ``close``."""
        self.close()


class _Wakeup:
    """Wakes who waits for a signal on an event loop. It hangs on the signal once, whichever loops wait for that."""

    def __init__(self, signal: Reply) -> None:
        self.signal = signal
        self._future: asyncio.Future[None] | None = None
        signal.when_done(self._wake)

    def future(self) -> asyncio.Future[None]:
        """Return what is done, on the running loop, when the signal is."""
        loop, found = asyncio.get_running_loop(), self._future
        if found is None or found.get_loop() is not loop:
            found = self._future = loop.create_future()
            if self.signal.done:  # looked at last: either this finds it done, or ``_wake`` finds the future
                _done(found)
        return found

    def _wake(self) -> None:
        future = self._future
        if future is not None:
            try:
                future.get_loop().call_soon_threadsafe(_done, future)
            except RuntimeError:  # the loop was closed: nobody waits there any more
                return


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
