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
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from actors.tasks.engine.unkept_events import UnkeptEvents
from actors.tasks.model.event_base import TaskEvent
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
        numbers = {"seq": owner.latest_number(spec.task), "number": self._number}
        metadata = spec.values.metadata
        event = made(owner.path, spec.task, owner.time(), spec.unit, *fields, metadata=metadata, **numbers)
        owner.system.publish(event)
        return event

    def recall(self, task: str) -> tuple[list[TaskEvent], int]:
        """Return what is held of a task, in order, and the number of the last event of all."""
        with self._lock:
            held, attempts = self._held.get(task), self._service.attempts.copy().values()
            progress = [each.progress for each in attempts if each.task == task and not each.done]
            found: list[TaskEvent] = [*(held.held() if held is not None else ())]
            found += [each for each in progress if each is not None]
            return sorted(found, key=lambda each: (each.seq, getattr(each, "number", 0))), self._number

    def forget(self, task: str) -> None:
        """Let go of what a task has streamed."""
        with self._lock:
            self._held.pop(task, None)
