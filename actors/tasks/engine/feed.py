"""The events of tasks, fanned out to those who follow one: one subscriber of the bus for all of them.

A follower hears of its own task only, so three hundred who follow an idle task cost nothing while another one streams.
Followers are held weakly: one that nobody reads any more is gone, however its reading was cut short.

Who follows a task joins in line with the events (``Subscription.then``), so no lock is needed, and of one id that
several tasks have had one after the other each follower hears of its own only.
"""

from __future__ import annotations

import weakref
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
        self._of: dict[str, weakref.WeakSet[Follower]] = {}
        """By task. Changed on the thread of the bus only."""

    def follow(self, task: str, follower: Follower, over: Reply) -> None:
        """Have a follower hear of a task from now on, as long as somebody holds the follower.

        Args:
            task: its id.
            follower: who is to hear.
            over: completed when the task has ended.
        """
        self._bus.add(self._line)  # as soon as somebody follows; more than once is as once
        self._line.then(partial(self._join, task, follower, over))

    def _join(self, task: str, follower: Follower, over: Reply) -> None:
        if task not in self._of:
            self._of[task] = weakref.WeakSet()
            over.when_done(partial(self._line.then, partial(self._ends, task)))
        self._of[task].add(follower)
        follower.wake()  # events that came before may have been lost

    def _ends(self, task: str) -> None:
        for follower in self._of.pop(task):
            follower.has_heard_all()

    def _hear(self, event: Event) -> None:
        if isinstance(event, TaskEvent):
            for follower in self._of.get(event.task, ()):
                follower.hear(event)
        elif isinstance(event, (EventsLost, TreeStopped)):
            for followers in self._of.values():
                for follower in followers:
                    follower.wake()
