"""Relay of what attempts stream to the events of their tasks; it recalls the last of it, for those who begin late.

What is streamed is in no journal. It is told on the bus, as all events are, and recalled as long as there is room:
``UnkeptEvents`` of each of the ``MOST_TASKS`` tasks that have streamed last. So a reader who begins while a task runs,
or just after its end, has the beginning as well; a piece that it has been recalled and then hears of is known by its
number.

Locking: that of ``_turns`` guards all fields, and is held while a piece is published, so that the numbers of the pieces
grow in the order in which they are told. The bus, which takes no lock, is called under it, and nothing else. A
finalizer or a signal handler may run at any step under it and call the relay again. What such a call tells is told by
the one below it, next. What it recalls ends with a piece that is held and is counted; the one below is counted once it
is held, and published after that. Events are let go of after the lock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from actors.concurrency.in_turn import InTurn
from actors.tasks.model.event_base import TaskEvent
from actors.tasks.model.task_events import SubtaskStreamed
from actors.tasks.model.task_ids import whole_of
from actors.tasks.orchestration.unkept_events import UnkeptEvents

if TYPE_CHECKING:
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.execution.attempt_stream import Piece

MOST_TASKS: Final = 64


class StreamRelay:
    """Streams of the tasks of a tree."""

    def __init__(self) -> None:
        self._turns = InTurn()
        self._number = 0
        """Number of the last piece."""
        self._recent: OrderedDict[str, UnkeptEvents] = OrderedDict()
        """By the task of a user that they belong to; the one that has streamed last stands last."""

    def tell(self, attempt: Attempt, pieces: Sequence[Piece]) -> None:
        """Tell what an attempt has streamed, in this order."""
        gone: list[UnkeptEvents] = []
        self._turns.do(lambda: self._tell(attempt, pieces, gone))

    def _tell(self, attempt: Attempt, pieces: Sequence[Piece], gone: list[UnkeptEvents]) -> None:
        spec, owner = attempt.spec, attempt.owner
        whole = whole_of(spec.task) or spec.task
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
                attempt.subtask.id,
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

    def recall(self, task: str) -> tuple[list[TaskEvent], int]:
        """Return what is known of a task and its teams' parts, and the number of the last piece of all."""
        number, held = self._turns.look(partial(self._held, whole_of(task) or task))
        return [event for event in held if isinstance(event, SubtaskStreamed) and event.number <= number], number

    def _held(self, whole: str) -> tuple[int, list[TaskEvent]]:
        number, recent = self._number, self._recent.get(whole)
        return number, recent.held() if recent is not None else []

    def forget(self, task: str) -> None:
        """Let go of what a task has streamed."""
        if task in self._recent:  # of most tasks nothing was streamed, or the task is new
            gone = self._turns.look(partial(self._recent.pop, task, None))
            del gone  # after the lock
