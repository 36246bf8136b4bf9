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
_UNKNOWN_START = 0
"""The token of an attempt that was not admitted: its end changes nothing."""


class CircuitBreaker:
    """Decides whether a worker gets work, after a ``Breaker``. Times are seconds of any one clock that goes forward."""

    __slots__ = ("_closed_at", "_generation", "_probing", "ended", "failures", "opened_at", "policy", "state")

    def __init__(self, policy: Breaker) -> None:
        self.policy = policy
        self.state: BreakerState = "closed"
        self.failures: tuple[float, ...] = ()
        """When, the oldest first; never more than ``failure_threshold``. Those outside the window go at the next."""
        self.ended: list[list[float]] = []
        """Ends of attempts within the window, in slices of it: since when, how many, how many of them failed."""
        self.opened_at: float | None = None
        """When it opened for the last time; None while it is closed."""
        self._generation = _UNKNOWN_START + 1
        self._probing = False
        self._closed_at = -math.inf
        """When it was closed for the last time: failures before that are forgotten."""

    def admits(self, now: float) -> bool:
        """Return True where an attempt may start at ``now``. Changes nothing."""
        if self.state == "closed":
            return True
        return not self._probing and now >= self._due()

    @property
    def probe(self) -> int | None:
        """Token of the probe that is under way: nothing is admitted before its end. None: there is none."""
        return self._generation if self._probing else None

    def begin(self, now: float) -> int:
        """Start an attempt, and give the token that its end needs.

        Where the breaker is not closed and admits, the attempt is the probe and the state half_open. Where it does not
        admit, the attempt counts for nothing, however it ends.
        """
        if self.state != "closed":
            if not self.admits(now):
                return _UNKNOWN_START
            self.state = "half_open"
            self._probing = True
        return self._generation

    def succeeded(self, token: int, now: float, counted: float | None = None) -> None:
        """End an attempt well. A probe closes the breaker, failures forgotten.

        While it is closed a success forgets no failure: only the window does.

        Args:
            token: what ``begin`` gave.
            now: the time.
            counted: when the last failure of the same subtask was counted; None: none was.
        """
        if token != self._generation:
            return
        if self._probing:
            self._turn("closed", None)
            self._closed_at, self.failures, self.ended = now, (), []
        elif counted is None or not self._has_counted(counted, now):
            self._note(now, failed=False)

    def failed(self, token: int, now: float, counted: float | None = None) -> bool:
        """End an attempt with a failure that counts; False if it is of before the breaker turned, or counted already.

        One failure too many opens the breaker, and so does that of a probe: each time for a whole cooldown. The
        arguments are those of ``succeeded``.
        """
        if token != self._generation or (counted is not None and not self._probing and self._has_counted(counted, now)):
            return False
        most = self.policy.failure_threshold
        oldest = now - self.policy.window_s
        self.failures = (*(at for at in self.failures if at >= oldest), now)[-most:]
        self._note(now, failed=True)
        if self._probing or (len(self.failures) == most and self._is_so_often()):
            self._turn("open", now)
        return True

    def _has_counted(self, counted: float, now: float) -> bool:
        """Return True where a failure of the same subtask is among those that there are."""
        return counted >= max(now - self.policy.window_s, self._closed_at)

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

    def neutral(self, token: int) -> None:
        """End an attempt that says nothing of the worker: cancelled, preempted, tried again with the same worker.

        A probe is given back: the next attempt is admitted at once.
        """
        if token == self._generation and self._probing:
            self._turn("half_open", self.opened_at)

    def retry_in_s(self, now: float) -> float:
        """Seconds until the next attempt could be admitted; 0.0 when it would be now.

        Waiting exactly so long is enough. While a probe is under way, the whole cooldown: the wait if it fails now.
        """
        if self.admits(now):
            return 0.0
        if self._probing:
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
        """Enter a state with no probe under way; from here on no older token counts."""
        self.state = state
        self.opened_at = opened_at
        self._probing = False
        self._generation += 1
