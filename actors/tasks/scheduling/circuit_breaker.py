"""The circuit breaker of one worker: pure, the time is passed in, and no lock is held while an attempt runs.

Comes in: that an attempt starts, and how it ended. Goes out: whether the next one is admitted. Three states: closed
(work is admitted), open (none is, until the cooldown is over), half_open (one attempt at a time is let through: the
probe). It opens on a number of failures within the window that is also a share of what ended there: bad input is not a
bad worker. What is tried again with the same worker says nothing. The probe is known by the key of its attempt, so that
a late end from before a trip is told apart from its end. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

from collections import deque

from actors.tasks.model import Breaker, BreakerState

_MOST_ENDED = 1_000
"""The newest ends that are looked at, beside as many as may be failures."""


class CircuitBreaker:
    """Decides whether a worker gets work, after a ``Breaker``. Times are seconds of any one clock that goes forward."""

    __slots__ = ("ends", "opened_at", "policy", "probe", "state")

    def __init__(self, policy: Breaker) -> None:
        self.policy = policy
        self.state: BreakerState = "closed"
        self.ends: deque[tuple[float, bool]] = deque(maxlen=_MOST_ENDED + policy.failure_threshold)
        """The newest ends of subtasks: when, and whether with a failure. Those outside the window go at the next."""
        self.opened_at: float | None = None
        """When it opened for the last time; None while it is closed."""
        self.probe: str | None = None
        """Key of the probe that is under way: nothing is admitted before its end. None: there is none."""

    @property
    def failures(self) -> tuple[float, ...]:
        """When the failures within the window were, the oldest first."""
        return tuple(at for at, failed in self.ends if failed)

    def admits(self, now: float) -> bool:
        """Return True where an attempt may start at ``now``. Changes nothing."""
        return self.state == "closed" or (self.probe is None and now >= self._due())

    def state_at(self, now: float) -> BreakerState:
        """Return the state to be shown: open, with its cooldown over, is half open: it waits for a probe."""
        return "half_open" if self.state == "open" and self.admits(now) else self.state

    def begin(self, key: str, now: float) -> None:
        """Start an attempt. Where the breaker is not closed and admits, it is the probe, and the state half_open."""
        if self.state != "closed" and self.admits(now):
            self.state, self.probe = "half_open", key

    def ended(self, key: str, now: float, *, fails: bool | None) -> None:
        """End an attempt; ``fails``: True if that counts as a failure; None: it says nothing of the worker.

        What had begun before the breaker opened changes nothing. While it is closed a success forgets no failure, only
        the window does; one failure too many opens it. A probe decides: it opens for another cooldown, or closes, with
        all failures forgotten. A probe that says nothing is given back: the next attempt is admitted at once.
        """
        is_probe = key == self.probe
        if is_probe:
            self.probe = None
        if fails is None or not (is_probe or self.state == "closed"):
            return
        self.ends.append((now, fails))
        while self.ends[0][0] < now - self.policy.window_s:
            self.ends.popleft()
        if fails:
            failures, policy = len(self.failures), self.policy
            is_so_often = failures >= policy.failure_threshold and failures >= policy.failure_rate * len(self.ends)
            if is_probe or is_so_often:
                self.state, self.opened_at = "open", now
        elif is_probe:
            self.state, self.opened_at = "closed", None
            self.ends.clear()

    def retry_in_s(self, now: float) -> float:
        """Seconds until the next attempt could be admitted; 0.0 when it would be now.

        While a probe is under way, the whole cooldown: the wait if it fails now.
        """
        if self.admits(now):
            return 0.0
        return self._due() - now if self.probe is None else self.policy.cooldown_s

    def _due(self) -> float:
        """When the cooldown is over, or was."""
        return (self.opened_at or 0.0) + self.policy.cooldown_s
