"""What attempts say of themselves, told as events and held for readers; and the news that wakes readers of a task.

Streams and progress are in no journal. Of each task the newest of these events are held, as far as there is room: all
readers read them from here, also those who read slowly or begin late. Of tasks that have ended the last ``MOST_ENDED``
are held. An attempt that has ended tells nothing more: its thread may go on, and what it says then is of no attempt.

Locking: ``_lock`` guards the events, and is held while one is published, so that numbers grow in the order of the
events. It is re-entrant: a finalizer that comes in may tell, too. Each change of the signals is one step of C.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from actors.messaging.reply import Reply
from actors.tasks.model import SubtaskProgressed, SubtaskStreamed

if TYPE_CHECKING:
    from actors.tasks.engine.service import TaskService
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.execution.attempt_stream import Piece

MOST_ENDED: Final = 64
MOST_EVENTS: Final = 2_048
"""Events of one task."""
MOST_CHARS: Final = 131_072
"""Characters of their texts."""

UnkeptEvent: TypeAlias = SubtaskProgressed | SubtaskStreamed
"""Kinds that are told, and are in no journal."""


class Place(NamedTuple):
    """How far such events of a task were read."""

    number: int = 0
    """Number of the last event."""
    chars: int = 0
    """Characters of the texts of all events up to that one."""


class StreamRelay:
    """Streams and progress of the attempts of a tree."""

    def __init__(self, service: TaskService) -> None:
        self._service = service
        self._lock = threading.RLock()
        self._number = 0
        """Number of the last event."""
        self._held: dict[str, deque[tuple[UnkeptEvent, int]]] = {}
        """By task, its newest events, each with ``Place.chars``."""
        self._ended: deque[str] = deque()
        """Tasks that have ended and of which events are held."""
        self._signals: dict[str, Reply] = {}
        """By task, what readers wait for."""

    # -- readers -------------------------------------------------------------------------------------------

    def news(self, task: str) -> Reply:
        """Return what is completed when something more has happened to a task. Take it before you look."""
        return self._signals.setdefault(task, Reply())

    def wake(self, task: str) -> None:
        """Have all readers of a task look."""
        signal = self._signals.pop(task, None)
        if signal is not None:
            signal.complete()

    def wake_all(self) -> None:
        """Have all readers look."""
        for task in list(self._signals):
            self.wake(task)

    def here(self, task: str) -> Place:
        """Return the place behind all that was told of a task."""
        with self._lock:
            held = self._held.get(task)
            return Place(self._number, held[-1][1] if held else 0)

    def after(self, task: str, place: Place) -> tuple[list[UnkeptEvent], Place]:
        """Return what is held of a task behind a place, in order, and the next place.

        The first text behind a gap says how many characters are missing (``lost``).
        """
        number, read = place
        found: list[UnkeptEvent] = []
        with self._lock:
            newest_first = reversed(self._held.get(task, ()))
            newer = list(takewhile(lambda each: each[0].number > place.number, newest_first))
        for event, chars in reversed(newer):
            missing = chars - len(event.text) - read
            if missing and isinstance(event, SubtaskStreamed):
                event, read = replace(event, lost=event.lost + missing), read + missing  # noqa: PLW2901 - the same
            read += len(event.text)
            found.append(event)
            number = event.number
        return found, Place(number, read)

    # -- attempts ------------------------------------------------------------------------------------------

    def tell(self, attempt: Attempt, pieces: Sequence[Piece]) -> None:
        """Tell what an attempt has streamed, in this order."""
        spec = attempt.spec
        with self._lock:
            for kind, text, lost in pieces:
                self._publish(attempt, SubtaskStreamed, kind, text, spec.worker, spec.values.number, lost)
        self.wake(spec.task)

    def tell_progress(self, attempt: Attempt, fraction: float, text: str) -> None:
        """Tell how far an attempt says that it is."""
        with self._lock:
            if not attempt.done:
                attempt.progress = self._publish(attempt, SubtaskProgressed, fraction, text)
        self.wake(attempt.task)

    def _publish(self, attempt: Attempt, made: Any, *fields: Any) -> Any:
        spec, owner = attempt.spec, attempt.owner
        self._number += 1
        run = owner.port.runs.get(spec.task)
        numbers = {"seq": run.state.events if run is not None else 0, "number": self._number}
        metadata = spec.values.metadata
        event = made(owner.path, spec.task, owner.service.time(), spec.unit, *fields, metadata=metadata, **numbers)
        held = self._held.setdefault(spec.task, deque(maxlen=MOST_EVENTS))
        chars = (held[-1][1] if held else 0) + len(event.text)
        held.append((event, chars))
        while len(held) > 1 and chars - held[0][1] > MOST_CHARS:
            held.popleft()
        owner.system.publish(event)
        return event

    def ended(self, task: str) -> None:
        """A task has ended."""
        self.wake(task)
        if task in self._held:
            self._ended.append(task)
            if len(self._ended) > MOST_ENDED:
                self.forget(self._ended.popleft())

    def forget(self, task: str) -> None:
        """Let go of what a task has streamed."""
        self._held.pop(task, None)
