"""Events that are in no journal, held for those who read slowly or begin late: a bounded number of them.

Comes in: ``SubtaskProgressed`` and ``SubtaskStreamed``, in order. Goes out: the newest of them. The oldest go first. Of
those that were streamed an event without a text stays in their place, one for each attempt, which says how many
characters have gone; progress that is out of date is told by no one. No lock: whoever holds it has one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Final, TypeAlias

from actors.tasks.model.task_events import SubtaskProgressed, SubtaskStreamed

MOST_EVENTS: Final = 2_048
MOST_CHARS: Final = 131_072
"""Characters of their texts."""

UNKEPT: Final = (SubtaskProgressed, SubtaskStreamed)
"""Kinds that are told, and are in no journal."""
UnkeptEvent: TypeAlias = SubtaskProgressed | SubtaskStreamed


class UnkeptEvents:
    """The newest of such events."""

    def __init__(self) -> None:
        self._events: deque[UnkeptEvent] = deque()
        self._chars = 0
        self._gaps: dict[tuple[str, str, int], SubtaskStreamed] = {}
        """By task, subtask and attempt: the last one that has gone, without its text."""

    def put(self, event: UnkeptEvent) -> None:
        """Hold one more; the oldest go where there are too many."""
        self._events.append(event)
        self._chars += len(event.text)
        while len(self._events) > MOST_EVENTS or (self._chars > MOST_CHARS and len(self._events) > 1):
            oldest = self._events.popleft()
            self._chars -= len(oldest.text)
            if isinstance(oldest, SubtaskStreamed):
                self._note_gap(oldest)

    def _note_gap(self, gone: SubtaskStreamed) -> None:
        key = gone.task, gone.subtask, gone.attempt
        before = self._gaps.pop(key, None)
        lost = len(gone.text) + gone.lost + (before.lost if before is not None else 0)
        self._gaps[key] = replace(gone, kind="text", text="", lost=lost)  # at the end: they stay in order
        if len(self._gaps) > MOST_EVENTS:
            del self._gaps[next(iter(self._gaps))]

    def held(self) -> list[UnkeptEvent]:
        """Return what is held, in order: gaps stand before all that was not dropped."""
        return [*self._gaps.values(), *self._events]
