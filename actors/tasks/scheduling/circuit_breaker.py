"""The circuit breaker of one worker: pure, the time is passed in, and no lock is held while an attempt runs.

Comes in: that an attempt starts, and how it ended. Goes out: whether the next one is admitted. Three states: closed
(work is admitted), open (none is, until the cooldown is over), half_open (one attempt at a time is let through: the
probe). It opens on a number of failures within the window that is also a share of what ended there: bad input is not a
bad worker. What is tried again with the same worker is told as ``neutral``. The attempts of one subtask count once, so
whoever tells an end also says when that subtask's last failure was counted. The one who starts an attempt keeps its
token until its end, so that a late end from before a trip is told apart from the end of the probe. This module must
never import threads, a clock or Pykka.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from actors.tasks.model.policy import Breaker

BreakerState: TypeAlias = Literal["closed", "open", "half_open"]

_SLICES = 10
"""Slices of the window: so exactly is it known what ended within it. Failures are known by their times."""


class CircuitBreaker:
    """Decides whether a worker gets work, after a ``Breaker``. Times are seconds of any one clock that goes forward."""

    __slots__ = ("ended", "failures", "opened_at", "policy", "probe", "state")

    def __init__(self, policy: Breaker) -> None:
        self.policy = policy
        self.state: BreakerState = "closed"
        self.failures: tuple[float, ...] = ()
        """When, the oldest first; never more than ``failure_threshold``. Those outside the window go at the next."""
        self.ended: list[list[float]] = []
        """Ends of attempts within the window, in slices of it: since when, how many, how many of them failed."""
        self.opened_at: float | None = None
        """When it opened for the last time; None while it is closed."""
        self.probe: str | None = None
        """Key of the probe that is under way: nothing is admitted before its end. None: there is none."""

    def admits(self, now: float) -> bool:
        """Return True where an attempt may start at ``now``. Changes nothing."""
        if self.state == "closed":
            return True
        return self.probe is None and now >= self._due()

    def begin(self, key: str, now: float) -> None:
        """Start an attempt. Where the breaker is not closed and admits, it is the probe, and the state half_open."""
        if self.state != "closed" and self.admits(now):
            self.state, self.probe = "half_open", key

    def succeeded(self, key: str, now: float) -> None:
        """End an attempt well. A probe closes the breaker, failures forgotten; other attempts count while it is closed.

        While it is closed a success forgets no failure: only the window does.
        """
        if self.state == "closed":
            self._note(now, failed=False)
        elif key == self.probe:
            self.failures, self.ended = (), []
            self._turn("closed", None)

    def failed(self, key: str, now: float) -> bool:
        """End an attempt with a failure that counts; False if it had begun before the breaker opened.

        One failure too many opens the breaker, and so does that of a probe: each time for a whole cooldown.
        """
        is_probe = key == self.probe
        if self.state != "closed" and not is_probe:
            return False
        most = self.policy.failure_threshold
        oldest = now - self.policy.window_s
        self.failures = (*(at for at in self.failures if at >= oldest), now)[-most:]
        self._note(now, failed=True)
        if is_probe or (len(self.failures) == most and self._is_so_often()):
            self._turn("open", now)
        return True

    def _note(self, now: float, *, failed: bool) -> None:
        """One more has ended; what is older than the window goes."""
        width, ended = self.policy.window_s / _SLICES, self.ended
        if not ended or now >= ended[-1][0] + width:
            oldest = now - self.policy.window_s
            ended[:] = [each for each in ended if each[0] + width > oldest]
            ended.append([now, 0, 0])
        last = ended[-1]
        last[1] += 1
        last[2] += failed

    def _is_so_often(self) -> bool:
        """Return True where so many of those that ended within the window have failed."""
        return sum(each[2] for each in self.ended) >= self.policy.failure_rate * sum(each[1] for each in self.ended)

    def neutral(self, key: str) -> None:
        """End an attempt that says nothing of the worker: cancelled, preempted, tried again with the same worker.

        A probe is given back: the next attempt is admitted at once.
        """
        if key == self.probe:
            self._turn("half_open", self.opened_at)

    def retry_in_s(self, now: float) -> float:
        """Seconds until the next attempt could be admitted; 0.0 when it would be now.

        Waiting exactly so long is enough. While a probe is under way, the whole cooldown: the wait if it fails now.
        """
        if self.admits(now):
            return 0.0
        if self.probe is not None:
            return self.policy.cooldown_s
        due = self._due()
        wait = due - now
        while now + wait < due:
            wait = math.nextafter(wait, math.inf)
        return wait

    def _due(self) -> float:
        """When the cooldown is over. In half_open it is; an unknown moment is long ago."""
        if self.state == "half_open" or self.opened_at is None:
            return -math.inf
        return self.opened_at + self.policy.cooldown_s

    def _turn(self, state: BreakerState, opened_at: float | None) -> None:
        """Enter a state with no probe under way."""
        self.state, self.opened_at, self.probe = state, opened_at, None
