"""Time limits of a supervisor's children: one table, and one timer for all of them.

A limit is that of a start, of a stop or of an end, and nearly all are lifted in time. So to set one writes an entry of
the table; a timer is set only where none is due as early. A timer that is due posts ``LimitsDue``, and the supervisor
looks in the table whose time is over. A limit that was lifted, or replaced, is not there any more: late news of it says
nothing, neither of this incarnation nor of a later one.

*A limit that is set, against a timer that has gone off and was not heard of yet*: the entry is in the table before
``overdue`` looks, which sets the next timer for what is left. A timer that is due as it is set goes off at once, also
where a clock is moved by hand (``actors.execution.timers``).

Its supervisor uses it in its own turns only, so there is no lock.
"""

from __future__ import annotations

import math
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from actors.messaging.ports import Timer
    from actors.messaging.supervisor_mailbox import SupervisorMailbox
    from actors.supervision.child import Child
    from actors.supervision.registry import Registry

AT_ONCE: Final = 512
"""Children whose time is over that are seen to in one go, before other messages get their turn."""


class LimitsDue:
    """To the supervisor: the time of one of its children may be over."""

    __slots__ = ()


LIMITS_DUE: Final = LimitsDue()


class TimeLimits:
    """When the time of each child is over that has a limit."""

    def __init__(self, system: Registry, box: SupervisorMailbox) -> None:
        self._timers = system.timers
        self._now = system.now
        self._box = box
        self._ends: dict[Child, float] = {}
        self._timer: Timer | None = None
        self._looks_at = math.inf
        """When the timer is due; in the past while ``LimitsDue`` is on its way."""

    def __contains__(self, child: Child) -> bool:
        return child in self._ends

    def set(self, child: Child, seconds: float) -> None:
        """Limit what the child is doing now, in place of the limit that it has; without end: ``math.inf``."""
        if seconds == math.inf:
            self._ends.pop(child, None)
            return
        end = self._ends[child] = self._now() + seconds
        if end < self._looks_at:
            self._look_at(end)

    def left(self, child: Child) -> float:
        """Return the seconds until its limit; ``math.inf``: it has none."""
        return self._ends.get(child, math.inf) - self._now()

    def lift(self, child: Child) -> None:
        """Let the child take as long as it likes. The timer stays: it finds nothing, or what comes next."""
        self._ends.pop(child, None)

    def overdue(self) -> list[tuple[Child, float]]:
        """Return whose time is over, and when that was, the earliest first; each is to be asked for by ``expires``."""
        self._cancel()  # first: what is set from now on has a timer, also where an error keeps ``look_again`` from that
        now = self._now()
        return sorted(((child, end) for child, end in self._ends.items() if end <= now), key=itemgetter(1))[:AT_ONCE]

    def expires(self, child: Child, end: float) -> bool:
        """True where this very limit still counts; it is used up by that."""
        if self._ends.get(child) is not end:
            return False  # lifted or replaced, by what became of those before it
        del self._ends[child]
        return True

    def look_again(self) -> None:
        """Set the timer for what is left. Each look at what is overdue ends with this."""
        if self._ends:
            self._look_at(min(self._ends.values()))

    def close(self) -> None:
        """Forget all: the supervisor has ended."""
        self._cancel()
        self._ends.clear()

    def _look_at(self, time: float) -> None:
        self._cancel()
        self._looks_at = time
        self._timer = self._timers.call_at(time, partial(self._box.post, LIMITS_DUE))

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._looks_at = None, math.inf
