"""The events of tasks, fanned out to those who follow one: one subscriber of the bus for all of them.

A follower hears of its own task and its teams' parts only, so three hundred who follow an idle task cost nothing while
another one streams. A part has the id of what it is a part of before an ``@``, so one look for each level finds who
follows. Followers are held weakly: one that nobody reads any more is gone, however its reading was cut short. Each
task's followers stand in a table of their own, which is let go of when that task has ended: a part may go on beyond the
end of the whole, where that went on without it.

Locking: none. Each change of the tables is one step of C, also where the garbage collector makes it. The race: *a
follower that joins while the end of its task is told*. It is told, or it has joined a table that was taken away just
before; then the end is in the journal, which it reads after it has joined.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from actors.concurrency.weak_registry import WeakRegistry
from actors.model.events import Event, EventsLost, TreeStopped
from actors.tasks.model.task_events import TaskEvent, TaskFinished
from actors.tasks.model.task_ids import MARK
from actors.tasks.orchestration.orchestrator_port import ORCHESTRATOR

if TYPE_CHECKING:
    from actors.messaging.reply import Reply
    from actors.runtime.event_bus import Bus


class Follower(Protocol):
    """One who follows a task."""

    scope: str
    """Prefix of the paths of all orchestrators that may have to do with its task."""

    def hear(self, event: TaskEvent) -> None:
        """Something happened to its task, or to another part of the whole. Short, and raises nothing."""

    def wake(self) -> None:
        """Look whether more will come."""

    def catch_up(self) -> None:
        """Something may have happened that nobody told of: look at the journal."""


Followers: TypeAlias = WeakRegistry[Follower]


class Feed:
    """Followers of the tasks of a tree."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._topics: dict[str, Followers] = {}
        self._unsubscribed: deque[None] = deque((None,))
        """Holds one item until somebody has subscribed."""

    def follow(self, task: str, follower: Follower, over: Reply) -> Callable[[], None]:
        """Have a follower hear of a task from now on, as long as somebody holds it; returns how to end that.

        The follower is held weakly. Nothing more comes once ``over`` is completed.
        """
        self._subscribe()
        mine = Followers()
        topic = self._topics.setdefault(task, mine)
        topic.add(follower)
        if topic is mine:
            over.when_done(partial(self._over, task))
        return partial(_leave, topic, weakref.ref(follower))

    def _subscribe(self) -> None:
        try:
            self._unsubscribed.pop()
        except IndexError:
            return
        self._bus.subscribe(self._hear, lasting=True)

    def _over(self, task: str) -> None:
        for follower in _those_of(self._topics.get(task)):  # not taken away: the event of the end may yet come
            follower.wake()

    def _hear(self, event: Event) -> None:
        if isinstance(event, TaskEvent):
            for id_ in _with_wholes(event.task) if self._topics else ():
                is_end = isinstance(event, TaskFinished) and event.task == id_
                topic = self._topics.pop(id_, None) if is_end else self._topics.get(id_)
                for follower in _those_of(topic):
                    follower.hear(event)
        elif isinstance(event, (EventsLost, TreeStopped)) or event.path.endswith(f"/{ORCHESTRATOR}"):
            everybody = isinstance(event, (EventsLost, TreeStopped))
            for topic in tuple(self._topics.values()):
                for follower in _those_of(topic):
                    if everybody or event.path.startswith(follower.scope):
                        follower.catch_up()  # an orchestrator that crashed may have recorded what it had yet to tell


def _with_wholes(task: str) -> tuple[str, ...]:
    """Return the ids of a task and of all that it is a part of."""
    if MARK not in task:
        return (task,)
    words = task.split(MARK)
    return tuple(MARK.join(words[:size]) for size in range(1, len(words) + 1))


def _leave(topic: Followers, follower: weakref.ref[Follower]) -> None:
    if (left := follower()) is not None:
        topic.discard(left)


def _those_of(topic: Followers | None) -> list[Follower]:
    return [] if topic is None else topic.snapshot()
