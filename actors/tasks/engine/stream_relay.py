"""Relay of what attempts say of themselves to the events of their tasks; it recalls the last of it, for late readers.

What is streamed, and progress, are in no journal. They are told on the bus, as all events are, and recalled: of streams
as long as there is room (``UnkeptEvents`` of each of the ``MOST_TASKS`` tasks that have streamed last), of progress the
last that each attempt which still runs has told. So a reader who begins while a task runs has the beginning as well; an
event that it has been recalled and then hears of is known by its number. An attempt that has ended tells nothing more:
its thread may go on, and what it says then is of no attempt.

Locking: that of ``_turns`` guards all fields, and is held while an event is published, so that their numbers grow in
the order in which they are told. The bus, which takes no lock, is called under it, and nothing else. A
finalizer or a signal handler may run at any step under it and call the relay again. What such a call tells is told by
the one below it, next. What it recalls ends with an event that is held and is counted; the one below is counted once it
is held, and published after that. Events are let go of after the lock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from actors.concurrency.in_turn import InTurn
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
        self._turns = InTurn()
        self._number = 0
        """Number of the last event."""
        self._recent: OrderedDict[str, UnkeptEvents] = OrderedDict()
        """By the task of a user that they belong to; the one that has streamed last stands last."""

    def tell(self, attempt: Attempt, pieces: Sequence[Piece]) -> None:
        """Tell what an attempt has streamed, in this order."""
        gone: list[object] = []
        self._turns.do(lambda: self._tell(attempt, pieces, gone))

    def tell_progress(self, attempt: Attempt, fraction: float, text: str) -> None:
        """Tell how far an attempt says that it is."""
        gone: list[object] = []
        self._turns.do(lambda: self._tell_progress(attempt, fraction, text, gone))

    def _tell(self, attempt: Attempt, pieces: Sequence[Piece], gone: list[object]) -> None:
        spec, owner = attempt.spec, attempt.owner
        whole = spec.task
        recent = self._recent.setdefault(whole, UnkeptEvents())
        with suppress(KeyError):  # a call in between has let go of it
            self._recent.move_to_end(whole)
        if len(self._recent) > MOST_TASKS:
            gone.append(self._recent.popitem(last=False)[1])
        for kind, text, lost in pieces:
            event = SubtaskStreamed(
                owner.path,
                spec.task,
                owner.time(),
                spec.unit,
                kind,
                text,
                spec.worker,
                spec.values.number,
                lost,
                seq=owner.latest_number(spec.task),
                metadata=spec.values.metadata,
                number=self._number + 1,
            )
            recent.put(event)
            self._number = event.number
            owner.system.publish(event)

    def _tell_progress(self, attempt: Attempt, fraction: float, text: str, gone: list[object]) -> None:
        if attempt.done:
            return
        spec, owner = attempt.spec, attempt.owner
        event = SubtaskProgressed(
            owner.path,
            spec.task,
            owner.time(),
            spec.unit,
            fraction,
            text,
            seq=owner.latest_number(spec.task),
            metadata=spec.values.metadata,
            number=self._number + 1,
        )
        gone.append(attempt.progress)
        attempt.progress = event
        self._number = event.number
        owner.system.publish(event)

    def recall(self, task: str) -> tuple[list[TaskEvent], int]:
        """Return what is known of a task, in order, and the number of the last event of all."""
        number, held = self._turns.look(partial(self._held, task))
        known = sorted((each for each in held if each.number <= number), key=lambda each: (each.seq, each.number))
        return [*known], number

    def _held(self, whole: str) -> tuple[int, list[SubtaskStreamed | SubtaskProgressed]]:
        number, recent = self._number, self._recent.get(whole)
        pieces = recent.held() if recent is not None else []
        told = [each.progress for each in self._service.attempts.copy().values() if not each.done]
        of_it = [each for each in told if each is not None and each.task == whole]
        return number, [*(each for each in pieces if isinstance(each, SubtaskStreamed)), *of_it]

    def forget(self, task: str) -> None:
        """Let go of what a task has streamed."""
        if task in self._recent:  # of most tasks nothing was streamed, or the task is new
            gone = self._turns.look(partial(self._recent.pop, task, None))
            del gone  # after the lock
