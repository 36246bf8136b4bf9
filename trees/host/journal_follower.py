"""Reading the journal of one task: what it has, and then what comes, up to its end.

Events come in the order of their numbers (``event.seq``), so whoever knows the number of the last one that it has seen
goes on after it: in another process, too, and on another host.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, TypeAlias, cast

from actors.concurrency.in_turn import InTurn
from actors.messaging.envelope import CURRENT
from actors.messaging.reply import Reply
from actors.tasks.engine.scope import Scope
from actors.tasks.engine.task_waits import WaitOfTask
from actors.tasks.engine.unkept_events import UNKEPT, UnkeptEvents
from actors.tasks.journal.metadata import MetadataReader
from actors.tasks.model.task_errors import UnknownTaskError
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

_ENDS = (SubtaskSucceeded, SubtaskFailed, SubtaskSkipped, SubtaskCancelled)
Recall: TypeAlias = Literal["never", "ongoing", "always"]
"""Tasks of which is recalled what was streamed, and told of progress, before the reader began."""


class JournalFollower:
    """Reads a journal as it grows, as far as it is kept; what is in no journal stands where it happened.

    It is over with the record of the task's end, which is handed out once the report is there; or once the task has
    ended, and its journal has no such record: the store has let go of it; or when the tree has stopped.

    A task that was removed may have a successor of its id. A journal is known by its first record: once the task has
    ended, what was read is handed out only if the journal is still that of this one.

    Of what is in no journal a slow reader has the newest (``actors.tasks.engine.unkept_events``).
    """

    def __init__(
        self,
        scope: Scope,
        id_: str,
        *,
        deep: bool = True,
        after: int = 0,
        recall: Recall = "ongoing",
        only: tuple[type[TaskEvent], ...] = (TaskEvent,),
    ) -> None:
        self._scope, self._service, self._id, self._deep = scope, scope.service, id_, deep
        self.path, self._only = scope.path, only
        self._last = after
        """Number of the last one that was handed out, or passed over."""
        self._labels = MetadataReader()
        self._read = 0
        """Records that were read."""
        self._held: list[TaskEvent] = []
        """Records that were read, and are yet to be handed out."""
        self._turns = InTurn()
        """Guards ``_unkept``, between the thread that tells of events and the one that reads."""
        self._unkept = UnkeptEvents()
        self._untold: deque[TaskEvent] = deque()
        """Events that are in no journal, until they are handed out one by one."""
        self._knows_all = False
        """True once all was told up to the task's end: nothing more is, whatever else gets its id."""
        self.over = False
        self.signal = WaitOfTask(scope, id_)
        self._first, self._done = self._begin()
        """Time and number of the first record, as far as there is one; and what is completed with the task's end."""
        self._had_ended = self._done.succeeded
        self.stop = self._service.feed.follow(id_, self, self._done)
        """Hear nothing more."""
        is_recalled = recall == "always" or (recall == "ongoing" and not self._had_ended)
        recalled, self._recalled = self._service.streams.recall(id_) if is_recalled else ([], 0)
        self._untold.extend(event for event in recalled if self._is_mine(event))

    def hear(self, event: TaskEvent) -> None:
        """Something happened to the task."""
        if isinstance(event, UNKEPT) and self._is_mine(event):
            self._turns.do(lambda: self._unkept.put(event))
        self.signal.complete()

    def wake(self) -> None:
        """Have the reader look."""
        self.signal.complete()

    def catch_up(self) -> None:
        """Something may have happened that nobody told of."""
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
        return self.signal

    def news(self) -> Iterator[TaskEvent]:
        """Return what has come since the last look.

        It ends with a tree that somebody has stopped. Raises ``TreeDownError`` where nobody had asked for its end.
        Cut short (an error of the store, a Ctrl-C), the next look goes on where this one was.
        """
        self.signal = WaitOfTask(self._scope, self._id)
        down = self._scope.system.is_down or (self._done.done and not self._done.succeeded)
        ended = self._done.succeeded
        is_last = down or (ended and (self._knows_all or self._had_ended))  # else something is still to be heard
        self._take_over()
        kept = self._kept()
        if (down or self._done.done) and self._is_of_another():  # after it was read: it may have begun meanwhile
            kept = []
            self._untold.clear()
        for event in heapq.merge(kept, [*self._untold], key=_place):
            if isinstance(event, UNKEPT):
                # Never the number of a record that is yet to come: whoever goes on after it would not see that.
                told = event if event.seq == self._last else replace(event, seq=self._last)
                del self._untold[0]
                if self._tells(told):
                    yield told
                continue
            is_end = isinstance(event, TaskFinished) and self._is_final(event)
            if is_end and not is_last:
                if not self._done.done:
                    self._done.when_done(self.wake)
                return
            is_told = event.seq > self._last and self._is_mine(event) and self._tells(event)
            self._last = max(self._last, event.seq)
            if is_told:
                yield event
            if is_end:
                self.over = True
                return
        if is_last and not self.over:
            self._ends_without_its_end(down=down)

    def _ends_without_its_end(self, *, down: bool) -> None:
        """All is read, without the end: the store has let go of it, or the tree has ended."""
        self.over, system = True, self._scope.system
        if down and (system.cause is not None or not system.is_down):
            with suppress(UnknownTaskError):  # the store has let go of it
                self._done.get()  # raises: the tree has failed, or nobody goes on with the task

    def _tells(self, event: TaskEvent) -> bool:
        """True for an event that is to be told."""
        return isinstance(event, self._only)

    def _is_final(self, event: TaskEvent) -> bool:
        """True for the last end of a task, which may have been tried again after an earlier one."""
        last = self._service.store.last(self._id)
        return last is None or getattr(last, "seq", 0) <= event.seq

    def _take_over(self) -> None:
        """Take over what was heard since the last look."""
        taken: list[TaskEvent] = []
        self._turns.do(lambda: taken.extend(self._take()))
        self._untold.extend(taken)

    def _take(self) -> list[TaskEvent]:
        held, self._unkept = self._unkept.held(), UnkeptEvents()
        return [event for event in held if event.number > self._recalled]

    def _begin(self) -> tuple[tuple[float, int] | None, Reply]:
        while True:
            first = self._first_record()
            done = self._service.waiting(self._id)
            if self._first_record() == first:  # else another task has got the id in between
                return first, done

    def _first_record(self) -> tuple[float, int] | None:
        found: Any = self._service.store.firsts([self._id]).get(self._id)
        return None if found is None else (found.at, found.seq)

    def _is_of_another(self) -> bool:
        """True where the journal that it has read is gone, and perhaps another task has its id."""
        return self._first is not None and self._first_record() != self._first

    def _is_mine(self, event: TaskEvent) -> bool:
        return event.task == self._id and (self._deep or not getattr(event, "is_deep", False))

    def _kept(self) -> list[TaskEvent]:
        """Return the records that are kept and were not handed out, in order, each with its metadata."""
        run = self._service.run_of(self._id)
        records = cast("list[TaskEvent]", list(self._service.store.read(self._id, self._read)))
        if run is not None:
            records = [each for each in records if each.seq <= run.kept]
        fresh = []
        for record in records:
            if self._first is None:
                self._first = record.at, record.seq
            self._read += 1
            fresh.append(self._labels.labelled(record))
        self._held = [each for each in (*self._held, *fresh) if each.seq > self._last]
        return list(self._held)


class TextFollower(JournalFollower):
    """Follows a task, and tells only of text that was streamed: by all, or by one subtask and its team.

    It is over with the task, or with the subtask.
    """

    def __init__(self, port: Scope, id_: str, subtask: str | None) -> None:
        super().__init__(port, id_, recall="always")
        self._subtask = subtask
        self._ended: int | None = None
        """Number of the subtask's end, where that was told last of it. A reviewer may still send it back."""
        self.lost = 0

    def news(self) -> Iterator[TaskEvent]:
        """Return the pieces of text that have come since the last look."""
        yield from super().news()
        if self._ended is not None and self._ended <= self._last:  # else something of it may still be heard
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
        if event.subtask != self._subtask or event.role != "work":
            return
        if isinstance(event, _ENDS):
            self._ended = event.seq
        elif isinstance(event, (SubtaskQueued, SubtaskStarted)):
            self._ended = None

    def _is_wanted(self, event: SubtaskStreamed) -> bool:
        own = self._subtask
        return own is None or event.subtask == own or event.subtask.startswith(f"{own}/")


def _place(event: TaskEvent) -> tuple[int, bool]:
    """Place of an event: one that is in no journal stands behind the record whose number it has."""
    return event.seq, isinstance(event, UNKEPT)
