"""Reading what happens to one task, by ``for`` and by ``async for``: its events, its text, its questions to people.

``trees.host.journal_follower`` finds the events: those of the journal from a number on, then what comes, up to the end.
A ``Reading`` hands them out. A wait may be given up at any time, by a cancelled ``__anext__`` (a keep-alive by
``asyncio.wait_for``, a client that has left) or by an error of the store: the next call goes on with the next event.
One reading has one consumer at a time; calls of ``next`` and of ``anext`` may follow one another.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Final, Generic, Self, TypeVar

from actors.concurrency.weak_registry import WeakRegistry
from actors.messaging.blocking import require_thread
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import enter, leave
from actors.model.errors import ActorsError
from actors.tasks.engine.scope import Scope
from actors.tasks.journal.questions import Escalation
from actors.tasks.model.task_events import EscalationRaised, SubtaskStreamed, TaskEvent
from trees.host.answers import open_question
from trees.host.journal_follower import JournalFollower, Recall, TextFollower
from trees.host.submission import came

ReadT = TypeVar("ReadT")
_INSTEAD: Final = "async for event in handle.events()"


class Reading(Iterator[ReadT], AsyncIterator[ReadT], Generic[ReadT]):
    """One reading of what the events of a task tell of. It begins when it is made.

    A subclass has ``_read``, which makes what is handed out of an event.

    Args:
        follower: finds the events.
        instead: what to write on an event loop.
    """

    def __init__(self, follower: JournalFollower, instead: str) -> None:
        self._follower = follower
        self._instead = instead
        self._ready: deque[TaskEvent] = deque()
        """Events that were found, to be handed out in order."""
        self._error: ActorsError | None = None
        """Raised after the events that were found before it."""
        self._is_closed = False

    @abstractmethod
    def _read(self, event: TaskEvent) -> ReadT | None:
        """Return what is handed out of an event; None: nothing."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReadT:
        while True:
            while not self._has_some():
                require_thread(self._follower.path, self._instead)
                signal = self._follower.expected()
                signal.wait(None)
                signal.outcome()
            event = self._taken()
            if event is None:
                raise StopIteration
            if (found := self._read(event)) is not None:
                return found

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReadT:
        while True:
            while not self._has_some():
                await self._wait(self._follower.expected())
            event = self._taken()
            if event is None:
                raise StopAsyncIteration
            if (found := self._read(event)) is not None:
                return found

    async def _wait(self, signal: Reply) -> None:
        entered = enter(signal)
        try:
            await came(signal, None)
        except BaseException:
            self._follower.wake()  # the next call waits for a new signal: callbacks of given up waits do not add up
            raise
        finally:
            leave(signal, entered)
        signal.outcome()

    def _has_some(self) -> bool:
        """True if there is an event, an error or the end; looks for events if there is none at hand."""
        if not self._ready and self._error is None and not self._follower.over:
            try:
                for event in self._follower.news():
                    self._ready.append(event)
            except ActorsError as error:
                self._error = error
        return bool(self._ready) or self._error is not None or self._follower.over

    def _taken(self) -> TaskEvent | None:
        """Take the next event; None: it is over.

        Raises:
            ActorsError: the tree has failed, or the journal cannot be read. It can be tried again.
        """
        if self._ready and not self._is_closed:
            return self._ready.popleft()
        if self._error is not None and not self._is_closed:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # it would hold this frame, which holds it
        self._ready.clear()
        self._follower.stop()
        return None

    def close(self) -> None:
        """Read no more; a consumer that waits for the next one hears that it is over. May be called on any thread."""
        self._is_closed = True
        self._follower.over = True
        self._follower.stop()
        self._follower.wake()

    async def aclose(self) -> None:
        """Do as ``close``."""
        self.close()


class _EventReading(Reading[TaskEvent]):
    def _read(self, event: TaskEvent) -> TaskEvent:
        return event


class TaskEvents(Iterator[TaskEvent], AsyncIterator[TaskEvent]):
    """The events of a task: what is in the journal, and then what comes.

    Each ``for`` and ``async for`` reads them from the beginning. ``next`` and ``anext`` share one reading of this
    object, and a loop of either kind goes on with that. One iterator has one consumer at a time.
    """

    def __init__(self, port: Scope, id_: str, *, new: bool = False, deep: bool = True, after: int = 0) -> None:
        self._port = port
        self._id = id_
        self._new = new
        self._deep = deep
        self._after = after
        self._own: _EventReading | None = None
        self._readings: WeakRegistry[_EventReading] = WeakRegistry()
        self._is_closed = False

    def __iter__(self) -> Iterator[TaskEvent]:  # noqa: PYI034 - each loop has a reading of its own
        return self._own or self._reading()

    def __next__(self) -> TaskEvent:
        return next(self._begun())

    def __aiter__(self) -> AsyncIterator[TaskEvent]:  # noqa: PYI034 - the same
        return self._own or self._reading()

    async def __anext__(self) -> TaskEvent:
        return await anext(self._begun())

    def close(self) -> None:
        """Read no more, in all loops over it; a consumer that waits for the next event hears that it is over."""
        self._is_closed = True
        for reading in self._readings.snapshot():
            reading.close()

    async def aclose(self) -> None:
        """Do as ``close``."""
        self.close()

    def _begun(self) -> _EventReading:
        if self._own is None:
            self._own = self._reading()
        return self._own

    def _reading(self) -> _EventReading:
        earlier = self._port.service.before.get(self._id, 0) if self._new else 0
        recall: Recall = "never" if self._after else "ongoing"  # who has read before has read of it before
        after = max(self._after, earlier)
        follower = JournalFollower(self._port, self._id, deep=self._deep, after=after, recall=recall)
        reading = _EventReading(follower, _INSTEAD)
        self._readings.add(reading)
        if self._is_closed:  # looked at after it was added: either this finds it, or ``close`` finds the reading
            reading.close()
        return reading


class TextStream(Reading[str]):
    """One reading of the text that the attempts of a task stream, up to the end of the task, or of one of its subtasks.

    What was streamed before the reading begins is among it as far as there is room for it, also for a moment after the
    end. Text of several attempts at once comes interleaved: ``handle.events()`` says which is whose.
    """

    def __init__(self, port: Scope, id_: str, subtask: str | None) -> None:
        self._texts = TextFollower(port, id_, subtask)
        super().__init__(self._texts, "async for text in handle.stream()")

    @property
    def lost(self) -> int:
        """Characters so far that were dropped: they came faster than they were read, or before the reading began."""
        return self._texts.lost

    def _read(self, event: TaskEvent) -> str | None:
        return event.text if isinstance(event, SubtaskStreamed) else None


class Questions(Reading[Escalation]):
    """Questions of a task to people that are open when they are handed out, each once."""

    def __init__(self, port: Scope, id_: str) -> None:
        self._service = port.service
        asked = JournalFollower(port, id_, recall="never", only=(EscalationRaised,))
        super().__init__(asked, "async for question in handle.questions()")

    def _read(self, event: TaskEvent) -> Escalation | None:
        if not isinstance(event, EscalationRaised):
            return None
        return open_question(self._service, event.escalation)
