"""What attempts say of themselves, told as events, and recalled for readers who begin late.

Streams and progress are in no journal. Of each of the ``MOST_TASKS`` tasks that have streamed last the newest pieces
are held, so that a reader who begins in the middle has the beginning as well, as far as there is room; of each attempt
that runs, the last progress. An attempt that has ended tells nothing more: its thread may go on, and what it says then
is of no attempt.

Locking: ``_lock`` guards all fields, and is held while an event is published, so that numbers grow in the order of the
events. It is re-entrant: a finalizer that comes in may tell, too.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from actors.tasks.model.task_events import SubtaskProgressed, SubtaskStreamed

if TYPE_CHECKING:
    from actors.tasks.engine.service import TaskService
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.execution.attempt_stream import Piece

MOST_TASKS: Final = 64


class StreamRelay:
    """Streams and progress of the attempts of a tree."""

    def __init__(self, service: TaskService) -> None:
        self._service = service
        self._lock = threading.RLock()
        self._number = 0
        """Number of the last event."""
        self._held: OrderedDict[str, UnkeptEvents] = OrderedDict()
        """By task; the one that has streamed last stands last."""

    def tell(self, attempt: Attempt, pieces: Sequence[Piece]) -> None:
        """Tell what an attempt has streamed, in this order."""
        spec = attempt.spec
        with self._lock:
            held = self._held.setdefault(spec.task, UnkeptEvents())
            self._held.move_to_end(spec.task)
            if len(self._held) > MOST_TASKS:
                self._held.popitem(last=False)
            for kind, text, lost in pieces:
                held.put(self._publish(attempt, SubtaskStreamed, kind, text, spec.worker, spec.values.number, lost))

    def tell_progress(self, attempt: Attempt, fraction: float, text: str) -> None:
        """Tell how far an attempt says that it is."""
        with self._lock:
            if not attempt.done:
                attempt.progress = self._publish(attempt, SubtaskProgressed, fraction, text)

    def _publish(self, attempt: Attempt, made: Any, *fields: Any) -> Any:
        spec, owner = attempt.spec, attempt.owner
        self._number += 1
        run = owner.port.runs.get(spec.task)
        numbers = {"seq": run.state.events if run is not None else 0, "number": self._number}
        metadata = spec.values.metadata
        event = made(owner.path, spec.task, owner.service.time(), spec.unit, *fields, metadata=metadata, **numbers)
        owner.system.publish(event)
        return event

    def recall(self, task: str) -> tuple[list[UnkeptEvent], int]:
        """Return what is held of a task, in order, and the number of the last event of all."""
        with self._lock:
            held, attempts = self._held.get(task), self._service.attempts.copy().values()
            progress = [each.progress for each in attempts if each.task == task and not each.done]
            found: list[UnkeptEvent] = held.held() if held is not None else []
            found += [each for each in progress if each is not None]
            return sorted(found, key=lambda each: (each.seq, each.number)), self._number

    def forget(self, task: str) -> None:
        """Let go of what a task has streamed."""
        with self._lock:
            self._held.pop(task, None)


MOST_EVENTS: Final = 2_048
MOST_CHARS: Final = 131_072
"""Characters of their texts."""

UNKEPT: Final = (SubtaskProgressed, SubtaskStreamed)
"""Kinds that are told, and are in no journal."""
UnkeptEvent: TypeAlias = SubtaskProgressed | SubtaskStreamed


class UnkeptEvents:
    """The newest of such events: a bounded number, for those who read slowly or begin late.

    The oldest go first. Of those that were streamed an event without a text stays in their place, one for each attempt,
    which says how many characters have gone; progress that is out of date is told by no one. Whoever holds it locks it.
    """

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
