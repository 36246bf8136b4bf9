"""Reading the journals of one task and of its teams' parts: what they have, and then what comes, up to its end.

Events come in the order of their numbers (``actors.tasks.orchestration.event_numbers``), so whoever knows the number of
the last one that it has seen goes on after it: in another process, too, and on another host.
A large value that is in the store only is read when its event is handed out: what is read ahead holds none.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from actors.concurrency.in_turn import InTurn
from actors.messaging.envelope import CURRENT
from actors.messaging.reply import Reply
from actors.tasks.journal.dropped import dropped_of
from actors.tasks.journal.metadata import MetadataReader
from actors.tasks.model.task_errors import StoreError, UnknownTaskError
from actors.tasks.model.task_events import (
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
)
from actors.tasks.model.task_ids import is_part_of
from actors.tasks.orchestration.messages import WaiterJoined
from actors.tasks.orchestration.task_runtime import OrchestratorPort
from actors.tasks.orchestration.task_waits import WaitOfTask
from actors.tasks.orchestration.unkept_events import UNKEPT, UnkeptEvents

_ENDS = (SubtaskSucceeded, SubtaskFailed, SubtaskSkipped, SubtaskCancelled)
Recall: TypeAlias = Literal["never", "ongoing", "always"]
"""Tasks of which is recalled what was streamed, and told of progress, before the reader began."""


class JournalFollower:
    """Reads a journal as it grows, as far as the bus has told of it: so what is not kept stands where it happened.

    It is over with the record of the task's end; or once the task has ended, and its journal has no such record to
    read: the store has let go of it; or when the tree has stopped. The record of the end may be read before the
    orchestrator has told of it. It is handed out after that, so whoever has it finds the report.

    A task that was removed may have a successor of its id. A journal is known by its first record: once the task has
    ended, what was read is handed out only if the journal is still that of this one.

    With ``deep`` it reads the journals of its teams' parts as well, from the record on that begins each of them.
    Records have their numbers in the order in which they are made, on one thread, so the journals are merged by them.

    Of what is in no journal a slow reader has the newest (``actors.tasks.orchestration.unkept_events``). Whoever begins
    at the beginning while the task goes on has what was streamed before, too, as far as it is recalled, and the last
    progress of each subtask.
    """

    def __init__(
        self,
        port: OrchestratorPort,
        id_: str,
        *,
        deep: bool = True,
        after: int = 0,
        recall: Recall = "ongoing",
        only: tuple[type[TaskEvent], ...] = (TaskEvent,),
        whole: bool = True,
    ) -> None:
        self._port = port
        self._id = id_
        self._deep = deep
        self._only, self._is_whole = only, whole
        """Kinds of events that are told, and whether large values are fetched for them."""
        self._numbers = port.runtime.numbers
        self._whole = self._numbers.whole(id_)
        self._after = after
        """Yield what has a larger number."""
        self._last = after
        """Number of the last one: of what is in no journal, too."""
        self._journals = [_Journal(id_)]
        """The task's, and those of its parts that have begun."""
        self._turns = InTurn()
        """Guards ``_unkept``, between the thread that tells of events and the one that reads."""
        self._unkept = UnkeptEvents()
        self._taken: UnkeptEvents | None = None
        """Events that were taken from there, until they are among ``_untold``."""
        self._was_cut = False
        """True where the last look was cut short."""
        self._until = self._numbers.latest(self._whole)
        """Number up to which the journals are read: there is more in them than was heard of."""
        self._complete = 0
        """Number of a record: all that was streamed before that, and is in no journal, was found by the last look."""
        self._end: tuple[TaskEvent, ...] = ()
        """The record of the task's end, where that was read before the orchestrator has told of it."""
        self._knows_all = False
        """True once all was told up to the task's end: nothing more is, whatever else gets its id."""
        self._missed = 0
        self._caught_up = -1
        """How often something may have happened that nobody told of, and how often it was looked for."""
        self.path, self.scope = port.path, f"{port.path}/"
        self.over = False
        self.signal = WaitOfTask(port, id_)
        self._first, self._done = self._begin()
        """Time and number of the first record, as far as there is one; and what is completed with the task's end."""
        self._had_ended = self._done.succeeded
        """True where nothing is told any more: all that was is recalled."""
        self.stop = port.runtime.feed.follow(id_, self, self._done)
        """Hear nothing more."""
        self._is_always = recall == "always"
        """True where what was told before is told also where the task has ended meanwhile."""
        recalled, self._recalled = ([], 0) if recall == "never" else port.runtime.streams.recall(id_)
        """Events of before; number of the last one. Recalled after it follows: by that it is known when it is heard."""
        self._earlier = [event for event in recalled if self._is_mine(event)]
        """Events of its task among them, until the first look."""
        self._untold: deque[TaskEvent] = deque()
        """Events that are in no journal, of before and heard since, until they are handed out one by one."""

    def hear(self, event: TaskEvent) -> None:
        """Something happened to the task, or to a part of it."""
        if not self._is_mine(event):
            return
        if isinstance(event, UNKEPT):
            self._turns.do(lambda: self._unkept.put(event))
        else:
            self._until = max(self._until, event.seq)
        self.signal.complete()

    def wake(self) -> None:
        """Have the reader look."""
        self.signal.complete()

    def catch_up(self) -> None:
        """Something may have happened that nobody told of."""
        self._missed += 1
        self.wake()

    def has_heard_all(self) -> None:
        """The task has ended, and all of that was told."""
        self._knows_all = True
        self.wake()

    def expected(self) -> Reply:
        """Return what is completed with the next news. It fails where they cannot come before a worker has ended."""
        current = CURRENT.get()
        if current is not None:
            self.signal.listed(current.incarnation.mailbox.path)
            self._port.tell(WaiterJoined(self._id, (), ()))
        return self.signal

    def news(self) -> Iterator[TaskEvent]:
        """Return what has come since the last look.

        It ends with a tree that somebody has stopped. Raises ``TreeDownError`` where nobody had asked for its end.
        Cut short (an error of the store, a Ctrl-C), the next look goes on where this one was. So nothing is called
        between the step that notes an event as told and its ``yield``: a call is where Python looks for signals.
        """
        try:
            yield from self._news()
        except BaseException:
            self._read_again()
            raise

    def _read_again(self) -> None:
        """Read the journals from their beginnings, and hand out what comes after the last one that was."""
        self._after, self._caught_up = self._last, -1
        self._journals, self._end, self._was_cut = [_Journal(self._id)], (), True

    def _news(self) -> Iterator[TaskEvent]:  # noqa: C901 - one look, in order
        self.signal = WaitOfTask(self._port, self._id)
        down = self._port.system.is_down or (self._done.done and not self._done.succeeded)
        ended = self._done.succeeded  # before the journals are read: then all of them are there
        missed = self._missed
        is_last = down or (ended and (self._knows_all or self._had_ended))  # else something is still to be heard
        until = self._until
        if self._take_over():
            self._complete = until
        else:
            is_last = False
            self.wake()
        kept = [*self._end, *self._kept(self._reach(until, missed, is_last=is_last))]
        self._recall(ended=ended)
        if (down or self._done.done) and self._is_of_another():  # after they were read: it may have begun meanwhile
            kept = []
            self._untold.clear()
        self._end = ()
        for event in heapq.merge(kept, [*self._untold], key=_place):
            if isinstance(event, UNKEPT):
                # Never the number of a record that is yet to come: whoever goes on after it would not see that.
                told = event if event.seq == self._last else replace(event, seq=self._last)
                is_told = self._tells(told)
                del self._untold[0]
                if is_told:
                    yield told
                continue
            is_end = self._is_end(event)
            if is_end and not is_last:
                self._keep_end(event)
                return
            if event.seq > self._after:
                is_told = self._tells(event)
                self._last = event.seq
                if is_told:
                    yield event
            if is_end:
                self.over = True
                return
        if is_last and not self.over:
            self.over = True  # all is read, without the end: the store has let go of it, or the tree has ended
            if down and (self._port.system.cause is not None or not self._port.system.is_down):
                with suppress(UnknownTaskError):  # the store has let go of it
                    self._done.get()  # raises: the tree has failed, or nobody goes on with the task

    def _reach(self, until: int, missed: int, *, is_last: bool) -> float:
        """Return the number up to which the journals are read now, at least ``until``.

        They are read one after the other while the task goes on. Up to this number each is complete by now.
        """
        if not is_last and missed == self._caught_up:
            return until
        self._caught_up = missed
        if is_last:
            return math.inf
        latest = self._numbers.latest(self._whole)
        if missed:
            self._complete = latest  # what nobody told of will not be heard
        return max(until, latest)

    def _tells(self, event: TaskEvent) -> bool:
        """True for an event that is to be told."""
        return isinstance(event, self._only)

    def _keep_end(self, end: TaskEvent) -> None:
        """Keep the record of the end until its orchestrator has told of it, and all that was told before is heard."""
        self._end = (end,)
        if not self._done.done:
            self._done.when_done(self.wake)

    def _recall(self, *, ended: bool) -> None:
        """Have told what was told before, once, where it is to be."""
        if self._earlier and (self._is_always or not ended):
            self._untold = deque([*self._earlier, *self._untold])
        self._earlier = []

    def _take_over(self) -> bool:
        """Take over what was heard since the last look, before it is seen how far the journals are read.

        Each event of these is behind its record. False where the last look was cut short: what is left of that is told
        first, and what was heard since waits where it is bounded.
        """
        was_cut, self._was_cut = self._was_cut, False
        if was_cut and self._untold:
            return False
        if self._taken is None:
            self._turns.get(self._take, None)
        if self._taken is not None:
            heard = (each for each in self._taken.held() if each.number > self._recalled)
            self._untold = deque([*self._untold, *heard])
            self._taken = None
        return True

    def _take(self) -> None:
        fresh = UnkeptEvents()
        self._taken, self._unkept = self._unkept, fresh

    def _is_end(self, event: TaskEvent) -> bool:
        return isinstance(event, TaskFinished) and event.task == self._id

    def _begin(self) -> tuple[tuple[float, int] | None, Reply]:
        while True:
            first = self._first_record()
            done = self._port.waiting(self._id)
            if self._first_record() == first:  # else another task has got the id in between
                return first, done

    def _first_record(self) -> tuple[float, int] | None:
        found: Any = self._port.runtime.store.firsts([self._id]).get(self._id)
        return None if found is None else (found.at, found.seq)

    def _is_of_another(self) -> bool:
        """True where the journal that it has read is gone, and perhaps another task has its id."""
        return self._first is not None and self._first_record() != self._first

    def whole(self, event: TaskEvent, kept: Reply) -> TaskEvent | None:
        """Return an event with its value, which was fetched; None: its task was removed, and nothing more is read.

        Raises:
            StoreError: the value cannot be had.
        """
        try:
            return whole_of(event, kept.get())
        except (StoreError, LookupError):
            if not self._is_of_another():
                raise
            self.over = True
            return None

    def _is_mine(self, event: TaskEvent) -> bool:
        return event.task == self._id or (self._deep and is_part_of(event.task, None, self._id))

    def _kept(self, until: float) -> Iterator[TaskEvent]:
        """The records of all journals up to this number, in order, each with its number."""
        heap: list[_Head] = []
        for journal in tuple(self._journals):
            self._push(heap, journal, self._fresh(journal, until))
        while heap:
            *_, rest, record, journal = heapq.heappop(heap)
            if self._first is None:
                self._first = record.at, record.seq
            journal.read += 1
            part = record.part if self._deep and isinstance(record, SubtaskStarted) else ""
            if part and all(each.id != part for each in self._journals):
                begun = _Journal(part)
                self._journals.append(begun)
                self._push(heap, begun, self._fresh(begun, until))
            yield journal.labels.labelled(record)
            self._push(heap, journal, rest)

    def _push(self, heap: list[_Head], journal: _Journal, rest: Iterator[TaskEvent]) -> None:
        record = next(rest, None)
        if record is not None:
            heapq.heappush(heap, _Head(record.seq, self._journals.index(journal), rest, record, journal))

    def _fresh(self, journal: _Journal, until: float) -> Iterator[TaskEvent]:
        return itertools.takewhile(lambda each: each.seq <= until, self._read(journal.id, journal.read))

    def _read(self, id_: str, start: int = 0) -> Sequence[TaskEvent]:
        return cast(Sequence[TaskEvent], self._port.runtime.outline(id_, start))

    def fetched(self, event: TaskEvent) -> Reply | None:
        """The record of an event that lacks a large value, from the store; None: it is whole."""
        if not self._is_whole:
            return None
        at, durable = dropped_of(event), self._port.runtime.durable
        return durable.fetch(at.stream, (at.number,)) if at is not None and durable is not None else None


class TextFollower(JournalFollower):
    """Follows a task, and tells only of text that was streamed: by all, or by one subtask and its team.

    It is over with the task, or with the subtask.
    """

    def __init__(self, port: OrchestratorPort, id_: str, subtask: str | None) -> None:
        super().__init__(port, id_, deep=True, after=0, recall="always", whole=False)
        self._subtask = subtask
        self._parts: set[str] = set()
        """Parts of the task that teams have had of the subtask."""
        self._ended: int | None = None
        """Number of the subtask's end, where that was told last of it. A reviewer may still send it back."""
        self.lost = 0

    def news(self) -> Iterator[TaskEvent]:
        """Return the pieces of text that have come since the last look."""
        yield from super().news()
        if self._ended is not None and self._ended <= self._complete:  # else something of it may still be heard
            self.over = True

    def _tells(self, event: TaskEvent) -> bool:
        if self._subtask is not None and isinstance(event, SubtaskEvent):
            self._note(event)
        if not (isinstance(event, SubtaskStreamed) and self._is_wanted(event)):
            return False
        self.lost += event.lost
        return event.kind == "text" and bool(event.text)

    def _note(self, event: SubtaskEvent) -> None:
        """Note where the subtask stands."""
        if event.task != self._id or event.subtask != self._subtask:
            return
        if isinstance(event, _ENDS):
            self._ended = event.seq
        elif isinstance(event, (SubtaskQueued, SubtaskStarted)):
            self._ended = None
            if isinstance(event, SubtaskStarted) and event.part:
                self._parts.add(event.part)

    def _is_wanted(self, event: SubtaskStreamed) -> bool:
        if self._subtask is None or (event.task == self._id and event.subtask == self._subtask):
            return True
        return any(event.task == part or is_part_of(event.task, None, part) for part in self._parts)


def whole_of(event: TaskEvent, records: dict[int, TaskEvent]) -> TaskEvent:
    """An event with its large value, from what was fetched for it; or as it is, where somebody has done so before.

    Raises:
        LookupError: what was fetched is no record of this event.
    """
    at = dropped_of(event)
    if at is None:
        return event
    record = records[at.number]
    if type(record) is not type(event) or record.at != event.at:
        raise LookupError(f"record {at.number} of {at.stream} is another one")
    large: dict[str, Any] = {event.large: getattr(record, event.large)}
    return replace(event, **large)


def _place(event: TaskEvent) -> tuple[int, bool]:
    """Place of an event: one that is in no journal stands behind the record whose number it has."""
    return event.seq, isinstance(event, UNKEPT)


@dataclass(slots=True, eq=False)
class _Journal:
    """One that is being read."""

    id: str
    read: int = 0
    """Records so far."""
    labels: MetadataReader = field(default_factory=MetadataReader)


class _Head(NamedTuple):
    """The next record of a journal, as it stands in line."""

    seq: int
    place: int
    """Place of the journal: no two heads are alike."""
    rest: Iterator[TaskEvent]
    record: TaskEvent
    journal: _Journal
