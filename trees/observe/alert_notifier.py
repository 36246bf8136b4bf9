"""The threads that watch the alerts of a tree, and tell of them. The tree depends on none of them.

::

    bus --hear--> conditions <--look-- notifier --give--> couriers, one for each target --> its code
                                          |                  ^
                                          +--give--> judges, one for each predicate of a user

The notifier looks every second (less often where a look takes long: at most a twentieth of its time), and soon after
an event. How each part fails, and what follows:

===========================  =====================================================================================
part                         then
===========================  =====================================================================================
predicate of a user          raises: an ``AlertFailed`` event, and the alert does not hold. Hangs: its alert stays as
                             it is, and after 30 s that is an ``AlertFailed``. It has a thread of its own, so no other
                             alert waits for it
target (``to``)              raises: an ``AlertFailed`` event, and the next notice is told. Hangs: its own courier
                             waits with it, and keeps the newest notices
condition that hears events  raises: an ``AlertFailed`` event for each time that it begins to; it hears the next event
a look at the tree           raises: an ``AlertFailed`` event with no name, and the next look follows
===========================  =====================================================================================

Why these are threads, and not workers of a supervisor of the tree:

* They must outlive the tree. ``gave_up()`` and ``lease_lost()`` are about its end: they are told after the root, and
  every worker, has ended.
* They must not need what they watch. A worker runs on the tree's pool of threads, or on its event loop; where all of
  these hang, ``stalled()`` and ``mailbox_over()`` could not be told.
* A supervisor gives up after some restarts. Nobody would notice that no alert comes any more, so this never gives up.

With the end of the tree there is one more look, and then ``END_S`` for what is to be told.

Locking: each thread sleeps at an ``Event``. What one alert knows is touched by one thread: its judge's, or the
notifier's. The page reads one attribute of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from actors.concurrency.thread_state import join_thread, start_thread
from actors.concurrency.wakeup import Flag
from actors.model.clock import monotonic
from actors.tasks.journal.view import tasks_of
from actors.tasks.model import TaskEvent
from trees.observe.alert_conditions import Condition, Look, Seen
from trees.observe.alert_state import AlertState
from trees.observe.alert_threads import Courier, Judge
from trees.observe.alerts import Alert, AlertNotice
from trees.observe.operator_events import AlertChanged, AlertFailed

if TYPE_CHECKING:
    from actors.model.events import Event
    from actors.runtime.system import System
    from trees.observe.source import Shape
    from trees.views.snapshot import TreeSnapshot

LOOK_S: Final = 1.0
"""Seconds between two looks, at most."""
SOON_S: Final = 0.2
"""Seconds between an event and the look that follows: what comes at once is seen at once."""
SHARE: Final = 20
"""Times as long as a look has taken is the pause after it, at least."""
END_S: Final = 5.0
"""Seconds for what is to be told when the tree is down."""


class AlertNotifier:
    """Watches the alerts of one tree.

    Args:
        system: of the tree.
        alerts: what is watched.
        capture: looks at the tree; with its tasks where it is given True. No condition of ours reads them, and to look
            at them takes most of a look at a tree that has many subtasks.
    """

    def __init__(self, system: System, alerts: Sequence[Alert], capture: Callable[[bool], TreeSnapshot]) -> None:
        self._system, self._capture = system, capture
        self._couriers: dict[int, Courier] = {}
        self._judges: list[Judge] = []
        self._watched: list[_Watched] = []
        for alert in alerts:
            if id(alert.to) not in self._couriers:  # to make one starts its thread
                self._couriers[id(alert.to)] = Courier(f"{system.root_path}-alert", alert.to, self._failed)
            self._watched.append(self._watch(alert))
        self._hearing: dict[type[Event], list[_Watched]] = {}
        """By kind of event, who hears it: found once for each, because most kinds concern nobody."""
        self._pause_s = 0.0
        self._wake, self._ending = Flag(), Flag()
        self._unsubscribe = system.bus.subscribe(self._hear, lasting=True, wants=self._concerns)
        self._thread = threading.Thread(target=self._main, name=f"{system.root_path}-alerts", daemon=True)
        start_thread(self._thread)

    def _watch(self, alert: Alert) -> _Watched:
        watched = _Watched(alert)
        if not isinstance(alert.when, Condition):
            name, failed = f"{self._system.root_path}-alert-when", partial(self._failed, alert.name)
            watched.judge = Judge(name, partial(self._decide, watched), failed)
            self._judges.append(watched.judge)
        return watched

    def firing(self) -> list[Shape]:
        """Alerts that fire now, in the order of their declaration: ``name``, and ``since`` in seconds since 1970."""
        found = [(each.alert.name, each.state.firing_since) for each in self._watched]
        return [{"name": name, "since": since} for name, since in found if since is not None]

    def end(self) -> None:
        """The tree is down: look once more, tell what is to be told, and end. Returns at once."""
        self._ending.set()
        self._wake.set()

    def stop(self) -> None:
        """Do this, and wait for it."""
        self.end()
        join_thread(self._thread, 2 * END_S)

    # -- the thread ----------------------------------------------------------------------------------------

    def _main(self) -> None:
        while not self._ending.is_set():
            if self._wake.wait(max(LOOK_S, self._pause_s)):
                self._ending.wait(max(SOON_S, self._pause_s))
            self._wake.clear()
            began = monotonic()
            self.look()
            self._pause_s = SHARE * (monotonic() - began)
        self._system.bus.flush(END_S)
        self.look()
        self._unsubscribe()
        end = monotonic() + END_S
        for parts in (self._judges, list(self._couriers.values())):  # judges first: they have more to be told
            for part in parts:
                part.end()
            for part in parts:
                part.join(max(0.0, end - monotonic()))

    def _concerns(self, kind: type[Event]) -> bool:
        """Say of a kind whether it is heard: of tasks, with thousands a second, only where a condition is about it."""
        if issubclass(kind, AlertFailed | AlertChanged):
            return False
        return not issubclass(kind, TaskEvent) or any(issubclass(kind, each.watch.hears) for each in self._watched)

    def _hear(self, event: Event) -> None:
        """On the thread of the bus."""
        kind = type(event)
        try:
            hearing = self._hearing[kind]
        except KeyError:
            hearing = self._hearing[kind] = [each for each in self._watched if issubclass(kind, each.watch.hears)]
        for watched in hearing:
            try:
                watched.watch.hear(event)
            except BaseException as error:  # noqa: BLE001 - a condition of a user has no part in the tree
                if not watched.is_deaf:
                    self._failed(watched.alert.name, error)
                watched.is_deaf = True
            else:
                watched.is_deaf = False
        if not self._wake.is_set():  # a look that is due clears it first, and then sees this
            self._wake.set()

    def look(self) -> None:
        """Look at the tree, and have whoever must know told; of the predicates of users by their judges."""
        try:
            look = self._look()
            for watched in self._watched:
                if watched.judge is not None:
                    watched.judge.give(look)
                else:
                    self._decide(watched, look)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the next look may be better
            self._failed("", error)

    def _decide(self, watched: _Watched, look: Look) -> None:
        """Find out whether an alert holds now, and have told what follows."""
        name, state = watched.alert.name, watched.state
        try:
            holds = watched.watch.holds(look)
        except BaseException as error:  # noqa: BLE001 - as above
            if not watched.has_failed:  # said once for each time that it begins to raise
                self._failed(name, error)
            watched.has_failed, holds = True, False
        else:
            watched.has_failed = False
        since, fired_since = state.since, state.firing_since
        told = state.step(look.at, holds=holds)
        if fired_since is None and state.firing_since is not None:
            self._system.publish(AlertChanged(self._system.root_path, name, "firing", state.firing_since))
        elif fired_since is not None and state.firing_since is None:
            self._system.publish(AlertChanged(self._system.root_path, name, "resolved", fired_since))
        if told is not None:
            began = state.since if state.since is not None else since
            notice = AlertNotice(name, told, self._system.root_path, look.at, look.at if began is None else began)
            self._couriers[id(watched.alert.to)].give(notice)

    def _look(self) -> Look:
        supervisors = list(tasks_of(self._system).values())
        asked = [each.now() - question.raised_at for each in supervisors for question in each.questions()]
        queued = sum(len(each.queued_s()) for each in supervisors)
        return Look(self._capture(bool(self._judges)), queued, max(asked, default=None))

    def _failed(self, name: str, error: BaseException) -> None:
        self._system.publish(AlertFailed(self._system.root_path, name, error))


class _Watched:
    """An alert, and where it stands."""

    def __init__(self, alert: Alert) -> None:
        self.alert = alert
        self.watch = alert.when.begin() if isinstance(alert.when, Condition) else Seen(_of_user(alert.when))
        self.state = AlertState(alert.for_s, alert.every_s, resolve=alert.resolve)
        self.judge: Judge | None = None
        """Thread that asks it; None: it is asked by the notifier."""
        self.has_failed = self.is_deaf = False


def _of_user(predicate: Callable[[TreeSnapshot], object]) -> Callable[[Look], object]:
    return lambda look: predicate(look.snapshot)
