"""``Run``: one unfinished task. It records decisions, and carries them out once the store has kept the records.

A decision is recorded at once in the run's own state, so the next one is made against it; others see it when the store
has kept it (``TaskService.state``). All records that one turn of the engine makes for a task are one batch: what can
start because of an end is kept together with that end. The acts that follow from a batch wait until it is kept, and are
done in order. Each looks again whether it still applies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from actors.tasks.decide.drafts import Draft
from actors.tasks.journal.unit import Unit
from actors.tasks.model import AttemptEvent, CourseEvent, SubtaskEvent, TaskEvent

if TYPE_CHECKING:
    from actors.execution.timers import Timer
    from actors.messaging.reply import Reply
    from actors.tasks.engine.engine import Engine
    from actors.tasks.journal.fold import TaskState

Act: TypeAlias = "tuple[Callable[..., object], tuple[Any, ...]]"


class Turn(NamedTuple):
    """What one turn of the engine has decided for a task, and what is to be done once that is kept."""

    events: list[TaskEvent]
    acts: list[Act]


class Run:
    """One task that goes on."""

    __slots__ = (
        "_line", "_timers", "_turn", "engine", "has_left", "heard_last", "id", "kept", "paused", "state",
    )  # fmt: skip

    def __init__(self, engine: Engine, state: TaskState) -> None:
        self.engine, self.state, self.id = engine, state, state.id
        self.heard_last = state.last_at
        """Time of the last record of an earlier process or engine, in seconds since 1970."""
        self.kept = state.events
        """Records that are kept."""
        self.has_left = False
        """True if an attempt was broken off while the tree ends: nothing of the task begins here any more."""
        self.paused: tuple[Unit, ...] = ()
        """Subtasks and undos whose workers were stopped a moment ago: they wait ``PAUSE_S``."""
        self._timers: dict[Timer, None] | None = None
        self._turn: Turn | None = None
        """What is decided in this turn of the engine; None: nothing."""
        self._line: tuple[tuple[Reply, Turn], ...] = ()
        """Turns that are being kept, the oldest first."""

    @property
    def is_kept(self) -> bool:
        """True where all that is decided is kept, so that its state may be seen."""
        return self.kept == self.state.events

    # -- recording -----------------------------------------------------------------------------------------

    def record(self, draft: Draft) -> TaskEvent:
        """Record an event that was decided upon."""
        return self.emit(draft.unit, draft.made, *draft.fields, **draft.more)

    def emit(self, unit: Unit, made: type[TaskEvent], *fields: Any, **more: Any) -> TaskEvent:
        """Record that something has happened just now, and do what follows from it.

        The method of its name in ``TaskState`` changes the state, ``Engine.FOLLOWS`` has what follows at once. What
        others see of it is done by ``act``, once it is kept.

        Args:
            unit: the unit that it is about.
            made: the kind of event.
            fields: all fields but those that are filled in here.
            more: the same by name.
        """
        state, engine = self.state, self.engine
        now = engine.now
        head: tuple[Any, ...]
        if issubclass(made, SubtaskEvent):
            head = (unit.scope, self.id, now, unit.subject)
            more["role"] = unit.role
            if issubclass(made, AttemptEvent):
                more["queued_s"], more["ran_s"] = unit.times(more.get("ended_at", now))
        elif issubclass(made, CourseEvent):
            head = (unit.course.scope if unit.course is not None else unit.scope, self.id, now)
            more["subtask"] = unit.path
        else:
            head = (state.path, self.id, now)
        more["seq"] = state.events + 1
        if unit.metadata:
            more["metadata"] = unit.metadata
        event = made(*head, *fields, **more)
        state.apply(event)
        (self._turn or self._begins()).events.append(event)
        follows = engine.FOLLOWS.get(made)
        if follows is not None:
            follows(engine, self, unit, event)
        return event

    def act(self, function: Callable[..., object], *args: Any) -> None:
        """Do something that others see, once everything is kept that is recorded by the end of this turn."""
        (self._turn or self._begins()).acts.append((function, args))

    def _begins(self) -> Turn:
        turn = self._turn = Turn([], [])
        self.engine.dirty[self.id] = self
        return turn

    def at(self, due: float, decision: Callable[..., object], *args: Any) -> None:
        """Have something decided about it at a time, in seconds since 1970. A new engine does that anew.

        Nothing of it is left once the task has ended.
        """

        def decides(engine: Engine) -> None:
            if timer is not None and self._timers is not None:
                self._timers.pop(timer, None)
            if engine.runs.get(self.id) is self:
                engine.dirty[self.id] = self
                engine.decide(self, decision, *args)

        timer: Timer | None = None
        if due <= self.engine.now:
            self.engine.port.post(decides)
        else:
            timer = self.engine.at(due, decides)
            self._timers = {} if self._timers is None else self._timers
            self._timers[timer] = None

    def is_over(self) -> None:
        """Cancel all timers of the task."""
        for timer in self._timers or ():
            timer.cancel()
        self._timers = None

    # -- keeping -------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Hand the batch of this turn to the store, and do what follows once it is kept."""
        turn, self._turn = self._turn, None
        if turn is None:
            return
        store = self.engine.service.store
        store.append(self.id, *turn.events)
        kept = store.flush()
        if kept is None and not self._line:
            self._do(turn)
            return
        kept = kept or self._line[-1][0]
        self._line = (*self._line, (kept, turn))
        kept.when_done(partial(self.engine.system.loop.call, self._do_kept))

    def _do_kept(self) -> None:
        """On the loop: do what follows from all batches that are kept by now, in order."""
        self.engine.now = self.engine.service.time()
        while self._line and self._line[0][0].done and not self.engine.system.is_down:
            kept, turn = self._line[0]
            self._line = self._line[1:]
            if kept.succeeded:  # else it never will be kept, so nothing may follow from it
                self._do(turn)
        self.engine.turn_over()

    def _do(self, turn: Turn) -> None:
        self.kept += len(turn.events)
        publish = self.engine.system.bus.publish
        for event in turn.events:
            publish(event)
        for function, args in turn.acts:
            try:
                function(*args)
            except Exception as error:  # noqa: BLE001 - a bug of ours; the others must be done all the same
                self.engine.system.reports.internal_error(error)
        self.engine.service.streams.wake(self.id)

    def drop_batch(self) -> None:
        """Forget what was decided in this turn and not yet handed to the store: the decision has broken down."""
        self._turn = None
