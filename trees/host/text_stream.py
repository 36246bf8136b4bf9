"""Reading the text that the attempts of one task stream, up to the end of the task, or of one of its subtasks.

It is read off the events of the task (``trees.host.journal_follower``), in their order. What was streamed before the
reading begins is recalled as far as there is room for it, also for a moment after the end. Text of several attempts at
once comes interleaved: ``handle.events()`` says which is whose.
"""

from __future__ import annotations

from collections.abc import Iterator

from actors.messaging.reply import Reply
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
)
from actors.tasks.model.task_ids import is_part_of
from actors.tasks.orchestration.task_runtime import OrchestratorPort
from trees.host.events import Reading
from trees.host.journal_follower import JournalFollower

_ENDS = (SubtaskSucceeded, SubtaskFailed, SubtaskSkipped, SubtaskCancelled)


class TextStream(Reading[str]):
    """One reading of the text of a task."""

    def __init__(self, port: OrchestratorPort, id_: str, subtask: str | None) -> None:
        self._texts = _TextFollower(port, id_, subtask)
        super().__init__(self._texts, port.path, "async for text in handle.stream()")

    @property
    def lost(self) -> int:
        """Characters so far that were dropped: they came faster than they were read, or before the reading began."""
        return self._texts.lost

    def _read(self, event: TaskEvent) -> str | None:
        return event.text if isinstance(event, SubtaskStreamed) else None


class _TextFollower(JournalFollower):
    """Follows a task, and tells only of text that was streamed: by all, or by one subtask and its team."""

    def __init__(self, port: OrchestratorPort, id_: str, subtask: str | None) -> None:
        super().__init__(port, id_, deep=True, after=0, recall="always")
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

    def fetched(self, event: TaskEvent) -> Reply | None:  # noqa: ARG002 - as for all events
        """A piece of text is whole."""
        return None
