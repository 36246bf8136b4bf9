"""The watch for hung workers: finds who has given no sign of life for ``stall_s``, and tells the supervisor.

Who marks a sign of life: whoever runs the worker's code, by one store and without a lock (``actors.messaging.pulse``; a
handler's start is ``Incarnation.since``, which every message stores anyhow). Without ``stall_s`` there is no pulse, and
nothing is paid but one comparison for each wait. Who looks: the timer thread of the tree, while there is a worker with
``stall_s``; it only posts, and ends nothing. Who acts: the supervisor (``actors.supervision.hung_children``).

The states of an incarnation, as the watch sees it::

    IDLE ---a message begins, a body is up---> AT WORK ---a sign---> AT WORK
      ^                                         |   |  |
      +------ the handler returns --------------+   |   +--waits in the library--> WAITS --leaves it--> AT WORK
                                                    |
                                       silent for ``stall_s``: ``Stalled`` is posted
                                                    |
      its supervisor: a sign since, an order to end, another plan? --yes--> nothing is done
                                                    | no: ``condemn``, one test-and-set under the mailbox's lock
                                                    v
      ChildStalled --> a thread is abandoned at once; what runs on a loop is cancelled, and abandoned after a grace
                   --> one exit: CRASHED with StalledError

======================================= ================================================================================
race                                    who wins
======================================= ================================================================================
it returns, or gives a sign, against    whichever comes first: ``condemn`` compares the time of the last sign with the
the supervisor                          one that was found. A thread that comes back after that finds its order, as
                                        after a kill; what it had answered stays answered
a stop against it                       a stop that was first: the stop has its own limit, the stall is ignored. A stop
                                        that comes second joins the end that is under way
a restart of its group against it       the group's plan owns the child: the stall is ignored, the plan ends it
the end of an earlier incarnation       ``ChildTable.of`` knows only the present one: the stall is ignored
======================================= ================================================================================

Time is time that the host has run. A look that comes much later than it was due (SIGSTOP, a debugger, a suspended
machine) shows that it has not: from then on everybody has a whole ``stall_s`` again. A clock that is moved by hand is
never late.

Locking: ``_lock`` guards ``_timer`` and when that is due; the lock of the timers is taken inside of it. It is
re-entrant, because a finalizer or a signal handler may run at any step under it and start a child: that costs a look
too many, as each timer that was set is cancelled, or looks. The table of the watched is changed, and copied, in one
step of C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from actors.concurrency.look_lock import LookLock

if TYPE_CHECKING:
    from actors.execution.incarnation import Incarnation
    from actors.execution.incarnation_orders import ControlledIncarnation
    from actors.execution.timers import Timers
    from actors.messaging.ports import Timer
    from actors.model.clock import Clock

LOOKS = 8
"""How often is looked within the shortest ``stall_s``."""
SHORTEST_S = 0.02
LONGEST_S = 1.0
LATE_S = 0.1
"""A look that is late by less than this, or than the time between two looks, shows only that the machine is busy."""


@dataclass(frozen=True, slots=True)
class Stalled:
    """To the owner: this incarnation has given no sign of life for too long."""

    incarnation: Incarnation
    since: float
    """Time of its last sign, on the tree's clock."""
    silent_s: float
    """Seconds without one that the host has run."""


class HostTime:
    """Time that the host has run: finds out when it has not, by looks that come too late. Pure."""

    def __init__(self, start: float) -> None:
        self.resumed = start
        """From when on it has run without a break."""

    def looked(self, now: float, due: float, every_s: float) -> None:
        """Note a look that was due at ``due``, one of those that are made every ``every_s`` seconds."""
        if now - due > max(every_s, LATE_S):
            self.resumed = now

    def silent_s(self, now: float, since: float) -> float:
        """Return for how long nothing was heard of whoever gave its last sign at ``since``."""
        return now - max(since, self.resumed)


class StallWatch:
    """Watches the incarnations of one tree that have a ``stall_s``."""

    def __init__(self, clock: Clock, timers: Timers) -> None:
        self._clock = clock
        self._timers = timers
        self._lock = LookLock()
        self._timer: Timer | None = None
        """Timer of the next look, which is due at ``_due``."""
        self._due = self._every_s = 0.0
        self._watched: dict[ControlledIncarnation, float] = {}
        """Incarnations that it watches, and the ``stall_s`` of each."""
        self._told: dict[ControlledIncarnation, float] = {}
        """Silence that was told of already, by its beginning. The timers' thread only."""
        self._time = HostTime(clock.now())

    def watch(self, incarnation: Incarnation) -> None:
        """Watch an incarnation until it is over; without effect where it has no ``stall_s``."""
        if incarnation.pulse is None:
            return
        watched = cast("ControlledIncarnation", incarnation)
        stall_s = self._watched[watched] = cast("float", watched.recipe.stall_s)
        self._look_within(stall_s)

    def _look_within(self, stall_s: float) -> None:
        self._lock.look(partial(self._set, min(max(stall_s / LOOKS, SHORTEST_S), LONGEST_S)))

    def _set(self, every_s: float) -> None:
        """With the lock held: have the next look within so many seconds."""
        due = self._clock.now() + every_s
        if self._timer is not None and self._due <= due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due, self._every_s = due, every_s
        self._timer = self._timers.call_at(due, self._look)

    def _look(self) -> None:
        """Look at all of them; on the timers' thread, or in that which moves the clock."""
        due, every_s = self._lock.look(self._begun)
        now = self._clock.now()
        if not self._clock.manual:
            self._time.looked(now, due, every_s)
        shortest_s = math.inf
        for incarnation, stall_s in self._watched.copy().items():
            if incarnation.is_over:
                self._watched.pop(incarnation, None)
                self._told.pop(incarnation, None)
                continue
            shortest_s = min(shortest_s, stall_s)
            self._look_at(incarnation, stall_s, now)
        if shortest_s < math.inf:
            self._look_within(shortest_s)

    def _begun(self) -> tuple[float, float]:
        """With the lock held: a look has begun; when it was due, and every how many seconds there is one."""
        self._timer = None
        return self._due, self._every_s

    def _look_at(self, incarnation: ControlledIncarnation, stall_s: float, now: float) -> None:
        since = incarnation.silent_since
        if since is None or self._told.get(incarnation) == since:
            return
        silent_s = self._time.silent_s(now, since)
        if silent_s >= stall_s:
            self._told[incarnation] = since
            incarnation.owner.post(Stalled(incarnation, since, silent_s))
