"""Reading the events of one task and of its teams' parts: what the journals have, and then what comes, up to its end.

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
from dataclasses import dataclass
from typing import NamedTuple, Self, cast

from actors.messaging.reply import Reply, require_thread
from actors.model.errors import ActorsError
from actors.tasks.model.task_events import (
    Compensating,
    SubtaskProgressed,
    SubtaskStarted,
    TaskEnding,
    TaskEvent,
    TaskFinished,
    TaskReopened,
)
from actors.tasks.model.task_ids import is_part_of
from actors.tasks.orchestration.task_runtime import OrchestratorPort


class TaskEvents:
    """The events of one task: what is in the journal, and then what comes. May be read several times."""

    def __init__(self, desk: OrchestratorPort, id_: str, *, new: bool = False, deep: bool = True) -> None:
        self._desk = desk
        self._id = id_
        self._new = new
        self._deep = deep

    def __iter__(self) -> Iterator[TaskEvent]:
        follower = self._follower()
        try:
            while not follower.over:
                yield from follower.news()
                if not follower.over:
                    require_thread(self._desk.path, "async for event in handle.events()")
                    follower.signal.wait(None)
        finally:
            follower.stop()

    def __aiter__(self) -> AsyncTaskEvents:
        return AsyncTaskEvents(self._follower())

    def _follower(self) -> JournalFollower:
        return JournalFollower(self._desk, self._id, new=self._new, deep=self._deep)


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
    """Reads a journal as it grows, as far as the bus has told of it: so what is not kept stands where it happened.

    It is over with the record of the task's end; or once the task has ended, and its journal has no such record to
    read: an earlier process has recorded that, and only what is ``new`` is wanted, or the store has let go of it.

    With ``deep`` it reads the journals of its teams' parts as well, each from the record that begins the part on. They
    are merged by time: all records of a process have the time of one clock, and are made on one thread.
    """

    def __init__(self, desk: OrchestratorPort, id_: str, *, new: bool, deep: bool) -> None:
        self._desk = desk
        self._id = id_
        self._deep = deep
        self._new = new
        self._journals: list[_Journal] = []
        """The task's, and those of its parts that have begun."""
        self._unkept: deque[TaskEvent] = deque()
        self._until = -math.inf
        """Yield what is in the journals already, then what is heard of."""
        self._missed = 0
        self._caught_up = -1
        """How often something may have happened that nobody told of, and how often it was looked for."""
        self.scope = f"{desk.path}/"
        self.over = False
        self.signal = Reply()
        self._done = desk.waiting(id_)
        self.stop = desk.ground.feed.follow(id_, self, self._done)
        """Hear nothing more."""

    def hear(self, event: TaskEvent) -> None:
        """Something happened to the task, or to a part of it."""
        if event.task != self._id and not (self._deep and is_part_of(event.task, None, self._id)):
            return
        if isinstance(event, SubtaskProgressed):
            self._unkept.append(event)
        is_end = isinstance(event, TaskFinished) and event.task == self._id
        self._until = math.inf if is_end else max(self._until, event.at)  # several threads tell of progress
        self.signal.complete()

    def wake(self) -> None:
        """Have the reader look."""
        self.signal.complete()

    def catch_up(self) -> None:
        """Something may have happened that nobody told of."""
        self._missed += 1
        self.wake()

    def news(self) -> Iterator[TaskEvent]:
        """Return what has come since the last look. Raises ``TreeDownError`` where nothing more will come."""
        self.signal = Reply()
        down = self._desk.system.is_down or (self._done.done and not self._done.succeeded)
        ended = self._done.succeeded  # before the journals are read: then all of them are there
        missed, until = self._missed, self._until
        if down or missed != self._caught_up:
            self._caught_up, until = missed, math.inf if down else max(until, self._latest())
        unkept = [self._unkept.popleft() for _ in range(len(self._unkept))]
        for event in heapq.merge(self._kept(until), unkept, key=lambda each: each.at):
            yield event
            if isinstance(event, TaskFinished) and event.task == self._id:
                self.over = True
                return
        if ended and not self._read(self._id, self._journals[0].read):
            self.over = True  # all is read, and the end was not in it
        if down and not self.over:
            self.over = True
            self._done.get()  # raises where the tree is down

    def _kept(self, until: float) -> Iterator[TaskEvent]:
        """The records of all journals up to this time, in order."""
        if not self._journals:
            before = self._before(self._id)
            self._journals.append(_Journal(self._id, len(before), 0))
            self._add_parts_of(self._journals[0], before)
        heap: list[_Head] = []
        for journal in tuple(self._journals):
            self._push(heap, journal, self._fresh(journal, until))
        while heap:
            *_, rest, record, journal = heapq.heappop(heap)
            journal.read += 1
            for part in self._add_parts_of(journal, [record]):
                self._push(heap, part, self._fresh(part, until))
            if isinstance(record, (SubtaskStarted, Compensating)):
                _release(heap, f"{journal.id}/{record.subtask}#")
            yield record
            self._push(heap, journal, rest)

    def _latest(self) -> float:
        """The latest moment that is in the journals by now, where the task goes on.

        They are read one after the other while it does. Up to this moment each of them is complete by now; what is
        later is heard of. Without that bound, one that is read later would be ahead of the others.
        """
        if self._done.done:
            return math.inf
        latest, known, left = -math.inf, {self._id}, [self._id]
        while left:
            for record in self._read(left.pop()):
                latest = max(latest, record.at)
                part = record.part if self._deep and isinstance(record, SubtaskStarted) else ""
                if part and part not in known:
                    known.add(part)
                    left.append(part)
        return latest

    def _push(self, heap: list[_Head], journal: _Journal, rest: Iterator[TaskEvent]) -> None:
        record = next(rest, None)
        if record is not None:
            rank = journal.depth if _begun_by(record) else -journal.depth
            heapq.heappush(heap, _Head(record.at, rank, self._journals.index(journal), rest, record, journal))

    def _fresh(self, journal: _Journal, until: float) -> Iterator[TaskEvent]:
        return itertools.takewhile(lambda each: each.at <= until, self._read(journal.id, journal.read))

    def _read(self, id_: str, start: int = 0) -> Sequence[TaskEvent]:
        return cast(Sequence[TaskEvent], self._desk.ground.store.read(id_, start))

    def _add_parts_of(self, journal: _Journal, records: Sequence[TaskEvent]) -> list[_Journal]:
        """Read the parts, too, that these records begin; where a process before this one began them, from here on."""
        known, added = {each.id for each in self._journals}, list[_Journal]()
        for record in records if self._deep else ():
            part = record.part if isinstance(record, SubtaskStarted) else ""
            if part and part not in known:
                known.add(part)
                before = self._before(part)
                added.append(_Journal(part, len(before), journal.depth + 1))
                self._journals.append(added[-1])
                self._add_parts_of(added[-1], before)
        return added

    def _before(self, id_: str) -> Sequence[TaskEvent]:
        """Return what is not wanted of a task or a part: what earlier processes recorded, where only the new is."""
        if not self._new:
            return []
        ground, records = self._desk.ground, self._read(id_)
        unfinished = ground.before.get(id_)
        return (
            records[:unfinished]
            if unfinished is not None
            else [*itertools.takewhile(lambda each: each.at < ground.opened_at, records)]
        )


@dataclass(slots=True, eq=False)
class _Journal:
    """One that is being read."""

    id: str
    read: int
    """Records so far."""
    depth: int
    """0: the task itself."""


class _Head(NamedTuple):
    """The next record of a journal, as it stands in line.

    Of one moment what a part did stands before what follows from it in the task above, and what it was told to do
    after all of that: until the record is passed that says so (``_release``).
    """

    at: float
    rank: int
    number: int
    """Number in the journal: no two heads are alike."""
    rest: Iterator[TaskEvent]
    record: TaskEvent
    journal: _Journal


def _begun_by(record: TaskEvent) -> str:
    """The attempt of the task above by which a part goes on that had ended; else nothing."""
    told = isinstance(record, (TaskReopened, TaskEnding)) and record.parent
    return told or ""


def _release(heap: list[_Head], attempts: str) -> None:
    """The attempt of such a key begins here, so what it has a part do comes next."""
    for number, head in enumerate(heap):
        if _begun_by(head.record).startswith(attempts):
            heap[number] = head._replace(rank=-head.journal.depth)
    heapq.heapify(heap)
