"""The events of tasks, fanned out to those who follow one: one subscriber of the bus for all of them.

A follower hears of its own task only, so three hundred who follow an idle task cost nothing while another one streams.
Followers are held weakly: one that nobody reads any more is gone, however its reading was cut short.

Who follows a task joins and leaves in line with the events (``Subscription.then``), so no lock is needed, and of one id
that several tasks have had one after the other each follower hears of its own only.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from actors.model.events import Event, EventsLost, TreeStopped
from actors.tasks.model.task_events import TaskEvent

if TYPE_CHECKING:
    from actors.messaging.reply import Reply
    from actors.runtime.event_bus import Bus


class Follower(Protocol):
    """One who follows a task."""

    def hear(self, event: TaskEvent) -> None:
        """Something happened to its task. Short, and raises nothing."""

    def wake(self) -> None:
        """Look whether there is more: something may have happened that nobody told of."""

    def has_heard_all(self) -> None:
        """Nothing more is told: the task has ended."""


class Feed:
    """Followers of the tasks of a tree."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._line = bus.prepare(self._hear, lasting=True)
        self._is_listening = False
        """True once somebody follows. Two who come at once add the one subscriber twice, which is as once."""
        self._of: dict[str, dict[int, weakref.ref[Follower]]] = {}
        """By task. Changed on the thread of the bus only."""
        self._lost = 0
        """How often events were lost."""

    def follow(self, task: str, follower: Follower, over: Reply) -> Callable[[], None]:
        """Have a follower hear of a task from now on, as long as somebody holds it; returns how to end that.

        The follower is held weakly. ``over`` is completed when the task has ended.
        """
        if not self._is_listening:
            self._bus.add(self._line)
            self._is_listening = True
        held = weakref.ref(follower)
        ends = partial(self._line.then, partial(self._ends, task, held))
        self._line.then(partial(self._join, task, held, self._lost))
        over.when_done(ends)

        def leave() -> None:
            over.not_when_done(ends)
            self._line.then(partial(self._leave, task, held))

        return leave

    def _join(self, task: str, held: weakref.ref[Follower], lost: int) -> None:
        self._of.setdefault(task, {})[id(held)] = held
        follower = held()
        if follower is not None and lost != self._lost:
            follower.wake()

    def _leave(self, task: str, held: weakref.ref[Follower]) -> None:
        those = self._of.get(task, {})
        those.pop(id(held), None)
        if not those:
            self._of.pop(task, None)

    def _ends(self, task: str, held: weakref.ref[Follower]) -> None:
        self._leave(task, held)
        follower = held()
        if follower is not None:
            follower.has_heard_all()

    def _hear(self, event: Event) -> None:
        if isinstance(event, TaskEvent):
            for follower in self._followers(event.task):
                follower.hear(event)
        elif isinstance(event, (EventsLost, TreeStopped)):
            self._lost += 1
            for task in tuple(self._of):
                for follower in self._followers(task):
                    follower.wake()

    def _followers(self, task: str) -> list[Follower]:
        found = [held() for held in tuple(self._of.get(task, {}).values())]
        return [follower for follower in found if follower is not None]
