"""The events of tasks, fanned out to those who follow one: one subscriber of the bus for all of them.

A follower hears of its own task only, so three hundred who follow an idle task cost nothing while another one streams.
Followers are held weakly: one that nobody reads any more is gone, however its reading was cut short.

An id may be that of one task after another: of one that was removed, and of the next one. Those who follow one of them
share a *topic*, which is known by the reply that its end completes. A topic begins and ends in line with the events
(``Subscription.then``): who joins it hears what is published after that, and nothing of the task before; it ends behind
all that was published before its task's end was told, and before anything of the next task.

Locking: none. What is in ``_topics`` is changed on the thread of the bus only, one step after the other. The race: *one
who joins against the end of the topic*. The end is noted once for each reply (``_ends``), by whoever comes first, and
is in line from the moment on when the task has ended. Who joins behind it finds no note: there is nothing to hear.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from actors.concurrency.weak_registry import WeakRegistry
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
        """Look whether more will come."""

    def catch_up(self) -> None:
        """Something may have happened that nobody told of: look at the journal."""

    def has_heard_all(self) -> None:
        """Nothing more is told: the task has ended."""


Followers: TypeAlias = WeakRegistry[Follower]


class _Following:
    """One who is about to join, or has."""

    __slots__ = ("follower", "has_left", "lost", "over", "task", "topic")

    def __init__(self, task: str, follower: Follower, over: Reply, lost: int) -> None:
        self.task, self.follower, self.over = task, weakref.ref(follower), over
        self.lost = lost
        """How often events had been lost by then."""
        self.topic: Followers | None = None
        self.has_left = False

    def leave(self) -> None:
        """Hear nothing more. On any thread: either this finds the topic, or who joins it finds that it has left."""
        self.has_left = True
        topic, follower = self.topic, self.follower()
        if topic is not None and follower is not None:
            topic.discard(follower)


class Feed:
    """Followers of the tasks of a tree."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._line = bus.prepare(self._hear, lasting=True)
        self._is_listening = False
        """True once somebody follows. Two who come at once add the one subscriber twice, which is as once."""
        self._topics: dict[str, dict[Reply, Followers]] = {}
        """By id of a task, and by the reply of its end: of one id there is more than one for a moment at most."""
        self._ends: dict[Reply, object] = {}
        """Replies whose completion is to end their topic. Each change is one step of C."""
        self._lost = 0
        """How often events were lost."""

    def follow(self, task: str, follower: Follower, over: Reply) -> Callable[[], None]:
        """Have a follower hear of a task from now on, as long as somebody holds it; returns how to end that.

        The follower is held weakly. ``over`` is completed when the task has ended.
        """
        if not self._is_listening:
            self._bus.add(self._line)
            self._is_listening = True
        following = _Following(task, follower, over, self._lost)
        self._line.then(partial(self._join, following))
        self._note_end(task, over)
        return following.leave

    def _note_end(self, task: str, over: Reply) -> None:
        note = object()
        if self._ends.setdefault(over, note) is note:
            over.when_done(partial(self._over, task, over))

    def _join(self, following: _Following) -> None:
        follower = following.follower()
        if follower is None or following.has_left:
            return
        if following.over.done and following.over not in self._ends:
            follower.has_heard_all()
            return
        topics = self._topics.setdefault(following.task, {})
        topic = topics.setdefault(following.over, Followers())
        topic.add(follower)
        following.topic = topic
        if following.has_left:
            topic.discard(follower)
        if following.lost != self._lost:
            follower.catch_up()

    def _over(self, task: str, over: Reply) -> None:
        """On any thread: a task has ended."""
        topic = self._topics.get(task, {}).get(over)
        for follower in () if topic is None else topic.snapshot():
            follower.wake()
        self._line.then(partial(self._end, task, over))

    def _end(self, task: str, over: Reply) -> None:
        del self._ends[over]
        topics = self._topics.get(task, {})
        topic = topics.pop(over, None)
        if not topics:
            self._topics.pop(task, None)
        for follower in () if topic is None else topic.snapshot():
            follower.has_heard_all()

    def _hear(self, event: Event) -> None:
        if isinstance(event, TaskEvent):
            for follower in _those_of(self._topics.get(event.task)):
                follower.hear(event)
        elif isinstance(event, (EventsLost, TreeStopped)):
            self._lost += isinstance(event, EventsLost)
            for topics in tuple(self._topics.values()):
                for follower in _those_of(topics):
                    follower.catch_up()


def _those_of(topics: dict[Reply, Followers] | None) -> list[Follower]:
    return [] if topics is None else [each for topic in topics.values() for each in topic.snapshot()]
