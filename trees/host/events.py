"""Reading what happens to one task, by ``for`` and by ``async for``: its events, its text, its questions to people.

A reading is a cursor in the journal of its task: it hands out what is kept there, in the order of the numbers
(``event.seq``), and waits for more, up to the task's end. Events that are in no journal (streamed text, progress) stand
where they happened; a slow reader has the newest of them (``actors.tasks.engine.stream_relay``).

A wait may be given up at any time, by a cancelled ``anext`` or by an error of the store: the next call goes on with the
next event. One reading has one consumer at a time; calls of ``next`` and of ``anext`` may follow one another.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Generic, Self, TypeVar, cast

from actors.messaging.blocking import require_thread
from actors.messaging.envelope import CURRENT
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import list_wait
from actors.tasks.engine.scope import Scope
from actors.tasks.engine.stream_relay import Place, UnkeptEvent
from actors.tasks.journal.unit import Escalation
from actors.tasks.model import (
    EscalationRaised,
    SubtaskCancelled,
    SubtaskEvent,
    SubtaskFailed,
    SubtaskQueued,
    SubtaskSkipped,
    SubtaskStarted,
    SubtaskStreamed,
    SubtaskSucceeded,
    TaskEvent,
    TaskFinished,
    UnknownTaskError,
)
from trees.host.answers import open_question

ReadT = TypeVar("ReadT")
_ENDS = (SubtaskSucceeded, SubtaskFailed, SubtaskSkipped, SubtaskCancelled)


class Reading(Iterator[ReadT], AsyncIterator[ReadT], Generic[ReadT]):
    """One reading of what the events of a task tell of. It begins when it is made.

    A subclass has ``_read``, which makes what is handed out of an event, and ``instead``: what to write on an event
    loop.

    Args:
        scope: the supervisor that has the task.
        id_: of the task.
        deep: False: nothing of what happens inside its teams.
        after: number of the last event that is passed over.
        recall: what was streamed before is among it, also where the task has ended. False: only of one that goes on,
            and for who has not read before (``after``).
    """

    instead: str

    def __init__(
        self,
        scope: Scope,
        id_: str,
        *,
        deep: bool = True,
        after: int = 0,
        recall: bool = False,
    ) -> None:
        self._scope, self._service, self._id, self._deep = scope, scope.service, id_, deep
        self._last = after
        """Number of the last record that was found, or passed over. Numbers count the records of a journal."""
        self._ready: deque[TaskEvent] = deque()
        """Events that were found, to be handed out in order."""
        self._is_closed = False
        self._is_read = False
        """True once all has been found that there will be."""
        self._streams = self._service.streams
        self._has_ended = False
        """True if what is read has ended before its task."""
        self._done = self._service.waiting(id_)
        """Completed with the task's report."""
        is_recalled = recall or not (after or self._done.succeeded)
        self._place = Place() if is_recalled else self._streams.here(id_)
        """How far the events were read that are in no journal."""

    @abstractmethod
    def _read(self, event: TaskEvent) -> ReadT | None:
        """Return what is handed out of an event; None: nothing."""

    # -- iterating -----------------------------------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReadT:
        while (found := self._take()) is None:
            if self._is_closed:
                raise StopIteration
            require_thread(self._scope.path, self.instead)
            self._news().get()
        return found

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReadT:
        while (found := self._take()) is None:
            if self._is_closed:
                raise StopAsyncIteration
            await self._news()
        return found

    def close(self) -> None:
        """Read no more; a consumer that waits for the next one hears that it is over. May be called on any thread."""
        self._is_closed = True
        self._streams.wake(self._id)

    async def aclose(self) -> None:
        """Do as ``close``."""
        self.close()

    def _take(self) -> ReadT | None:
        """Return the next one that there is; None: none is there now, or (then it is closed) none will be.

        Raises:
            ActorsError: the tree has failed, or the journal cannot be read. It can be tried again.
        """
        while not self._is_closed:
            while self._ready:
                if (found := self._read(self._ready.popleft())) is not None:
                    return found
            if self._is_read or self._has_ended:
                self.close()
                self._raise_failure()
            else:
                self._look()
                if not self._ready and not self._is_read:
                    break
        return None

    def _raise_failure(self) -> None:
        """Raise what a tree has failed of, or why nobody goes on with the task; nothing after an ordinary end."""
        system = self._scope.system
        was_stopped = system.is_down and system.cause is None
        if self._is_read and not self._done.succeeded and not was_stopped:
            with suppress(UnknownTaskError):  # the store has let go of it
                self._done.get()

    def _news(self) -> Reply:
        """Return what is completed with the next news. For a worker it fails if none can come before that has ended."""
        if CURRENT.get() is None:
            return self._signal
        own = Reply(self._scope.system.boxes.get(self._scope.port.address))
        list_wait(own)
        self._signal.when_done(own.complete)
        return own

    # -- finding -------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Find what has come since the last look. Where that fails nothing has changed."""
        self._signal = self._streams.news(self._id)
        is_last = self._scope.system.is_down or self._done.done
        records = cast("list[TaskEvent]", list(self._service.store.read(self._id, self._last)))
        run = self._service.run_of(self._id)  # behind that: an engine takes a task up before it adds to its journal
        if run is not None:
            records = [each for each in records if each.seq <= run.kept]
        if records and isinstance(records[-1], TaskFinished) and not is_last:
            records.pop()  # handed out once the report is there
        heard, self._place = self._streams.after(self._id, self._place)
        for event in sorted((*records, *filter(self._is_mine, heard)), key=_place):
            if isinstance(event, UnkeptEvent):
                # Never the number of a record that is yet to come: whoever goes on after it would not see that.
                self._ready.append(replace(event, seq=self._last))
            else:
                self._last = event.seq
                if self._is_mine(event):
                    self._ready.append(event)
        self._is_read = is_last
        if is_last:
            self._streams.wake(self._id)  # nobody else will

    def _is_mine(self, event: TaskEvent) -> bool:
        return self._deep or not getattr(event, "is_deep", False)


class TaskEvents(Reading[TaskEvent]):
    """The events of a task: what is in the journal, and then what comes."""

    instead = "async for event in handle.events()"

    def _read(self, event: TaskEvent) -> TaskEvent:
        return event


class TextStream(Reading[str]):
    """One reading of the text that the attempts of a task stream, up to the end of the task, or of one of its subtasks.

    What was streamed before the reading begins is among it as far as there is room for it, also for a moment after the
    end. Text of several attempts at once comes interleaved: ``handle.events()`` says which is whose.
    """

    instead = "async for text in handle.stream()"

    def __init__(self, scope: Scope, id_: str, subtask: str | None) -> None:
        super().__init__(scope, id_, recall=True)
        self._subtask = subtask
        self.lost = 0
        """Characters of the task so far that were dropped: they came faster than they were read, or long before."""

    def _read(self, event: TaskEvent) -> str | None:
        own = self._subtask
        if isinstance(event, SubtaskStreamed):
            self.lost += event.lost
            if own is not None and event.subtask != own and not event.subtask.startswith(f"{own}/"):
                return None
            return event.text if event.kind == "text" and event.text else None
        if isinstance(event, SubtaskEvent) and event.subtask == own and event.role == "work":
            if isinstance(event, _ENDS):
                self._has_ended = True  # a reviewer may still send it back
            elif isinstance(event, (SubtaskQueued, SubtaskStarted)):
                self._has_ended = False
        return None


class Questions(Reading[Escalation]):
    """Questions of a task to people that are open when they are handed out, each once."""

    instead = "async for question in handle.questions()"

    def _read(self, event: TaskEvent) -> Escalation | None:
        return open_question(self._service, event.escalation) if isinstance(event, EscalationRaised) else None


def _place(event: TaskEvent) -> tuple[int, bool]:
    """Place of an event: one that is in no journal stands behind the record whose number it has."""
    return event.seq, isinstance(event, UnkeptEvent)
